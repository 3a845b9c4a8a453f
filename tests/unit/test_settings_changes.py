"""A type that is changed of a table that is there is told when it is deployed, and not when a batch has halted."""

from tests.unit.test_settings import GOOD
from tidegate.settings import parse
from tidegate.settings.changes import retyped


def test_a_changed_type_of_a_table_that_is_there_is_told():
    before = parse(GOOD).core_routes()
    (route,) = (each for each in before if each.name == before[0].name)
    table = route.dataset.table
    now = parse(GOOD.replace("region string", "region int", 1)).core_routes()
    (told,) = retyped(before, now, {table})
    assert told.startswith(f"table {table} is there with region string, and route {route.name} now says int")
    assert "new `table`" in told
    assert list(retyped(before, now, {"lake.other.one"})) == []
    assert list(retyped(before, before, {table})) == []
    assert list(retyped(now[1:], before[1:], {table})) == []


def test_a_new_column_and_a_new_table_are_no_changed_type():
    before = parse(GOOD).core_routes()
    tables = {each.dataset.table for each in before}
    for changed in (
        GOOD.replace("region string", "region string, more int", 1),
        GOOD.replace(f'"{before[0].dataset.table}"', f'"{before[0].dataset.table}2"').replace(
            "region string", "region int", 1
        ),
    ):
        assert list(retyped(before, parse(changed).core_routes(), tables)) == []
