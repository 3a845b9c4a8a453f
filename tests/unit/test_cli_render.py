"""Bytes as people say them, and a table that fits a terminal."""

import pytest

from tests.support.build import route
from tidegate.cli import render, render_status
from tidegate.core.outcomes import Conservation, Tally
from tidegate.flows.overview import Overview
from tidegate.flows.status import RouteStatus


def status(name: str = "flights", notified: int = 0) -> RouteStatus:
    return RouteStatus(route(name), Conservation(notified, Tally(committed=notified), 0), 0, 0, (), 0, 0)


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (9_949, "9.9 kB"),
        (12_345, "12 kB"),
        (256_000_000, "256 MB"),
        (1_500_000_000, "1.5 GB"),
        (3_000_000_000_000, "3.0 TB"),
    ],
)
def test_bytes(count: int, text: str):
    assert render.size(count) == text


def test_many_routes_are_shown_in_tables_that_fit(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "80")
    names = [f"route-{letter}" for letter in "abcdefgh"]
    render_status.status(Overview(tuple(status(name, 10**9) for name in names)), now=0)
    printed = capsys.readouterr().out
    assert all(name in printed for name in names)
    assert printed.count("uploads notified") == 2
    assert printed.count("1000000000") == 2 * len(names)


def test_a_route_without_batches_says_so(capsys: pytest.CaptureFixture[str]):
    render_status.status(Overview((status(),)), now=0)
    assert "batches" in capsys.readouterr().out


def test_markup_in_a_name_is_text(capsys: pytest.CaptureFixture[str]):
    render.error("[red]not a colour[/red] of s3://b/[x]")
    assert "[red]not a colour[/red] of s3://b/[x]" in capsys.readouterr().err
