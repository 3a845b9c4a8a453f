"""Exit codes, and the code of each error."""

import os
from collections.abc import Iterator
from enum import IntEnum
from typing import ClassVar

from botocore.exceptions import (
    ClientError,
    CredentialRetrievalError,
    NoCredentialsError,
    PartialCredentialsError,
    SSOError,
    TokenRetrievalError,
)

from tidegate.core.errors import Rejected, TidegateError
from tidegate.settings import SettingsError


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


EXPECTED = (SettingsError, Expected, TidegateError)
"""The errors whose text is for users. Any other error is a bug, and keeps its stack trace."""


def code_of(error: Exception) -> Exit:
    """The exit code for one of `EXPECTED`."""
    match error:
        case SettingsError():
            return Exit.USAGE
        case Expected():
            return error.code
        case Rejected():
            return Exit.FINDING
        case _:
            return Exit.NO_STACK


def advice_for(error: Exception) -> str:
    """What to do about the error, where its own text does not have that."""
    if not isinstance(error, TidegateError) or isinstance(error, Rejected):
        return ""
    if any(map(_is_of_credentials, _causes(error))):
        return "Log in, or set AWS_PROFILE. `aws sts get-caller-identity` shows who you are to AWS."
    if any(name.startswith("AWS_ENDPOINT_URL") for name in os.environ):
        return "If this is a local stack: `tidegate local up` starts it, `tidegate doctor` checks it."
    return ""


_NO_CREDENTIALS = (
    NoCredentialsError,
    PartialCredentialsError,
    CredentialRetrievalError,
    TokenRetrievalError,
    SSOError,
)
_BAD_CREDENTIALS = frozenset(
    {
        "ExpiredToken",
        "ExpiredTokenException",
        "InvalidAccessKeyId",
        "InvalidClientTokenId",
        "SignatureDoesNotMatch",
        "UnrecognizedClientException",
    }
)


def _is_of_credentials(error: BaseException) -> bool:
    if isinstance(error, ClientError):
        return error.response.get("Error", {}).get("Code") in _BAD_CREDENTIALS
    return isinstance(error, _NO_CREDENTIALS)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__
