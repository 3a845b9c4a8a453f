"""A large file is read range by range, of exactly the claimed version, and its ending is reported after its rows."""

import datetime
import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pytest

from tests.support.streaming import RANGE, StreamingReader, all_is_large
from tidegate.core.manifests import OwnedUpload
from tidegate.core.outcomes import Outcome, Read
from tidegate.core.routes import Dataset
from tidegate.core.uploads import Upload
from tidegate.flows.sink import Staged
from tidegate.formats.reasons import Undecodable
from tidegate.formats.streams import ByteSource, HeldBytes
from tidegate.reading import ranges
from tidegate.reading import reader as reading
from tidegate.reading.careful import CHANCES, Limits, Supervisor
from tidegate.reading.decoding import Decoding, Larger, Refused
from tidegate.reading.fetch import Fetched, Missed, TooLarge, Unreadable, Withheld
from tidegate.reading.ranges import GoneMeanwhile, NotHandedOut, Ranges
from tidegate.sinks.iceberg.spoiled import without_spoiled

DATASET = Dataset("lake.raw.t", "unused", "json")
SCHEMA = pa.schema([("id", pa.int64()), ("text", pa.string())])
BEGUN = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)


def lines(count: int) -> bytes:
    return b"".join(json.dumps({"id": number, "text": "x" * 40}).encode() + b"\n" for number in range(count))


@dataclass
class Bucket:
    """What S3 hands out; `later` is its answer to all but the first `so_many` ranges, if there is one."""

    body: bytes
    later: Any = None
    so_many: int = 3
    asked: int = 0

    def fetch(self, upload: Upload, max_bytes: int, owner: str = "") -> Fetched:
        return TooLarge(len(self.body)) if len(self.body) > max_bytes else self.body

    def fetch_range(self, upload: Upload, start: int, end: int, owner: str = "") -> Fetched:
        self.asked += 1
        if self.later is not None and self.asked > self.so_many:
            if isinstance(self.later, Exception):
                raise self.later
            found: Fetched = self.later
            return found
        return self.body[start:end]


SETTING_ASIDE = replace(DATASET, options=(("bad_rows_share", 0.5),))


@pytest.mark.parametrize(
    ("body", "later"),
    [
        (b'{"id": "x"}\n' + lines(100), Missed(Outcome.VANISHED, "gone")),
        (b'{"id": "x"}\n' * 60 + lines(40), None),
    ],
    ids=["gone midway", "too many are bad"],
)
def test_rejected_rows_of_a_file_that_lands_no_more_are_read_to_its_fault(
    monkeypatch: pytest.MonkeyPatch, body: bytes, later: Any
):
    """The rows of its neighbours are read; whoever counts them finds that some are missing."""
    bad_of_next = b'{"id": "y"}\n' + lines(1)
    bodies = {"in/a.json": Bucket(body, later), "in/b.json": Bucket(bad_of_next)}
    monkeypatch.setattr(reading, "fetch", lambda upload, *rest: bodies[upload.key].fetch(upload, *rest))
    monkeypatch.setattr(ranges, "fetch_range", lambda upload, *rest: bodies[upload.key].fetch_range(upload, *rest))
    items = [OwnedUpload("n1", Upload("landing", key, "v1", len(each.body))) for key, each in bodies.items()]
    reader = StreamingReader(SETTING_ASIDE, SCHEMA, "B1", BEGUN)
    with all_is_large():
        found = [row for batch in reader.read_rejected(list(enumerate(items))) for row in batch.to_pylist()]
    assert found[-1]["_source_uri"] == "s3://landing/in/b.json"


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[list[dict[str, Any]], dict[int, Read]]]:
    def reads(bucket: Bucket, dataset: Dataset = DATASET, *, careful: bool = False) -> Any:
        monkeypatch.setattr(reading, "fetch", bucket.fetch)
        monkeypatch.setattr(ranges, "fetch_range", bucket.fetch_range)
        ended: dict[int, Read] = {}
        item = OwnedUpload("n1", Upload("landing", "in/a.json", "v1", len(bucket.body)))
        reader = StreamingReader(dataset, SCHEMA, "B1", BEGUN, careful=careful)
        rows = [row for batch in reader.read([(0, item)], ended.__setitem__) for row in batch.to_pylist()]
        return rows, ended

    return reads


