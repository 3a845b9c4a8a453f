"""Which Java and Node are chosen, and why others are not. Only the wheels are real."""

import subprocess
from pathlib import Path

import pytest

from tidegate_local import toolchain
from tidegate_local.toolchain import ToolMissing, choose_java, choose_node

JAVA_17 = 'openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime Environment (build 17.0.15+6)'
JAVA_21 = 'openjdk version "21" 2023-09-19'
JAVA_25 = 'openjdk version "25.0.1" 2025-10-21 LTS'


def executable(path: Path, script: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def fake_java(home: Path, report: str) -> Path:
    executable(home / "bin" / "java", f"cat >&2 <<'END'\n{report}\nEND")
    return home


def fake_node(folder: Path, version: str) -> Path:
    return executable(folder / "node", f"echo {version}")


@pytest.fixture
def share(tmp_path: Path) -> Path:
    return tmp_path / "share"


@pytest.fixture
def no_wheels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolchain, "_inside_wheel", lambda package, inner: None)


@pytest.mark.parametrize(
    ("report", "version"),
    [
        (JAVA_17, 17),
        (JAVA_21, 21),
        (JAVA_25, 25),
        ('java version "1.8.0_392"', 8),
        ('openjdk version "22-ea" 2024-03-19', 22),
        ("Picked up JAVA_TOOL_OPTIONS: -Xmx1g\n" + JAVA_17, 17),
        ("No Java runtime present, requesting install.", None),
        ("", None),
    ],
)
def test_reads_the_java_version(report: str, version: int | None) -> None:
    assert toolchain.parse_java_version(report) == version


@pytest.mark.parametrize(("report", "version"), [("v24.19.0\n", 24), ("v9.0.0", 9), ("node: not found", None)])
def test_reads_the_node_version(report: str, version: int | None) -> None:
    assert toolchain.parse_node_version(report) == version


def test_java_home_goes_before_the_path(tmp_path: Path, share: Path) -> None:
    home = fake_java(tmp_path / "home", JAVA_21)
    other = fake_java(tmp_path / "other", JAVA_17)

    found = choose_java({"JAVA_HOME": str(home), "PATH": str(other / "bin")}, share)

    assert (found.home, found.version, found.origin, found.passed_over) == (home, 21, "system", ())


def test_the_path_goes_before_the_wheel(tmp_path: Path, share: Path) -> None:
    home = fake_java(tmp_path / "home", JAVA_17)

    found = choose_java({"PATH": str(home / "bin")}, share)

    assert (found.home, found.version, found.origin) == (home, 17, "system")


def test_a_script_on_the_path_is_asked_for_its_home(tmp_path: Path, share: Path) -> None:
    shims = fake_java(tmp_path / "shims", f"    java.home = /opt/jdk 21\n{JAVA_21}")

    assert choose_java({"PATH": str(shims / "bin")}, share).home == Path("/opt/jdk 21")


def test_java_25_is_passed_over_with_a_reason(tmp_path: Path, share: Path) -> None:
    newest = fake_java(tmp_path / "newest", JAVA_25)
    usable = fake_java(tmp_path / "usable", JAVA_17)

    found = choose_java({"JAVA_HOME": str(newest), "PATH": str(usable / "bin")}, share)

    assert found.home == usable
    assert found.passed_over == (f"{newest}/bin/java is Java 25, not 17 or 21",)


def test_a_java_home_that_leads_nowhere_is_passed_over(tmp_path: Path, share: Path) -> None:
    found = choose_java({"JAVA_HOME": str(tmp_path / "gone")}, share)

    assert found.origin == "wheel"
    assert found.passed_over == (f"{tmp_path}/gone/bin/java does not run",)


@pytest.mark.usefixtures("no_wheels")
def test_no_java_at_all_says_what_to_do(tmp_path: Path, share: Path) -> None:
    newest = fake_java(tmp_path, JAVA_25)

    with pytest.raises(ToolMissing, match=r"Java 17 or 21 is missing \(.* is Java 25, .*\)\. Install"):
        choose_java({"PATH": str(newest / "bin")}, share)


def test_the_wheel_runs_through_a_shim(share: Path) -> None:
    found = choose_java({}, share)

    assert (found.home, found.version, found.origin) == (share / "java", 21, "wheel")
    report = subprocess.run(
        [found.home / "bin" / "java", "--add-modules=jdk.incubator.vector", "-version"],
        capture_output=True,
        text=True,
        check=True,
    ).stderr
    assert toolchain.parse_java_version(report) == 21


def test_the_shim_itself_is_never_taken_for_a_system_java(share: Path) -> None:
    first = choose_java({}, share)

    assert choose_java({"JAVA_HOME": str(first.home)}, share) == first


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


def test_a_supported_node_on_the_path_is_taken(tmp_path: Path) -> None:
    path = fake_node(tmp_path, "v22.21.1")

    found = choose_node({"PATH": str(tmp_path)})

    assert (found.path, found.version, found.origin) == (path, 22, "system")


def test_node_20_is_passed_over_for_the_wheel(tmp_path: Path) -> None:
    old = fake_node(tmp_path, "v20.20.2")

    found = choose_node({"PATH": str(tmp_path)})

    assert (found.version, found.origin) == (24, "wheel")
    assert found.passed_over == (f"{old} is Node 20, not 22 or 24",)


@pytest.mark.usefixtures("no_wheels")
def test_no_node_at_all_says_what_to_do() -> None:
    with pytest.raises(ToolMissing, match=r"^Node 22 or 24 is missing\. Install"):
        choose_node({})


def test_a_missing_jar_is_named_with_the_command_that_fetches_it(tmp_path: Path) -> None:
    with pytest.raises(ToolMissing, match=r"iceberg-spark-runtime.* run `.* -m tidegate_local\.toolchain`"):
        toolchain._present_jars(tmp_path)


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
        toolchain.fetch_emulator(toolchain.EMULATOR_WHEEL, system, machine, share)


def test_an_emulator_that_is_kept_is_not_fetched_again(share: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", None)
    kept = executable(share / "lambda-rie" / "sam-1.0" / "aws-lambda-rie-arm64", "")

    assert toolchain.fetch_emulator(toolchain.Wheel("sam", "1.0", "0"), "Linux", "aarch64", share) == kept


def test_a_wheel_of_another_content_is_refused_and_nothing_of_it_kept(share: Path) -> None:
    pinned = toolchain.EMULATOR_WHEEL
    other = toolchain.Wheel(pinned.name, pinned.version, "0" * 64)

    with pytest.raises(ToolMissing, match=r"aws-sam-cli 1.* could not be fetched"):
        toolchain.fetch_emulator(other, "Linux", "x86_64", share)

    assert not [path for path in share.rglob("*") if path.is_file()]


def test_an_unknown_verb_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert toolchain.main(["fetch"]) == 2
    assert "prepare|lock" in capsys.readouterr().err
