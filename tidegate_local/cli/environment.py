"""What a shell is told of the local stack: assignments for `eval`, and words for a person."""

import shlex
from collections.abc import Mapping

from tidegate.cli.command import this_command
from tidegate.environment import CATALOG_URI, WAREHOUSE
from tidegate_local.environment import process_environment

TABLES = (CATALOG_URI, WAREHOUSE)
"""What is true of a folder whether or not a stack runs in it."""


def script(ambient: Mapping[str, str], wanted: Mapping[str, str]) -> str:
    """The lines that give a shell with the variables `ambient` those that are `wanted`, and take away all that would
    lead past them: a profile or a session token of an account, endpoints and resources of another stack."""
    unwanted = sorted(ambient.keys() - process_environment(ambient, wanted).keys())
    return "\n".join(
        [
            *(f"unset {name}" for name in unwanted),
            *(f"export {name}={shlex.quote(value)}" for name, value in sorted(wanted.items())),
        ]
    )


def what_is_left(left: Mapping[str, str]) -> str:
    """What a shell has that evaluated the environment `left` of a folder without a stack, and how to get out of it."""
    tables = [name for name in TABLES if name in left]
    has = (
        f"Left are {' and '.join(tables)}: `{this_command()} sql` asks the tables that are there."
        if tables
        else "Nothing is left: no stack was ever started there."
    )
    return (
        f"{has} All other TIDEGATE_ variables are unset: there is no ledger, no queue and no bucket."
        " AWS_ENDPOINT_URL leads nowhere, and the credentials are no account's, so no call of this shell reaches AWS."
        " To work with an account again, use a new shell."
    )
