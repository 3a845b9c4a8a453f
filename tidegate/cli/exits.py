"""Exit codes, and the error of a verb."""

from enum import IntEnum
from typing import ClassVar


class Exit(IntEnum):
    OK = 0
    FINDING = 1
    """The command worked, and found something for a person to act on: a halted batch, sums that do not hold."""
    USAGE = 2
    """The command line or `tidegate.toml` is wrong."""
    NO_STACK = 3
    """The deployment cannot be reached, is not running, or did not start; or a job of it that the command waited for
    failed. The command may be repeated."""
    TOOL_MISSING = 4
    """Java, Node, the Spark jars or a Python package is missing."""
    INTERRUPTED = 130
    """Ctrl-C. Shells use the same code."""


class Expected(Exception):
    """An error of a verb. Its text is for users: what happened, to what, and what to do."""

    code: ClassVar[Exit] = Exit.NO_STACK
    """The exit code of the verb."""
