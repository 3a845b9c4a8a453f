"""The second opinion says what its definition says: clause by clause, then over random histories.

The random histories are played event by event, with buckets and two readers. What either reader lands is right. What
the patient one lands, which lands only what it could read throughout, is all that must be there.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from simulation.checker.second_opinion import FinalRow, Name, ObjectPut, ObjectRemoval, Opinion, read, second_opinion

GOOD = b'{"id": 7}\n{"id": 8}\n'
OTHER = b'{"id": 9}\n'
BAD = b'{"id": 7}\nnonsense\n'


def put(
    number: int, body: bytes = GOOD, *, version: str | None = None, key: str = "a", bucket: str = "landing"
) -> ObjectPut:
    """A put at the second of its number, with a version id of its own unless said otherwise."""
    return ObjectPut(
        number=number,
        at=float(number),
        bucket=bucket,
        key=key,
        version_id=f"v{number}" if version is None else version,
        etag=hashlib.md5(body).hexdigest(),
        body=body,
        sequencer=f"{number:016X}",
    )


def removed(at: float, key: str = "a", bucket: str = "landing") -> ObjectRemoval:
    return ObjectRemoval(at, bucket, key)


def rows_of(*puts: ObjectPut) -> list[FinalRow]:
    return [FinalRow(*each.name, number, value) for each in puts for number, value in enumerate(read(each.body) or [])]


def judge(
    *events: ObjectPut | ObjectRemoval,
    rows: Sequence[FinalRow] = (),
    heard: Mapping[int, int] | None = None,
    given_up: Sequence[ObjectPut] = (),
    unreadable: Sequence[ObjectPut] = (),
    watched: Mapping[str, float] | None = None,
) -> Opinion:
    """Of what is not said otherwise, everything was heard once, and nothing is watched."""
    puts = [event for event in events if isinstance(event, ObjectPut)]
    return second_opinion(
        puts,
        [event for event in events if isinstance(event, ObjectRemoval)],
        {each.number: 1 for each in puts} if heard is None else heard,
        rows,
        {(each.bucket, each.key, each.sequencer) for each in given_up},
        {each.number for each in unreadable},
        watched or {},
    )


def lost(*puts: ObjectPut) -> Opinion:
    return Opinion(lost={each.name for each in puts})


RIGHT = Opinion()
WITHOUT = ["", "null"]
"""What a put says for a version id if it has none of its own."""


# ---- names and files


def test_a_name_is_the_uri_and_the_version_id_or_else_the_etag() -> None:
    assert put(1, key="b/ c%20").name == ("s3://landing/b/ c%20", "v1")
    for version in WITHOUT:
        assert put(1, version=version).name == ("s3://landing/a", f"etag:{hashlib.md5(GOOD).hexdigest()}")


@pytest.mark.parametrize(
    ("body", "ids"),
    [
        (b"", []),
        (b'{"id": 1}', [1]),
        (b'{"id": 1}\n', [1]),
        (b'{"id": 2}\r\n {"id":-1}\n', [2, -1]),
        (b'{"id": 5}\n{"id": 5}\n', [5, 5]),
    ],
)
def test_a_good_file_has_its_ids_in_their_order(body: bytes, ids: list[int]) -> None:
    assert read(body) == ids


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b" ",
        b"nonsense",
        b"1",
        b"null",
        b"[]",
        b'[["id", 1]]',
        b'["id"]',
        b"{}",
        b'{"ID": 1}',
        b'{"id": null}',
        b'{"id": true}',
        b'{"id": 1.0}',
        b'{"id": "1"}',
        b'{"id": {"id": 1}}',
        b'{"id": 1, "more": 2}',
        b'{"id": 1, "id": 1}',
        b'{"id": 1} {"id": 2}',
        b'{"id": 1',
        b'\xff{"id": 1}',
        b'\xef\xbb\xbf{"id": 1}',
        '{"id": 1}'.encode("utf-16"),
        b"[" * 100_000,
        b'{"id": 1' + b"0" * 5_000 + b"}",
    ],
)
def test_one_bad_line_makes_a_file_bad(line: bytes) -> None:
    assert read(line + b"\n") is None
    assert read(b'{"id": 1}\n' + line + b'\n{"id": 2}\n') is None


# ---- whole, once, nobody's


def test_the_rows_of_what_was_heard_are_right() -> None:
    assert judge(put(1), rows=rows_of(put(1))) == RIGHT
    assert judge(put(1), put(2), rows=rows_of(put(1), put(2))) == RIGHT
    assert judge(put(1), heard={1: 3}, rows=rows_of(put(1))) == RIGHT


def test_nothing_is_right_of_nothing() -> None:
    assert judge() == RIGHT


def test_a_row_that_is_there_twice_is_repeated() -> None:
    first, second = rows_of(put(1))
    assert judge(put(1), rows=[first, second, first]) == Opinion(repeated={put(1).name})
    assert judge(put(1), rows=[first, second] * 2) == Opinion(repeated={put(1).name})


def test_a_row_twice_and_another_missing_is_both() -> None:
    first, _ = rows_of(put(1))
    assert judge(put(1), rows=[first, first]) == Opinion(repeated={put(1).name}, torn={put(1).name})


def test_a_row_twice_and_once_with_another_value_is_both() -> None:
    first, second = rows_of(put(1))
    both = Opinion(repeated={put(1).name}, torn={put(1).name})
    assert judge(put(1), rows=[first, second, replace(first, id=99)]) == both


def test_equal_values_in_two_rows_are_no_repetition() -> None:
    twice = put(1, b'{"id": 5}\n{"id": 5}\n')
    assert judge(twice, rows=rows_of(twice)) == RIGHT
    assert judge(twice, rows=rows_of(twice)[:1]) == Opinion(torn={twice.name})


def test_what_is_there_in_part_is_torn() -> None:
    for row in rows_of(put(1)):
        assert judge(put(1), rows=[row]) == Opinion(torn={put(1).name})


def test_values_of_other_rows_are_torn() -> None:
    first, second = rows_of(put(1))
    swapped = [replace(first, id=second.id), replace(second, id=first.id)]
    assert judge(put(1), rows=swapped) == Opinion(torn={put(1).name})


@pytest.mark.parametrize("number", [-1, 2])
def test_a_row_that_the_file_does_not_have_is_torn(number: int) -> None:
    assert judge(put(1), rows=[*rows_of(put(1)), FinalRow(*put(1).name, number, 7)]) == Opinion(torn={put(1).name})


def test_rows_counted_from_one_are_torn() -> None:
    moved = [replace(row, number=row.number + 1) for row in rows_of(put(1))]
    assert judge(put(1), rows=moved) == Opinion(torn={put(1).name})


def test_rows_of_one_upload_under_the_name_of_another_are_torn() -> None:
    first, second = put(1), put(2, OTHER)
    rows = [FinalRow(*second.name, row.number, row.id) for row in rows_of(first)]
    assert judge(first, second, rows=[*rows_of(first), *rows]) == Opinion(torn={second.name})


@pytest.mark.parametrize(
    "name",
    [
        ("s3://landing/a", "v2"),
        ("s3://landing/b", "v1"),
        ("s3://elsewhere/a", "v1"),
        ("s3://landing/a", ""),
        ("s3://landing/a", "null"),
        ("s3://landing/a", put(1, version="").name[1]),
    ],
)
def test_rows_of_no_put_are_foreign_however_often(name: Name) -> None:
    rows = [FinalRow(*name, 0, 7)] * 2
    assert judge(put(1), rows=[*rows_of(put(1)), *rows]) == Opinion(foreign={name})


def test_a_row_by_its_etag_is_foreign_if_its_upload_has_a_version() -> None:
    rows = [replace(row, version=put(1, version="").name[1]) for row in rows_of(put(1))]
    assert judge(put(1), rows=rows) == Opinion(lost={put(1).name}, foreign={put(1, version="").name})


# ---- bad and empty files


def test_a_bad_file_is_right_without_a_row_and_torn_with_any() -> None:
    bad = put(1, BAD)
    assert judge(bad) == RIGHT
    assert judge(bad, rows=[FinalRow(*bad.name, 0, 7)]) == Opinion(torn={bad.name})
    assert judge(bad, rows=[FinalRow(*bad.name, 0, 7)], heard={}) == Opinion(torn={bad.name})
    assert judge(bad, rows=[FinalRow(*bad.name, 0, 7)], given_up=[bad], unreadable=[bad]) == Opinion(torn={bad.name})
    assert judge(bad, rows=[FinalRow(*bad.name, 0, 7)] * 2) == Opinion(torn={bad.name}, repeated={bad.name})


def test_an_empty_file_is_right_without_a_row_and_torn_with_any() -> None:
    empty = put(1, b"")
    assert judge(empty) == RIGHT
    assert judge(empty, rows=[FinalRow(*empty.name, 0, 7)]) == Opinion(torn={empty.name})


# ---- there, and the excuses


@pytest.mark.parametrize("version", ["v1", *WITHOUT])
def test_what_was_heard_and_is_missing_is_lost(version: str) -> None:
    upload = put(1, version=version)
    assert judge(upload) == lost(upload)
    assert judge(upload, heard={1: 2}) == lost(upload)


def test_a_version_is_lost_beside_another_that_is_there() -> None:
    assert judge(put(1), put(2), rows=rows_of(put(2))) == lost(put(1))


@pytest.mark.parametrize("heard", [{}, {1: 0}])
def test_what_was_not_heard_may_be_missing_or_there_whole_and_once(heard: Mapping[int, int]) -> None:
    rows = rows_of(put(1))
    assert judge(put(1), heard=heard) == RIGHT
    assert judge(put(1), heard=heard, rows=rows) == RIGHT
    assert judge(put(1), heard=heard, rows=rows[:1]) == Opinion(torn={put(1).name})
    assert judge(put(1), heard=heard, rows=rows * 2) == Opinion(repeated={put(1).name})


WATCHED = {"landing": 2.0}


@pytest.mark.parametrize("version", [None, *WITHOUT])
def test_what_an_audit_had_to_find_is_lost_if_it_is_missing(version: str | None) -> None:
    one = put(2, version=version)
    assert judge(one, heard={}, watched=WATCHED) == lost(one)
    assert judge(one, heard={}, watched=WATCHED, rows=rows_of(one)) == RIGHT
    assert judge(one, heard={}, watched=WATCHED, given_up=[one]) == RIGHT


@pytest.mark.parametrize("one", [put(1), put(3, bucket="other")])
def test_what_no_audit_watched_may_be_missing(one: ObjectPut) -> None:
    assert judge(one, heard={}, watched=WATCHED) == RIGHT


@pytest.mark.parametrize("version", WITHOUT)
def test_what_was_gone_before_an_audit_may_be_missing(version: str) -> None:
    one = put(2, version=version)
    assert judge(one, removed(3.0), heard={}, watched=WATCHED) == RIGHT
    other = put(3, OTHER, version=version)
    assert judge(one, other, heard={}, watched=WATCHED) == lost(other)


def test_an_audit_finds_a_version_that_was_overwritten_and_deleted() -> None:
    one, other = put(2), put(3, OTHER)
    assert judge(one, other, removed(4.0), heard={}, watched=WATCHED) == lost(one, other)


@pytest.mark.parametrize("version", ["v1", *WITHOUT])
def test_what_cannot_be_read_or_was_given_up_may_be_missing_or_there_whole_and_once(version: str) -> None:
    upload = put(1, version=version)
    rows = rows_of(upload)
    for given_up, unreadable in [([upload], []), ([], [upload])]:
        for there, opinion in [
            ([], RIGHT),
            (rows, RIGHT),
            (rows[:1], Opinion(torn={upload.name})),
            (rows * 2, Opinion(repeated={upload.name})),
        ]:
            assert judge(upload, rows=there, given_up=given_up, unreadable=unreadable) == opinion


def test_giving_up_excuses_the_one_that_it_names() -> None:
    for other in [put(1, key="b"), put(1, bucket="elsewhere"), put(2)]:
        assert judge(put(1), given_up=[other]) == lost(put(1))


@pytest.mark.parametrize("version", WITHOUT)
@pytest.mark.parametrize("end", [put(2, OTHER, version=""), put(2, OTHER, version="null"), put(2, OTHER), removed(2)])
def test_what_was_overwritten_or_deleted_may_be_missing_or_there_whole_and_once(
    version: str, end: ObjectPut | ObjectRemoval
) -> None:
    first = put(1, version=version)
    rest = rows_of(end) if isinstance(end, ObjectPut) else []
    assert judge(first, end, rows=rest) == RIGHT
    assert judge(first, end, rows=[*rows_of(first), *rest]) == RIGHT
    assert judge(first, end, rows=[*rows_of(first)[:1], *rest]) == Opinion(torn={first.name})
    assert judge(first, end, rows=[*rows_of(first) * 2, *rest]) == Opinion(repeated={first.name})


@pytest.mark.parametrize("version", WITHOUT)
def test_what_overwrites_is_not_excused_by_what_it_overwrote(version: str) -> None:
    first, second = put(1, version=version), put(2, OTHER, version=version)
    assert judge(first, second) == lost(second)
    assert judge(removed(1), put(2, version=version)) == lost(put(2, version=version))


@pytest.mark.parametrize("end", [put(2, OTHER), put(2, OTHER, version="null"), removed(2)])
def test_a_version_is_neither_overwritten_nor_deleted(end: ObjectPut | ObjectRemoval) -> None:
    rest = rows_of(end) if isinstance(end, ObjectPut) else []
    assert judge(put(1), end, rows=rest) == lost(put(1))


@pytest.mark.parametrize("version", WITHOUT)
@pytest.mark.parametrize(
    "elsewhere",
    [
        put(2, OTHER, version="", key="b"),
        put(2, OTHER, version="", bucket="elsewhere"),
        removed(2, key="b"),
        removed(2, bucket="elsewhere"),
    ],
)
def test_what_happens_to_other_keys_is_no_excuse(version: str, elsewhere: ObjectPut | ObjectRemoval) -> None:
    first = put(1, version=version)
    rest = rows_of(elsewhere) if isinstance(elsewhere, ObjectPut) else []
    assert judge(first, elsewhere, rows=rest) == lost(first)


def test_a_deletion_at_the_moment_of_the_put_counts_as_later() -> None:
    assert judge(put(1, version=""), removed(1)) == RIGHT
    assert judge(put(1, version=""), removed(0.9)) == lost(put(1, version=""))


def test_a_version_of_the_same_bytes_leaves_an_upload_without_one_readable() -> None:
    first, second = put(1, version=""), put(2)
    assert judge(first, second) == lost(first, second)
    assert judge(first, second, rows=rows_of(first)) == lost(second)


# ---- the same bytes again


A1, B2, A2, A3 = (put(number, body, version="") for number, body in [(1, GOOD), (2, OTHER), (3, GOOD), (4, GOOD)])


def test_the_same_bytes_again_are_there_once() -> None:
    assert judge(A1, A2) == lost(A1)
    assert judge(A1, A2, rows=rows_of(A1)) == RIGHT
    assert judge(A1, A2, rows=rows_of(A1, A2)) == Opinion(repeated={A1.name})
    assert judge(A1, A2, rows=rows_of(A1)[:1]) == Opinion(torn={A1.name})


def test_a_put_before_and_after_suspension_has_one_name() -> None:
    assert judge(A1, put(2, version="null"), rows=rows_of(A1)) == RIGHT


def test_the_same_bytes_again_after_others_or_after_a_deletion_are_there_once() -> None:
    assert judge(A1, B2, A2, rows=rows_of(B2)) == lost(A1)
    assert judge(A1, B2, A2, rows=rows_of(B2, A1)) == RIGHT
    assert judge(A1, removed(2), A2) == lost(A1)
    assert judge(A1, removed(2), A2, removed(4)) == RIGHT


def test_of_the_same_bytes_the_last_one_heard_decides() -> None:
    for heard in [{1: 1}, {3: 1}, {1: 1, 3: 1}, {1: 1, 3: 0}]:
        assert judge(A1, A2, heard=heard) == lost(A1)
        assert judge(A1, A2, heard=heard, rows=rows_of(A1)) == RIGHT
    assert judge(A1, A2, heard={}) == RIGHT
    assert judge(A1, B2, A2, heard={1: 1}) == RIGHT, "the first was overwritten, of the last nobody heard"
    assert judge(A1, removed(2), A2, heard={1: 1}) == RIGHT, "the first was deleted, of the last nobody heard"
    assert judge(A1, B2, A2, heard={3: 1}) == lost(A1)


def test_the_same_bytes_again_after_the_first_was_given_up_are_due() -> None:
    assert judge(A1, A2, given_up=[A1]) == lost(A1)
    assert judge(A1, A2, given_up=[A1], heard={1: 1}) == RIGHT


def test_giving_up_the_last_of_the_same_bytes_excuses_all() -> None:
    assert judge(A1, A2, given_up=[A2]) == RIGHT
    assert judge(A1, A2, given_up=[A2], rows=rows_of(A1)) == RIGHT
    assert judge(A1, A2, A3, given_up=[A2]) == lost(A1)


def test_the_same_bytes_that_can_be_read_again_are_due() -> None:
    assert judge(A1, A2, unreadable=[A1]) == lost(A1)
    assert judge(A1, A2, unreadable=[A1], heard={1: 1}) == RIGHT


@pytest.mark.parametrize("last", [A2, put(3)])
def test_the_same_bytes_that_cannot_be_read_hide_what_they_overwrote(last: ObjectPut) -> None:
    assert judge(A1, last, unreadable=[last]) == RIGHT
    assert judge(A1, last, unreadable=[last], heard={1: 1}) == RIGHT


# ---- what contradicts itself


def test_there_is_no_opinion_about_a_history_that_contradicts_itself() -> None:
    for puts in [
        [put(1), put(1, OTHER, key="b")],
        [put(1, version="v1"), put(2, version="v1")],
        [put(1, version=""), replace(put(2, version=""), body=OTHER)],
    ]:
        with pytest.raises(ValueError, match="same"):
            judge(*puts)
    with pytest.raises(ValueError, match="never were"):
        judge(put(1), heard={2: 1})
    assert judge(put(1), heard={1: 1, 2: 0}, rows=rows_of(put(1))) == RIGHT


# ---- random histories


@dataclass
class History:
    puts: list[ObjectPut] = field(default_factory=list)
    removes: list[ObjectRemoval] = field(default_factory=list)
    order: list[ObjectPut | ObjectRemoval] = field(default_factory=list)
    heard: dict[int, int] = field(default_factory=dict)
    given_up: set[tuple[str, str, str]] = field(default_factory=set)
    unreadable: set[int] = field(default_factory=set)

    def judged(self, rows: Sequence[FinalRow]) -> Opinion:
        return second_opinion(self.puts, self.removes, self.heard, rows, self.given_up, self.unreadable)


class Store:
    """Buckets, as S3 keeps them: the content of each key, and versions that stay."""

    def __init__(self, refused: Set[int]) -> None:
        self.refused = refused
        self.current: dict[tuple[str, str], ObjectPut] = {}
        self.versions: dict[Name, ObjectPut] = {}

    def happen(self, event: ObjectPut | ObjectRemoval) -> None:
        if isinstance(event, ObjectRemoval):
            self.current.pop((event.bucket, event.key), None)
            return
        self.current[event.bucket, event.key] = event
        self.versions[event.name] = event

    def get(self, upload: ObjectPut) -> bytes | None:
        """By its version, or as what the key holds if that has the ETag."""
        if upload.version_id.startswith("v"):
            held = self.versions.get(upload.name)
        else:
            held = self.current.get((upload.bucket, upload.key))
            if held is not None and held.etag != upload.etag:
                held = None
        return None if held is None or held.number in self.refused else held.body


def ids_of(body: bytes) -> list[int]:
    """The bodies below are good, empty, or BAD: no need to read them as the opinion does."""
    return [] if body == BAD else [json.loads(line)["id"] for line in body.splitlines()]


def landed(uploads: Mapping[Name, bytes]) -> list[FinalRow]:
    return [
        FinalRow(*name, number, value) for name, body in uploads.items() for number, value in enumerate(ids_of(body))
    ]


def read_at_once(history: History) -> list[FinalRow]:
    """The table of a reader that reads everything as soon as it is put, heard or not, given up or not."""
    store = Store(history.unreadable)
    uploads: dict[Name, bytes] = {}
    for event in history.order:
        store.happen(event)
        if isinstance(event, ObjectPut) and (body := store.get(event)) is not None:
            uploads.setdefault(event.name, body)
    return landed(uploads)


def readable_throughout(history: History) -> list[FinalRow]:
    """The table of a reader that tries again after each event, and lands what it could read every time to the end.

    Of each name it tries only what was heard of last.
    """
    store = Store(history.unreadable)
    due: dict[Name, ObjectPut] = {}
    failed: set[int] = set()
    for event in history.order:
        store.happen(event)
        if isinstance(event, ObjectPut) and history.heard.get(event.number):
            due[event.name] = event
        failed.update(upload.number for upload in due.values() if store.get(upload) is None)
    return landed(
        {
            name: upload.body
            for name, upload in due.items()
            if upload.number not in failed and (upload.bucket, upload.key, upload.sequencer) not in history.given_up
        }
    )


def names(rows: Sequence[FinalRow]) -> set[Name]:
    return {(row.uri, row.version) for row in rows}


# Most happens to one key, and most there without versions: else nothing is ever overwritten.
places = [("landing", "a")] * 4 + [("landing", "b"), ("other", "a")]
seldom = st.sampled_from([False, False, False, True])


@st.composite
def histories(draw: st.DrawFn) -> History:
    history = History()
    for number in range(1, draw(st.integers(1, 10)) + 1):
        bucket, key = draw(st.sampled_from(places))
        if draw(seldom):
            remove = ObjectRemoval(float(number), bucket, key)
            history.removes.append(remove)
            history.order.append(remove)
            continue
        body = draw(st.sampled_from([GOOD, GOOD, OTHER, BAD, b""]))
        version = draw(st.sampled_from(["", "", "null", None]))
        upload = put(number, body, version=version, key=key, bucket=bucket)
        history.puts.append(upload)
        history.order.append(upload)
        history.heard[number] = draw(st.sampled_from([0, 1, 1, 2]))
        if draw(seldom):
            history.given_up.add((bucket, key, upload.sequencer))
        if draw(seldom):
            history.unreadable.add(number)
    return history


@st.composite
def histories_and_tables(draw: st.DrawFn) -> tuple[History, list[FinalRow]]:
    """A right table with at least one row: all that is due, and of the rest what chance has it."""
    history = draw(histories())
    due = readable_throughout(history)
    rest = [row for row in read_at_once(history) if (row.uri, row.version) not in names(due)]
    kept = draw(st.sets(st.sampled_from(sorted(names(rest))))) if rest else set()
    rows = due + [row for row in rest if (row.uri, row.version) in kept]
    assume(rows)
    return history, rows


@given(histories())
def test_whoever_reads_at_once_or_throughout_is_right(history: History) -> None:
    assert history.judged(read_at_once(history)) == RIGHT
    assert history.judged(readable_throughout(history)) == RIGHT


@given(histories())
def test_of_an_empty_table_all_is_lost_that_could_be_read_throughout(history: History) -> None:
    assert history.judged([]) == Opinion(lost=names(readable_throughout(history)))


@given(histories_and_tables(), st.data())
def test_right_tables_are_right_in_any_order(case: tuple[History, list[FinalRow]], data: st.DataObject) -> None:
    history, rows = case
    assert history.judged(data.draw(st.permutations(rows))) == RIGHT
    assert replace(history, puts=history.puts[::-1], removes=history.removes[::-1]).judged(rows) == RIGHT


@given(histories_and_tables(), st.data())
def test_any_row_once_more_is_repeated(case: tuple[History, list[FinalRow]], data: st.DataObject) -> None:
    history, rows = case
    row = data.draw(st.sampled_from(rows))
    assert history.judged([*rows, row]) == Opinion(repeated={(row.uri, row.version)})


@given(histories_and_tables(), st.data())
def test_any_row_less_is_torn_or_lost_or_was_not_due(case: tuple[History, list[FinalRow]], data: st.DataObject) -> None:
    history, rows = case
    row = data.draw(st.sampled_from(rows))
    name = {(row.uri, row.version)}
    left = [other for other in rows if other != row]
    if name <= names(left):
        assert history.judged(left) == Opinion(torn=name)
    else:
        assert history.judged(left) == Opinion(lost=name & names(readable_throughout(history)))


@given(histories_and_tables(), st.data())
def test_any_other_value_or_place_is_torn(case: tuple[History, list[FinalRow]], data: st.DataObject) -> None:
    history, rows = case
    row = data.draw(st.sampled_from(rows))
    left = [other for other in rows if other != row]
    torn = Opinion(torn={(row.uri, row.version)})
    assert history.judged([*left, replace(row, id=data.draw(st.integers().filter(lambda id: id != row.id)))]) == torn
    assert history.judged([*left, replace(row, number=row.number + 10)]) == torn


@given(histories_and_tables(), st.sampled_from(["s3://landing/c", "s3://nowhere/a", ""]), st.integers(0, 2))
def test_any_row_of_nobody_is_foreign(case: tuple[History, list[FinalRow]], uri: str, number: int) -> None:
    history, rows = case
    assert history.judged([*rows, FinalRow(uri, "v1", number, 7)]) == Opinion(foreign={(uri, "v1")})


@given(histories_and_tables(), st.data())
def test_any_row_of_a_bad_file_is_torn(case: tuple[History, list[FinalRow]], data: st.DataObject) -> None:
    history, rows = case
    bad = [upload for upload in history.puts if upload.body == BAD]
    assume(bad)
    name = data.draw(st.sampled_from(bad)).name
    assert history.judged([*rows, FinalRow(*name, 0, 7)]) == Opinion(torn={name})
