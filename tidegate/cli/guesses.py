"""Wrong guesses: words that people type because other tools have them, and what they mean here.

Typer itself proposes what is spelled alike. These are spelled otherwise.
"""

import re
from collections.abc import Collection

from tidegate.cli import printed

VERBS = {
    "start": "local up",
    "up": "local up",
    "stop": "local down",
    "down": "local down",
    "local start": "local up",
    "local run": "local up",
    "local restart": "local up",
    "local stop": "local down",
    "local kill": "local down",
    "local rm": "local down --forget",
    "local clean": "local down --forget",
    "local status": "status",
    "local ls": "status",
    "ls": "files",
    "list": "files",
    "uploads": "files",
    "history": "batches",
    "ps": "status",
    "jobs": "status",
    "info": "status",
    "watch": "status --watch",
    "query": "sql",
    "select": "sql",
    "tables": "sql",
    "validate": "check",
    "lint": "check",
    "find": "trace",
    "retry": "resume",
    "replay": "redrive",
    "resend": "redrive",
    "release": "quarantine release",
    "quarantine release-all": "quarantine release",
    "quarantine get": "quarantine show",
    "cancel": "abort",
    "kill": "abort",
    "compact": "maintain",
    "vacuum": "maintain",
    "price": "cost",
    "web": "ui",
}
"""A verb that there is none of, and the one that does that."""

OPTIONS = {
    "--format": ("--json", "--csv"),
    "--output": ("--json", "--csv"),
    "--out": ("--json", "--csv"),
    "-o": ("--json", "--csv"),
    "-j": ("--json",),
    "--follow": ("--watch",),
    "-w": ("--watch",),
    "--interval": ("--every",),
    "--folder": ("--dir",),
    "--directory": ("--dir",),
    "--path": ("--dir",),
    "--stack": ("--dir",),
    "-d": ("--dir",),
    "--force": ("--yes",),
    "-y": ("--yes",),
    "--count": ("--limit",),
    "--max": ("--limit",),
    "-n": ("--limit",),
    "--status": ("--state",),
    "--quarantined": ("--state",),
    "--failed": ("--state",),
    "--last": ("--since",),
    "--from": ("--since",),
    "--to": ("--until",),
    "--before": ("--until",),
    "--name": ("--route",),
    "--glob": ("--key",),
    "--pattern": ("--key",),
    "--prefix": ("--key",),
    "--purge": ("--forget",),
    "--file": ("--config",),
    "-c": ("--config",),
    "--background": ("--detach",),
}
"""An option that a verb does not have, and those that do that, if it has them."""


def of_verb(path: str, word: str) -> str:
    """The verb that is meant by this word after `path` ("" or a group); "" if nobody knows."""
    return VERBS.get(f"{path} {word}".strip(), "")


def of_option(option: str, there: Collection[str]) -> str:
    """The options that are meant, of those that are there; "" if nobody knows."""
    return " or ".join(each for each in OPTIONS.get(option, ()) if each in there)


def better(message: str, path: str, there: Collection[str]) -> str:
    """What Typer says of a wrong word, with what was meant; the same if nobody knows. `path` is the verb, or the group
    of verbs, that met the word, and `there` are its options."""
    if found := re.match(r"No such command '(.*?)'\.", message):
        meant = of_verb(path, found[1])
        return f"{found[0]} Did you mean `tidegate {meant}`?" if meant else message
    if found := re.match(r"No such option: (\S+)", message):
        meant = of_option(found[1], there)
        return f"{found[0]}. Did you mean {meant}?" if meant else message
    if path == "sql" and message.startswith("Got unexpected extra argument"):
        example = printed.runnable("tidegate sql 'select count(*) from ...'")
        return f"the shell has cut the query into words: put it in quotes, as in {example}"
    return message
