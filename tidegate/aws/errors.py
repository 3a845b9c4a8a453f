"""boto3's exceptions, as one of the four errors."""

from collections.abc import Iterator
from contextlib import contextmanager

from botocore.exceptions import BotoCoreError, ClientError

from tidegate.core.errors import OutcomeUnknown, Retryable


def code_of(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


@contextmanager
def asking(what: str) -> Iterator[None]:
    """Around calls to AWS; `what` finishes the sentence "could not ...".

    An answer that says no (throttled, denied, not found) means that nothing happened: Retryable. No answer at all, or
    one of the kind "internal error", means that it may have: OutcomeUnknown. Callers handle expected codes themselves.
    """
    try:
        yield
    except ClientError as error:
        status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
        kind = OutcomeUnknown if status >= 500 else Retryable
        detail = error.response.get("Error", {}).get("Message", "")
        raise kind(f"could not {what}: {code_of(error)}: {detail}") from error
    except BotoCoreError as error:
        raise OutcomeUnknown(f"could not {what}: {error}") from error
