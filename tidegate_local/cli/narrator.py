"""The demo's progress: a live line on a terminal, a plain line every few seconds in a log."""

import time
from collections.abc import Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from tidegate.cli import render
from tidegate.cli.terminal import Text
from tidegate.core.batches import State
from tidegate.flows.status import RouteStatus
from tidegate_local.demo.check import Finding
from tidegate_local.demo.progress import Progress

PLAIN_EVERY = 5.0
"""Seconds between two lines of progress where there is no terminal."""


class TerminalNarrator:
    """A context manager, so that the cursor comes back after an error too."""

    def __init__(self) -> None:
        self.console = render.console()
        self._began = time.monotonic()
        self._live: Live | None = None
        self._last_plain = 0.0
        self._last_text = ""

    def __enter__(self) -> "TerminalNarrator":
        return self

    def __exit__(self, *_: Any) -> None:
        self._end_live()

    def chapter(self, title: str) -> None:
        self._end_live()
        self._last_plain = 0.0
        self.console.print(Text.assemble((f"\n{self._clock()}  ", "dim"), (title, "bold")), soft_wrap=True)

    def line(self, text: str) -> None:
        self.console.print(Text(f"        {text}"), soft_wrap=True)

    def progress(self, progress: Progress) -> None:
        text = progress_text(progress)
        if self.console.is_terminal:
            if self._live is None:
                # transient: only the last state, printed when the chapter ends, stays on the screen
                self._live = Live(console=self.console, refresh_per_second=4, transient=True)
                self._live.start()
            self._live.update(progress_bars(progress, self._clock()))
        elif time.monotonic() - self._last_plain >= PLAIN_EVERY:
            self._last_plain = time.monotonic()
            self.console.print(f"{self._clock()}  {text}", soft_wrap=True, markup=False)
        self._last_text = text

    def conservation(self, statuses: Sequence[RouteStatus]) -> None:
        self._end_live()
        self.console.print(render.conservation(statuses))

    def finding(self, finding: Finding) -> None:
        self._end_live()
        mark = ("ok  ", "green") if finding.holds else ("FAIL", "bold red")
        self.console.print(
            Text.assemble("  ", mark, f"  {finding.what}", (f"  ({finding.seen})", "dim")), soft_wrap=True
        )

    def command(self, text: str) -> None:
        self.console.print(Text(f"\n{text}\n", "bold"), soft_wrap=True)

    def _end_live(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None
            self.console.print(f"{self._clock()}  {self._last_text}", soft_wrap=True, markup=False)

    def _clock(self) -> str:
        """Minutes and seconds since the beginning."""
        seconds = int(time.monotonic() - self._began)
        return f"{seconds // 60:3}:{seconds % 60:02}"


def progress_bars(progress: Progress, clock: str) -> RenderableType:
    """A few short lines for a terminal: the uploads that are put, notified and ended."""
    status = progress.status
    bars = Table.grid(padding=(0, 1))
    for name, count, total in (
        ("uploaded", progress.uploaded, progress.objects),
        ("notified", status.uploads.notified, progress.expected),
        ("ended", status.uploads.ended.uploads, progress.expected),
    ):
        bars.add_row(f"        {name}", ProgressBar(total=total, completed=count, width=40), f"{count}/{total}")
    waiting, running = _waiting_and_running(status)
    numbers = f"gathering {waiting}, in Spark {running}, rows {status.uploads.ended.rows}"
    more = f"duplicates refused {status.refused}, jobs {status.jobs}"
    return Group(bars, Text(f"        {numbers}, {more}"), Text(clock, "dim"))


def progress_text(progress: Progress) -> str:
    """One line: the objects that were put, and how many of them are notified, in Spark and ended."""
    status = progress.status
    waiting, running = _waiting_and_running(status)
    return (
        f"uploaded {progress.uploaded}/{progress.objects}"
        f" | notified {status.uploads.notified}/{progress.expected}"
        f" | gathering {waiting} | in Spark {running} | ended {status.uploads.ended.uploads}"
        f" | rows {status.uploads.ended.rows} | refused {status.refused} | jobs {status.jobs}"
    )


def _waiting_and_running(status: RouteStatus) -> tuple[int, int]:
    """How many pending uploads are in no job yet, and how many are in one."""
    running = sum(batch.objects for batch in status.unfinished if batch.state is State.SUBMITTED)
    return status.uploads.pending - running, running