@pytest.mark.parametrize("careful", [False, True])
def test_the_rows_of_a_large_file_have_their_numbers(read: Any, careful: bool):
    rows, ended = read(Bucket(lines(100)), careful=careful)
    assert [(row["id"], row["_source_row"]) for row in rows] == [(each, each) for each in range(100)]
    assert ended == {0: Read(Outcome.COMMITTED, 100)}


@pytest.mark.parametrize("most", [1, 7, 100])
def test_a_file_of_many_rows_gets_its_lineage_in_portions(read: Any, monkeypatch: pytest.MonkeyPatch, most: int):
    monkeypatch.setattr(reading, "LINEAGE_ROWS", most)
    monkeypatch.setattr(reading, "STORED_BYTES", 1 << 20)
    for body in (lines(100), lines(5)):
        rows, _ = read(Bucket(body))
        assert [(row["id"], row["_source_row"]) for row in rows] == [(row, row) for row in range(body.count(b"\n"))]
        assert {(row["_source_uri"], row["_source_version"]) for row in rows} == {("s3://landing/in/a.json", "v1")}


def test_the_uris_of_one_portion_fit_into_a_column_of_text():
    longest = Upload("b" * 63, "k" * 1024, "v1", 1).uri
    assert reading.LINEAGE_ROWS * len(longest) < 1 << 31


def test_the_report_comes_after_the_rows(monkeypatch: pytest.MonkeyPatch):
    bucket = Bucket(lines(100))
    monkeypatch.setattr(reading, "fetch", bucket.fetch)
    monkeypatch.setattr(ranges, "fetch_range", bucket.fetch_range)
    ended: dict[int, Read] = {}
    item = OwnedUpload("n1", Upload("landing", "in/a.json", "v1", len(bucket.body)))
    batches = StreamingReader(DATASET, SCHEMA, "B1", BEGUN).read([(0, item)], ended.__setitem__)
    assert next(batches).num_rows
    assert ended == {}
    assert sum(batch.num_rows for batch in batches)
    assert ended[0].rows == 100


@pytest.mark.parametrize("careful", [False, True])
def test_a_bad_last_row_spoils_it_and_a_bad_first_one_does_not(read: Any, careful: bool):
    rows, ended = read(Bucket(lines(100) + b'{"id": "x"}'), careful=careful)
    assert rows
    assert (ended[0].outcome, ended[0].spoiled) == (Outcome.QUARANTINED, True)
    assert ended[0].where == 'line 101: {"id": "x"}'
    rows, ended = read(Bucket(b'{"id": "x"}\n' + lines(100)), careful=careful)
    assert rows == []
    assert (ended[0].outcome, ended[0].spoiled) == (Outcome.QUARANTINED, False)


@pytest.mark.parametrize("outcome", [Outcome.VANISHED, Outcome.SUPERSEDED])
def test_what_is_gone_midway_is_spoiled_and_no_fault_of_its_content(read: Any, outcome: Outcome):
    _, ended = read(Bucket(lines(100), Missed(outcome, "gone")))
    assert ended == {0: Read(outcome, 0, "gone", spoiled=True)}


@pytest.mark.parametrize("careful", [False, True])
@pytest.mark.parametrize("outcome", [Outcome.VANISHED, Outcome.SUPERSEDED])
def test_what_is_gone_before_its_first_range_is_not_spoiled(read: Any, outcome: Outcome, careful: bool):
    _, ended = read(Bucket(lines(100), Missed(outcome, "gone"), so_many=0), careful=careful)
    assert ended == {0: Read(outcome, 0, "gone")}


@pytest.mark.parametrize("later", [ConnectionError("reset"), Withheld("AccessDenied"), Unreadable("archived"), b"cut"])
def test_what_s3_does_not_hand_out_midway_is_no_ending(read: Any, later: Any):
    """The task fails, and is run again: an OSError is not taken for a broken file."""
    with pytest.raises((ConnectionError, NotHandedOut)):
        read(Bucket(lines(100), later))


