"""Where in a file it is refused: the line that an editor shows, cut; the row group; the block. And that nothing but the
outcomes has it."""

import csv
import io
import logging
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support.build import route
from tidegate.core.outcomes import Outcome, Tally
from tidegate.core.receipts import Ending, Outcomes, decode_outcomes
from tidegate.formats.decode import decoder
from tidegate.formats.places import QUOTED, line, line_number, quoted, run_of
from tidegate.formats.quotes import check_quotes
from tidegate.formats.reasons import Undecodable
from tidegate.reading.decoding import Decoding, Refused

IDS = pa.schema([("id", pa.int64()), ("day", pa.date32())])
ID = pa.schema([("id", pa.int64())])


def where(format: str, body: bytes, schema: pa.Schema = IDS, **options: Any) -> str:
    with pytest.raises(Undecodable) as refused:
        decoder(format, schema, options.items())(body)
    return refused.value.where


# ---- lines


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"id": 1}\n{"id": "x"}\n', 'line 2: {"id": "x"}'),
        (b'\n\n{"id": 1}\r\n \n{"id": 2\r\n{"id": 3}', 'line 5: {"id": 2'),
        (b"null", "line 1: null"),
        (b'{"id": 1}\n\n{"day": "2024-2-3"}\n', 'line 3: {"day": "2024-2-3"}'),
        (b'{"id": 1}\n{"id": 9223372036854775808}\n{"id": 3}', 'line 2: {"id": 9223372036854775808}'),
        (b'{"id": 1}\n\xff\n', r"line 2: \xff"),
        (b'{"other": 1}\n', ""),
    ],
)
def test_the_line_of_json(body: bytes, expected: str):
    assert where("json", body) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"id,day\n1,2024-01-01\nx,2024-01-01\n", "line 3: x,2024-01-01"),
        (b"\xef\xbb\xbf\r\n\nid,day\n\n1,\n\n2,2024-2-3\n", "line 7: 2,2024-2-3"),
        (b'id,day,note\n1,,"a\nb"\n\n2,x,"c\nd"\n3,,', r'line 5: 2,x,"c\nd"'),
        (b"id,day\r1,\r2,x\r", "line 3: 2,x"),
        (b"id,day\n1,\n1,2,3\n", "line 3: 1,2,3"),
        (b'id,day\n\n\n"1",\n"\n1"\n', r'line 5: "\n1"'),
        (b"id,day\n1,x", "line 2: 1,x"),
        (b"name,other\n1,2\n", "line 1: name,other"),
        (b"\nid,id\n1,2\n", "line 2: id,id"),
        (b'id,day\n1,"x\n2,y\n3,"z\n4,w\n', 'line 4: 3,"z'),
        (b'id,day\r\n1,2\r\n1,"2\r\n', 'line 3: 1,"2'),
        (b"id,day\n1,\n\xff,\n", r"line 3: \xff,"),
    ],
)
def test_the_line_of_csv(body: bytes, expected: str):
    assert where("csv", body) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [(b"id\n1\n\n\nx\n", "line 5: x"), (b"\nid\n\n1,2\n", "line 4: 1,2"), (b"id\n\n x", "line 3:  x")],
)
def test_a_blank_line_is_a_row_of_one_column(body: bytes, expected: str):
    assert where("csv", body, ID) == expected


def test_another_delimiter():
    assert where("csv", b'id|day\n1|"2024-01-01"\n|x,"y\n', delimiter="|") == 'line 3: |x,"y'


CELLS = st.text('",;|\n\r aé', max_size=6)


@given(st.lists(st.tuples(CELLS, CELLS), max_size=8), st.integers(0, 8), st.sampled_from(["\n", "\r\n", "\r"]))
@example([("a", "b"), ("", "")], 1, "\n")
@settings(max_examples=300)
def test_the_line_of_csv_is_the_one_that_the_csv_module_reads(rows: list[tuple[str, str]], at: int, end: str):
    at = min(at, len(rows))
    # an unquoted line end would end the line
    values = [["1", *each] for each in rows]
    values.insert(at, ["MARK", "", ""])
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator=end, quoting=csv.QUOTE_ALL).writerows([["id", "b", "c"], *values])
    body = text.getvalue().encode()
    begins = line_number(body, body.index(b"MARK"))
    assert where("csv", body, pa.schema([("id", pa.int64()), ("b", pa.string())])) == f'line {begins}: "MARK","",""'


@given(st.text('",ab\n\r', max_size=20), st.integers(0, 20))
def test_a_line_has_the_number_that_python_gives_it(text: str, place: int):
    body = text.encode()
    place = min(place, len(body))
    if body[:place].endswith(b"\r") and body[place:].startswith(b"\n"):
        return  # within the end of a line
    before = text[:place].replace("\r\n", "\n").replace("\r", "\n")
    assert line_number(body, place) == before.count("\n") + 1


