"""boto3's exceptions, mapped to the three errors."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager

from botocore.exceptions import BotoCoreError, ClientError

from tidegate.core.errors import OutcomeUnknown, Retryable


def code_of(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


@contextmanager
def asking(what: str, *, refusals: Collection[str] = ()) -> Iterator[None]:
    """Around calls to AWS; `what` finishes the sentence "could not ...".

    A refusal (throttled, denied, not found) means that the call did nothing: Retryable. No answer, or an answer such as
    "internal error", means that it may have done something: OutcomeUnknown. `refusals` are codes that are refusals
    despite a status of 500 or more. Callers handle expected codes themselves.
    """
    try:
        yield
    except ClientError as error:
        status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
        kind = OutcomeUnknown if status >= 500 and code_of(error) not in refusals else Retryable
        detail = error.response.get("Error", {}).get("Message", "")
        raise kind(f"could not {what}: {code_of(error)}: {detail}") from error
    except BotoCoreError as error:
        raise OutcomeUnknown(f"could not {what}: {error}") from error
