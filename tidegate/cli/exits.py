"""Exit codes, and which error ends in which: a script can tell "look at your data" from "start the stack"."""

from enum import IntEnum

from tidegate.core.errors import FenceLost, Rejected, TidegateError
from tidegate.local.errors import LocalError
from tidegate.local.toolchain import ToolMissing
from tidegate.settings import SettingsError


class Exit(IntEnum):
    OK = 0
    FINDING = 1
    """The command worked and found something that a person must look at: a halted batch, sums that do not hold."""
    USAGE = 2
    """The command line or `tidegate.toml` is wrong."""
    NO_STACK = 3
    """The deployment cannot be reached, is not running, or did not start."""
    TOOL_MISSING = 4
    """Java, Node, the Spark jars or a Python package is missing."""
    INTERRUPTED = 130
    """Ctrl-C, as shells have it."""


EXPECTED = (SettingsError, LocalError, ToolMissing, TidegateError)
"""The errors whose text is made for a user. Any other is a bug and keeps its stack trace."""


def code_of(error: Exception) -> Exit:
    """The exit code for one of `EXPECTED`."""
    match error:
        case SettingsError():
            return Exit.USAGE
        case ToolMissing():
            return Exit.TOOL_MISSING
        case Rejected() | FenceLost():
            return Exit.FINDING
        case _:
            return Exit.NO_STACK


def advice_for(error: Exception) -> str:
    """What to do about it, where the error itself cannot know."""
    if isinstance(error, TidegateError) and not isinstance(error, Rejected | FenceLost):
        return "If this is a local stack: is it running? `tidegate local up` starts it, `tidegate doctor` looks closer."
    return ""
