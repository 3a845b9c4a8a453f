"""The words and marks of Spark's DDL."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tidegate.schemas.types import TextSpan


@dataclass(frozen=True, slots=True)
class Token:
    kind: str
    text: str
    at: TextSpan


_TOKENS = re.compile(
    # as Spark has them: other white space is none, and a backslash at the end of a line continues a comment
    r"(?P<space>[ \r\n\t]+|--(?:\\\n|[^\r\n])*)"
    r"|(?P<quoted>`(?:[^`]|``)*`)"
    r"|(?P<literal>[rR]?'(?:[^'\\]|\\.|'')*'|[rR]?\"(?:[^\"\\]|\\.|\"\")*\")"
    r"|(?P<word>\w+)"
    r"|(?P<mark>[(),:<>])"
    r"|(?P<other>.)",
    re.DOTALL,
)


_EDGES = re.compile(r"/\*(?!\+)|\*/")
"""Of a comment. What begins with `/*+` is a hint, and no comment, for Spark."""


def tokens_of(text: str) -> Iterator[Token]:
    at = 0
    while at < len(text):
        end = _comment_end(text, at)
        if end is None:
            yield Token("unclosed", text[at:], TextSpan(at, at + 2))
            return
        found = _TOKENS.match(text, at) if end == at else None
        if found and found.lastgroup != "space":
            yield Token(str(found.lastgroup), found[0], TextSpan(*found.span()))
        at = found.end() if found else end


def _comment_end(text: str, at: int) -> int | None:
    """Where the comment ends that begins here, with those within it; None if one of them is not closed. `at` itself if
    none begins here."""
    found = _EDGES.match(text, at)
    if not found or found[0] == "*/":
        return at
    depth = 0
    for edge in _EDGES.finditer(text, at):
        depth += -1 if edge[0] == "*/" else 1
        if depth == 0:
            return edge.end()
    return None
