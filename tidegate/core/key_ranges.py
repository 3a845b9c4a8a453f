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


EVERY_KEY = KeyRange("", None)


def cut(keys: KeyRange, boundaries: Iterable[str]) -> list[KeyRange]:
    """The range as ranges between the boundaries that are in it, in order."""
    begins = [keys.begin, *sorted({each for each in boundaries if keys.has(each) and each != keys.begin})]
    return [KeyRange(begin, end) for begin, end in zip(begins, [*begins[1:], keys.end], strict=True)]


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


def divided(keys: KeyRange, prefix: str, look: KeysAfter, *, wanted: int, looks: int) -> list[KeyRange]:
    """The range of keys under `prefix` as about `wanted` ranges, found with at most so many `looks`."""

    def within(after: str) -> FirstKeys:
        page = look(max(after, just_before(keys.begin)))
        beyond = any(map(keys.is_after, page.keys))
        return FirstKeys(tuple(filter(keys.has, page.keys)), page.ends or beyond)

    return cut(keys, find_boundaries(prefix, within, wanted=wanted, looks=looks))


def find_boundaries(prefix: str, look: KeysAfter, *, wanted: int, looks: int) -> list[str]:
    """Texts with which keys under `prefix` begin: about `wanted` of them, found with at most so many `looks`.

    Breadth first: what all keys have in common after the prefix, and which characters follow that; then the same of
    each of these. What fits on one page stays whole.
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
    """The texts with which keys that begin with `text` begin, one character longer than what all these keys have in
    common; none if they fit on a page. And how many looks it took. If `looks` do not suffice, the last texts are
    missing, and the last that was found stands for their keys too."""
    page = look(just_before(text))
    used = 1
    if _is_all(page, text):
        return [], used
    if under := _under(page, text):
        # they are in order
        text, more = _in_common(text, _common(under[0], under[-1]), look, looks - used)
        used += more
    longer: list[str] = []
    while True:
        under = _under(page, text)
        longer += [each for each in dict.fromkeys(key[: len(text) + 1] for key in under) if each not in (text, *longer)]
        if used >= looks or _is_all(page, text):
            return longer, used
        last = page.keys[-1]
        # step over what begins as the last key does
        step = last[: len(text) + 1]
        page = look(last if not last.startswith(text) or step == text else max(last, _past(step)))
        used += 1


def _in_common(text: str, longest: str, look: KeysAfter, looks: int) -> tuple[str, int]:
    """The beginning that all keys under `text` have in common, of which that of the first ones is `longest`, and how
    many looks it took: a dozen at the most. With fewer `looks` it is too short."""
    least, most = len(text), len(longest)
    probe, used = most, 0
    while least < most and used < looks:
        page = look(_past(longest[:probe]))
        used += 1
        if others := _under(page, text):
            most = min(probe - 1, len(_common(longest, others[0])))
        elif page.ends or page.keys:
            least = probe
        else:
            break
        probe = (least + most + 1) // 2
    return longest[:least], used


def _common(one: str, other: str) -> str:
    """What both begin with."""
    differing = (at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    return one[: next(differing, min(len(one), len(other)))]


def _under(page: FirstKeys, text: str) -> list[str]:
    return [key for key in page.keys if key.startswith(text)]


def _is_all(page: FirstKeys, text: str) -> bool:
    """Whether no key under `text` follows the page."""
    last = page.keys[-1] if page.keys else ""
    return page.ends or not page.keys or (last > text and not last.startswith(text))


def _past(text: str) -> str:
    """A text that sorts after nearly every key that begins with `text`, and before the others; `text` itself if there
    is none that is as short as a key may be."""
    past = text + LARGEST
    return past if len(past.encode()) <= LONGEST_KEY else text
