"""Parquet in splits: whole row groups. The footer says how many rows each has."""

from collections.abc import Sequence

import pyarrow as pa

from tidegate.formats.parquet_stream import footer, tables
from tidegate.formats.reasons import Undecodable
from tidegate.formats.splits import GroupSplitter, Splitter, StoredGroup
from tidegate.formats.streams import ByteSource


def make_splitter(schema: pa.Schema) -> Splitter:
    return GroupSplitter(_row_groups, lambda stream, chosen: tables(stream, schema, chosen))


def _row_groups(source: ByteSource) -> Sequence[StoredGroup]:
    about = footer(source)
    # the columns of a group would say what is stored, and damaged ones end the process (pyarrow 26.0.1)
    found = (about.row_group(number) for number in range(about.num_row_groups))
    groups = [StoredGroup(group.num_rows, max(0, group.total_byte_size)) for group in found]
    if sum(group.rows for group in groups) != about.num_rows:
        raise Undecodable(f"the footer names {about.num_rows} rows, and other numbers for the row groups")
    return groups
