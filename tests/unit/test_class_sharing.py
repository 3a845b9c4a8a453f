"""The archive of Java classes: which one fits, what a job's JVM is told, and that it really takes it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tidegate_local import toolchain
from tidegate_local.emr import sharing
from tidegate_local.emr.sharing import class_archive, installed_archive, make_archive, sharing_options


@pytest.fixture
def jars(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / name for name in ("java", "a.jar", "b.jar")]
    for path in paths:
        path.write_text(path.name)
    return paths


def test_another_jar_another_version_or_another_java_has_another_archive(jars: list[Path], tmp_path: Path):
    java, one, other = jars
    first = class_archive(java, [one, other], tmp_path)
    assert class_archive(java, [other, one], tmp_path) == first, "their order says nothing"
    assert class_archive(java, [one], tmp_path) != first
    assert class_archive(one, [one, other], tmp_path) != first
    other.write_text("of another length")
    assert class_archive(java, [one, other], tmp_path) != first


def test_a_jvm_is_told_of_an_archive_that_is_there_and_of_no_other(tmp_path: Path):
    archive = tmp_path / "a dir" / "classes.jsa"
    assert sharing_options(archive) == ""
    archive.parent.mkdir()
    archive.touch()
    assert sharing_options(archive).startswith(f'"-XX:SharedArchiveFile={archive}" ')


def test_what_cannot_be_made_is_said_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(toolchain, "class_archives", lambda: tmp_path)
    monkeypatch.setattr(sharing, "_TRAINING", "raise SystemExit('no training today')")
    monkeypatch.setattr(sharing, "_training_command", lambda base, draft, script: [sys.executable, str(script)])
    assert sharing.main() == 0
    assert "no training today" in capsys.readouterr().err
    assert not installed_archive().exists()
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]


def test_a_folder_that_cannot_be_written_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "file").touch()
    monkeypatch.setattr(toolchain, "class_archives", lambda: tmp_path / "file" / "classes")
    assert sharing.main() == 0
    assert "Not a directory" in capsys.readouterr().err


def test_a_job_that_ends_well_and_leaves_no_archive_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sharing, "_ran", lambda words, folder: "")
    assert "wrote no archive" in make_archive(tmp_path / "classes-1.jsa")


def test_an_archive_takes_the_place_of_the_last_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def ran(words, folder):
        if words[-1].endswith("training.py"):
            (folder / "draft.jsa").write_text("new")
        else:
            Path(words[-1].partition("=")[2]).write_text("base")
        return ""

    monkeypatch.setattr(sharing, "_ran", ran)
    for old in ("classes-0.jsa", "classes-0.base.jsa"):
        (tmp_path / old).touch()
    assert make_archive(tmp_path / "classes-1.jsa") == ""
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "classes-1.jsa": "new",
        "classes-1.base.jsa": "base",
    }


def test_spark_takes_the_archive_that_setup_made():
    """With `-Xshare:on` a JVM that cannot use it does not start."""
    archive = installed_archive()
    if not archive.exists():
        pytest.skip("`make setup` could not make one here, and said why")
    done = subprocess.run(
        [
            *(str(toolchain.spark_submit()), "--conf"),
            f'spark.driver.extraJavaOptions="-XX:SharedArchiveFile={archive}" -Xshare:on',
            "--version",
        ],
        env={**os.environ, **toolchain.spark_environment()},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
