"""A table that does not fit its route is told when the settings are deployed, and not when a batch has halted."""

from dataclasses import replace

from tests.unit.test_settings import GOOD
from tidegate.schemas.ddl import parse as columns_of
from tidegate.settings import parse
from tidegate.settings.changes import column_types, unfit_tables

ROUTE = parse(GOOD).core_routes()[0]
TABLE = ROUTE.dataset.table
THERE = {column.name: str(column.type) for column in columns_of(ROUTE.dataset.schema).columns}


def told(there: dict[str, str], config: str = GOOD) -> list[str]:
    return list(unfit_tables(parse(config).core_routes(), {TABLE: there}))


def test_all_that_does_not_fit_is_told_at_once():
    assert told(THERE) == told({**THERE, "more": "int"}) == []
    assert list(unfit_tables([ROUTE], {"lake.other.one": {}})) == []
    assert list(unfit_tables([replace(ROUTE, retired=True)], {TABLE: {}})) == []
    one, other = list(THERE)[:2]
    lacking = {name: kind for name, kind in THERE.items() if name != other}
    (said,) = told({**lacking, one: "binary"})
    assert f"table {TABLE} does not fit route {ROUTE.name}" in said
    assert f"{one} is binary, and the route says {THERE[one]}; it has no {other}." in said


def test_a_column_that_the_job_adds_is_not_told():
    config = GOOD.replace("[[route]]", '[[route]]\nunknown = "add"', 1)
    added = parse(config).core_routes()[0].dataset
    nullable = next(each.name for each in columns_of(added.schema).columns if each.nullable)
    there = {name: kind for name, kind in THERE.items() if name != nullable}
    assert told({**there, "_unknown": "string"}, config) == []


def test_types_are_called_as_in_a_schema():
    ddl = (
        "a boolean, b int, c bigint, d float, e double, f decimal(9,2), g string, h binary, i date, j timestamp,"
        " k timestamp_ntz, l array<struct<m:bigint,n:string>>, o map<string,timestamp>"
    )
    struct = {"type": "struct", "fields": [{"name": "m", "type": "long"}, {"name": "n", "type": "string"}]}
    kinds = ["boolean", "int", "long", "float", "double", "decimal(9, 2)", "string", "binary", "date", "timestamptz"]
    kinds += ["timestamp", {"type": "list", "element": struct}]
    kinds += [{"type": "map", "key": "string", "value": "timestamptz"}]
    names = [column.name for column in columns_of(ddl).columns]
    fields = [{"name": name, "type": kind} for name, kind in zip(names, kinds, strict=True)]
    schemas = [{"schema-id": 0, "fields": []}, {"schema-id": 3, "fields": fields}]
    found = column_types({"current-schema-id": 3, "schemas": schemas})
    assert found == {column.name: str(column.type) for column in columns_of(ddl).columns}
