"""Which route takes an upload, and when two routes could both."""

import json
from dataclasses import fields, replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.support.build import route, upload
from tidegate.core.batches import BatchLimits
from tidegate.core.routes import (
    Dataset,
    Route,
    RouteIndex,
    decode_dataset,
    decode_route,
    encode_dataset,
    encode_route,
    route_of,
)

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


@given(
    st.lists(st.tuples(st.sampled_from(["", "a", "a/", "a/b", "b/"]), st.sampled_from(["", ".c"])), unique=True),
    st.lists(st.booleans(), min_size=10, max_size=10),
    st.text("ab/.c", max_size=6),
)
def test_an_index_finds_the_route_that_a_search_finds(places: list[tuple[str, str]], retired: list[bool], key: str):
    routes = []
    for number, (prefix, suffix) in enumerate(places):
        made = replace(route(f"r{number}", prefix=prefix, suffix=suffix), retired=retired[number])
        if not any(made.overlaps(other) for other in routes):
            routes.append(made)
    for bucket, size in (("landing", 1), ("landing", 0), ("elsewhere", 1)):
        one = upload(key, bucket=bucket, size=size)
        assert RouteIndex(routes).route_of(one) is route_of(one, routes)


def test_a_retired_route_takes_nothing_and_leaves_its_keys_to_its_successor():
    old, new = replace(route("old", prefix="flights/"), retired=True), route("new", prefix="flights/")
    assert route_of(upload("flights/a.json"), [old]) is None
    assert route_of(upload("flights/a.json"), [old, new]) is new
    assert not old.overlaps(new)
    assert not new.overlaps(old)


# ---- as the ledger keeps them

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
COUNTS = st.integers(0, 2**40)
OPTIONS = st.dictionaries(
    TEXT.filter(lambda name: name not in {field.name for field in fields(Dataset)}), TEXT | COUNTS | st.booleans()
).map(lambda options: tuple(sorted(options.items())))
DATASETS = st.builds(Dataset, TEXT, TEXT, TEXT, st.lists(TEXT, max_size=3).map(tuple), COUNTS, OPTIONS)
LIMITS = st.builds(BatchLimits, *[COUNTS] * 7)
ROUTES = st.builds(Route, TEXT, TEXT, TEXT, TEXT, DATASETS, LIMITS, st.booleans(), TEXT)


@given(DATASETS)
def test_a_dataset_survives_being_written_down(dataset: Dataset):
    assert decode_dataset(encode_dataset(dataset)) == dataset


@given(ROUTES)
def test_a_route_survives_being_written_down(of: Route):
    assert decode_route(encode_route(of)) == of


def test_a_route_that_was_recorded_before_attempts_waited_keeps_its_attempts_and_gets_the_default_waits():
    written = (
        '{"bucket":"landing","dataset":{"format":"json","max_object_bytes":9,"partition_by":[],"schema":"s","table":"t"},'
        '"limits":{"attempts":3,"in_flight":1,"max_wait":60,"target_bytes":5,"target_objects":6},'
        '"name":"flights","owner":"","prefix":"","retired":false,"suffix":""}'
    )
    found = decode_route(written)
    assert found.limits == BatchLimits(60, 5, 6, 1, attempts=3, retry_wait=120, step_aside=3600)
    again = encode_route(found)
    assert again == written.replace('"max_wait":60,', '"max_wait":60,"retry_wait":120,"step_aside":3600,').replace(
        '{"bucket"', '{"audit_from":"listing","bucket"', 1
    ).replace('"limits":', '"lanes":1,"limits":', 1)
    assert decode_route(again) == found


def test_the_text_of_a_dataset_is_pinned_for_jobs_and_the_ledger_compare_it():
    options = (("delimiter", ","), ("zone", True))
    assert encode_dataset(Dataset("lake.raw.flüge", "id bigint", "csv", ("day",), options=options)) == (
        '{"delimiter":",","format":"csv","max_object_bytes":100000000000,"partition_by":["day"],'
        '"schema":"id bigint","table":"lake.raw.flüge","zone":true}'
    )


def test_what_a_newer_version_has_added_to_a_dataset_is_carried_as_an_option():
    written = '{"flavour":"new","format":"json","max_object_bytes":9,"partition_by":[],"schema":"s","table":"t"}'
    assert decode_dataset(written) == Dataset("t", "s", "json", (), 9, (("flavour", "new"),))
    assert encode_dataset(decode_dataset(written)) == written


def test_what_a_newer_version_has_added_is_left_out_and_what_an_older_one_did_not_know_has_its_default():
    dataset = {"table": "lake.raw.flights", "schema": "id bigint", "format": "json"}
    written = {
        "name": "flights",
        "bucket": "landing",
        "prefix": "flights/",
        "suffix": ".json",
        "dataset": dataset,
        "limits": {"max_wait": 7, "flavour": "new"},
        "flavour": "new",
    }
    assert decode_dataset(json.dumps(dataset)) == Dataset("lake.raw.flights", "id bigint", "json")
    assert decode_route(json.dumps(written)) == route("flights", max_wait=7)
