"""Which of the three errors an answer of AWS becomes."""

from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from tidegate.aws.errors import asking
from tidegate.aws.work import CONFLICTS, S3Work
from tidegate.core.errors import OutcomeUnknown, Retryable


def answer(status: int, code: str) -> ClientError:
    told: Any = {"Error": {"Code": code, "Message": "as told"}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(told, "PutObject")


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (answer(400, "ThrottlingException"), Retryable),
        (answer(403, "AccessDenied"), Retryable),
        (answer(500, "InternalError"), OutcomeUnknown),
        (answer(503, "ServiceUnavailable"), OutcomeUnknown),
        (EndpointConnectionError(endpoint_url="https://nowhere"), OutcomeUnknown),
    ],
)
def test_an_answer_that_says_no_is_told_from_one_that_says_nothing(error: Exception, kind: type[Exception]):
    with pytest.raises(kind, match="could not do it: "), asking("do it"):
        raise error


class Refusing:
    """An S3 client whose every call fails like this."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def __getattr__(self, name: str) -> Any:
        def call(**_: Any) -> Any:
            raise self.error

        return call


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (503, "SlowDown", Retryable),
        (503, "ServiceUnavailable", Retryable),
        (500, "InternalError", OutcomeUnknown),
        (504, "GatewayTimeout", OutcomeUnknown),
    ],
)
def test_s3_says_no_with_503(status: int, code: str, kind: type[Exception]):
    work = S3Work(Refusing(answer(status, code)), "work")  # type: ignore[arg-type]
    for call in (
        lambda: work.get("a"),
        lambda: work.put("a", b""),
        lambda: work.put_if_absent("a", b""),
    ):
        with pytest.raises(kind, match=f"s3://work/a: {code}"):
            call()


class Conflicting:
    """An S3 client that says so often that another conditional write is under way."""

    def __init__(self, conflicts: int) -> None:
        self.conflicts = conflicts
        self.written: list[str] = []

    def put_object(self, **request: Any) -> None:
        if self.conflicts:
            self.conflicts -= 1
            raise answer(409, "ConditionalRequestConflict")
        self.written.append(request["Key"])


def test_a_conditional_write_is_tried_again_while_another_is_under_way():
    client: Any = Conflicting(CONFLICTS - 1)
    assert S3Work(client, "work").put_if_absent("receipt.json", b"{}")
    assert client.written == ["receipt.json"]
    client = Conflicting(CONFLICTS)
    with pytest.raises(Retryable, match=r"could not write s3://work/receipt\.json"):
        S3Work(client, "work").put_if_absent("receipt.json", b"{}")
