"""Key ranges cover every key once, whatever the boundaries; a few looks find boundaries that cut a bucket well."""

from collections import Counter
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.fakes import MemoryListing
from tidegate.core.audit import Marker
from tidegate.core.key_ranges import (
    EVERY_KEY,
    LONGEST_KEY,
    FirstKeys,
    KeyRange,
    cut,
    divided,
    find_boundaries,
    just_before,
)
from tidegate.core.uploads import Upload
from tidegate.flows.ports import ListedPage
from tidegate.flows.screen import listed_in

ENDS = "\x00\x01/aÿ\ud7ff\ue000\uffff\U0010fffe\U0010ffff"
"""Where characters are special, for the order and for what is before them."""
keys = st.one_of(st.text(st.sampled_from(ENDS), min_size=1, max_size=6), st.text(min_size=1, max_size=6))


@given(st.lists(keys), st.lists(keys))
def test_every_key_is_in_one_range(boundaries: list[str], there: list[str]):
    ranges = cut(EVERY_KEY, boundaries)
    for key in there:
        (found,) = [each for each in ranges if each.has(key)]
        assert all(each.is_after(key) == (each.end is not None and each.end <= key) for each in ranges)
        assert found.begin.encode() <= key.encode(), "the order is that of the bytes"


@given(keys, keys)
def test_what_is_just_before_a_key_is_before_it_and_after_what_sorts_lower(key: str, other: str):
    before = just_before(key)
    assert before < key
    assert before.encode() < key.encode()
    if len(other) <= len(key) and other < key and not key.startswith(other):
        assert other <= before


