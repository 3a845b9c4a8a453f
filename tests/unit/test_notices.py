"""Notices: sets of uploads whose id is their content."""

import contextlib
import itertools
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.build import BUCKET, ETAG, notice, upload, uploads
from tidegate.core.errors import Rejected
from tidegate.core.notices import MAX_BYTES, MOST_OBJECT_BYTES, Entry, Notice, decode, make_notice, pack, pack_entries
from tidegate.core.uploads import Upload

TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
UPLOADS = st.builds(
    Upload,
    st.just(BUCKET),
    TEXT,
    st.sampled_from(["v1", "v2", f"etag:{ETAG}"]),
    st.integers(0, 2**60),
    st.sampled_from(["", "0055AED6DCD90281E5"]),
)
MANY = st.lists(UPLOADS, min_size=1, max_size=12, unique_by=lambda each: each.identity)
OWNERS = st.sampled_from(["", "0" * 40, "f" * 40])


# ---- the id


@given(MANY, st.randoms())
def test_the_id_depends_on_neither_order_nor_repeats(of: list[Upload], random: Any):
    shuffled = of + random.sample(of, random.randint(0, len(of)))
    random.shuffle(shuffled)
    assert notice(*shuffled) == notice(*of)


@given(MANY, MANY)
def test_different_sets_have_different_ids(one: list[Upload], other: list[Upload]):
    same = {(each.identity, each.sequencer) for each in one} == {(each.identity, each.sequencer) for each in other}
    assert (notice(*one).id == notice(*other).id) == same


def test_the_size_is_a_hint_and_does_not_change_the_id():
    assert notice(Upload(BUCKET, "k", "v", 1, "A")).id == notice(Upload(BUCKET, "k", "v", 2, "A")).id


def test_the_same_bytes_uploaded_again_are_another_notice():
    first, again = (notice(Upload(BUCKET, "k", "etag:0", 1, sequencer)) for sequencer in ("00A1", "00A2"))
    assert first.id != again.id


@pytest.mark.parametrize("order", [("00A1", "00A2"), ("00A2", "00A1"), ("", "00A2"), ("00A2", "")])
def test_of_the_same_bytes_notified_twice_the_later_upload_stays(order: tuple[str, str]):
    (entry,) = notice(*(Upload(BUCKET, "k", "etag:0", 1, sequencer) for sequencer in order)).entries
    assert entry.upload.sequencer == "00A2"


def test_the_same_uploads_of_another_origin_are_another_notice():
    origins = ("s3", "audit:2026-11-21", "audit:2026-11-22", "resend:01")
    assert len({notice("k", origin=origin).id for origin in origins}) == len(origins)


def test_the_same_uploads_on_another_route_are_another_notice():
    assert notice("k", route="one").id != notice("k", route="two").id


def test_the_owner_to_take_from_is_part_of_the_id():
    assert len({notice("k", takes_from=owner).id for owner in ("", "a" * 40, "b" * 40)}) == 3


def test_the_parts_of_an_id_cannot_be_cut_differently():
    ids = {
        make_notice("ab", "c", "d", [Entry(Upload("c", "k", "v", 1))]).id,
        make_notice("a", "bc", "d", [Entry(Upload("bc", "k", "v", 1))]).id,
        make_notice("a", "b", "cd", [Entry(Upload("b", "k", "v", 1))]).id,
        make_notice("a", "b", "c", [Entry(Upload("b", "dk", "v", 1))]).id,
        make_notice("a", "b", "c", [Entry(Upload("b", "d", "kv", 1))]).id,
    }
    assert len(ids) == 5


def test_the_id_is_pinned_for_ledgers_remember_it():
    assert notice("flights/a.json", "flights/b.json").id == "6444962112b2a8037aee5ad05d66e23c06122e72"


def test_the_same_version_twice_is_one_upload():
    assert len(notice("k", "k", "l").entries) == 2


@pytest.mark.parametrize("of", [[], [upload("k", bucket="elsewhere")], [upload("k"), upload("k", bucket="elsewhere")]])
def test_a_notice_needs_uploads_all_of_its_bucket(of: list[Upload]):
    with pytest.raises(ValueError, match="route flights"):
        make_notice("flights", BUCKET, "s3", [Entry(each) for each in of])


# ---- on the wire


@given(MANY, TEXT, TEXT, st.data())
def test_what_is_encoded_is_decoded(of: list[Upload], route: str, origin: str, data: st.DataObject):
    sent = make_notice(route, BUCKET, origin, [Entry(each, data.draw(OWNERS)) for each in of])
    assert decode(sent.encode()) == sent


@given(MANY)
def test_the_same_notice_is_always_the_same_ascii_text(of: list[Upload]):
    text = notice(*of).encode()
    assert text.isascii()
    assert text == notice(*reversed(of)).encode()


