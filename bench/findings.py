"""What a bench finds: tables, charts, and limits that hold or do not. As JSON, and as text."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any


class WrongAnswer(Exception):
    """A run gave other rows than its input has, or did not do what was to be measured. Its time counts for nothing."""


@dataclass(frozen=True, slots=True)
class BenchTable:
    """Cells as they are printed. `name` marks its place in docs/performance.md, `note` says what was measured."""

    name: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""

    def __str__(self) -> str:
        """As Markdown: the first column to the left, the others to the right."""
        head, *rows = (f"| {' | '.join(line)} |" for line in (self.head, *self.rows))
        text = "\n".join([head, f"|---|{'---:|' * len(self.head[1:])}", *rows])
        return f"{self.note}\n\n{text}" if self.note else text


@dataclass(frozen=True, slots=True)
class BarChart:
    """Bars in groups: (group, [(label, value)]). The first bar of a group is the product's."""

    name: str
    title: str
    unit: str
    groups: Sequence[tuple[str, Sequence[tuple[str, float]]]]


def time_to(title: str, peer: str) -> str:
    """What a limit is of, if it is of a time beside a peer's."""
    return f"{title}: time, to {peer}"


@dataclass(frozen=True, slots=True)
class BenchLimit:
    """What was found may be `most` at most."""

    what: str
    found: float
    most: float
    unit: str

    @property
    def holds(self) -> bool:
        return self.found <= self.most

    def __str__(self) -> str:
        said = "holds" if self.holds else "DOES NOT HOLD"
        found = f"{_figure(self.found)} {self.unit}".rstrip()
        return f"{self.what}: {found}, at most {_figure(self.most)}: {said}"


def _figure(value: float) -> str:
    """Three digits, and all of those before the point."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


@dataclass(frozen=True, slots=True)
class BenchFindings:
    """What one bench found."""

    tables: Sequence[BenchTable] = ()
    charts: Sequence[BarChart] = ()
    limits: Sequence[BenchLimit] = ()

    @property
    def text(self) -> str:
        return "\n\n".join([*map(str, self.tables), *("\n".join(map(str, self.limits)) for _ in self.limits[:1])])

    def encode(self) -> str:
        return json.dumps(asdict(self))


def decode_findings(data: Mapping[str, Any]) -> BenchFindings:
    """From the JSON of `BenchFindings.encode`."""
    return BenchFindings(
        tuple(BenchTable(**each) for each in data["tables"]),
        tuple(BarChart(**each) for each in data["charts"]),
        tuple(BenchLimit(**each) for each in data["limits"]),
    )
