"""JSON lines in splits: a line ends at a line feed, whatever is in it."""

from collections.abc import Iterator, Sequence

import pyarrow as pa

from tidegate.formats import json_stream
from tidegate.formats.json_lines import count_rows
from tidegate.formats.reasons import Undecodable
from tidegate.formats.registry import REPORT
from tidegate.formats.splits import ByteRange, LineSurvey, Split, Splitter, cut_lines, even_ranges, part
from tidegate.formats.streams import RANGE_BYTES, ByteSource, Stream


def make_splitter(schema: pa.Schema, unknown: str = REPORT) -> Splitter:
    return JsonSplitter(schema, unknown)


class JsonSplitter:
    def __init__(self, schema: pa.Schema, unknown: str) -> None:
        self._tables = json_stream.make_streaming(schema, unknown)

    def ranges(self, size: int, most: int) -> list[ByteRange]:
        return even_ranges(size, most)

    def survey(self, source: ByteSource, start: int, end: int) -> LineSurvey:
        first: int | None = None
        end_of_last: int | None = None
        rows = 0
        head, line = False, False
        for begin in range(start, end, RANGE_BYTES):
            text = source.read(begin, min(begin + RANGE_BYTES, end))
            if first is None:
                ended = text.find(b"\n") + 1
                head = head or not text[: ended or None].isspace()
                if not ended:
                    continue
                begin += ended
                first = end_of_last = begin
                text = text[ended:]
            last = text.rfind(b"\n") + 1
            if last:
                ended = text.find(b"\n") + 1
                rows += (line or not text[:ended].isspace()) + count_rows(text[ended:last])
                line = False
                end_of_last = begin + last
            rest = text[last:]
            line = line or not (rest.isspace() or not rest)
        return LineSurvey(first, end_of_last, rows, head, line)

    def weight(self, surveys: Sequence[LineSurvey], size: int) -> int:
        return size

    def cut(self, surveys: Sequence[LineSurvey], size: int, most: int) -> list[Split]:
        return cut_lines(surveys, size)

    def tables(self, stream: Stream, split: Split) -> Iterator[pa.Table]:
        known = False
        for table in self._tables(part(stream, split)):
            known = known or any(column.null_count < table.num_rows for column in table.columns)
            yield table
        if split.rows and not known:
            raise Undecodable("whether any line of the file has a field of the schema is known of the whole file only")
