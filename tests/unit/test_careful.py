"""Careful mode: whatever a file does to the process that decodes it, only this file is refused."""

import datetime
import json
import os
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import deadly
from tests.support.deadly import DeadlyDecoding, DeadlyReader, DiesMidway, other_pieces, pieces, some_pieces
from tidegate.core.manifests import OwnedUpload
from tidegate.core.outcomes import Outcome, Read
from tidegate.core.receipts import Failure, decode_failure, reads_carefully
from tidegate.core.routes import Dataset
from tidegate.core.uploads import Upload
from tidegate.formats.reasons import Undecodable
from tidegate.formats.said import said_of
from tidegate.formats.streams import HeldBytes
from tidegate.reading import careful as module
from tidegate.reading import reader as reading
from tidegate.reading.careful import Limits, Supervisor, limits_for, machine_memory
from tidegate.reading.decoding import Decoding, Refused

DATASET = Dataset("lake.raw.t", "unused", "json", max_object_bytes=1_000_000)
SCHEMA = pa.schema([("id", pa.int64()), ("text", pa.string())])
GENEROUS = Limits(memory=1 << 30, seconds=60)


def row(number: int, text: bytes = b"") -> bytes:
    return json.dumps({"id": number, "text": text.decode()}).encode()


@pytest.fixture
def supervisor() -> Any:
    with Supervisor(DeadlyDecoding(DATASET, SCHEMA), GENEROUS) as made:
        yield made


def ids(table: Any) -> list[int]:
    assert isinstance(table, pa.Table), table
    return list(table["id"].to_pylist())


def test_what_can_be_decoded_is_decoded_as_in_ordinary_mode(supervisor: Supervisor) -> None:
    plain = Decoding(DATASET, SCHEMA)
    for key, body in (("a.json", row(1)), ("b.json", b"{"), ("c.json", b""), ("d.json.gz", b"no gzip")):
        assert supervisor(key, body) == plain(key, body)


@pytest.mark.parametrize(("how", "said"), [(deadly.CRASH, "SIGABRT"), (deadly.EXIT, "it ended with code 3")])
def test_a_file_that_kills_its_reader_is_refused_and_the_next_one_is_decoded(
    supervisor: Supervisor, how: bytes, said: str
) -> None:
    assert ids(supervisor("a.json", row(1))) == [1]
    refused = supervisor("b.json", row(2, how))
    assert isinstance(refused, Refused)
    assert refused.reason == f"its reader died of it, 2 times, alone in a process: {said}"
    assert ids(supervisor("c.json", row(3))) == [3]


def test_a_file_after_one_that_damaged_the_child_gets_a_second_chance(tmp_path: Path) -> None:
    """The child dies at the second file because of the first: alone in a new one it is decoded."""
    with Supervisor(Damaged(DATASET, SCHEMA), GENEROUS) as supervisor:
        assert ids(supervisor("a.json", row(1))) == [1]
        assert ids(supervisor("b.json", row(2))) == [2]


class Damaged(Decoding):
    """Its process dies at the second file, whatever that is."""

    def __call__(self, key: str, body: bytes) -> pa.Table | Refused:
        if "used" in self.__dict__:
            os.abort()
        self.__dict__["used"] = True
        return super().__call__(key, body)


def test_a_file_that_needs_too_much_memory() -> None:
    with Supervisor(DeadlyDecoding(DATASET, SCHEMA), Limits(memory=1 << 29, seconds=60)) as supervisor:
        refused = supervisor("a.json", row(1, deadly.GROW))
        assert isinstance(refused, Refused)
        assert refused.reason.endswith(f"it needs more than {1 << 29} bytes of memory")
        assert ids(supervisor("b.json", row(2))) == [2]


def test_a_file_that_takes_for_ever() -> None:
    with Supervisor(DeadlyDecoding(DATASET, SCHEMA), Limits(memory=1 << 30, seconds=1)) as supervisor:
        refused = supervisor("a.json", row(1, deadly.SPIN))
        assert isinstance(refused, Refused)
        # on a machine that gives it less than a third of a processor, the other limit is met first
        reasons = ("it needs more than 1 seconds of processor time", "it was not done after 3 seconds")
        assert refused.reason.endswith(reasons)
        assert ids(supervisor("b.json", row(2))) == [2]


def test_a_file_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HANGS_AFTER", 1)
    with Supervisor(DeadlyDecoding(DATASET, SCHEMA), Limits(memory=1 << 30, seconds=2)) as supervisor:
        refused = supervisor("a.json", row(1, deadly.SLEEP))
        assert isinstance(refused, Refused)
        assert refused.reason.endswith("it was not done after 2 seconds")


