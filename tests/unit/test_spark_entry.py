"""The script for spark-submit, before it has any module: which Python it goes on in."""

import subprocess
import sys
from pathlib import Path

import pytest

from tidegate import environment
from tidegate.spark import entry

ARCHIVES = {"package": "s3://b/p.zip", "3.11": "s3://b/11.zip", "3.12": "s3://b/12.zip", "3.13": "s3://b/13.zip"}


@pytest.mark.parametrize(
    ("running", "there", "chosen"),
    [
        ("3.11", [], ""),
        ("3.12", ["python3.13"], ""),
        ("3.13", [], ""),
        ("3.9", ["python3.11", "python3.13"], "/usr/bin/python3.13"),
        ("3.14", ["python3.11"], "/usr/bin/python3.11"),
        ("3.9", ["python3.10", "python3.14"], None),
    ],
)
def test_it_goes_on_in_a_python_that_there_are_modules_for(running: str, there: list[str], chosen: str | None):
    assert entry.choose(ARCHIVES, running, lambda name: f"/usr/bin/{name}" if name in there else None) == chosen


def test_3_9_is_older_than_3_13_though_its_name_sorts_after_it():
    archives = {"package": "p", "3.9": "nine", "3.13": "thirteen"}
    assert entry.choose(archives, "3.14", lambda name: name) == "python3.13"


def started(archives: str, path: Path) -> subprocess.CompletedProcess[str]:
    """The script in this Python, which finds no other command than those in `path`."""
    return subprocess.run(
        [sys.executable, str(entry.__file__), "ingest", "--batch=b"],
        env={environment.ARCHIVES: archives, "PATH": str(path)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_an_image_without_a_python_that_there_are_modules_for_is_told_in_one_line(tmp_path: Path):
    done = started("package=s3://b/p.zip,3.4=s3://b/4.zip", tmp_path)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert line.startswith(f"this image runs Python {here}, and has none that there are modules for (3.4): ")


def test_it_goes_on_with_its_arguments_in_the_other_python(tmp_path: Path):
    other = tmp_path / "python3.4"
    other.write_text('#!/bin/sh\necho "$@"\n')
    other.chmod(0o755)
    done = started("package=s3://b/p.zip,3.4=s3://b/4.zip", tmp_path)
    assert (done.stdout.strip(), done.returncode) == (f"{entry.__file__} ingest --batch=b", 0)


def test_what_it_cannot_import_it_has_by_the_same_names():
    assert entry.ARCHIVES == environment.ARCHIVES
