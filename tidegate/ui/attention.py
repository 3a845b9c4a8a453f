"""What needs a person, or is worth knowing, by the document that `tidegate status --json` prints."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tidegate.ui.picture import whereabouts


@dataclass(frozen=True, slots=True)
class Matter:
    """One sentence, and the command that is next; "" if there is none. `urgent`: it does not end by itself. `page` is
    where the page shows more."""

    urgent: bool
    text: str
    command: str = ""
    page: str = ""


def matters(status: Mapping[str, Any]) -> list[Matter]:
    """The urgent ones first."""
    found = [matter for route in status["routes"] for matter in _of(route)]
    waiting = status["unannounced"]
    if waiting["batches"]:
        more = "more than " if waiting["more"] else ""
        found.append(
            Matter(
                False, f"{more}{waiting['batches']} committed batches wait to be announced since {waiting['since']}."
            )
        )
    return sorted(found, key=lambda each: not each.urgent)


def _of(route: Mapping[str, Any]) -> Iterator[Matter]:
    name, uploads = route["route"], route["uploads"]
    if not uploads["holds"]:
        yield Matter(True, f"The sums of route {name} do not hold: {_sums(uploads)}.", "tidegate status")
    for batch in route["unfinished"]:
        if batch["halted"]:
            text = f"Batch {batch['id']} of route {name} halted after attempt {batch['attempt']}: {batch['halted']}"
            yield Matter(True, text, _way_out(batch))
        elif batch["fencing"]:
            yield Matter(False, f"Batch {batch['id']} of route {name} is being given up.")
        elif batch["state"] == "SUBMITTED" and batch["attempt"] > 1:
            before = batch["attempt"] - 1
            text = f"Batch {batch['id']} of route {name} is in attempt {batch['attempt']}: {before} failed before."
            yield Matter(False, text)
    if uploads["quarantined"]:
        since = f", the oldest since {route['quarantined_since']}" if route["quarantined_since"] else ""
        text = f"{uploads['quarantined']:,} uploads of route {name} are in quarantine{since}."
        yield Matter(True, text, f"tidegate quarantine ls --route {name}", f"/quarantine?route={name}")
    if abandoned := whereabouts(route).abandoned:
        text = f"{abandoned:,} uploads of route {name} are in abandoned batches, and wait to be redriven or dropped."
        yield Matter(not route["wished"], text, "tidegate redrive BATCH")
    if route["paused_at"]:
        yield Matter(False, f"Route {name} is paused since {route['paused_at']}.", f"tidegate unpause {name}")
    if not route["configured"]:
        text = f"Route {name} is not in the configuration any more. Its unfinished batches go on by its last settings."
        yield Matter(False, text)


def _sums(uploads: Mapping[str, Any]) -> str:
    names = ("committed", "quarantined", "superseded", "vanished", "dropped", "pending")
    parts = " + ".join(f"{uploads[name]:,} {name}" for name in names)
    return f"{uploads['notified']:,} notified, but {parts} = {sum(uploads[name] for name in names):,}"


def _way_out(batch: Mapping[str, Any]) -> str:
    """What a person does once the cause of the halt is removed; "" if it goes on by itself then."""
    if batch["state"] == "SEALED":
        return ""
    return f"tidegate {'decide' if 'A person has to decide' in batch['halted'] else 'resume'} {batch['id']}"
