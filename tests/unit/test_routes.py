"""Which route takes an upload, and when two routes could both."""

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.support.build import route, upload
from tidegate.core.routes import route_of

# two letters only, so that prefixes and suffixes meet often
WORDS = st.text("ab", max_size=4)


@given(WORDS, WORDS, WORDS, WORDS, WORDS)
def test_routes_that_do_not_overlap_share_no_key(
    prefix: str, suffix: str, other_prefix: str, other_suffix: str, key: str
):
    one, other = route("one", prefix=prefix, suffix=suffix), route("other", prefix=other_prefix, suffix=other_suffix)
    assume(not one.overlaps(other))
    for each in (key, prefix + key + suffix, other_prefix + key + other_suffix, prefix + other_suffix, prefix + suffix):
        assert not (one.takes(upload(each)) and other.takes(upload(each)))


@given(WORDS, WORDS, WORDS, WORDS)
def test_routes_that_overlap_share_a_key(prefix: str, suffix: str, other_prefix: str, other_suffix: str):
    one, other = route("one", prefix=prefix, suffix=suffix), route("other", prefix=other_prefix, suffix=other_suffix)
    assume(one.overlaps(other))
    shared = max(prefix, other_prefix, key=len) + "-" + max(suffix, other_suffix, key=len)
    assert one.takes(upload(shared))
    assert other.takes(upload(shared))


@given(WORDS, WORDS, WORDS, WORDS)
def test_overlapping_is_mutual(prefix: str, suffix: str, other_prefix: str, other_suffix: str):
    one, other = route("one", prefix=prefix, suffix=suffix), route("other", prefix=other_prefix, suffix=other_suffix)
    assert one.overlaps(other) == other.overlaps(one)
    assert one.overlaps(one)


def test_routes_of_different_buckets_never_overlap():
    assert not route("one", "bucket-a", prefix="").overlaps(route("other", "bucket-b", prefix=""))


@pytest.mark.parametrize(
    ("key", "taken"),
    [
        ("flights/a.json", True),
        ("flights/deeper/a.json", True),
        ("flights/.json", True),
        ("flights/a.csv", False),
        ("Flights/a.json", False),
        ("a.json", False),
        ("flights/", False),
        ("flights", False),
    ],
)
def test_a_route_takes_keys_of_its_prefix_and_suffix(key: str, taken: bool):
    assert route(prefix="flights/", suffix=".json").takes(upload(key)) == taken


def test_a_route_takes_no_upload_of_another_bucket():
    assert not route().takes(upload("flights/a.json", bucket="elsewhere"))


@pytest.mark.parametrize("suffix", ["", "/"])
@pytest.mark.parametrize("prefix", ["", "flights/"])
@pytest.mark.parametrize("key", ["flights/", "flights/2013/"])
def test_the_empty_object_that_a_console_makes_for_a_folder_is_not_taken(key: str, prefix: str, suffix: str):
    assert not route(prefix=prefix, suffix=suffix).takes(upload(key, size=0))
    assert route(prefix=prefix, suffix=suffix).takes(upload(key, size=1)), "it holds something: it is no folder"


def test_a_prefix_may_be_a_whole_key():
    whole = route(prefix="exports/latest.json", suffix="")
    assert whole.takes(upload("exports/latest.json"))
    assert whole.takes(upload("exports/latest.json", size=0)), "an empty file is a file"
    assert route(prefix="a.json", suffix="a.json").takes(upload("a.json"))


def test_the_one_route_that_takes_an_upload_is_found():
    routes = [route("flights"), route("weather"), route("flights-csv", prefix="flights/", suffix=".csv")]
    assert route_of(upload("weather/a.json"), routes) is routes[1]
    assert route_of(upload("flights/a.csv"), routes) is routes[2]
    assert route_of(upload("trains/a.json"), routes) is None


def test_a_retired_route_takes_nothing_and_leaves_its_keys_to_its_successor():
    old, new = replace(route("old", prefix="flights/"), retired=True), route("new", prefix="flights/")
    assert route_of(upload("flights/a.json"), [old]) is None
    assert route_of(upload("flights/a.json"), [old, new]) is new
    assert not old.overlaps(new)
    assert not new.overlaps(old)
