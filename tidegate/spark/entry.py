"""The script for spark-submit: it finds a Python that there are modules for, and has Spark fetch them.

EMR's image decides which Pythons there are, and which one begins. So the packages of others are in an archive for each
Python. This takes the one for the Python that it runs in, or goes on in another Python of the image. Driver and
executors get their modules alike, by Spark's own means. Until then only the standard library is there, of any version.
"""

from __future__ import annotations

import os
import shutil
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

ARCHIVES = "TIDEGATE_ARCHIVES"
"""See `tidegate.environment.ARCHIVES`, which cannot be imported yet."""
PACKAGE, MODULES = "package", "modules"
"""The folders that the archives are unpacked into: our own code, and the packages of others."""


def choose(archives: Mapping[str, str], running: str, find: Callable[[str], str | None]) -> str | None:
    """The interpreter to go on in: "" for the one that runs, None if there is none. `find` looks for a command."""
    if running in archives:
        return ""
    pythons = [[int(part) for part in name.split(".")] for name in archives if name != PACKAGE]
    commands = (find(f"python{major}.{minor}") for major, minor in sorted(pythons, reverse=True))
    return next((found for found in commands if found), None)


def fetch(archives: Mapping[str, str], running: str) -> None:
    """Have Spark fetch and unpack the archives, here now and on each executor before its first task."""
    # the executors' workers are this interpreter, because they have the same image
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark import SparkContext, SparkFiles

    context = SparkContext.getOrCreate()
    for folder, name in ((MODULES, running), (PACKAGE, PACKAGE)):
        context.addArchive(f"{archives[name]}#{folder}")
        sys.path.insert(0, SparkFiles.get(folder))


def begin() -> None:
    said = os.environ.get(ARCHIVES, "")
    archives = dict(each.split("=", 1) for each in said.split(",") if each)
    running = f"{sys.version_info[0]}.{sys.version_info[1]}"
    if archives:
        other = choose(archives, running, shutil.which)
        if other is None:
            there = ", ".join(sorted(archives.keys() - {PACKAGE}))
            sys.exit(
                f"this image runs Python {running}, and has none that there are modules for ({there}): bundle modules"
                f" for {running}, too (infra.bundling.PYTHONS)"
            )
        if other:
            os.execv(other, [other, *sys.argv])
        fetch(archives, running)
    from tidegate.spark.job import main

    main()


if __name__ == "__main__":
    begin()
