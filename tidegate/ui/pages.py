"""The pages: what each shows, from what was read for it. What is typed into a form is checked here."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from glob import escape
from typing import Any
from urllib.parse import urlencode

import typer

from tidegate.cli.options import bucket_and_key, moment
from tidegate.cli.printed import runnable
from tidegate.core.batches import State
from tidegate.core.file_states import PENDING
from tidegate.core.times import iso
from tidegate.flows.batch_list import Wanted
from tidegate.flows.quarantine import Selection
from tidegate.ui.notes import notes
from tidegate.ui.picture import Whereabouts, river, whereabouts
from tidegate.ui.questions import LISTED, Questions, Seen, WantedQuarantine
from tidegate.ui.timeline import timeline
from tidegate.ui.words import what_next

SOON, LATER = 2, 10
"""Seconds between two looks of an open page. What has ended changes less often, and costs more to look up."""

Given = Mapping[str, str]
"""What is in the address, or in a form."""


@dataclass(frozen=True, slots=True)
class Page:
    """A template and what it shows. `every`: it is read again after so many seconds, 0 for never. `moved_to`: the
    browser goes there."""

    template: str
    shown: Mapping[str, Any] = field(default_factory=dict)
    every: int = 0
    status: int = 200
    moved_to: str = ""


def flow(questions: Questions, given: Given, now: int) -> Page:
    seen = questions.status()
    places = [whereabouts(each) for each in seen.document["routes"]]
    total = sum(places, start=Whereabouts())
    shown = {
        "status": seen.document,
        "river": river(total),
        "total": total,
        "needs": seen.document["needs"],
        "notes": notes(seen.overview, now),
        "unfinished": _unfinished(seen, now),
    }
    return Page("flow.html", shown, every=SOON)


def route(questions: Questions, given: Given, now: int, *, name: str) -> Page:
    seen = questions.status()
    found = next((each for each in seen.document["routes"] if each["route"] == name), None)
    if found is None:
        raise typer.BadParameter(f"there is no route {name!r}: the page Flow lists those that there are")
    shown = {
        "route": found,
        "river": river(whereabouts(found)),
        "needs": [each for each in seen.document["needs"] if each["route"] == name],
        "notes": notes(seen.overview, now, route=name),
        "settings": questions.routes.get(name),
        "unfinished": [each for each in _unfinished(seen, now) if each["route"] == name],
    }
    return Page("route.html", shown, every=SOON)


def _unfinished(seen: Seen, now: int) -> list[dict[str, Any]]:
    """The unfinished batches, with their route, their age in seconds, and what comes next."""
    return [
        {
            **document,
            "route": each.route.name,
            "age": now - batch.opened_at,
            "next": what_next(batch, each, now=now),
        }
        for each, route in zip(seen.overview.statuses, seen.document["routes"], strict=True)
        for batch, document in zip(each.unfinished, route["unfinished"], strict=True)
    ]


def batches(questions: Questions, given: Given, now: int) -> Page:
    typed = {name: given.get(name, "") for name in ("route", "state")}
    after = given.get("after", "")
    found = questions.batches(Wanted(typed["route"], _state(typed["state"])), after)
    shown = {
        "timeline": timeline(found["batches"], now=now),
        "typed": typed,
        "names": questions.names(),
        "states": [each.value.lower() for each in State],
        "older": urlencode({**typed, "after": found["after"]}) if found["after"] else "",
        "after": after,
    }
    return Page("batches.html", shown, every=0 if after else LATER)


def _state(typed: str) -> State | None:
    try:
        return State(typed.upper()) if typed else None
    except ValueError:
        raise typer.BadParameter(f"{typed!r} is no state of a batch") from None


def quarantine(questions: Questions, given: Given, now: int) -> Page:
    wanted = _wanted(given, now)
    found = questions.quarantine(wanted)
    typed = {name: given.get(name, "") for name in _FIELDS}
    released = given.get("released", "")
    return Page(
        "quarantine.html",
        {
            "found": found,
            "given": typed,
            "names": questions.names(),
            "released": int(released) if released.isdecimal() and len(released) < 9 else None,
            "query": urlencode(typed),
            "rows": [(each, _only(each)) for each in found["uploads"]],
            "listed": LISTED,
        },
    )


def confirm(questions: Questions, given: Given, now: int) -> Page:
    wanted = _wanted(given, now)
    found = questions.releasable(wanted)
    # what comes into quarantine after this was shown is not released with it
    until = min(wanted.selection.until or found.asked_at + 1, found.asked_at + 1)
    fields = {**{name: given.get(name, "") for name in _FIELDS}, "until": iso(until)}
    return Page("confirm.html", {"found": found, "fields": fields, "command": _command(given)})


def release(questions: Questions, given: Given, now: int) -> Page:
    sent = questions.release(_wanted(given, now))
    return Page("", moved_to=f"/quarantine?{urlencode({'released': sent})}", status=303)


_FIELDS = ("route", "key", "error", "since", "until")


def _wanted(given: Given, now: int) -> WantedQuarantine:
    """Raises BadParameter."""
    begin, end = (moment(given.get(name) or None, now) for name in ("since", "until"))
    if begin is not None and end is not None and begin >= end:
        raise typer.BadParameter("`since` must be earlier than `until`")
    selection = Selection(begin or 0, end, given.get("key", ""), given.get("error", ""))
    return WantedQuarantine(given.get("route") or None, selection)


def _only(upload: Mapping[str, Any]) -> str:
    """The query that selects the versions of one object in its route."""
    _, key = bucket_and_key(upload["uri"])
    return urlencode({"route": upload["route"], "key": escape(key)})


def _command(given: Given) -> str:
    """The verb that does the same."""
    options = " ".join(f"--{name} {shlex.quote(given[name])}" for name in _FIELDS if given.get(name))
    return runnable(f"tidegate resend quarantine {options}".strip())


def trace(questions: Questions, given: Given, now: int) -> Page:
    """One object by its URI, or the newest uploads whose keys have the words that were typed."""
    words = given.get("uri", "").strip()
    shown: dict[str, Any] = {"uri": words, "found": None, "files": None}
    if not words:
        return Page("trace.html", shown)
    if "://" not in words:
        return Page("trace.html", shown | {"files": questions.files(words)})
    found = questions.trace(*bucket_and_key(words))
    pending = any(each["outcome"] == PENDING for each in found["versions"])
    return Page("trace.html", shown | {"found": found}, every=SOON if pending else 0)
