"""What a person reads who has made a mistake in tidegate.toml: the place, the line with a mark, and what is allowed."""

import datetime
import importlib
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from typer.testing import CliRunner

from tidegate.cli.main import app
from tidegate.settings import Settings, SettingsError, check, load, load_deployed, parse
from tidegate.settings.editors import schema_of_file

ROOT = Path(__file__).parents[2]

ROUTE = """\
[[route]]
name = "orders"
bucket = "landing"
prefix = "shop/orders/"
format = "json"
table = "lake.shop.orders"
schema = "id bigint not null, total decimal(12,2), placed_at timestamp"
partition_by = ["days(placed_at)"]
"""
LINES = ROUTE.splitlines()


def said(source: str) -> str:
    """Of text that cannot be used: all that is printed."""
    with pytest.raises(SettingsError) as error:
        parse(source)
    return str(error.value)


def changed(field: str, value: str) -> str:
    """The route with one line of it changed."""
    (line,) = (line for line in LINES if line.startswith(f"{field} ="))
    return ROUTE.replace(line, f"{field} = {value}")


def test_the_right_route_is_right():
    assert check(ROUTE).mistakes == ()


def test_a_mistake_is_shown_in_its_line_with_a_mark_below_it():
    first, *marked = said(changed("schema", '"id bigint, placed_at timestamp, total dcimal(12,2)"')).splitlines()
    assert first.startswith("tidegate.toml:7:49: route.1.schema: there is no type `dcimal`; did you mean `decimal`?")
    assert marked == [
        '  7 | schema = "id bigint, placed_at timestamp, total dcimal(12,2)"',
        "    |                                                 ^^^^^^",
    ]


def test_the_mark_is_below_its_word_in_a_schema_of_many_lines_with_tabs():
    source = ROUTE.replace(LINES[6], 'schema = """\n\tid bigint,\n\tplaced_at timestmp\n"""')
    shown = said(source).splitlines()
    assert shown[0].startswith("tidegate.toml:9:12: ")
    assert shown[1:3] == ["  9 | \tplaced_at timestmp", "    | \t          ^^^^^^^^"]


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("schema", '"id bigint, t strng"', "there is no type `strng`; did you mean `string`?"),
        ("schema", '"id bigint, placed_at timestamp, x array<int"', "`array<` is not closed: a `>` is missing"),
        ("schema", '"id bigint, placed_at timestamp, x array<int)"', "`array<` is closed by `>`, not by `)`"),
        ("schema", '"id bigint, placed_at timestamp, x array"', "`array` needs what it holds in angle brackets"),
        ("schema", '"id bigint placed_at timestamp"', "a comma is missing before this"),
        ("schema", '"id bigint, placed_at timestamp,"', "there is a comma too many"),
        ("schema", '"id bigint, placed_at"', "column 'placed_at' has no type: write for example `placed_at string`"),
        ("schema", '"id: bigint, placed_at timestamp"', "a column has no colon"),
        ("schema", '"id bigint, ID int, placed_at timestamp"', "column `ID` is there twice"),
        ("schema", '"_batch_id string, placed_at timestamp"', "Tidegate adds this column itself"),
        ("schema", '"_POS bigint, placed_at timestamp"', "Iceberg has a column of this name itself"),
        ("schema", '"id smallint, placed_at timestamp"', "Iceberg tables have no type of that size; write `int`"),
        ("schema", '"id varchar(20), placed_at timestamp"', "no text of a fixed length; write `string`"),
        ("schema", '"id int64, placed_at timestamp"', "there is no type `int64` here: write `bigint`"),
        ("schema", '"id int primary key, placed_at timestamp"', "`primary` is not allowed"),
        ("schema", '"id int null, placed_at timestamp"', "leave `null` out"),
        ("schema", '"id int(11), placed_at timestamp"', "`int` takes no number in brackets"),
        ("schema", '"id decimal(39,2), placed_at timestamp"', "a decimal has 1 to 38 digits"),
        ("schema", '"id decimal(5,6), placed_at timestamp"', "cannot have 6 of them after the point"),
        ("schema", '"m map<int,string>, placed_at timestamp"', "the keys of an object are text: write `map<string,"),
        ("schema", '"order-id int, placed_at timestamp"', "a name with '-' in it needs backquotes"),
        ("schema", '"id int, placed_at timestamp;"', "leave the semicolon out"),
        ("schema", '" "', "it has no column"),
        ("partition_by", '["days(placed)"]', "the schema has no column `placed`; did you mean `placed_at`?"),
        ("partition_by", '["region"]', "the schema has no column `region`; it has id, total, placed_at"),
        ("partition_by", '["days(id)"]', "column `id` is bigint, and days() takes date, timestamp, timestamp_ntz"),
        ("partition_by", '["day(placed_at)"]', "did you mean days(placed_at)?"),
        ("partition_by", '["days(placed_at)", "hours(placed_at)"]', "Iceberg takes one of the two"),
        ("partition_by", '["bucket(0, id)"]', "takes a number from 1"),
        ("partition_by", '"days(placed_at)"', 'it must be a list: ["days(placed_at)"]'),
        ("bucket", '"bb"', "bucket 'bb' is too short: 3 to 63 lower-case letters, digits, dots, dashes"),
        ("bucket", '"s3://shop-landing/x"', "write the bucket's name alone, such as 'shop-landing'"),
        ("bucket", '"shop_landing"', "bucket 'shop_landing' has a '_' in it"),
        ("bucket", '"-shop"', "must begin and end with a letter or a digit"),
        ("table", '"shop.orders"', "'shop.orders' has 2 parts: a table is catalog.namespace.table"),
        ("table", '"lake.Shop.Orders"', "write lake.shop.orders"),
        ("prefix", '"s3://landing/orders/"', 'without the bucket: "orders/" in landing'),
        ("name", '"Orders 1"', "is no name: a lower-case letter, then"),
        ("format", '"xml"', "one of 'json', 'csv', 'parquet', 'avro' or 'orc'"),
    ],
)
def test_one_mistake_and_what_is_said_of_it(field: str, value: str, message: str):
    shown = said(changed(field, value))
    assert message in shown
    assert f" route.1.{field}" in shown.splitlines()[0]


