"""What is said of an error, and the exit code of each."""

import os
from collections.abc import Iterator

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    CredentialRetrievalError,
    NoCredentialsError,
    PartialCredentialsError,
    SSOError,
    TokenRetrievalError,
)

from tidegate.cli import terminal
from tidegate.cli.exits import Exit, Expected
from tidegate.core.errors import Rejected, TidegateError
from tidegate.settings import SettingsError

EXPECTED = (SettingsError, Expected, TidegateError)
"""The errors whose text is for users. Any other error is a bug, and keeps its stack trace."""


def tell(error: BaseException) -> Exit | None:
    """Print what happened and what to do. Returns the exit code, or None for what is a bug."""
    match error:
        case SettingsError() | Expected() | TidegateError():
            terminal.error(str(error), advice_for(error))
            return code_of(error)
        case BotoCoreError():
            # raised where a client is made, if the profile or the region is missing
            terminal.error(f"AWS cannot be called: {error}", "Check AWS_PROFILE, AWS_DEFAULT_REGION and ~/.aws.")
            return Exit.NO_STACK
        case KeyboardInterrupt():
            terminal.error("interrupted")
            return Exit.INTERRUPTED
    return None


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
    if "ResourceNotFoundException" in map(_code, _causes(error)):
        asked = "Is this the region and the account of the deployment? AWS_REGION and AWS_PROFILE say where to look."
        lost = " If it is, and the ledger's table was deleted: docs/operations.md, `A lost ledger`."
        return asked + (lost if "ledger" in str(error) else "")
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
    return _code(error) in _BAD_CREDENTIALS or isinstance(error, _NO_CREDENTIALS)


def _code(error: BaseException) -> str:
    """AWS's code of an error that it has answered, else ""."""
    return str(error.response.get("Error", {}).get("Code", "")) if isinstance(error, ClientError) else ""


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__
