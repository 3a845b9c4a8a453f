"""Key ranges cover every key once, whatever the boundaries; a few looks find boundaries that cut a bucket well."""

from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.fakes import MemoryListing
from tidegate.core.audit import Marker
from tidegate.core.key_ranges import LONGEST_KEY, FirstKeys, find_boundaries, just_before, key_ranges
from tidegate.core.uploads import Upload

ENDS = "\x00\x01/aÿ\ud7ff\ue000\uffff\U0010fffe\U0010ffff"
"""Where characters are special, for the order and for what is before them."""
keys = st.one_of(st.text(st.sampled_from(ENDS), min_size=1, max_size=6), st.text(min_size=1, max_size=6))


@given(st.lists(keys), st.lists(keys))
def test_every_key_is_in_one_range(boundaries: list[str], there: list[str]):
    ranges = key_ranges(boundaries)
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
    sizes = Counter(next(number for number, each in enumerate(key_ranges(found)) if each.has(key)) for key in under)
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
    ],
    ids=["dates", "hashes", "numbers", "tenants"],
)
def test_usual_layouts_are_cut_into_parts_that_are_done_beside_each_other(layout: list[str]):
    looks: list[str] = []
    found = find_boundaries("in/", looking(set(layout), "in/", 100, looks), wanted=32, looks=400)
    sizes = Counter(next(number for number, each in enumerate(key_ranges(found)) if each.has(key)) for key in layout)
    assert max(sizes.values()) <= len(layout) / 4, (len(looks), sorted(sizes.values())[-5:])
    assert len(looks) <= 400


def test_a_small_bucket_takes_one_look():
    looks: list[str] = []
    assert find_boundaries("in/", looking({"in/1", "in/2"}, "in/", 10, looks), wanted=32, looks=400) == ["in/"]
    assert len(looks) == 1