def _rewritten(change: Callable[[dict[str, Any]], Any]) -> str:
    data = json.loads(notice("a", "b", takes_from="0" * 40).encode())
    change(data)
    return json.dumps(data)


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.update(id="0" * 40),
        lambda data: data.update(id=data["id"].upper()),
        lambda data: data.update(id=None),
        lambda data: data.update(route="other"),
        lambda data: data.update(bucket="other"),
        lambda data: data.update(origin="audit:1"),
        lambda data: data["uploads"].append(["c", "v1", 10, ""]),
        lambda data: data["uploads"].pop(),
        lambda data: data["uploads"][0].__setitem__(0, "c"),
        lambda data: data["uploads"][0].__setitem__(1, "v2"),
        lambda data: data["uploads"][0].__setitem__(4, "1" * 40),
        lambda data: data["uploads"][0].pop(4),
    ],
)
def test_a_notice_that_was_tampered_with_is_rejected(change: Callable[[dict[str, Any]], Any]):
    body = _rewritten(change)
    with pytest.raises(Rejected, match="its content says"):
        decode(body)


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.pop("v"),
        lambda data: data.pop("id"),
        lambda data: data.pop("route"),
        lambda data: data.pop("bucket"),
        lambda data: data.pop("origin"),
        lambda data: data.pop("uploads"),
        lambda data: data.update(uploads=[]),
        lambda data: data.update(uploads=None),
        lambda data: data.update(uploads=[[]]),
        lambda data: data.update(uploads=["abcd"]),
        lambda data: data.update(uploads=[None]),
        lambda data: data["uploads"][0].__setitem__(0, 5),
        lambda data: data["uploads"][0].__setitem__(1, None),
        lambda data: data["uploads"][0].__setitem__(2, "10"),
    ],
)
def test_what_lacks_a_part_or_has_one_of_a_wrong_type_is_rejected(change: Callable[[dict[str, Any]], Any]):
    body = _rewritten(change)
    with pytest.raises(Rejected, match=r"the message is not a notice|the notice has an upload that is none: ."):
        decode(body)


def test_whoever_finds_a_message_set_aside_reads_what_it_lacks():
    with pytest.raises(Rejected, match=r"not a notice \(KeyError: 'origin'\)"):
        decode(_rewritten(lambda data: data.pop("origin")))


@pytest.mark.parametrize("body", ["", "{", "null", "5", "[]", '"text"', "{}", '{"v": 1}'])
def test_what_is_no_notice_is_rejected(body: str):
    with pytest.raises(Rejected):
        decode(body)


def test_json_nested_too_deeply_to_be_read_is_rejected():
    depth = 100_000
    with pytest.raises(Rejected):
        decode("[" * depth + "]" * depth)


def test_a_notice_of_a_later_version_is_rejected_and_says_which():
    body = _rewritten(lambda data: data.update(v=2))
    with pytest.raises(Rejected, match="the notice has version 2; this code reads 1: newer code wrote it, deploy that"):
        decode(body)


@given(st.recursive(st.none() | st.integers() | st.text(), lambda inner: st.lists(inner), max_leaves=5))
def test_whatever_json_comes_it_is_a_notice_or_rejected(value: Any):
    # either way: no other error
    for change in (
        lambda data: data.update(uploads=value),
        lambda data: data.update(uploads=[[value, value, value, value]]),
        lambda data: data.update(route=value),
        lambda data: data.update(bucket=value),
        lambda data: data.update(v=value),
    ):
        with contextlib.suppress(Rejected):
            decode(_rewritten(change))


PINNED = [Upload("landing", "a b+c.json", "v1", 10), Upload("landing", "é.json", "v2", 20, "0055AED6")]
PINNED_UPLOADS = '"uploads":[["a b+c.json","v1",10,""],["\\u00e9.json","v2",20,"0055AED6"]]}'


def test_the_wire_format_is_pinned_for_queues_hold_it_while_code_is_deployed():
    body = (
        '{"v":1,"id":"c445f715a6ba6fec46a55cbf23dec030b5a5d4d7","route":"flights","bucket":"landing","origin":"s3",'
        + PINNED_UPLOADS
    )
    assert notice(*PINNED).encode() == body
    assert decode(body) == notice(*PINNED)


# ---- packing


def packed(of: list[Upload], max_bytes: int = MAX_BYTES, **other: str) -> list[Notice]:
    return list(pack("flights", BUCKET, of, max_bytes=max_bytes, **other))


@given(MANY, st.integers(0, 2000))
def test_packing_loses_nothing_and_repeats_nothing(of: list[Upload], max_bytes: int):
    found = packed(of, max_bytes, origin="audit:1")
    carried = [entry.upload for each in found for entry in each.entries]
    assert sorted(carried, key=lambda each: each.identity) == sorted(of, key=lambda each: each.identity)
    assert {(each.route, each.bucket, each.origin) for each in found} == {("flights", BUCKET, "audit:1")}


@given(MANY, st.integers(400, 2000), TEXT)
def test_no_notice_is_larger_than_allowed(of: list[Upload], max_bytes: int, origin: str):
    for each in packed(of, max_bytes, origin=origin):
        assert len(each.encode().encode()) <= max_bytes or len(each.entries) == 1


