"""Generated columns in the DDL of a route, and what its settings make of them."""

from dataclasses import replace

import pytest

from tests.unit.test_settings import COLUMNS, parse, refusal, with_line
from tidegate.core.routes import Dataset, decode_dataset, encode_dataset, reading_of
from tidegate.schemas.ddl import parse as parse_ddl
from tidegate.schemas.ddl import without_generated

DDL = "id bigint, total double generated always as (id * (1 + 'a)' /* ) */)) comment 'x', day date"


def test_a_generated_column_has_sql_and_the_rest_is_what_spark_reads():
    assert [(each.name, each.generated) for each in parse_ddl(DDL).columns] == [
        ("id", ""),
        ("total", "id * (1 + 'a)' /* ) */)"),
        ("day", ""),
    ]
    ddl, generated = without_generated(DDL)
    assert generated == (("total", "id * (1 + 'a)' /* ) */)"),)
    assert len(ddl) == len(DDL)
    assert " ".join(ddl.split()) == "id bigint, total double comment 'x', day date"
    assert without_generated("id bigint") == ("id bigint", ())


@pytest.mark.parametrize(
    ("ddl", "said"),
    [
        ("a int, b int generated as (a)", "a generated column is written"),
        ("a int, b int generated always as a", "a generated column is written"),
        ("a int, b int generated always as ()", "the brackets are empty"),
        ("a int, b int generated always as (a", "this bracket is not closed"),
        ("a int, b int not null generated always as (a)", "leave `not null` out"),
        ("a int, b struct<x int generated always as (a)>", "`struct<` needs a comma"),
    ],
)
def test_what_is_wrong_with_one_is_said(ddl: str, said: str):
    (mistake,) = parse_ddl(ddl).mistakes
    assert said in mistake.message


def test_a_dataset_without_sql_is_written_as_before_and_one_with_it_comes_back():
    plain = Dataset("t", "a int", "json")
    assert "where" not in encode_dataset(plain)
    made = Dataset("t", "a int, b int", "json", where="a > 1", generated=(("b", "a + 1"),))
    assert decode_dataset(encode_dataset(made)) == made
    assert reading_of(made) != reading_of(plain)
    assert reading_of(replace(plain, skips=True, partition_by=("a",))) == reading_of(plain)


SCHEMA = f'schema = "{COLUMNS}"'


def test_a_route_says_which_rows_land_and_what_is_generated():
    text = with_line(SCHEMA, f'schema = "{COLUMNS}, day date generated always as (to_date(time))"\nwhere = "id > 1"')
    dataset = parse(text.replace('"days(time)"', '"day"')).routes[0].route().dataset
    assert (dataset.where, dataset.generated) == ("id > 1", (("day", "to_date(time)"),))
    assert dataset.schema.rstrip() == f"{COLUMNS}, day date"


def test_what_no_file_has_is_no_column_of_the_key():
    wrong = f'schema = "{COLUMNS}, day date generated always as (to_date(time))"\nfrom_key = "{{day}}/"'
    assert "the schema has no column `day`" in refusal(with_line(SCHEMA, wrong))


def test_some_column_has_to_be_in_the_files():
    text = with_line(SCHEMA, 'schema = "id bigint generated always as (1), time timestamp generated always as (null)"')
    assert "all columns are generated" in refusal(text)


def test_what_is_generated_may_be_null_within():
    wrong = f"{COLUMNS}, s struct<a: int not null> generated always as (struct(1))"
    assert "column `s`: leave `not null` out" in refusal(with_line(SCHEMA, f'schema = "{wrong}"'))
