"""CloudWatch's embedded metric format, read as CloudWatch reads a function's standard output."""

import json
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Emitted:
    """One value of one metric; CloudWatch keeps a series of its own for each set of dimensions."""

    namespace: str
    name: str
    unit: str
    dimensions: frozenset[tuple[str, str]]
    value: float

    @property
    def route(self) -> str:
        return dict(self.dimensions).get("route", "")


def emitted(output: str) -> Iterator[Emitted]:
    for line in output.splitlines():
        if '"_aws"' not in line:
            continue
        written = json.loads(line)
        for directive in written["_aws"]["CloudWatchMetrics"]:
            for names in directive["Dimensions"]:
                dimensions = frozenset((name, written[name]) for name in names)
                for metric in directive["Metrics"]:
                    values = written[metric["Name"]]
                    for value in values if isinstance(values, list) else [values]:
                        yield Emitted(directive["Namespace"], metric["Name"], metric["Unit"], dimensions, value)
