"""How deep a line of JSON nests.

The decoders give up at a depth that depends on how many functions have called each other by then. So the same line
could be taken by one reading of a file and refused by another. A limit of our own, far below that, is the same for all.
"""

import re

import numpy as np

DEEPEST = 200
"""Lists and objects within each other, the line's own object included. Nobody's data nests as deep by intent."""
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*+"?|[\[{]|[\]}]', re.DOTALL)


def first_deep_line(text: bytes) -> int | None:
    """The number of the first line, from 0, that nests deeper than `DEEPEST`; None if none does. Most texts cost a
    search for two characters: only a line with so many of them is looked at."""
    codes = np.frombuffer(text, np.uint8)
    opens = np.flatnonzero((codes | 0x20) == ord("{"))  # [ and { differ in that bit
    if len(opens) <= DEEPEST:
        return None
    ends = np.flatnonzero(codes == ord("\n"))
    line_of = np.searchsorted(ends, opens)
    # the opening that is `DEEPEST` further on is in the same line
    many = np.unique(line_of[:-DEEPEST][line_of[:-DEEPEST] == line_of[DEEPEST:]])
    starts = np.concatenate([[0], ends + 1])
    for line in many.tolist():
        end = int(ends[line]) if line < len(ends) else len(text)
        if _depth(text[int(starts[line]) : end]) > DEEPEST:
            return int(line)
    return None


def _depth(line: bytes) -> int:
    """How deep a line nests, up to what is no JSON in it."""
    if b"\\" not in line:
        codes = np.frombuffer(line, np.uint8)
        outside = np.cumsum(codes == ord('"')) % 2 == 0
        steps = ((codes | 0x20) == ord("{")).astype(np.int32) - ((codes | 0x20) == ord("}"))
        return int(np.cumsum(np.where(outside, steps, 0)).max(initial=0))
    depth = deepest = 0
    for found in _TOKEN.finditer(line):
        first = line[found.start()]
        depth += (first | 0x20) == ord("{")
        depth -= (first | 0x20) == ord("}")
        deepest = max(deepest, depth)
    return deepest
