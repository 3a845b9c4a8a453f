"""An emulated Lambda: AWS's Runtime Interface Emulator with a folder of bundled code.

The folder is the function's working directory. Its Python has the standard library, Lambda's runtime client and
nothing else, so whatever the code imports must be in the folder. Linux only: the emulator is a Linux program.
"""

import http.client
import importlib.metadata
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.patience import HANGING
from tidegate_local import toolchain
from tidegate_local.description import Function
from tidegate_local.guard import session_members
from tidegate_local.processes import HOST, Child, listen, python_module, spawn
from tidegate_local.stack import answers

RUNTIME_CLIENT = ("awslambdaric", "simplejson", "snapshot-restore-py")
"""The content of Lambda's /var/runtime: its client and the client's imports."""
PYTHON = (sys._base_executable, "-S", "-s")
"""The Python of the virtual environment, without site-packages."""
START_SECONDS = HANGING
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
                str(toolchain.lambda_emulator()),
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
