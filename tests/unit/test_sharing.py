"""Tests that share what takes long to make run on one worker, whatever versions of pytest and xdist are in use."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.sharing import SHARES, rank_of, share_of

ROOT = Path(__file__).parents[2]

CONFTEST = """
from tests.support import sharing
from tests.support.sharing import Shares

SHARES = {
    "first": ("cases/test_single.py",),
    "together": ("cases/test_one.py", "cases/test_two.py"),
    "folder": ("cases/folder/",),
}
sharing.share_of.__defaults__ = (SHARES,)
sharing.rank_of.__defaults__ = (SHARES,)

from tests_conftest import pytest_collection_modifyitems, pytest_xdist_make_scheduler
"""
TESTS = """
import os, time
from pathlib import Path
import pytest

@pytest.mark.parametrize("number", range({count}))
def test(number):
    with Path({record!r}).open("a") as file:
        file.write(f"{name} {{os.environ['PYTEST_XDIST_WORKER']}}\\n")
    time.sleep(0.05)
"""


@pytest.mark.parametrize(
    ("test", "share"),
    [
        ("tests/spark/test_ingest.py::test_a[1::2]", "Spark"),
        ("tests/infra/test_deploy.py::test_a", "deployments"),
        ("tests/infra/test_nag.py::test_a", "templates"),
        ("tests/unit/test_uploads.py::test_a", "tests/unit/test_uploads.py::test_a"),
        ("tests/sparkling/test_a.py::test_a", "tests/sparkling/test_a.py::test_a"),
    ],
)
def test_the_first_share_that_fits_counts(test, share):
    assert share_of(test) == share


def test_shares_begin_first_and_in_their_order():
    ranks = [
        rank_of(f"{paths[0]}test_a.py::test_a" if paths[0].endswith("/") else paths[0]) for paths in SHARES.values()
    ]
    assert ranks == sorted(set(ranks))
    assert rank_of("tests/unit/test_uploads.py::test_a") == len(SHARES) > max(ranks)


def test_what_is_named_is_there():
    assert not [path for paths in SHARES.values() for path in paths if not (ROOT / path).exists()]


def test_nobody_relies_on_the_mark_that_does_nothing():
    mark = "mark." + "xdist_group"
    found = [str(path.relative_to(ROOT)) for path in sorted(ROOT.glob("tests/**/*.py")) if mark in path.read_text()]
    assert not found, f"name these in tests/support/sharing.py instead: {found}"


def test_a_share_has_one_worker_and_the_others_work_meanwhile(tmp_path):
    record = tmp_path / "record"
    folder = tmp_path / "cases"
    (folder / "folder").mkdir(parents=True)
    (tmp_path / "pytest.ini").touch()
    (tmp_path / "tests_conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text())
    (folder / "conftest.py").write_text(CONFTEST)
    for name in ("test_one", "test_two", "test_alone", "folder/test_three", "folder/test_four", "test_single"):
        count = 1 if name == "test_single" else 4
        (folder / f"{name}.py").write_text(TESTS.format(record=str(record), name=name, count=count))
    command = [sys.executable, "-m", "pytest", "--numprocesses=2", "--import-mode=importlib", "cases"]
    done = subprocess.run(
        command, cwd=tmp_path, env={"PATH": "", "PYTHONPATH": f"{ROOT}:{tmp_path}"}, capture_output=True, text=True
    )
    assert "21 passed" in done.stdout, done.stdout + done.stderr
    ran = [line.split() for line in record.read_text().splitlines()]
    assert len({worker for name, worker in ran if name in ("test_one", "test_two")}) == 1
    assert len({worker for name, worker in ran if name.startswith("folder/")}) == 1
    assert len({worker for _, worker in ran}) == 2
    began = [next(name for name, each in ran if each == worker) for worker in ("gw0", "gw1")]
    assert "test_single" in began, "the share of one test comes first, not last"
