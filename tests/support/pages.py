"""The commands of a page: what a person types who follows it."""

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from textwrap import dedent

HEADING = re.compile(r"^(#{2,4}) (.+)$", re.MULTILINE)
BLOCK = re.compile(r"^( *)```sh\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
"""In a list it is indented."""
INLINE = re.compile(r"`((?:\.venv/bin/)?(?:tidegate|aws) [^`]+)`")
"""A command within a sentence or a table."""


@dataclass(frozen=True, slots=True)
class Section:
    """What is under one heading, up to the next one of any level. `path` has the headings that it is under, too."""

    path: tuple[str, ...]
    text: str

    @property
    def heading(self) -> str:
        return self.path[-1]

    @property
    def steps(self) -> tuple[str, ...]:
        """What is typed, one complete command each, in the order of the page."""
        return tuple(step for _, block in BLOCK.findall(self.text) for step in complete_commands(dedent(block)))


@cache
def sections(page: Path) -> tuple[Section, ...]:
    text = page.read_text()
    found = [(match.start(), match.end(), len(match[1]), match[2]) for match in _headings(text)]
    ends = [start for start, _, _, _ in found[1:]] + [len(text)]
    path: list[tuple[int, str]] = []
    made = []
    for (_, begins, level, heading), ends_at in zip(found, ends, strict=True):
        path = [(depth, name) for depth, name in path if depth < level] + [(level, heading)]
        made.append(Section(tuple(name for _, name in path), text[begins:ends_at]))
    return tuple(made)


def _headings(text: str) -> Iterator[re.Match[str]]:
    """A line of a block may begin with `#` as well."""
    hidden = BLOCK.sub(lambda match: match[0].replace("#", " "), text)
    return HEADING.finditer(hidden)


def inline_commands(text: str) -> Iterator[str]:
    """The commands within sentences, on one line each."""
    outside = re.sub(r"^( *)```.*?^\1```$", "", text, flags=re.MULTILINE | re.DOTALL)
    for command in INLINE.findall(outside):
        yield " ".join(command.removeprefix(".venv/bin/").split())


def complete_commands(block: str) -> Iterator[str]:
    """The commands of a block of shell, whole: with continued lines, and loops up to their end."""
    waiting = ""
    for line in block.splitlines():
        if not waiting and (not line.strip() or line.startswith("#")):
            continue
        waiting += line + "\n"
        if not line.endswith("\\") and _is_complete(waiting):
            yield waiting.strip()
            waiting = ""
    if waiting:
        raise ValueError(f"this is no complete command: {waiting}")


def _is_complete(text: str) -> bool:
    if re.fullmatch(r"[^'\"({\\]*\n", text) and not re.match(r"(for|while|until|if) ", text):
        return True
    return subprocess.run(["bash", "-n", "-c", text], capture_output=True, check=False).returncode == 0
