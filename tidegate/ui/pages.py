"""The pages: what each shows, from what was read for it. What is typed into a form is checked here."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from glob import escape
from typing import Any
from urllib.parse import urlencode

import typer
from pydantic import ByteSize, TypeAdapter, ValidationError

from tidegate.cli.options import bucket_and_key, moment
from tidegate.core.times import iso
from tidegate.cost.prices import AS_OF, PRICES, REGION
from tidegate.flows.quarantine import Selection
from tidegate.ui.attention import matters
from tidegate.ui.picture import Whereabouts, river, whereabouts
from tidegate.ui.reading import LISTED, Reading, Wanted
from tidegate.ui.timeline import seconds, timeline
from tidegate.ui.words import what_next

Given = Mapping[str, str]
"""What is in the address, or in a form."""


@dataclass(frozen=True, slots=True)
class Page:
    """A template and what it shows. `live`: it is read again every two seconds. `moved_to`: the browser goes there."""

    template: str
    shown: Mapping[str, Any] = field(default_factory=dict)
    live: bool = False
    status: int = 200
    moved_to: str = ""


def flow(reading: Reading, given: Given, now: int) -> Page:
    status = reading.status()
    every = {each["route"]: whereabouts(each) for each in status["routes"]}
    total = sum(every.values(), start=Whereabouts())
    return Page(
        "flow.html",
        {
            "status": status,
            "river": river(total),
            "whereabouts": every,
            "total": total,
            "matters": matters(status),
            "unfinished": _unfinished(reading, status, now),
        },
        live=True,
    )


def route(reading: Reading, given: Given, now: int, *, name: str) -> Page:
    status = reading.status()
    found = next((each for each in status["routes"] if each["route"] == name), None)
    if found is None:
        raise typer.BadParameter(f"there is no route {name!r}: the page Flow lists those that there are")
    only = {**status, "routes": [found], "unannounced": {"batches": 0, "more": False, "since": None}}
    return Page(
        "route.html",
        {
            "route": found,
            "river": river(whereabouts(found)),
            "matters": matters(only),
            "settings": reading.routes.get(name),
            "unfinished": _unfinished(reading, only, now),
        },
        live=True,
    )


def batches(reading: Reading, given: Given, now: int) -> Page:
    status = reading.status()
    rows = [{**batch, "route": each["route"]} for each in status["routes"] for batch in each["unfinished"]]
    rows.sort(key=lambda each: str(each["opened_at"]), reverse=True)
    return Page("batches.html", {"timeline": timeline(rows, now=now), "status": status}, live=True)


def _unfinished(reading: Reading, status: Mapping[str, Any], now: int) -> list[dict[str, Any]]:
    """The unfinished batches, with their route, their age in seconds, and what comes next."""
    found = []
    for each in status["routes"]:
        known = reading.routes.get(each["route"])
        for batch in each["unfinished"]:
            wait = known.limits.max_wait if known else None
            found.append(
                {
                    **batch,
                    "route": each["route"],
                    "age": now - seconds(batch["opened_at"]),
                    "next": what_next(batch, wait, now=now),
                }
            )
    return found


def quarantine(reading: Reading, given: Given, now: int) -> Page:
    wanted = _wanted(given, now)
    found = reading.quarantine(wanted)
    typed = {name: given.get(name, "") for name in _FIELDS}
    released = given.get("released", "")
    return Page(
        "quarantine.html",
        {
            "found": found,
            "given": typed,
            "names": reading.names(),
            "released": int(released) if released.isdecimal() and len(released) < 9 else None,
            "query": urlencode(typed),
            "rows": [(each, _only(each)) for each in found["uploads"]],
            "listed": LISTED,
        },
    )


def confirm(reading: Reading, given: Given, now: int) -> Page:
    wanted = _wanted(given, now)
    found = reading.releasable(wanted)
    # what comes into quarantine after this was shown is not released with it
    until = min(wanted.selection.until or found.asked_at + 1, found.asked_at + 1)
    fields = {**{name: given.get(name, "") for name in _FIELDS}, "until": iso(until)}
    return Page("confirm.html", {"found": found, "fields": fields, "command": _command(given)})


def release(reading: Reading, given: Given, now: int) -> Page:
    sent = reading.release(_wanted(given, now))
    return Page("", moved_to=f"/quarantine?{urlencode({'released': sent})}", status=303)


_FIELDS = ("route", "key", "error", "since", "until")


def _wanted(given: Given, now: int) -> Wanted:
    """Raises BadParameter."""
    begin, end = (moment(given.get(name) or None, now) for name in ("since", "until"))
    if begin is not None and end is not None and begin >= end:
        raise typer.BadParameter("`since` must be earlier than `until`")
    return Wanted(given.get("route") or None, Selection(begin or 0, end, given.get("key", ""), given.get("error", "")))


def _only(upload: Mapping[str, Any]) -> str:
    """The query that selects the versions of one object in its route."""
    _, key = bucket_and_key(upload["uri"])
    return urlencode({"route": upload["route"], "key": escape(key)})


def _command(given: Given) -> str:
    """The verb that does the same."""
    options = " ".join(f"--{name} '{given[name]}'" for name in _FIELDS if given.get(name))
    return f"tidegate quarantine release {options}".strip()


def trace(reading: Reading, given: Given, now: int) -> Page:
    uri = given.get("uri", "").strip()
    if not uri:
        return Page("trace.html", {"uri": "", "found": None})
    found = reading.trace(*bucket_and_key(uri))
    pending = any(each["outcome"] == "pending" for each in found["versions"])
    return Page("trace.html", {"uri": uri, "found": found}, live=pending)


def cost(reading: Reading, given: Given, now: int) -> Page:
    typed = given.get("size", "").strip()
    found = reading.cost(_bytes(typed) if typed else 0)
    together = sum(each["dollars"] for each in found["routes"])
    shown = {"found": found, "size": typed, "together": together, "prices": PRICES, "as_of": AS_OF, "region": REGION}
    return Page("cost.html", shown)


def _bytes(typed: str) -> int:
    try:
        found = int(TypeAdapter(ByteSize).validate_python(typed))
    except (ValidationError, OverflowError):
        found = 0
    if not 1 <= found <= 10**15:
        raise typer.BadParameter(f"{typed!r} is not a size such as 2KB, 47KB or 50MB, from 1 byte to 1PB")
    return found