@pytest.mark.parametrize("name", ["a.json.gz", "a.json.zst", "a.json.bz2"])
def test_an_error_of_the_network_is_not_taken_for_broken_compression(name: str):
    class Breaks(HeldBytes):
        def read(self, start: int, end: int) -> bytes:
            raise ConnectionResetError("reset")

    with pytest.raises(ConnectionResetError):
        list(Decoding(DATASET, SCHEMA).streamed(name, Breaks(b"x" * 100)))
    with pytest.raises(ConnectionResetError):
        list(Decoding(Dataset("t", "s", "parquet"), SCHEMA).streamed("a", Breaks(b"x" * 100)))


def test_a_file_over_the_route_s_limit_is_refused_unread(read: Any):
    bucket = Bucket(lines(100))
    rows, ended = read(bucket, Dataset("t", "s", "json", max_object_bytes=2_000))
    assert rows == []
    assert ended[0].error == f"too large: {len(bucket.body)} bytes, at most 2000 (max_object_bytes)"
    assert bucket.asked == 0


@pytest.mark.parametrize("body", [lines(1), lines(100)], ids=["small", "large"])
def test_a_file_whose_own_name_no_path_can_hold_is_refused(monkeypatch: pytest.MonkeyPatch, body: bytes):
    """The table may be partitioned by the lineage. The rows of its neighbours land."""
    bucket = Bucket(body)
    monkeypatch.setattr(reading, "fetch", bucket.fetch)
    monkeypatch.setattr(ranges, "fetch_range", bucket.fetch_range)
    ended: dict[int, Read] = {}
    keys = ["in/" + "x" * 300, "in/y"]
    items = [OwnedUpload("n1", Upload("landing", key, "v1", len(body))) for key in keys]
    reader = StreamingReader(replace(DATASET, partition_by=("_source_uri AS file",)), SCHEMA, "B1", BEGUN)
    batches = list(reader.read(list(enumerate(items)), ended.__setitem__))
    assert sum(batch.num_rows for batch in batches) == body.count(b"\n") == ended[1].rows
    assert ended[0].error.startswith("the table is partitioned by column _source_uri, and file=s3")


