"""Values that the path of a data file cannot hold are found, and only those."""

import base64

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.formats.paths import COMPONENT_BYTES, PATH_BYTES, escape, unplaceable


def why(*partition_by: str, **columns: list[str | bytes | None]) -> str:
    return unplaceable(pa.table(columns), partition_by)


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        # as java.net.URLEncoder documents it
        ("aZ09.-*_", "aZ09.-*_"),
        ("a b", "a+b"),
        ("a+b/c=d~e", "a%2Bb%2Fc%3Dd%7Ee"),
        ("ü日😀", "%C3%BC%E6%97%A5%F0%9F%98%80"),
        ("\x00\n%", "%00%0A%25"),
    ],
)
def test_text_is_escaped_as_java_does(text: str, escaped: str):
    assert escape(text) == escaped


def test_the_longest_value_that_a_part_of_the_path_holds():
    fits = "x" * (COMPONENT_BYTES - len("region="))
    assert why("region", region=["eu", None, fits]) == ""
    told = why("region", region=["eu", None, fits, fits + "x"])
    assert told.startswith("row 4: ")
    assert "column region" in told
    assert "201 bytes" in told
    assert "200" in told


@pytest.mark.parametrize(
    ("value", "refused"), [("é" * 32, False), ("é" * 33, True), ("~ " * 48, False), ("~ " * 49, True)]
)
def test_what_counts_is_the_escaped_value(value: str, refused: bool):
    assert bool(why("region", region=[value])) == refused


def test_bytes_are_base64_in_the_path():
    assert len(escape(base64.b64encode(b"\x00" * 147).decode())) == 196
    assert why("code", code=[b"\x00" * 144]) == ""
    assert why("code", code=[b"\x00" * 147]) != ""


def test_truncated_values_are_short():
    assert why("truncate(10, region)", region=["x" * 5000]) == ""
    assert why("truncate(10,region)", region=["日" * 5000]) == ""
    assert why("truncate(300, region)", region=["x" * 5000]) != ""
    assert why("truncate(10, code)", code=[b"x" * 5000]) == ""


def test_transforms_of_a_bounded_length_hold_any_value():
    assert why("bucket(16, region)", "days(time)", region=["x" * 5000], time=["x" * 5000]) == ""
    assert why(region=["x" * 5000]) == ""


def test_only_columns_of_text_or_bytes_are_looked_at():
    assert unplaceable(pa.table({"id": [10**18]}), ("id",)) == ""


def test_columns_are_found_without_regard_to_case():
    assert "column Region" in why("Region", region=["x" * 300])


@pytest.mark.parametrize("field", ["place.region", "place.region AS shard", "truncate(250, place.region) AS s"])
def test_a_column_within_a_struct(field: str):
    places = pa.array([{"region": "eu"}, None, {"region": "x" * 300}])
    assert unplaceable(pa.table({"place": places}), (field,)).startswith("row 3: ")
    assert unplaceable(pa.table({"place": places}).slice(0, 2), (field,)) == ""


def test_a_field_may_have_a_name_of_its_own():
    name = "n" * 100
    assert why("region", region=["x" * 100]) == ""
    assert f"{name[:40]}" in why(f"region AS {name}", region=["x" * 100])
    assert why(f"bucket(4, region) AS {name}", region=["x" * 500]) == ""


def test_the_parts_together_have_a_limit_of_their_own():
    part = "x" * (COMPONENT_BYTES - 2)
    rows = {name: ["", part] for name in "abc"}
    assert why("a", "b", **rows) == ""
    told = why("a", "b", "c", **rows)
    assert told.startswith("row 2: ")
    assert "columns a, b, c" in told
    assert f"more than the {PATH_BYTES}" in told


def test_the_sum_is_exact_for_many_short_parts():
    names = [f"c{number}" for number in range(10)]
    assert why(*names, **{name: ["x" * 45] for name in names}) == ""
    assert why(*names, **{name: ["x" * 48] for name in names}) != ""


def test_a_file_without_rows():
    assert unplaceable(pa.table({"region": pa.array([], pa.string())}), ("region",)) == ""


@given(st.lists(st.none() | st.text(max_size=90), max_size=6), st.sampled_from(["region", "truncate(30, region)"]))
def test_a_value_is_found_if_and_only_if_it_is_too_long(values: list[str | None], transform: str):
    name, width = ("region_trunc", 30) if "truncate" in transform else ("region", None)
    parts = [f"{name}={escape('null' if value is None else value[:width])}" for value in values]
    too_long = any(len(part) > COMPONENT_BYTES for part in parts)
    table = pa.table({"region": pa.array(values, pa.string())})
    assert bool(unplaceable(table, (transform,))) == too_long
