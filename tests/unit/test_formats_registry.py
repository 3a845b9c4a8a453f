"""What is declared of the formats: whole, apart from each other, and known where nothing can be decoded."""

import subprocess
import sys
from dataclasses import fields

import pyarrow as pa
import pytest

from tidegate.core.routes import Dataset, encode_dataset
from tidegate.formats.decode import decoder
from tidegate.formats.registry import COMMON_OPTIONS, ENCODINGS, FORMATS, Format, Option, options_of_all
from tidegate.settings import RouteSettings, parse

ROUTE = """
[[route]]
name = "flights"
bucket = "landing"
format = "{format}"
table = "lake.raw.flights"
schema = "id bigint"
"""


def test_the_declarations_need_neither_arrow_nor_a_decoder():
    code = "import sys, tidegate.settings; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert {name for name in loaded if name.startswith("tidegate.formats.")} == {"tidegate.formats.registry"}
    assert not loaded & {"fastavro", "msgspec", "numpy", "pyarrow"}


@pytest.mark.parametrize("name", FORMATS)
def test_each_format_has_a_decoder_and_a_route_can_name_it(name: str):
    (route,) = parse(ROUTE.format(format=name)).core_routes()
    assert route.dataset.format == name
    assert callable(decoder(name, pa.schema([("id", pa.int64())]), route.dataset.options))


def test_no_option_takes_the_name_of_another_or_of_a_field():
    names = [option.name for format in FORMATS.values() for option in format.options]
    names += [option.name for option in COMMON_OPTIONS]
    assert len(names) == len(set(names))
    fixed = set(RouteSettings.model_fields) - options_of_all().keys() - {option.name for option in COMMON_OPTIONS}
    assert not set(names) & ({field.name for field in fields(Dataset)} | fixed)


@pytest.mark.parametrize("format", ["json", "csv", "parquet"])
def test_what_is_written_of_a_dataset_has_no_defaults_of_its_format(format: str):
    (route,) = parse(ROUTE.format(format=format)).core_routes()
    assert encode_dataset(route.dataset) == (
        f'{{"format":"{format}","max_object_bytes":100000000000,"partition_by":[],'
        '"schema":"id bigint","table":"lake.raw.flights"}'
    )


def test_an_option_of_newer_code_is_refused_and_not_left_out():
    with pytest.raises(ValueError, match="csv files have no option 'decimal_mark' in this version"):
        decoder("csv", pa.schema([("id", pa.int64())]), [("decimal_mark", ",")])


def test_a_dataset_carries_each_option_of_its_format_and_no_other():
    def small(value: int) -> int:
        if value > 9:
            raise ValueError("at most 9")
        return value

    format = Format("dsv", "", "", (Option("width", 3, "", small), Option("bare", False, "")))
    assert format.carry({"bare": True, "name": "of a field"}) == (("bare", True),)
    settled = format.settled({"age": "old", "width": 9})
    assert settled == {"width": 9, "bare": False, "unknown": "report", "from_key": ""}
    assert format.for_modules(settled) == {"width": 9, "bare": False, "unknown": "report"}
    with pytest.raises(ValueError, match="at most 9"):
        format.settled({"width": 10})


def test_the_default_of_an_option_is_not_written():
    format = FORMATS["csv"]
    assert format.carry({}) == format.carry({"encoding": "utf-8", "delimiter": ","}) == ()
    assert format.carry({"encoding": "utf-16"}) == (("encoding", "utf-16"),)


@pytest.mark.parametrize("name", FORMATS)
def test_an_option_of_all_formats_is_written_only_if_it_is_not_the_default(name: str):
    format = FORMATS[name]
    assert format.carry({"unknown": "report"}) == format.carry({})
    assert dict(format.carry({"unknown": "refuse"})) == {**dict(format.carry({})), "unknown": "refuse"}
    format.check_known(["unknown"])
    with pytest.raises(ValueError, match="columns that the schema lacks are one of report, keep, add, refuse, ignore"):
        format.settled({"unknown": "evolve"})


@pytest.mark.parametrize("encoding", ["UTF8", "", "rot13", "utf-7"])
def test_an_encoding_that_is_not_read_is_a_mistake_in_the_route(encoding: str):
    with pytest.raises(ValueError, match="an encoding is one of utf-8, utf-16, iso-8859-1, "):
        FORMATS["csv"].settled({"encoding": encoding})


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_each_encoding_is_one_of_pythons_by_its_name_or_another(encoding: str):
    assert "a,b".encode(encoding).decode(encoding) == "a,b"


def test_a_format_that_nobody_knows_has_no_decoder():
    with pytest.raises(ValueError, match="no decoder for format 'xml'"):
        decoder("xml", pa.schema([("id", pa.int64())]))