def test_the_time_limit_is_each_file_s_own() -> None:
    """A child lives for many files: together they may take longer than one may."""
    with Supervisor(Busy(DATASET, SCHEMA), Limits(memory=1 << 30, seconds=4)) as busy:
        children = set()
        for number in range(3):
            assert ids(busy("a.json", row(number))) == [number]
            children.add(id(busy._child))
        assert len(children) == 1


class Busy(Decoding):
    def __call__(self, key: str, body: bytes) -> pa.Table | Refused:
        until = time.process_time() + 2
        while time.process_time() < until:
            pass
        return super().__call__(key, body)


@pytest.mark.parametrize("after", [1, 4, 6])
def test_a_child_that_dies_midway_changes_nothing_of_a_large_file(tmp_path: Path, after: int) -> None:
    """Neither rows, nor those set aside, nor their numbers, nor the names that the schema lacks."""
    with Supervisor(DiesMidway(after, tmp_path / "died"), GENEROUS) as supervisor:
        found = list(supervisor.streamed("a.json", HeldBytes(b"x")))
    assert (tmp_path / "died").exists()
    assert [(each.to_pylist(), said_of(each)) for each in found] == [
        (each.to_pylist(), said_of(each)) for each in pieces()
    ]


@pytest.mark.parametrize("second", [some_pieces, other_pieces])
def test_a_second_child_that_finds_something_else_has_the_file_refused(tmp_path: Path, second: Any) -> None:
    """Then nobody knows which rows the file has; and the next file is decoded."""
    dying = DiesMidway(4, tmp_path / "died", second)
    with Supervisor(dying, GENEROUS) as supervisor:
        found = supervisor.streamed("a.json", HeldBytes(b"x"))
        with pytest.raises(Undecodable, match="was decoded twice, with different rows"):
            list(found)
        assert len(list(supervisor.streamed("b.json", HeldBytes(b"x")))) == len(second())


def test_no_child_is_left_behind(supervisor: Supervisor) -> None:
    supervisor("a.json", row(1))
    child = supervisor._child
    assert child is not None
    supervisor.__exit__()
    assert child._process.exitcode is not None


class TestTheLimits:
    def test_they_grow_with_the_largest_file(self) -> None:
        assert limits_for(Dataset("t", "s", "json"), machine_memory=1 << 40) == Limits(24 * 128_000_000, 60 + 128)

    def test_half_of_the_memory_is_left_to_others(self) -> None:
        assert limits_for(Dataset("t", "s", "json"), machine_memory=2_000_000_000).memory == 1_000_000_000

    def test_the_memory_of_a_container_counts(self, tmp_path: Path) -> None:
        limit = tmp_path / "memory.max"
        limit.write_text("1048576\n")
        assert machine_memory(limit) == 1 << 20
        limit.write_text("max\n")
        assert machine_memory(limit) == machine_memory(tmp_path / "absent") > 1 << 20


FAILURES = st.lists(
    st.none() | st.builds(Failure, st.just(1), st.just("why"), st.just(False), st.just(False), st.booleans())
)


class TestWhen:
    @given(FAILURES, st.booleans())
    def test_after_two_deaths_or_one_before_the_last_attempt(self, earlier: list[Failure | None], last: bool) -> None:
        deaths = [each for each in earlier if each is None or each.died]
        assert reads_carefully(earlier, last=last) == (len(deaths) >= 2 or (last and len(deaths) == 1))

    def test_an_outage_is_no_death(self) -> None:
        refused = Failure(1, "the catalog did not answer", hopeless=False)
        assert not reads_carefully([refused] * 4, last=True)

    def test_reports_of_earlier_versions_say_nothing_of_a_death(self) -> None:
        body = b'{"v": 1, "attempt": 1, "reason": "why", "hopeless": false, "undecided": false}'
        assert not decode_failure(body).died
        assert decode_failure(Failure(1, "why", False, died=True).encode()).died


def test_the_reader_quarantines_what_kills_its_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    bodies = {"in/a": row(1), "in/b": row(2, deadly.CRASH), "in/c": row(3)}
    monkeypatch.setattr(reading, "fetch", lambda upload, *_: bodies[upload.key])
    items = [OwnedUpload("n1", Upload("landing", key, "v1", len(body))) for key, body in bodies.items()]
    begun = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
    ended: dict[int, Read] = {}
    reader = DeadlyReader(DATASET, SCHEMA, "B1", begun, careful=True)
    batches = list(reader.read(list(enumerate(items)), ended.__setitem__))
    assert pa.Table.from_batches(batches)["id"].to_pylist() == [1, 3]
    assert [ended[each].outcome for each in range(3)] == [
        Outcome.COMMITTED,
        Outcome.QUARANTINED,
        Outcome.COMMITTED,
    ]