@given(MANY, st.integers(0, 2000), st.randoms())
def test_the_same_set_packs_into_the_same_notices(of: list[Upload], max_bytes: int, random: Any):
    shuffled = random.sample(of, len(of))
    assert packed(shuffled, max_bytes) == packed(of, max_bytes)


@given(MANY, st.integers(0, 2000))
def test_a_notice_is_begun_only_when_the_one_before_is_full(of: list[Upload], max_bytes: int):
    found = packed(of, max_bytes)
    for one, following in itertools.pairwise(found):
        joined = notice(*(entry.upload for entry in (*one.entries, following.entries[0])))
        # the room kept for the envelope is a little more than it needs
        files = sum(entry.upload.size for entry in joined.entries)
        assert len(joined.encode()) > max_bytes - 20 or files > MOST_OBJECT_BYTES


def test_what_fits_into_one_message_travels_in_one():
    of = uploads(200)
    encoded = len(notice(*of).encode())
    # what is kept free does not grow with the uploads
    assert len(packed(of, encoded + 20)) == 1
    assert len(packed(of, encoded - 1)) == 2


def test_a_thousand_uploads_travel_in_one_message():
    assert len(packed(uploads(1000))) == 1


def test_the_longest_keys_travel_two_hundred_to_a_message():
    of = [upload("k" * 1019 + f"{number:05}") for number in range(1000)]
    found = packed(of)
    assert len(found) == 5
    assert all(len(each.encode()) <= MAX_BYTES for each in found)


def test_the_longest_key_of_the_widest_characters_fits():
    # escaped as JSON an emoji of 4 bytes takes 12
    (only,) = packed([upload("😀" * 256)])
    assert len(only.encode()) <= MAX_BYTES


def test_no_uploads_make_no_notice():
    assert packed([]) == []


@given(MANY, st.integers(400, 2000), st.data())
def test_entries_that_take_over_are_packed_with_their_owners(of: list[Upload], max_bytes: int, data: st.DataObject):
    entries = [Entry(each, data.draw(OWNERS)) for each in of]
    found = list(pack_entries("flights", BUCKET, entries, origin="again", max_bytes=max_bytes))
    carried = [entry for each in found for entry in each.entries]
    assert sorted(carried, key=lambda each: each.upload.identity) == sorted(
        entries, key=lambda each: each.upload.identity
    )
    assert all(len(each.encode()) <= max_bytes or len(each.entries) == 1 for each in found)
    assert {each.origin for each in found} == {"again"}


def test_a_notice_of_large_files_names_few():
    large = [replace(each, size=MOST_OBJECT_BYTES // 2) for each in uploads(5)]
    assert [len(each.entries) for each in packed(large)] == [2, 2, 1]
    huge = [replace(each, size=3 * MOST_OBJECT_BYTES) for each in uploads(2)]
    assert [len(each.entries) for each in packed(huge)] == [1, 1]


def test_a_packed_notice_is_the_one_that_anybody_would_make():
    assert packed(uploads(3)) == [notice(*uploads(3))]
    assert packed(uploads(3), origin="audit:1") == [notice(*uploads(3), origin="audit:1")]


# ---- how old


def test_a_notice_is_as_old_as_its_oldest_upload_and_says_so_wherever_it_is_read():
    made = make_notice(
        "flights", BUCKET, "s3", [Entry(replace(upload("a"), at=30)), Entry(replace(upload("b"), at=20))]
    )
    assert (made.at, decode(made.encode()).at) == (20, 20)
    assert make_notice("flights", BUCKET, "s3", [Entry(upload("a"))]).at == 0
    assert make_notice("flights", BUCKET, "s3", [Entry(replace(upload("a"), at=30))], at=40).at == 40


def test_the_age_is_no_part_of_the_id():
    young, old = (make_notice("flights", BUCKET, "s3", [Entry(upload("a"))], at=at) for at in (10, 20))
    assert young.id == old.id
    assert decode(old.encode()).id == old.id


@pytest.mark.parametrize("at", ["yesterday", -1, 1.5, None, True])
def test_an_age_that_is_none_is_refused(at: Any):
    message = {**json.loads(notice("a").encode()), "at": at}
    with pytest.raises(Rejected, match="which is no time"):
        decode(json.dumps(message))


def test_what_is_too_old_takes_nothing_new_along():
    of = [replace(upload("flights/old.json"), at=1_000), *(replace(each, at=90 * 86_400) for each in uploads(99))]
    assert [len(each.entries) for each in packed(of)] == [1, 99]
    assert [each.at for each in packed(of)] == [1_000, 90 * 86_400]


@pytest.mark.parametrize(
    "fields", [["k", "v", 1, None], ["k", "v", 1, 5], ["k", "v", 1, "", 7], ["\ud800", "v", 1, ""]]
)
def test_an_upload_of_wrong_types_is_refused(fields: list[Any]):
    message = {**json.loads(notice("a").encode()), "uploads": [fields]}
    with pytest.raises(Rejected):
        decode(json.dumps(message))
