"""What a page says of an error: what happened, and what to do."""

import os
from dataclasses import dataclass

import typer
from botocore.exceptions import BotoCoreError
from werkzeug.exceptions import HTTPException

from tidegate.cli.failures import EXPECTED, advice_for
from tidegate.cli.verbs import USAGE_ERROR

AGAIN = "A stack that was started again has other ports: then end `tidegate ui` with Ctrl-C, and start it again."


@dataclass(frozen=True, slots=True)
class Trouble:
    """An error as a page: its HTTP status, what happened, and what to do. `bug`: the terminal has the rest."""

    status: int
    heading: str
    text: str
    advice: tuple[str, ...] = ()
    bug: bool = False


def trouble(error: Exception) -> Trouble:
    match error:
        case HTTPException():
            return Trouble(error.code or 500, error.name, str(error.description or ""))
        case typer.BadParameter() | USAGE_ERROR():
            return Trouble(400, "This cannot be asked", str(error))
        case BotoCoreError():
            return Trouble(
                503, "AWS cannot be called", str(error), ("Check AWS_PROFILE, AWS_DEFAULT_REGION and ~/.aws.",)
            )
        case _ if isinstance(error, EXPECTED):
            return Trouble(503, "The deployment did not answer", str(error), _advice(error))
    return Trouble(
        500,
        "This is a mistake in Tidegate",
        f"{type(error).__name__}. The terminal in which `tidegate ui` runs shows where.",
        bug=True,
    )


def _advice(error: Exception) -> tuple[str, ...]:
    advice = advice_for(error)
    local = any(name.startswith("AWS_ENDPOINT_URL") for name in os.environ)
    return (*((advice,) if advice else ()), *((AGAIN,) if local else ()))