@pytest.mark.parametrize("key", ["k" * LONGEST_KEY, "ä" * (LONGEST_KEY // 2), "a" * (LONGEST_KEY - 3) + "bcd"])
def test_no_marker_is_longer_than_a_key_may_be(key: str):
    assert len(just_before(key).encode()) <= LONGEST_KEY
    assert just_before(key) < key


def looking(there: set[str], prefix: str, size: int, looks: list[str]) -> Callable[[str], FirstKeys]:
    listing = MemoryListing({Upload("landing", key, "v1", 1): 0 for key in there}, size)

    def look(after: str) -> FirstKeys:
        looks.append(after)
        page = listing.page("landing", prefix, Marker(after, "\U0010ffff"), "")
        return FirstKeys(tuple(each.upload.key for each in page.listed), page.after is None)

    return look


@given(
    st.sets(st.text(st.sampled_from("ab/" + ENDS), min_size=1, max_size=5), max_size=60),
    st.sampled_from(["", "a", "a/"]),
    st.integers(1, 5),
    st.integers(1, 40),
    st.integers(1, 50),
)
def test_boundaries_take_no_more_looks_than_they_may_and_are_texts_under_the_prefix(
    there: set[str], prefix: str, size: int, wanted: int, at_most: int
):
    looks: list[str] = []
    under = {key for key in there if key.startswith(prefix)}
    found = find_boundaries(prefix, looking(under, prefix, size, looks), wanted=wanted, looks=at_most)
    assert len(looks) <= at_most
    assert len(set(found)) == len(found)
    assert all(each.startswith(prefix) for each in found)
    sizes = Counter(next(number for number, each in enumerate(cut(EVERY_KEY, found)) if each.has(key)) for key in under)
    assert sizes.total() == len(under)


@pytest.mark.parametrize(
    "layout",
    [
        [
            f"in/{year}/{month:02}/{day:02}/{n}.json"
            for year in (2025, 2026)
            for month in range(1, 13)
            for day in range(1, 29)
            for n in range(5)
        ],
        [f"in/{number * 7919 % 100_003:032x}" for number in range(5_000)],
        [f"in/{number:012}.json.gz" for number in range(5_000)],
        [f"in/tenant={tenant}/{'deep/' * 20}{n}" for tenant in "abcdefgh" for n in range(500)],
        [f"in/{'a-long-common-folder/' * 40}{number * 7919 % 100_003:08x}" for number in range(5_000)],
        [f"in/{'x' * 1_005}{number:012}" for number in range(5_000)],
        [f"in/{'ä' * 400}/{tenant}/{'y' * 180}{n}" for tenant in "abcdefgh" for n in range(500)],
    ],
    ids=["dates", "hashes", "numbers", "tenants", "one folder", "the longest keys", "folders in one"],
)
def test_usual_layouts_are_cut_into_parts_that_are_done_beside_each_other(layout: list[str]):
    looks: list[str] = []
    assert max(len(key.encode()) for key in layout) <= LONGEST_KEY
    found = find_boundaries("in/", looking(set(layout), "in/", 100, looks), wanted=32, looks=400)
    assert max(len(each.encode()) for each in looks) <= LONGEST_KEY, "S3 may refuse a longer marker"
    sizes = Counter(
        next(number for number, each in enumerate(cut(EVERY_KEY, found)) if each.has(key)) for key in layout
    )
    assert max(sizes.values()) <= len(layout) / 4, (len(looks), sorted(sizes.values())[-5:])
    assert len(looks) <= 400


def test_a_small_bucket_takes_one_look():
    looks: list[str] = []
    assert find_boundaries("in/", looking({"in/1", "in/2"}, "in/", 10, looks), wanted=32, looks=400) == ["in/"]
    assert len(looks) == 1


def in_rounds(there: set[Upload], prefix: str, size: int, limits: Sequence[int | None], wanted: int, looks: int):
    """The uploads that each task of each round lists."""
    listing = MemoryListing(dict.fromkeys(there, 0), size)

    def page(after: Marker) -> ListedPage:
        return listing.page("landing", prefix, after, "")

    def look(after: str) -> FirstKeys:
        found = page(Marker(after, LAST))
        return FirstKeys(tuple(each.upload.key for each in found.listed), found.after is None)

    ranges = divided(EVERY_KEY, prefix, look, wanted=wanted, looks=looks)
    for most in limits:
        rest: list[KeyRange] = []
        for keys in ranges:
            yield [each.upload for each in listed_in(keys, page, most, rest)]
        share = len(rest) or 1
        ranges = [
            each
            for keys in rest
            for each in divided(keys, prefix, look, wanted=wanted // share + 1, looks=looks // share)
        ]
    assert not ranges


LAST = "\U0010ffff"
"""A version after all others."""


@given(
    st.sets(
        st.tuples(st.text(st.sampled_from("ab/" + ENDS), min_size=1, max_size=5), st.sampled_from("123")), max_size=60
    ),
    st.sampled_from(["", "a", "a/"]),
    st.integers(1, 5),
    st.integers(1, 6),
    st.integers(0, 50),
)
def test_every_version_is_listed_once_however_often_ranges_are_cut_again(
    there: set[tuple[str, str]], prefix: str, size: int, wanted: int, looks: int
):
    uploads = {Upload("landing", key, version, 1) for key, version in there if key.startswith(prefix)}
    found = [each for task in in_rounds(uploads, prefix, size, (1, 2, 3, None), wanted, looks) for each in task]
    assert sorted(found, key=str) == sorted(uploads, key=str)


def test_a_range_that_most_keys_are_in_is_cut_again():
    """One of many tenants has nearly all of them: before its own are cut, there are as many ranges as are wanted."""
    keys = [*(f"in/{tenant:03}/x" for tenant in range(200)), *(f"in/077/{number:04}" for number in range(1_800))]
    uploads = {Upload("landing", key, "v1", 1) for key in keys}
    whole = list(in_rounds(uploads, "in/", 10, (None,), 16, 100))
    assert max(map(len, whole)) > 1_800
    tasks = list(in_rounds(uploads, "in/", 10, (2, 16, None), 16, 100))
    assert max(map(len, tasks)) <= len(uploads) / 8
    assert sum(map(len, tasks)) == len(uploads)
