"""What is said of a table whose columns do not fit, and what to run."""

import pytest

from tidegate.sinks.iceberg.columns import ColumnFacts, misfit

TABLE = "lake.web-shop.orders"
ALTER = "ALTER TABLE lake.`web-shop`.orders"
TEXT, NUMBER = ColumnFacts("string", True), ColumnFacts("bigint", True)


def said(there: dict[str, ColumnFacts], wanted: dict[str, ColumnFacts], **earlier: str) -> str:
    return misfit(TABLE, there, wanted, earlier.get)


def test_columns_that_fit():
    assert said({"id": NUMBER, "more": TEXT}, {"id": NUMBER}) == ""
    assert said({"id": ColumnFacts("bigint", False)}, {"id": ColumnFacts("bigint", False)}) == ""


def test_a_column_that_never_was():
    assert said({}, {"order-id": TEXT}) == (
        f"table {TABLE} has no column order-id, which the route's schema has. Run: {ALTER} ADD COLUMN `order-id` string"
    )


def test_a_table_that_others_made_gets_all_columns_at_once():
    wanted = {"id": NUMBER, "a-b": TEXT, "_source_uri": TEXT, "_batch_id": TEXT}
    assert said({"id": NUMBER}, wanted) == (
        f"table {TABLE} has no column a-b, _source_uri, _batch_id, which the route's schema has or Tidegate fills."
        f" Run: {ALTER} ADD COLUMNS (`a-b` string, _source_uri string, _batch_id string). The rows that are there have"
        " null in them: Tidegate leaves them alone."
    )
    assert "_batch_id string" not in said({"id": NUMBER}, wanted, _batch_id="batch")
    assert f". Besides, table {TABLE} has no column id, " in said({"ID": NUMBER}, wanted)


def test_all_that_does_not_fit_is_said_at_once():
    found = said({"a": TEXT, "b": ColumnFacts("int", False)}, {"a": NUMBER, "b": ColumnFacts("int", True)})
    assert [part.partition(" of table")[0] for part in found.split(". Besides, ")] == ["column a", "column b"]


def test_a_column_under_another_name_is_said_once_whether_or_not_it_takes_nulls():
    never_null = ColumnFacts("string", False)
    assert " demands " not in said({"b": never_null}, {"a": never_null}, a="b")
    assert " demands " not in said({"A": never_null}, {"a": never_null})
    assert " demands " in said({"b": never_null}, {"a": never_null})


def test_a_column_that_was_renamed_is_renamed_back_or_called_so():
    assert said({"b d": TEXT}, {"a`c": TEXT}, **{"a`c": "b d"}).endswith(
        f"It is called b d now. Call it `b d` in the schema, or run: {ALTER} RENAME COLUMN `b d` TO `a``c`"
    )


def test_a_column_that_differs_in_case():
    assert said({"Id": NUMBER}, {"id": NUMBER}).endswith(
        "It has Id, and Spark does not tell these apart, so it takes two steps. Run:"
        f" {ALTER} RENAME COLUMN Id TO id_; {ALTER} RENAME COLUMN id_ TO id"
    )


def test_a_column_of_the_lineage_is_only_ever_renamed_back():
    """A new one would be null in all rows that are there."""
    found = said({"batch": TEXT}, {"_batch_id": TEXT}, _batch_id="batch")
    assert found == (
        f"table {TABLE} has no column _batch_id, which Tidegate fills. It is called batch now."
        f" Run: {ALTER} RENAME COLUMN batch TO _batch_id"
    )


@pytest.mark.parametrize(("name", "warned"), [("_batch_id", "cannot tell them apart any more"), ("id", "do not come")])
def test_what_was_dropped_does_not_come_back(name: str, warned: str):
    found = said({}, {name: TEXT}, **{name: ""})
    assert "It was dropped" in found
    assert warned in found
    assert found.endswith(f"run: {ALTER} ADD COLUMN {name} string") or found.endswith(
        f"Run: {ALTER} ADD COLUMN {name} string"
    )


def test_types_and_nulls():
    assert (
        "is string, in the route's schema it is bigint. A table takes no such change: change the schema back"
        in said({"a": TEXT}, {"a": NUMBER})
    )
    for before, after in (("int", "bigint"), ("float", "double"), ("decimal(9,2)", "decimal(12,2)")):
        found = said({"a": ColumnFacts(before, True)}, {"a": ColumnFacts(after, True)})
        assert found.endswith(f"Run: {ALTER} ALTER COLUMN a TYPE {after}")
        assert "ALTER COLUMN" not in said({"a": ColumnFacts(after, True)}, {"a": ColumnFacts(before, True)})
    assert f"run: {ALTER} DROP COLUMN a; {ALTER} ADD COLUMN a bigint; then" in said({"a": TEXT}, {"a": NUMBER})
    assert "DROP COLUMN" not in said({"_batch_id": NUMBER}, {"_batch_id": TEXT})
    for after in ("decimal(12,3)", "bigint"):
        assert "ALTER COLUMN" not in said({"a": ColumnFacts("decimal(9,2)", True)}, {"a": ColumnFacts(after, True)})
    strict = ColumnFacts("string", False)
    assert said({"a-b": strict}, {"a-b": TEXT}).endswith(f"run: {ALTER} ALTER COLUMN `a-b` DROP NOT NULL")
    assert said({"a": TEXT, "b": strict}, {"a": TEXT}).endswith(f"run: {ALTER} ALTER COLUMN b DROP NOT NULL")


@pytest.mark.parametrize(
    ("there", "wanted", "changes"),
    [
        ("struct<a:int>", "struct<a:int,vip:boolean>", ["ADD COLUMN c.vip boolean"]),
        ("struct<a:int>", "struct<z:string,a:int>", ["ADD COLUMN c.z string FIRST"]),
        (
            "struct<a:int,b:int>",
            "struct<a:bigint,x:date,b:int>",
            ["ALTER COLUMN c.a TYPE bigint", "ADD COLUMN c.x date AFTER a"],
        ),
        ("array<struct<a:int>>", "array<struct<a:int,d:decimal(9,2)>>", ["ADD COLUMN c.element.d decimal(9,2)"]),
        ("map<string,struct<a:int>>", "map<string,struct<a:int,k:int>>", ["ADD COLUMN c.value.k int"]),
        ("struct<a:struct<b:int>>", "struct<a:struct<b:int,e:array<int>>>", ["ADD COLUMN c.a.e array<int>"]),
        ("array<float>", "array<double>", ["ALTER COLUMN c.element TYPE double"]),
    ],
)
def test_fields_of_a_nested_column_are_added_in_place(there: str, wanted: str, changes: list[str]):
    found = said({"c": ColumnFacts(there, True)}, {"c": ColumnFacts(wanted, True)})
    assert found.endswith(f"Run: {'; '.join(f'{ALTER} {each}' for each in changes)}")


@pytest.mark.parametrize(
    ("there", "wanted"),
    [
        ("struct<a:int,b:int>", "struct<a:int>"),
        ("struct<a:int,b:int>", "struct<b:int,a:int>"),
        ("struct<a:bigint>", "struct<a:int,b:int>"),
        ("map<string,int>", "map<int,int>"),
        ("array<int>", "int"),
        ("struct<a:int>", "struct<a:int,A:int>"),
        ("struct<a,b:int>", "struct<a,b:int,c:int>"),
    ],
)
def test_what_iceberg_does_not_do_within_a_column_is_left_to_a_person(there: str, wanted: str):
    assert "takes no such change" in said({"c": ColumnFacts(there, True)}, {"c": ColumnFacts(wanted, True)})