def test_a_line_is_cut_and_cannot_move_the_cursor():
    assert quoted(b"\x1b[31mred\x07\t\r\x00") == r"\x1b[31mred\x07\t\r\x00"
    assert quoted("\u202eevil\u200b \u2028é".encode()) == r"\u202eevil\u200b \u2028é"
    assert quoted(b"x" * QUOTED) == "x" * QUOTED
    assert quoted(b"x" * (QUOTED + 1)) == "x" * QUOTED + "..."
    assert quoted("😀".encode() * 10_000) == "😀" * QUOTED + "..."
    assert quoted(b"x" * (QUOTED - 1) + b"\n") == "x" * (QUOTED - 1) + "..."
    assert line(7, b"\xff\xfe") == r"line 7: \xff\xfe"


@given(st.binary(max_size=3_000))
def test_what_is_quoted_is_bounded_and_printable(body: bytes):
    said = quoted(body)
    assert len(said) <= QUOTED + 3
    assert said.isprintable()


# ---- row groups and blocks


def parquet(table: pa.Table, group: int, **options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, row_group_size=group, **options)
    return sink.getvalue()


def test_the_row_group_of_parquet():
    large = pa.table({"id": pa.array([*range(24), 2**63], pa.uint64())})
    assert where("parquet", parquet(large, 10), ID) == "row group 3, rows 21 to 25"
    texts = pa.table({"id": pa.array(["x"] * 25)})
    assert where("parquet", parquet(texts, 10), ID) == "", "it is the type that is refused"
    required = pa.schema([pa.field("id", pa.int64(), nullable=False)])
    nulls = pa.table({"id": pa.array([*range(14), None, *range(10)], pa.int64())})
    assert where("parquet", parquet(nulls, 10), required) == "row group 2, rows 11 to 20"


def test_the_row_group_that_is_damaged():
    table = pa.table({"id": pa.array(range(30_000), pa.int64())})
    body = bytearray(parquet(table, 10_000, compression="zstd", use_dictionary=False))
    column = pq.read_metadata(io.BytesIO(body)).row_group(1).column(0)
    begin = column.data_page_offset + 40
    body[begin : begin + 200] = bytes(200)
    assert where("parquet", bytes(body), ID) == "row group 2"


def avro(*blocks: list[Any]) -> bytes:
    """A file with these values of `id`, by block."""
    schema = {"type": "record", "name": "r", "fields": [{"name": "id", "type": ["null", "long"]}]}
    sink = io.BytesIO()
    writer = fastavro._write_py.Writer(sink, fastavro.parse_schema(schema), sync_interval=1 << 30)
    for values in blocks:
        for value in values:
            writer.write({"id": value})
        writer.dump()
    return sink.getvalue()


def test_the_block_of_avro():
    small = pa.schema([("id", pa.int32())])
    assert where("avro", avro([1, 2], [3], [4, 2**40, 5]), small) == "block 3, rows 4 to 6"
    body = avro([1, 2], [3])
    sync = body[-16:]
    assert where("avro", body[: -len(sync)] + bytes(16), ID) == "block 2"
    # the union's branch of the last row is one that there is not
    second = body.rindex(b"\x02\x06" + sync)
    assert where("avro", body[:second] + b"\x08\x06" + sync, ID) == "block 2"


def test_runs_of_rows():
    assert [run_of("block", row, [2, 0, 3]) for row in range(6)] == [
        *["block 1, rows 1 to 2"] * 2,
        *["block 3, rows 3 to 5"] * 3,
        "",
    ]


# ---- what has it, and what has not


def test_the_outcomes_have_it_and_say_nothing_where_nothing_is_known():
    known = Ending("n", "b", "k", "v", Outcome.QUARANTINED, "no", "line 3: é")
    unknown = Ending("n", "b", "k", "v", Outcome.QUARANTINED, "no")
    outcomes = Outcomes(7, False, Tally(quarantined=2), (known, unknown), "digest")
    assert decode_outcomes(outcomes.encode()) == outcomes
    assert "where" not in unknown.as_dict()


def test_a_quoted_line_is_in_no_log(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.DEBUG)
    refused = Decoding(route().dataset, ID)("a.json", b'{"id": 1}\n{"id": 2, "secret": "hush"}}\n')
    assert isinstance(refused, Refused)
    assert refused.where == 'line 2: {"id": 2, "secret": "hush"}}'
    assert "hush" not in refused.reason + caplog.text


def test_the_quotes_of_a_whole_file_are_checked_with_its_blank_lines():
    with pytest.raises(Undecodable, match="the quote in line 3 is opened"):
        check_quotes(b'\n\n"a', ",")