def test_columns_are_named_as_the_schema_spells_them():
    shown = said(changed("schema", '"id int, placedAt timestamp"'))
    assert "the schema has no column `placed_at`; did you mean `placedAt`? it has id, placedAt." in shown


def test_nested_columns_in_csv():
    source = changed("format", '"csv"').replace("total decimal(12,2)", "lines array<string>")
    assert "column `lines` is array<string>: a field of a CSV file is a single value" in said(source)


# ---- what is usable, and probably not meant


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("prefix", '"/shop/"', 'keys rarely begin with a slash; did you mean "shop/"?'),
        ("prefix", '"shop/*/orders/"', "`*` is no pattern here"),
    ],
)
def test_a_warning_keeps_nobody_from_using_it(field: str, value: str, message: str, tmp_path: Path):
    source = changed(field, value)
    (warning,) = check(source).mistakes
    assert warning.warning
    assert message in warning.message
    path = tmp_path / "tidegate.toml"
    path.write_text(source)
    told: list[str] = []
    load(path, warn=told.append)
    assert f"{path}:4:10: warning: route.1.prefix: {message}" in told[0]


def test_a_struct_is_the_same_wherever_it_stands():
    first = ROUTE.replace("total decimal(12,2)", "place struct<lat: double, lon: double>")
    second = SECOND.replace("total decimal(12,2)", "place   struct<lat double,lon:double >")
    assert check(f"{first}\n{second}").mistakes == ()


def test_names_that_differ_in_case_are_one_column():
    shown = said(f"{ROUTE}\n{SECOND.replace('total decimal', 'Total decimal')}")
    assert "column `Total` is called `total` in route 'orders' of the same table: it has one name" in shown


@pytest.mark.parametrize("end", ["\u2028", "\u0085"])
def test_what_toml_takes_for_no_line_end_ends_no_line(end: str):
    shown = said(f"# a{end}b\n" + changed("schema", '"id bigint, placed_at timestmp"'))
    assert shown.splitlines()[0].startswith("tidegate.toml:8:")
    assert '8 | schema = "id bigint, placed_at timestmp"' in shown


def test_of_a_long_line_the_part_around_the_mark_is_shown_and_of_many_mistakes_the_first():
    columns = ", ".join(f"c{number} wrong" for number in range(3_000))
    shown = said(changed("schema", f'"{columns}, placed_at timestamp"'))
    assert len(shown) < 50_000
    assert shown.endswith("and 2950 more")
    line, mark = shown.split("\n")[-3:-1]
    assert line[mark.index("^") : mark.rindex("^") + 1] == "wrong"


