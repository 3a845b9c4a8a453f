"""What a folder has of the stacks that ran in it before, and whether another one can go on from there.

DIR/state/services.db    what the services held (`tidegate_local.durable`)
DIR/state/jobs.db        the job runs (`tidegate_local.emr.records`)
DIR/state/begun.json     written before the first function starts: until then nothing has happened
DIR/deployed.toml        what the file said that the stack runs by
DIR/warehouse            the tables
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import Enum
from pathlib import Path

from tidegate.environment import DEPLOYED
from tidegate_local import description
from tidegate_local.commands import command
from tidegate_local.durable import database
from tidegate_local.errors import LocalError

FILE = "begun.json"
EVERYTHING = (
    *(database.FOLDER, "warehouse", "jobs", "logs", "cdk.out", "sam"),
    *(description.FILE, DEPLOYED, "supervisor.log", "stack.pid"),
)
"""What a stack makes in its folder. Other files there are somebody's own."""


class Past(Enum):
    """What a folder has of earlier stacks."""

    NONE = "nothing"
    KEPT = "all that the services held"
    LOST = "tables, but not what the services held"


@dataclass(frozen=True, slots=True)
class Begun:
    """What a stack noted when it began: the file it was made from, and where each of its processes listened."""

    config: str = ""
    digest: str = ""
    ports: Mapping[str, int] = field(default_factory=dict)

    def write(self, folder: Path) -> None:
        state = folder / database.FOLDER
        state.mkdir(exist_ok=True)
        draft = state / f"{FILE}.{os.getpid()}"
        with draft.open("w", encoding="utf-8") as file:
            json.dump(asdict(self), file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, state / FILE)


def look(folder: Path) -> tuple[Past, Begun]:
    """What is there, and what was noted last. Raises LocalError for what is damaged, or of another version."""
    state = folder / database.FOLDER
    tables = (folder / "warehouse" / "catalog.db").exists()
    try:
        version = database.version_of(state)
        begun = _read(state / FILE)
    except (LocalError, ValueError, TypeError) as error:
        raise LocalError(f"what the stack in {folder} held cannot be read: {error}. {_start_over(folder)}") from error
    if begun is None or not version:
        # a stack that never let anything in
        return (Past.LOST if tables else Past.NONE), begun or Begun()
    if version != database.VERSION:
        raise LocalError(
            f"what the stack in {folder} held was written by another Tidegate (the file is of version {version}, and"
            f" this one knows {database.VERSION}): use that one, or another --dir. {_start_over(folder)}"
        )
    if not (folder / "warehouse").exists():
        raise LocalError(
            f"the tables in {folder / 'warehouse'} are gone, and the ledger has what landed in them: it would refuse"
            f" the same files. Put that folder back. {_start_over(folder)}"
        )
    return Past.KEPT, begun


def clear_way(folder: Path, past: Past) -> None:
    """Take out of the way what a new stack cannot go on from."""
    if past is not Past.KEPT:
        shutil.rmtree(folder / database.FOLDER, ignore_errors=True)


def forget(folder: Path) -> bool:
    """Delete all that stacks have left in the folder, and it too if it is empty then; False if there was nothing."""
    found = False
    for name in EVERYTHING:
        path = folder / name
        found = found or path.exists()
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()
    return found


def digest_of(said: bytes) -> str:
    """What tells one content of tidegate.toml from another."""
    return hashlib.sha256(said).hexdigest()


def _read(path: Path) -> Begun | None:
    try:
        return Begun(**json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None


def _start_over(folder: Path) -> str:
    return f"To throw all of it away, tables included: {command('local', 'down', '--forget', folder=folder)}"
