"""The list of the mutants that no test can notice, each with the reason why."""

import tomllib
from dataclasses import dataclass
from pathlib import Path

LIST = Path(__file__).with_name("equivalent.toml")


@dataclass(frozen=True)
class Equivalent:
    """A change of `function` that changes no behaviour: `was` becomes one of `becomes`, or anything if that is empty.

    `was` is the line, or lines joined by blanks, without the indentation. A function that changes loses its entries.
    """

    function: str
    was: str
    becomes: tuple[str, ...]
    reason: str

    def covers(self, function: str, was: str, becomes: str) -> bool:
        return (function, was) == (self.function, self.was) and (not self.becomes or becomes in self.becomes)


def load(path: Path = LIST) -> list[Equivalent]:
    return [
        Equivalent(each["function"], each["was"], tuple(each.get("becomes", ())), each["reason"])
        for each in tomllib.loads(path.read_text())["equivalent"]
    ]