@pytest.mark.parametrize(
    "wrong",
    [
        changed("schema", f'"id decimal({"9" * 5000}), placed_at timestamp"'),
        changed("partition_by", f'["bucket({"9" * 5000}, id)"]'),
        f"{ROUTE}\nlanes = {'9' * 5000}\n",
        f"{ROUTE}\nlanes = {'[' * 3000}\n",
    ],
    ids=["precision", "buckets", "number", "nested"],
)
def test_nothing_that_is_written_ends_in_a_stack_trace(wrong: str):
    assert said(wrong)


@pytest.mark.parametrize("bucket", ["a..b", "192.168.5.4"])
def test_a_bucket_that_s3_refuses(bucket: str):
    assert "is refused by S3" in said(changed("bucket", f'"{bucket}"'))


SECOND = ROUTE.replace('"orders"', '"returns"').replace("shop/orders/", "shop/returns/")


def test_routes_of_one_table_with_different_types_cannot_be():
    source = f"{ROUTE}\n{SECOND.replace('total decimal(12,2)', 'total double')}"
    assert said(source).splitlines()[0] == (
        "tidegate.toml:16:37: route.2.schema: column `total` is double here and decimal(12,2) in route 'orders' of the"
        " same table"
    )


def test_a_retired_route_may_have_had_another_type():
    retired = ROUTE.replace("name", "retired = true\nname", 1)
    assert check(f"{retired}\n{SECOND.replace('decimal(12,2)', 'double')}").settings


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("total decimal(12,2), ", "", "it lacks the column `total` of route 'orders'"),
        ("id bigint not null", "id bigint", "column `id` may be null in one route of the table and not in the other"),
        ("id bigint", "more int, id bigint", "column `more`: route 'orders' of the same table lacks it"),
        ('["days(placed_at)"]', "[]", "partitions table lake.shop.orders otherwise"),
    ],
)
def test_routes_of_one_table_that_need_it_made_by_hand_are_warned(old: str, new: str, message: str):
    checked = check(f"{ROUTE}\n{SECOND.replace(old, new, 1)}")
    assert checked.settings is not None
    assert message in checked.mistakes[0].message


# ---- what is no TOML


@pytest.mark.parametrize(
    ("source", "where", "message"),
    [
        ("[[route]]\nformat = csv\n", "2:10", 'text needs quotes: format = "csv"'),
        ("[[route]]\nname = \u201corders\u201d\n", "2:8", "\u201c is a typographic quote"),
        ("[[route]]\nname: orders\n", "2:5", "separated by `=`, not by a colon"),
        ('[[route]]\nname = "orders\n', "2:15", "a quote is missing at its end"),
        ("[route]\nname = 'a'\n\n[[route]]\nname = 'b'\n", "4:1", "write [[route]] each time"),
        ("[[route]]\n[batch]\n\n[[route]]\n[batch]\n", "5:1", "a route has one [route.batch], below its [[route]]"),
        ("[audit]\nrate = 100\n[audit]\n", "3:1", "section [audit] is there twice"),
        ("[audit]\nrate = 100\nrate = 200\n", "3:1", "`rate` is given twice in this section"),
    ],
)
def test_what_is_no_toml_is_told_what_was_probably_meant(source: str, where: str, message: str):
    first = said(source).splitlines()[0]
    assert first.startswith(f"tidegate.toml:{where}: not TOML: ")
    assert message in first


def test_a_mark_that_an_editor_puts_in_front_does_no_harm(tmp_path: Path):
    path = tmp_path / "tidegate.toml"
    path.write_bytes(b"\xef\xbb\xbf" + ROUTE.replace("\n", "\r\n").encode())
    assert load(path).routes[0].name == "orders"


# ---- nobody has to read a pattern, or pydantic's words

WRONG: tuple[Any, ...] = (True, 1, -1, 10**12, 1.5, "", "  ", "~", "x" * 2000, [], ["~"], [1], {}, {"x": 1})
WRONG_TIMES = (datetime.date(2026, 1, 2),)


def fields(model: type[BaseModel], at: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found = []
    for name, field in model.model_fields.items():
        here = (*at, field.alias or name)
        found.append(here)
        kind = field.annotation
        if name == "routes":
            kind = kind.__args__[0]
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            found += fields(kind, here)
    return found


def written(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name} = {written(each)}" for name, each in value.items()) + "}"
    return str(value) if isinstance(value, datetime.date) else json.dumps(value)


