"""ORC in splits: whole stripes. The footer says how many rows each has."""

from collections.abc import Sequence

import pyarrow as pa

from tidegate.formats.orc import checked_tail, streamed_stripes
from tidegate.formats.splits import GroupSplitter, Splitter, StoredGroup
from tidegate.formats.streams import ByteSource


def make_splitter(schema: pa.Schema) -> Splitter:
    return GroupSplitter(_stripes, lambda stream, chosen: streamed_stripes(stream, schema, chosen))


def _stripes(source: ByteSource) -> Sequence[StoredGroup]:
    groups: list[StoredGroup] = []
    begin = 0
    for stripe in checked_tail(source).stripes:
        groups.append(StoredGroup(stripe.rows, max(0, stripe.end - begin)))
        begin = stripe.end
    return groups
