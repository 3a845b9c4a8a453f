"""The real DynamoDB Local, which evaluates conditions and transactions as DynamoDB does and serves many clients at
once.

It is a Java program from Maven Central. Spark's own Ivy fetches it once, with all that it depends on; it is kept in
`share/tidegate/dynamodb-local` of the virtual environment, and goes with it. One digest pins the content of all the 85
files.

    python -m tests.support.dynamodb_local     fetches it, so that the first test need not
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import platform
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

from tests.support.patience import HANGING
from tidegate_local import toolchain

COORDINATES = "com.amazonaws:DynamoDBLocal:2.6.1"
SHA256 = "1e6ff07e4f92cf42785196a0b6e8447baeda0f94d1451704655cf82f3a6adc59"
# The artefact brings SQLite's native library for Linux and Windows on Intel; for a Mac on ARM it is this one.
MAC_COORDINATES = "io.github.ganadist.sqlite4java:libsqlite4java-osx-aarch64:1.0.392"
NATIVE = frozenset({".so", ".dylib", ".dll"})
START_SECONDS = HANGING


class DynamoDbLocalMissing(Exception):
    """DynamoDB Local cannot be fetched or started. The message has the reason, and what to do."""


@dataclass(frozen=True, slots=True)
class DynamoDbLocal:
    """A running DynamoDB Local. Tables of different regions or credentials are apart."""

    endpoint: str

    def client(self, **config: Any) -> Any:
        """A client that allows as many connections as the ledger has threads."""
        settings: dict[str, Any] = {
            "max_pool_connections": 64,
            "retries": {"mode": "standard", "total_max_attempts": 4},
        }
        return boto3.client(
            "dynamodb",
            endpoint_url=self.endpoint,
            region_name="us-east-1",
            aws_access_key_id="testing",
            aws_secret_access_key="testing",
            config=Config(**(settings | config)),
        )


def fetched() -> Path:
    """The folder with its jars and native libraries, which are fetched if they are not there."""
    folder = Path(sys.prefix, "share", "tidegate", "dynamodb-local")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _alone(folder.with_suffix(".lock")):
        complete = folder / "complete"
        if not complete.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            _fetch(folder)
            complete.touch()  # last, so that an interrupted fetch is done again
    return folder


@contextlib.contextmanager
def running() -> Iterator[DynamoDbLocal]:
    """DynamoDB Local, in memory, on a free port, for as long as the context lasts.

    It has no option for the address that it listens on, so any machine that reaches the port can use it. It has only
    test data. It reports its use to AWS unless that is disabled.
    """
    folder = fetched()
    port = _free_port()
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [
                *(str(toolchain.java() / "bin" / "java"), "-Xmx512m", "-XX:TieredStopAtLevel=1"),
                *(f"-Dsqlite4java.library.path={folder}", "-cp", f"{folder}/*"),
                "com.amazonaws.services.dynamodbv2.local.main.ServerRunner",
                *("-inMemory", "-disableTelemetry", "-port", str(port)),
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            _wait_until_it_listens(process, port, log)
            yield DynamoDbLocal(f"http://127.0.0.1:{port}")
        finally:
            process.kill()  # it keeps everything in memory: there is nothing to put in order
            process.wait()


def _wait_until_it_listens(process: subprocess.Popen[bytes], port: int, log: Any) -> None:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.05)
    log.seek(0)
    ended = f"ended with code {process.returncode}" if process.poll() is not None else f"took over {START_SECONDS} s"
    raise DynamoDbLocalMissing(
        f"DynamoDB Local {ended} instead of listening on port {port}. It said:\n{log.read().decode(errors='replace')}"
    )


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def _fetch(folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="ivy-") as ivy:
        jars = _let_ivy_fetch(Path(ivy), COORDINATES)
        digest = hashlib.sha256()
        for path in sorted(jars.iterdir()):
            digest.update(f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
        if digest.hexdigest() != SHA256:
            raise DynamoDbLocalMissing(
                f"What was fetched as {COORDINATES} has, file by file, the sha256 {digest.hexdigest()}, not {SHA256}."
                " Look at the mirror or local repository that it came from."
            )
        if (platform.system(), platform.machine()) == ("Darwin", "arm64"):
            jars = _let_ivy_fetch(Path(ivy), f"{COORDINATES},{MAC_COORDINATES}")
        for path in jars.iterdir():
            os.replace(path, folder / _plain_name(path))


def _let_ivy_fetch(ivy: Path, coordinates: str) -> Path:
    script = ivy / "nothing.py"
    script.touch()
    command = [
        *(str(toolchain.spark_submit()), "--master", "local[1]", "--conf", f"spark.jars.ivy={ivy}"),
        *("--packages", coordinates, str(script)),
    ]
    environment = os.environ | toolchain.spark_environment() | _trust(ivy / "authorities.p12")
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    jars = ivy / "jars"
    if done.returncode != 0 or not jars.is_dir():
        raise DynamoDbLocalMissing(
            f"Spark could not fetch {coordinates}, which the contract of the ledger is tested on. With a network, run"
            f" `{sys.executable} -m tests.support.dynamodb_local`.\n{done.stdout}{done.stderr}"
        )
    return jars


def _trust(store: Path) -> dict[str, str]:
    """Make the wheel's Java trust whom Python trusts here: its own list knows no company's proxy."""
    authorities = ssl.create_default_context().get_ca_certs(binary_form=True)
    if not authorities:
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


def _plain_name(path: Path) -> str:
    """Native libraries lose the group and the version that Ivy adds: they are looked up by their bare name."""
    if path.suffix not in NATIVE:
        return path.name
    return path.stem.partition("_")[2].rpartition("-")[0] + path.suffix


@contextlib.contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """One process at a time: the workers of pytest-xdist all come here at once."""
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    try:
        print(fetched())
    except (DynamoDbLocalMissing, toolchain.ToolMissing) as missing:
        sys.exit(str(missing))
