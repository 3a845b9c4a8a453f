"""Wrong guesses: words that people type because other tools have them, and what they mean here.

Typer itself proposes what is spelled alike. These are spelled otherwise.
"""

import re
from collections.abc import Collection

from tidegate.cli import printed

VERBS = {
    "local up": ("start", "up", "local start", "local run", "local restart"),
    "local down": ("stop", "down", "local stop", "local kill"),
    "local down --forget": ("local rm", "local clean"),
    "status": ("ps", "jobs", "info", "local status", "local ls"),
    "status --watch": ("watch",),
    "files": ("ls", "list", "uploads"),
    "files --batches": ("history", "batches"),
    "trace": ("find",),
    "sql": ("query", "select", "tables", "shell"),
    "check": ("validate", "lint", "routes"),
    "resume": ("retry",),
    "resend": ("replay", "redrive", "republish"),
    "resend quarantine": ("release",),
    "files --state quarantined": ("quarantine",),
    "audit s3://BUCKET/PREFIX": ("backfill",),
    "audit --tables": ("reconcile",),
    "pause --end": ("unpause",),
    "local demo": ("demo",),
    "--env OUTPUTS": ("env",),
    "abort": ("cancel", "kill"),
    "maintain": ("compact", "vacuum"),
    "cost": ("price",),
    "ui": ("web",),
}
"""A verb, and what people type for it that is none."""

OPTIONS = {
    "--json": ("--format", "--output", "--out", "-o", "-j"),
    "--csv": ("--format", "--output", "--out", "-o"),
    "--watch": ("--follow", "-w"),
    "--every": ("--interval",),
    "--dir": ("--folder", "--directory", "--path", "--stack", "-d"),
    "--yes": ("--force", "-y"),
    "--limit": ("--count", "--max", "-n"),
    "--state": ("--status", "--quarantined", "--failed", "--outcome"),
    "--since": ("--last", "--from"),
    "--until": ("--to", "--before"),
    "--route": ("--name",),
    "--key": ("--glob", "--pattern", "--prefix"),
    "--forget": ("--purge",),
    "--config": ("--file", "-c"),
    "--detach": ("--background",),
}
"""An option, and what people type for it. It is meant only if the verb has it."""


def of_verb(path: str, word: str) -> str:
    """The verb that is meant by this word after `path` ("" or a group); "" if nobody knows."""
    return next((verb for verb, typed in VERBS.items() if f"{path} {word}".strip() in typed), "")


def of_option(option: str, there: Collection[str]) -> str:
    """The options that are meant, of those that are there; "" if nobody knows."""
    return " or ".join(each for each, typed in OPTIONS.items() if option in typed and each in there)


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
