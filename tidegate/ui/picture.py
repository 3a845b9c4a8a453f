"""Where the uploads of some routes are, and the same as a river.

The river runs from left to right. All uploads that were notified enter it. Those that are on their way end at the gate
of their stage, at the bottom of the river. Those that fell out turn down. What is left at the right is committed. A
strand is as thick as its share, but never thinner than `LEAST`, so that one upload of a million is seen.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from tidegate.core.quantities import counted

WIDTH, HEIGHT = 1000, 300
TOP = 74
"""Where the river begins, below the numbers of the stages."""
DEPTH = 96
"""How thick all uploads together are."""
LEAST = 2.5
RADIUS = 14
"""Of the inner side of a bend."""
GATES = {"gathering": 190, "sealed": 325, "submitted": 460}
"""Where each stage ends. What is nearest to the source lies lowest."""
FALLS = {"halted": 545, "abandoned": 627, "dropped": 709, "vanished": 791, "superseded": 873, "quarantined": 955}
"""Where each strand that fell out goes down."""
BOTTOM = 244


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """How many uploads are where. `submitted` ones are in a batch whose attempt is under way, `halted` ones in a batch
    that waits for a person; `abandoned` ones were neither dropped nor sent again. `holds`: the sum is right."""

    notified: int = 0
    gathering: int = 0
    sealed: int = 0
    submitted: int = 0
    halted: int = 0
    abandoned: int = 0
    dropped: int = 0
    vanished: int = 0
    superseded: int = 0
    quarantined: int = 0
    committed: int = 0
    holds: bool = True

    def __add__(self, other: "Whereabouts") -> "Whereabouts":
        counts = {each: getattr(self, each) + getattr(other, each) for each in _COUNTS}
        return Whereabouts(**counts, holds=self.holds and other.holds)

    @property
    def moving(self) -> int:
        """How many are on their way, and need nobody."""
        return self.gathering + self.sealed + self.submitted


_COUNTS = tuple(each.name for each in fields(Whereabouts) if each.name != "holds")


def whereabouts(route: Mapping[str, Any]) -> Whereabouts:
    """Of one route, by its part of the document that `tidegate status --json` prints."""
    uploads = route["uploads"]
    unfinished = {"gathering": 0, "sealed": 0, "submitted": 0, "halted": 0}
    for batch in route["unfinished"]:
        unfinished[stage(batch)] += batch["objects"]
    return Whereabouts(
        **unfinished,
        # the ledger counts as pending what is in no unfinished batch: those are in abandoned ones
        abandoned=max(0, uploads["pending"] - sum(unfinished.values())),
        **{name: uploads[name] for name in _COUNTS if name in uploads and name != "committed"},
        committed=uploads["committed"] + uploads["present"],
        holds=uploads["holds"],
    )


def stage(batch: Mapping[str, Any]) -> str:
    """In which stage the uploads of an unfinished batch are."""
    if batch["halted"]:
        return "halted"
    return {"OPEN": "gathering", "SEALED": "sealed", "SUBMITTED": "submitted"}[batch["state"]]


@dataclass(frozen=True, slots=True)
class Strand:
    """A part of the river. `path` is its outline, `middle` the line along it; both in SVG's notation."""

    name: str
    count: int
    path: str
    middle: str
    thickness: float


@dataclass(frozen=True, slots=True)
class Mark:
    """A number and its word, at a point. `anchor` as in SVG."""

    name: str
    count: int
    x: float
    anchor: str = "middle"


@dataclass(frozen=True, slots=True)
class River:
    """The picture, and `words` that say the same."""

    strands: tuple[Strand, ...]
    stages: tuple[Mark, ...]
    falls: tuple[Mark, ...]
    depth: float
    words: str
    width: int = WIDTH
    height: int = HEIGHT
    top: int = TOP
    bottom: int = BOTTOM


def river(found: Whereabouts) -> River:
    order = ("committed", *reversed(FALLS), *reversed(GATES))
    counts = {name: getattr(found, name) for name in order}
    total = sum(counts.values())
    strands, y = [], float(TOP)
    for name, count in counts.items():
        if count:
            thickness = max(LEAST, DEPTH * count / total)
            strands.append(_strand(name, count, y, thickness))
            y += thickness
    return River(
        strands=tuple(strands),
        stages=(
            Mark("notified", found.notified, 0, "start"),
            *(Mark(name, counts[name], x) for name, x in GATES.items()),
            Mark("committed", found.committed, WIDTH, "end"),
        ),
        falls=tuple(Mark(name, counts[name], x) for name, x in FALLS.items()),
        depth=max(y - TOP, LEAST),
        words=in_words(found),
    )


def _strand(name: str, count: int, y: float, thickness: float) -> Strand:
    middle = y + thickness / 2
    if name not in FALLS:
        end = GATES.get(name, WIDTH)
        path = f"M0 {y:.1f}H{end}V{y + thickness:.1f}H0Z"
        return Strand(name, count, path, f"M0 {middle:.1f}H{end}", thickness)
    right, left = FALLS[name] + thickness / 2, FALLS[name] - thickness / 2
    outer = RADIUS + thickness
    path = (
        f"M0 {y:.1f}H{right - outer:.1f}A{outer:.1f} {outer:.1f} 0 0 1 {right:.1f} {y + outer:.1f}V{BOTTOM}"
        f"H{left:.1f}V{y + outer:.1f}A{RADIUS} {RADIUS} 0 0 0 {left - RADIUS:.1f} {y + thickness:.1f}H0Z"
    )
    bend = RADIUS + thickness / 2
    line = (
        f"M0 {middle:.1f}H{FALLS[name] - bend:.1f}"
        f"A{bend:.1f} {bend:.1f} 0 0 1 {FALLS[name]} {middle + bend:.1f}V{BOTTOM}"
    )
    return Strand(name, count, path, line, thickness)


def in_words(found: Whereabouts) -> str:
    """The picture for those who do not see it: every number that is not zero."""
    if not found.notified and not found.moving:
        return "No upload was notified yet."
    there = [(name, getattr(found, name)) for name in (*GATES, *FALLS, "committed")]
    listed = _listed([f"{count:,} {name}" for name, count in there if count])
    return f"{counted(found.notified, 'upload')} notified: {listed}."


def _listed(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else "".join(words)
