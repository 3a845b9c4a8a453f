"""Lanes: the message groups over which the notices of a route are spread.

A queue hands out a message group to one function at a time. The lane follows from the notice's id, so every delivery
and every repeat of a notice is in the same lane, as long as the setting stays. Nothing depends on that: the ledger
decides, whoever asks it and in which order (docs/adr/0059-lanes.md).
"""

from tidegate.core.notices import Notice

MOST_LANES = 16
"""All lanes register in the route's one open batch. With more, most of their transactions would conflict."""


def group_of(notice: Notice, lanes: int) -> str:
    """The notice's message group. The first lane has the name of the route, so a route with one lane has that alone. A
    route's name has no slash."""
    lane = int(notice.id, 16) % lanes
    return f"{notice.route}/{lane}" if lane else notice.route