def test_each_range_is_asked_for_once(read: Any):
    bucket = Bucket(lines(100))
    read(bucket)
    assert bucket.asked == -(-len(bucket.body) // RANGE)


def test_a_range_that_was_fetched_ahead_in_vain_changes_nothing(monkeypatch: pytest.MonkeyPatch):
    body = bytes(range(250))
    bucket = Bucket(body)
    monkeypatch.setattr(ranges, "fetch_range", bucket.fetch_range)
    with Ranges(Upload("landing", "k", "v1", 250), 250) as source:
        for start, end in ((0, 10), (200, 250), (10, 20), (20, 25), (25, 26), (26, 250), (0, 1)):
            assert source.read(start, end) == body[start:end]


def test_an_error_crosses_processes():
    import pickle

    error = GoneMeanwhile(Missed(Outcome.VANISHED, "gone"))
    assert pickle.loads(pickle.dumps(error)).missed == error.missed


# ---- what is small as stored


def test_what_becomes_too_large_to_be_whole_is_decoded_piece_by_piece(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tidegate.reading.decoding.WHOLE_BYTES", 1000)
    decoding = Decoding(DATASET, SCHEMA)
    body = lines(100)
    assert decoding("a.json", body) == Larger()
    assert sum(table.num_rows for table in decoding.streamed("a.json", HeldBytes(body))) == 100
    refused = Decoding(Dataset("t", "s", "json", max_object_bytes=900), SCHEMA)("a.json", body)
    assert isinstance(refused, Refused)
    assert "too large" in refused.reason


# ---- careful


class DiesAt(Decoding):
    """Its process dies when it has decoded 50 rows."""

    def streamed(self, key: str, source: ByteSource) -> Iterator[pa.Table]:
        rows = 0
        for table in super().streamed(key, source):
            rows += table.num_rows
            if rows > 50:
                os.abort()
            yield table


GENEROUS = Limits(memory=1 << 30, seconds=60)


def test_what_kills_its_reader_midway_is_refused():
    with Supervisor(SmallPieces(DiesAt(DATASET, SCHEMA)), GENEROUS) as supervisor:
        emitted = []
        try:
            for table in supervisor.streamed("a.json", HeldBytes(lines(100))):
                emitted += table["id"].to_pylist()
        except Undecodable as error:
            reason = str(error)
        assert reason == f"its reader died of it, {CHANCES} times, alone in a process: SIGABRT"
        assert 0 < len(emitted) <= 50
        assert emitted == list(range(len(emitted)))
        assert supervisor("b.json", lines(2)).num_rows == 2  # type: ignore[union-attr]


@dataclass(frozen=True)
class SmallPieces:
    decoding: Decoding

    def __call__(self, key: str, body: bytes) -> Any:
        return self.decoding(key, body)

    def streamed(self, key: str, source: ByteSource) -> Iterator[pa.Table]:
        from tests.support.streaming import all_is_large

        with all_is_large():
            yield from self.decoding.streamed(key, source)


# ---- staging again

GOOD, BAD = Read(Outcome.COMMITTED, 5), Read(Outcome.QUARANTINED, 0, "bad")
SPOILED = Read(Outcome.QUARANTINED, 0, "bad at its end", spoiled=True)


def staged_of(stagings: Sequence[dict[str, Read | None]]) -> tuple[Staged, list[list[str]]]:
    """`without_spoiled` of the files a, b and c, of which the stagings read what is given."""
    seen: list[list[str]] = []

    def stage(items: Sequence[OwnedUpload]) -> Staged:
        reads = {at: stagings[len(seen)][item.upload.key] for at, item in enumerate(items)}
        seen.append([item.upload.key for item in items])
        return Staged(len(seen), sum(read.rows for read in reads.values() if read), reads)

    items = [OwnedUpload("n", Upload("landing", key, "v", 1)) for key in "abc"]
    return without_spoiled(items, stage), seen


def test_without_a_spoiled_file_it_is_staged_once():
    assert staged_of([{"a": GOOD, "b": BAD, "c": GOOD}]) == (
        Staged(1, 10, {0: GOOD, 1: BAD, 2: GOOD}),
        [["a", "b", "c"]],
    )


def test_a_spoiled_file_is_left_out_and_what_is_known_is_not_read_again():
    staged, seen = staged_of([{"a": SPOILED, "b": BAD, "c": GOOD}, {"c": GOOD}])
    assert staged == Staged(2, 5, {0: SPOILED, 1: BAD, 2: GOOD})
    assert seen == [["a", "b", "c"], ["c"]]


def test_what_changes_between_the_stagings_ends_as_the_last_one_finds_it():
    gone = Read(Outcome.VANISHED, 0, "gone", spoiled=True)
    staged, seen = staged_of([{"a": SPOILED, "b": GOOD, "c": GOOD}, {"b": gone, "c": GOOD}, {"c": GOOD}])
    assert staged == Staged(3, 5, {0: SPOILED, 1: gone, 2: GOOD})
    assert seen == [["a", "b", "c"], ["b", "c"], ["c"]]


def test_all_spoiled_leaves_an_empty_staging():
    staged, seen = staged_of([{"a": SPOILED, "b": SPOILED, "c": SPOILED}, {}])
    assert staged == Staged(2, 0, {0: SPOILED, 1: SPOILED, 2: SPOILED})
    assert seen[1] == []


def test_a_contradiction_is_told_at_once():
    staged, seen = staged_of([{"a": SPOILED, "b": None, "c": GOOD}])
    assert staged.reads[1] is None
    assert len(seen) == 1


# ---- memory


def test_the_memory_for_a_file_does_not_grow_with_it():
    """400 MB are read in a process that never holds more than some ranges and pieces."""
    done = subprocess.run(
        [sys.executable, "-c", "from tests.unit.test_large_files import grown; print(grown(400_000_000))"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(done.stdout) < 200_000_000


def grown(size: int) -> int:
    """By how many bytes the memory of this process grows while it reads a file of this size."""
    line = json.dumps({"id": 7, "text": "x" * 1000}).encode() + b"\n"
    block = line * 10_000
    count = size // len(block)

    class Repeated:
        size = count * len(block)

        def read(self, start: int, end: int) -> bytes:
            skipped = start % len(block)
            return (block * (2 + (end - start) // len(block)))[skipped : skipped + end - start]

    decoding = Decoding(DATASET, SCHEMA)
    assert sum(table.num_rows for table in decoding.streamed("a.json", HeldBytes(line))) == 1
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert sum(table.num_rows for table in decoding.streamed("a.json", Repeated())) == count * 10_000
    return 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
