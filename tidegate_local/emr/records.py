"""What the endpoint remembers of its applications and job runs, in a file beside what the services hold.

A run's state is in the file before anybody is told of it. So a run that was accepted is known after a start, and one
that had not ended is run again. A driver may run twice on EMR, too; decision 3 lets one of them count.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tidegate_local.durable.database import stop
from tidegate_local.emr.runs import Application, JobRun

FILE = "jobs.db"
_TABLES = """
CREATE TABLE IF NOT EXISTS applications (id TEXT PRIMARY KEY, said TEXT);
CREATE TABLE IF NOT EXISTS runs (id TEXT PRIMARY KEY, application TEXT, said TEXT);
"""


class RunRecords:
    """Every method may be called by any thread."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._connection = sqlite3.connect(folder / FILE, isolation_level=None, check_same_thread=False)
        self._connection.executescript("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;" + _TABLES)
        self._lock = threading.Lock()

    def application(self, application: Application) -> None:
        self._write("INSERT OR REPLACE INTO applications VALUES (?, ?)", application.id, _said(application))

    def run(self, run: JobRun) -> None:
        self._write("INSERT OR REPLACE INTO runs VALUES (?, ?, ?)", run.id, run.application.id, _said(run))

    def known(self) -> tuple[dict[str, Application], dict[str, JobRun]]:
        """All of them, by their ids; the runs in the order in which they were asked for."""
        with self._lock:
            applications = {
                identifier: Application(**json.loads(said))
                for identifier, said in self._connection.execute("SELECT id, said FROM applications")
            }
            runs = [
                JobRun(**json.loads(said), application=applications[application])
                for application, said in self._connection.execute("SELECT application, said FROM runs")
            ]
        return applications, {run.id: run for run in sorted(runs, key=lambda each: each.created_at)}

    def _write(self, sql: str, *values: str) -> None:
        """Or end this process, which would know more than its file."""
        with self._lock:
            try:
                self._connection.execute(sql, values)
            except sqlite3.Error as error:
                stop(f"{FILE} cannot be written ({error}): is the disk full?")


def _said(what: Application | JobRun) -> str:
    fields: dict[str, Any] = asdict(what)
    fields.pop("application", None)
    return json.dumps(fields)
