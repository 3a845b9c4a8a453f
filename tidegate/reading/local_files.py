"""A file of this machine, as a source of bytes."""

import os
from dataclasses import dataclass
from pathlib import Path


class ChangedMeanwhile(OSError):
    """The file has fewer bytes than it had."""


@dataclass(frozen=True, slots=True)
class LocalFile:
    """A file of `size` bytes (`formats.streams.ByteSource`). Raises OSError."""

    path: Path
    size: int

    @classmethod
    def of(cls, path: Path) -> "LocalFile":
        return cls(path, path.stat().st_size)

    def read(self, start: int, end: int) -> bytes:
        with self.path.open("rb") as file:
            file.seek(start)
            body = file.read(end - start)
        if len(body) != end - start:
            raise ChangedMeanwhile(f"{self.path} became shorter while it was read")
        return body


def files_under(folder: Path) -> list[Path]:
    """The files in a folder and in those in it, in order of their names. What begins with a dot is left out."""
    found: list[Path] = []
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        found += [Path(root, name) for name in sorted(names) if not name.startswith(".")]
    return found
