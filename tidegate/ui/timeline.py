"""Batches on a line of time: how long each gathered, waited and ran. Only arithmetic, from their documents."""

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

WIDTH = 1000
LEFT = 250
"""Where the line of time begins; the names of the batches stand before it."""
ROW = 24
HEAD = 30
LEAST = 2.0
"""A bar is at least so wide, that a job of a second is seen on a line of a day."""
SHORTEST = 5 * 60
"""Seconds that the line shows at least."""
MOST_TICKS = 8
STEPS = (60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200, 86_400, 172_800, 604_800, 2_592_000)
"""Seconds between two marks."""
PHASES = (("gathering", "opened_at"), ("waiting", "sealed_at"), ("running", "submitted_at"), ("ended", "ended_at"))
"""What a batch does from each of its times on."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One phase of a batch: from `x`, so wide, and for so many seconds."""

    phase: str
    x: float
    width: float
    seconds: int


@dataclass(frozen=True, slots=True)
class TimelineRow:
    """One batch. `end` is where its last phase ends, `y` the middle of its row."""

    batch: Mapping[str, Any]
    y: float
    spans: tuple[Bar, ...]
    end: float
    state: str

    @property
    def took(self) -> Mapping[str, int]:
        """Seconds, by phase."""
        return {span.phase: span.seconds for span in self.spans}


@dataclass(frozen=True, slots=True)
class Tick:
    x: float
    label: str


@dataclass(frozen=True, slots=True)
class Timeline:
    """The picture. `since` and `until` are epoch seconds."""

    rows: tuple[TimelineRow, ...]
    ticks: tuple[Tick, ...]
    since: int
    until: int
    height: int
    width: int = WIDTH
    left: int = LEFT


def timeline(batches: Sequence[Mapping[str, Any]], *, now: int) -> Timeline:
    """The batches in the order in which they are given. What has not ended goes on until `now` (epoch seconds)."""
    opened = [seconds(each["opened_at"]) for each in batches]
    until = max([now, *(seconds(each["ended_at"]) for each in batches if each["ended_at"])])
    since = min([until - SHORTEST, *opened])
    scale = (WIDTH - LEFT) / (until - since)

    def at(moment: int) -> float:
        return LEFT + (moment - since) * scale

    rows = []
    for number, batch in enumerate(batches):
        spans = tuple(
            Bar(phase, at(begin), max(LEAST, (end - begin) * scale), end - begin)
            for phase, begin, end in phases(batch, now=until)
        )
        last = spans[-1].x + spans[-1].width if spans else at(until)
        rows.append(TimelineRow(batch, HEAD + ROW * number + ROW / 2, spans, last, state(batch)))
    step = _step(until - since)
    ticks = tuple(Tick(at(moment), label(moment, step)) for moment in range(-(-since // step) * step, until + 1, step))
    return Timeline(tuple(rows), ticks, since, until, HEAD + ROW * max(1, len(rows)) + 8)


def phases(batch: Mapping[str, Any], *, now: int) -> list[tuple[str, int, int]]:
    """What a batch has done, from when until when (epoch seconds). Between being sealed and the beginning of its last
    attempt it waited, for a slot or for a further attempt."""
    begins = [(phase, seconds(batch[field])) for phase, field in PHASES if batch[field]]
    ends = [begin for _, begin in begins[1:]]
    if begins and begins[-1][0] != "ended":
        ends.append(now)
    return [(phase, begin, max(begin, end)) for (phase, begin), end in zip(begins, ends, strict=False)]


def state(batch: Mapping[str, Any]) -> str:
    """The word for a batch: its state, or that it has halted or is being fenced."""
    if batch["halted"]:
        return "halted"
    return "being fenced" if batch["fencing"] else str(batch["state"]).lower()


def seconds(iso: str) -> int:
    """Epoch seconds of a time as the documents have it."""
    return int(datetime.datetime.fromisoformat(iso).timestamp())


def label(moment: int, step: int) -> str:
    """In UTC: the time, or the day where marks are days apart."""
    then = datetime.datetime.fromtimestamp(moment, datetime.UTC)
    return f"{then:%d %b}" if step >= 86_400 else f"{then:%H:%M}"


def _step(span: int) -> int:
    return next((step for step in STEPS if span / step <= MOST_TICKS), STEPS[-1])
