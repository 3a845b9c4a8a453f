"""What of a long page fits a terminal, so that the top of it does not scroll away."""

from collections.abc import Sequence


def fitted(blocks: Sequence[Sequence[str]], urgent: Sequence[bool], room: int) -> tuple[list[str], int]:
    """The lines of the blocks that fit so many lines, and how many blocks are left out.

    If not all of them fit, the urgent ones come first, and a line is kept for how many are left out. The first is cut
    if even that does not fit.
    """
    lines = [line for block in blocks for line in block]
    if len(lines) <= room:
        return lines, 0
    order = sorted(range(len(blocks)), key=lambda each: not urgent[each])
    lines = []
    for shown, each in enumerate(order):
        if shown and len(lines) + len(blocks[each]) > room - 1:
            return lines, len(order) - shown
        lines += blocks[each][: max(0, room - 1)]
    return lines, 0


def cut(lines: Sequence[str], room: int) -> tuple[Sequence[str], int]:
    """The first and the last of the lines, if they do not fit so many: the last one sums them up. And how many are left
    out; a line is kept for that."""
    if len(lines) <= room:
        return lines, 0
    kept = max(0, room - 2)
    return [*lines[:kept], lines[-1]], len(lines) - kept - 1
