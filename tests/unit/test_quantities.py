"""Counts and durations as people say them, and that whatever is printed says them by the same functions."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tidegate.core.quantities import counted, duration

ROOT = Path(__file__).parents[2]
PRINTED = ("tidegate/cli", "tidegate/ui", "tidegate_local/cli", "tidegate/core/outlook.py", "tidegate/core/unknown.py")
"""What is printed for people. Errors of the flows name numbers too, to whoever reads a log."""
ALSO = ("tidegate/flows/needs.py", "tidegate/flows/trace.py")
MANY = r" (?:uploads|rows|files|batches|notices|versions|jobs|attempts|messages|columns|objects|routes|lines|minutes)\b"
UNIT = r" ?(?:s|m|h|min|hours|minutes|seconds|days)\b"


def test_one_is_no_plural():
    assert [counted(count, "row") for count in (0, 1, 2, 1_234_567)] == ["0 rows", "1 row", "2 rows", "1,234,567 rows"]
    assert [counted(count, "row is", "rows are") for count in (1, 2)] == ["1 row is", "2 rows are"]


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (-5, "0s"),
        (0, "0s"),
        (59.6, "60s"),
        (119, "119s"),
        (900, "15m"),
        (14_400, "4h"),
        (90_000, "25h"),
        (187_200, "2d 4h"),
        (864_000, "10d"),
    ],
)
def test_a_duration_has_whole_units(seconds: float, said: str):
    assert duration(seconds) == said


def sources() -> Iterator[Path]:
    for each in (*PRINTED, *ALSO):
        path = ROOT / each
        yield from sorted(path.rglob("*.py")) if path.is_dir() else [path]


def said_by_hand(source: str, pattern: str) -> Iterator[str]:
    """Where a text puts a number and such a word together."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.JoinedStr):
            for value, after in zip(node.values, node.values[1:], strict=False):
                found = re.match(pattern, str(after.value)) if isinstance(after, ast.Constant) else None
                if found and isinstance(value, ast.FormattedValue):
                    yield f"line {node.lineno}: {ast.unparse(value.value)}{found.group()}"


def test_the_search_finds_what_it_looks_for():
    assert list(said_by_hand('f"{n} uploads"', MANY)) == ["line 1: n uploads"]
    assert list(said_by_hand("f\"{counted(n, 'upload')} of it\"", MANY)) == []
    assert list(said_by_hand('f"{n / 3600:.1f}h"', UNIT)) == ["line 1: n / 3600h"]


@pytest.mark.parametrize("path", sorted((ROOT / "tidegate/ui/templates").glob("*.html")), ids=lambda path: path.name)
def test_no_page_says_1_uploads(path: Path):
    assert re.findall(rf"[^{{}}]*number }}}}(?:</strong>)?{MANY}", path.read_text()) == []


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(ROOT)))
def test_no_message_says_1_uploads_or_4_0_hours(path: Path):
    assert list(said_by_hand(path.read_text(), f"{MANY}|{UNIT}")) == []