@pytest.mark.parametrize("field", fields(Settings), ids=".".join)
def test_no_wrong_value_of_any_field_is_answered_with_a_pattern_or_pydantics_words(field: tuple[str, ...]):
    section, name = field[:-1], field[-1]
    for value in (*WRONG, *WRONG_TIMES):
        if section[:1] == ("route",):
            base = "\n".join(line for line in LINES if section[1:] or not line.startswith(f"{name} ="))
            header = f"\n[{'.'.join(section)}]\n" if section[1:] else "\n"
            source = f"{base}{header}{name} = {written(value)}\n"
        elif section:
            source = f"[{'.'.join(section)}]\n{name} = {written(value)}\n\n{ROUTE}"
        else:
            source = f"{name} = {written(value)}\n" + ("" if name == "route" else f"\n{ROUTE}")
        tomllib.loads(source)
        for mistake in check(source).mistakes:
            assert not re.search(r"Input should|valid |Value error|\[[a-z]-|\\|\^|unhashable|NoneType", mistake.message)
            assert mistake.place is not None or mistake.field in ("", "route")


# ---- the verb


def run(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["check", *arguments])
    return done.exit_code, done.stdout


def test_the_verb_says_that_all_is_right(tmp_path: Path):
    path = tmp_path / "mine.toml"
    path.write_text(ROUTE)
    table = "orders\n  s3://landing/shop/orders/*, read as json\n  table lake.shop.orders, maintained\n"
    assert run(str(path)) == (0, f"{table}{path} can be used: 1 route\n")


def test_the_verb_ends_with_2_if_it_cannot_be_used(tmp_path: Path):
    path = tmp_path / "mine.toml"
    path.write_text(changed("prefix", '"/shop"').replace("decimal(12,2)", "decimal(12,13)"))
    code, text = run(str(path))
    assert code == 2
    assert f"{path}:4:10: warning: route.1.prefix: " in text
    assert text.endswith(f"{path} cannot be used: 1 mistake and 1 warning\n")


def test_as_json(tmp_path: Path):
    path = tmp_path / "mine.toml"
    path.write_text(changed("bucket", '"bb"'))
    code, text = run(str(path), "--json")
    assert code == 2
    assert json.loads(text) == {
        "version": 1,
        "config": str(path),
        "usable": False,
        "mistakes": [
            {
                "field": "route.1.bucket",
                "line": 3,
                "column": 10,
                "length": 4,
                "warning": False,
                "message": "bucket 'bb' is too short: 3 to 63 lower-case letters, digits, dots, dashes",
            }
        ],
        "routes": [],
    }


def test_a_file_that_is_not_there(tmp_path: Path):
    done = CliRunner().invoke(app, ["check", str(tmp_path / "nowhere.toml")])
    assert done.exit_code == 2
    assert "there is no " in done.stderr


def test_the_schema_for_editors_is_the_one_in_docs():
    """Write it anew: tidegate check --schema > docs/tidegate.schema.json"""
    assert json.loads((ROOT / "docs" / "tidegate.schema.json").read_text()) == schema_of_file()
    assert (ROOT / "tidegate.example.toml").read_text().startswith("#:schema docs/tidegate.schema.json\n")


def test_the_schema_for_editors_takes_the_shipped_file():
    jsonschema = importlib.import_module("jsonschema")
    jsonschema.validate(tomllib.loads((ROOT / "tidegate.example.toml").read_text()), schema_of_file())
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(tomllib.loads(changed("bucket", '"bb"')), schema_of_file())


# ---- a deployed file


def test_a_deployed_file_is_not_checked_again_and_is_the_same(tmp_path: Path):
    path = tmp_path / "tidegate.toml"
    path.write_text(ROUTE)
    assert load_deployed(path) == load(path)
    path.write_text(changed("bucket", '"bb"'))
    with pytest.raises(SettingsError, match="bucket 'bb' is too short"):
        load_deployed(path)


def test_a_function_imports_nothing_that_looks_for_mistakes():
    program = "import sys, tidegate.settings; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    imported = done.stdout.split()
    assert not [name for name in imported if name.startswith(("tidegate.schemas", "tidegate.settings.positions"))]
