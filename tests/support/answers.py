"""Fixed answers in place of AWS's, for calls and refusals that no emulator supports."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from types import SimpleNamespace
from typing import Any

import boto3
import botocore.session


@dataclass(frozen=True, slots=True)
class No:
    """A service's refusal."""

    code: str
    status: int = 400
    message: str = ""


DENIED = No("AccessDeniedException", 403, "User is not authorized to perform this")

Given = dict[str, Any] | No
Scripted = Given | Callable[[dict[str, Any]], Given]


@cache
def _models() -> Any:
    """What reads the models of the services, and keeps them. A session of its own would read them again, 0.3 s for ten
    services; these tests make hundreds of sessions."""
    return botocore.session.Session().get_component("data_loader")


@dataclass
class Answers:
    """The answers of some operations, by the API's name, such as `HeadBucket`. Other calls are sent on."""

    given: Mapping[str, Scripted] = field(default_factory=dict)
    rest: Given | None = None
    """The answer of all other operations; None sends them on."""
    asked: list[str] = field(default_factory=list)
    """The name of each operation that was called, in order."""

    def session(self) -> boto3.Session:
        """A session whose clients get these answers."""
        core = botocore.session.Session()
        core.register_component("data_loader", _models())
        made = boto3.Session(
            botocore_session=core,
            region_name="us-east-1",
            aws_access_key_id="testing",
            aws_secret_access_key="testing",
        )
        # what botocore's own Stubber does, for every client at once
        made.events.register("before-parameter-build.*.*", self._note)
        made.events.register("before-call.*.*", self._answer)
        return made

    def _note(self, params: dict[str, Any], model: Any, context: dict[str, Any], **_: Any) -> None:
        context["asked"] = params

    def _answer(self, model: Any, context: dict[str, Any], **_: Any) -> Any:
        self.asked.append(model.name)
        answer = self.given.get(model.name, self.rest)
        if callable(answer):
            answer = answer(context["asked"])
        match answer:
            case None:
                return None
            case No(code, status, message):
                parsed = {
                    "Error": {"Code": code, "Message": message},
                    "ResponseMetadata": {"HTTPStatusCode": status, "HTTPHeaders": {}},
                }
                return SimpleNamespace(status_code=status), parsed
            case body:
                metadata = {"HTTPStatusCode": 200, "HTTPHeaders": {}}
                return SimpleNamespace(status_code=200), {"ResponseMetadata": metadata, **body}
