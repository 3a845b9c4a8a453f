"""An archive of loaded Java classes, which the JVMs of local jobs share (class data sharing).

    python -m tidegate_local.emr.sharing    makes it, if there is none for this Java and these jars

Most of a local job's processor time goes into loading Spark's and Iceberg's classes anew: 18 s of processor time for
the least job without the archive, 11 s with it. The archive is what
https://docs.oracle.com/en/java/javase/17/vm/class-data-sharing.html calls a dynamic one. It lies on a base archive,
which is made, too: the Java of the wheel has none. A JVM compares the archive with its own version and its class path,
and goes on without it if they differ. So an archive can be missing or old; it cannot be wrong.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from tidegate_local import toolchain
from tidegate_local.emr.runs import Application, JobRun
from tidegate_local.emr.submit import JAVA_OPTIONS, Machine, command

QUIET = "-Xlog:disable -Xlog:all=error:stderr"
"""An archive that does not fit is no news for a job's log."""
PATIENCE_SECONDS = 900

# What a job does, at its least: a session, a table, Python workers, a branch, a publication, the table's history.
_TRAINING = """\
from pyspark.sql import SparkSession

def same(batches):
    yield from batches

spark = SparkSession.builder.getOrCreate()
columns, table = "id bigint, text string", "training.t"
spark.sql("CREATE NAMESPACE lake.training")
spark.sql(f"CREATE TABLE lake.{table} ({columns}) USING iceberg")
spark.sql(f"ALTER TABLE lake.{table} CREATE BRANCH staged")
rows = spark.createDataFrame([(1, "a"), (2, "b")], columns).mapInArrow(same, columns)
rows.writeTo(f"lake.{table}.branch_staged").append()
spark.sql(f"CALL lake.system.fast_forward('{table}', 'main', 'staged')").collect()
assert spark.table(f"lake.{table}").count() == 2
spark.sql(f"SELECT * FROM lake.{table}.snapshots").collect()
spark.stop()
"""


def class_archive(java: Path, jars: Iterable[Path], folder: Path) -> Path:
    """Where the archive for this Java (an executable) and these jars is, or would be: a changed jar has another."""
    digest = hashlib.sha256()
    for path in (java.resolve(), *sorted(jars)):
        found = path.stat()
        digest.update(f"{path}\0{found.st_size}\0{found.st_mtime_ns}\0".encode())
    return folder / f"classes-{digest.hexdigest()[:16]}.jsa"


def installed_archive() -> Path:
    """The archive for the toolchain's Java and jars; the file need not be there. Raises ToolMissing."""
    jars = [*toolchain.spark_jars(), *toolchain.jars()]
    return class_archive(toolchain.java() / "bin" / "java", jars, toolchain.class_archives())


def sharing_options(archive: Path) -> str:
    """The options of a JVM that uses the archive; none if it is not there."""
    return f'"-XX:SharedArchiveFile={archive}" {QUIET}' if archive.exists() else ""


def make_archive(archive: Path) -> str:
    """Run a least job, and keep the classes that it loads; why there is no archive, if there is none."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=archive.parent, prefix="draft-") as name:
        folder = Path(name)
        # a JVM looks for the base where it was when the archive was made: only the archive itself is a draft
        base, draft, script = archive.with_suffix(".base.jsa"), folder / "draft.jsa", folder / "training.py"
        script.write_text(_TRAINING)
        if trouble := _ran(_base_command(base), folder) or _ran(_training_command(base, draft, script), folder):
            return trouble
        if not draft.exists():
            return "the JVM ended well and wrote no archive"
        for old in archive.parent.glob("classes-*.jsa"):
            if old not in (archive, base):
                old.unlink()
        os.replace(draft, archive)  # whole or not at all: a job may be starting
    return ""


def _base_command(base: Path) -> list[str]:
    options = (*JAVA_OPTIONS.split(), "-Xshare:dump", f"-XX:SharedArchiveFile={base}")
    return [str(toolchain.java() / "bin" / "java"), *options]


def _training_command(base: Path, draft: Path, script: Path) -> list[str]:
    machine = Machine(
        script.parent,
        ("lake",),
        {},
        spark_submit=(str(toolchain.spark_submit()),),
        jars=tuple(toolchain.jars()),
        java_options=f'"-XX:SharedArchiveFile={base}" "-XX:ArchiveClassesAtExit={draft}"',
    )
    machine.warehouse.mkdir()
    owner = Application("training", "training", "", "", {}, "", 0.0)
    run = JobRun("training", owner, "", "training", "", {"sparkSubmit": {}}, {}, {}, 0, 0.0)
    machine.scratch(run.id).mkdir(parents=True)
    return command(run, machine, script)


def _ran(words: Sequence[str], folder: Path) -> str:
    """Why it failed, if it did."""
    try:
        done = subprocess.run(
            words,
            env={**os.environ, **toolchain.spark_environment()},
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    # spark-submit writes both streams of a Python script to its own stdout
    return "" if done.returncode == 0 else (done.stdout or done.stderr)[-2_000:]


def main() -> int:
    """Make it, unless it is there. Without it jobs begin later, and nothing else changes: so that is said, no error."""
    archive = installed_archive()
    try:
        trouble = "" if archive.exists() else make_archive(archive)
    except OSError as error:  # a full disk, or a folder that may not be written
        trouble = str(error)
    if trouble:
        print(
            f"  local jobs will begin a few seconds later: Java made no archive of classes: {trouble}", file=sys.stderr
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
