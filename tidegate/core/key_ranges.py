"""A bucket's keys as ranges, which are listed beside each other.

The ranges cover every key and do not overlap, whatever the boundaries are. So the boundaries may be guesses: a bad
guess makes one range longer than the others, and loses nothing. Keys are in the order of their UTF-8 bytes, as S3 lists
them; Python compares strings by code points, which is the same order.
"""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

LARGEST = "\U0010ffff"
LONGEST_KEY = 1_024
"""Bytes (https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-keys.html)."""
_SURROGATES = range(0xD800, 0xE000)
"""They are no characters: no key has one."""


@dataclass(frozen=True, slots=True)
class KeyRange:
    """The keys from `begin` on, and before `end`; None for no end."""

    begin: str
    end: str | None

    def has(self, key: str) -> bool:
        return self.begin <= key and not self.is_after(key)

    def is_after(self, key: str) -> bool:
        """Whether `key` follows the range."""
        return self.end is not None and key >= self.end


def key_ranges(boundaries: Iterable[str]) -> list[KeyRange]:
    """The ranges between the boundaries, in order: the first begins at the first key, the last has no end."""
    begins = ["", *sorted({each for each in boundaries if each})]
    return [KeyRange(begin, end) for begin, end in zip(begins, [*begins[1:], None], strict=True)]


def just_before(key: str) -> str:
    """A text that sorts before `key`, and after nearly every key that does: a listing that goes on after it begins with
    `key`, or with a few others before it. Empty for the beginning."""
    if not key:
        return ""
    rest, last = key[:-1], ord(key[-1])
    if last == 0:
        return rest
    lower = last - 1
    if lower in _SURROGATES:
        lower = _SURROGATES.start - 1
    close = rest + chr(lower)
    # as long as a key may be: S3 may refuse a longer marker
    return close + LARGEST if len((close + LARGEST).encode()) <= LONGEST_KEY else close


@dataclass(frozen=True, slots=True)
class FirstKeys:
    """The keys of one page of a listing. `ends`: no key follows."""

    keys: tuple[str, ...]
    ends: bool


KeysAfter = Callable[[str], FirstKeys]
"""The first keys that follow this text, under the prefix that is split."""


def find_boundaries(prefix: str, look: KeysAfter, *, wanted: int, looks: int) -> list[str]:
    """Texts with which keys under `prefix` begin: about `wanted` of them, found with at most so many `looks`.

    Breadth first: which characters follow the prefix, then which follow each of these. What fits on one page stays
    whole.
    """
    whole: list[str] = []
    to_split = deque([prefix])
    left = looks
    while to_split and left > 0 and len(whole) + len(to_split) < wanted:
        text = to_split.popleft()
        longer, used = _split(text, look, left)
        left -= used
        if longer:
            to_split.extend(longer)
        else:
            whole.append(text)
    return [*whole, *to_split]


def _split(text: str, look: KeysAfter, looks: int) -> tuple[list[str], int]:
    """The texts, one character longer, with which keys that begin with `text` begin; none if these keys fit on a page.
    And how many looks it took. If `looks` do not suffice, the last texts are missing, and the last that was found
    stands for their keys too."""
    longer: list[str] = []
    after, used = just_before(text), 0
    while used < looks:
        page = look(after)
        used += 1
        under = [key for key in page.keys if key.startswith(text)]
        longer += [each for each in dict.fromkeys(key[: len(text) + 1] for key in under) if each not in (text, *longer)]
        last = page.keys[-1] if page.keys else ""
        if page.ends or not page.keys or (last > text and not last.startswith(text)):
            return ([] if used == 1 else longer), used
        # step over what begins as the last key does
        step = last[: len(text) + 1]
        after = last if not last.startswith(text) or step == text else max(last, step + LARGEST)
    return longer, used
