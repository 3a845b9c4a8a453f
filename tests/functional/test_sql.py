"""`tidegate sql`: what it answers, refuses and prints, on a warehouse whose stack does not run."""

import csv
import io
import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from pyiceberg.catalog import Catalog
from pyiceberg.types import StringType
from typer.testing import CliRunner

from tests.support import warehouse
from tests.support.patience import HANGING
from tests.unit.test_cli import agree, documented, shape
from tidegate.cli import main
from tidegate.cli.asking import engine, lakes
from tidegate.cli.asking.files import _OpenedRange
from tidegate.cli.exits import Exit

ROOT = Path(__file__).parents[2]
NAME = "lake.flights.departures"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in list(os.environ):
        if name.startswith(("TIDEGATE_", "AWS_", "PYICEBERG_")):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    warehouse.make(tmp_path / "stack")
    return tmp_path / "stack"


@pytest.fixture
def catalog(folder: Path) -> Catalog:
    return warehouse.opened(folder)


def run(folder: Path, *arguments: str) -> Result:
    return CliRunner().invoke(main.app, ["sql", "--dir", str(folder), *arguments])


def answer(folder: Path, query: str) -> list[dict[str, Any]]:
    result = run(folder, query, "--json")
    assert result.exit_code == Exit.OK, result.stderr
    rows: list[dict[str, Any]] = json.loads(result.stdout)["rows"]
    return rows


# --- what is asked ---


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        (f"select count(*) as n from {NAME}", [{"n": 5}]),
        (f"select count(dep_delay) as n from {NAME}", [{"n": 3}]),
        ("select count(*) as n from flights.departures", [{"n": 5}]),
        ('select count(*) as n from "lake"."flights"."departures" where dest = \'IAH\'', [{"n": 2}]),
        (
            f"select origin, sum(flight) as s from {NAME} group by origin order by origin",
            [{"origin": "EWR", "s": 4503}, {"origin": "JFK", "s": 3001}],
        ),
        (f"select max(time_hour) as t from {NAME}", [{"t": "2013-01-01T06:00:00Z"}]),
        (f"with ewr as (select * from {NAME} where origin = 'EWR') select count(*) as n from ewr", [{"n": 3}]),
        # a scan that could be read once only would answer 0 here
        (f"select count(*) as n from {NAME} a join {NAME} b on a.flight = b.flight", [{"n": 9}]),
        (f"select count(*) as n from {NAME} where dep_delay is null", [{"n": 2}]),
        (f"select flight from {NAME} where flight > 1501", [{"flight": 1502}]),
        (f"from {NAME} select distinct carrier", [{"carrier": "UA"}]),
        ("select 1 as one", [{"one": 1}]),
    ],
)
def test_a_query_is_answered(folder: Path, query: str, rows: list[dict[str, Any]]):
    assert answer(folder, query) == rows


def test_a_query_is_given_by_word_by_file_or_by_pipe(folder: Path, tmp_path: Path):
    query = f"select count(*) as n from {NAME};\n"
    (tmp_path / "query.sql").write_text(query)
    by_file = run(folder, "-f", str(tmp_path / "query.sql"), "--csv")
    assert by_file.stdout == "n\n5\n"
    command = [sys.executable, "-m", "tidegate.cli.main", "sql", "--dir", str(folder), "--csv"]
    by_pipe = subprocess.run(command, input=query, capture_output=True, text=True, cwd=ROOT, check=True)
    assert by_pipe.stdout == "n\n5\n"
    with (tmp_path / "query.sql").open() as file:
        redirected = subprocess.run(command, stdin=file, capture_output=True, text=True, cwd=ROOT, check=True)
    assert redirected.stdout == "n\n5\n"


def test_the_environment_of_a_stack_that_is_gone_is_enough(folder: Path):
    """The environment that `local env` leaves when no stack runs."""
    command = [sys.executable, "-m", "tidegate.cli.main"]
    left = subprocess.run(
        [*command, "local", "env", "--dir", str(folder)], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert left.returncode == Exit.NO_STACK
    asked = f"{left.stdout}\n{sys.executable} -m tidegate.cli.main sql --csv 'select count(*) as n from {NAME}'"
    done = subprocess.run(["sh", "-c", asked], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout == "n\n5\n"


def test_each_table_is_read_at_one_snapshot(folder: Path, catalog: Catalog, monkeypatch: pytest.MonkeyPatch):
    """Somebody commits after the catalog was asked, and before the rows are read."""
    close = engine._close
    late: list[int] = []

    def meanwhile(*given: Any) -> None:
        if not late:
            late.append(1)
            catalog.load_table(warehouse.TABLE).append(warehouse.upload(2, 7))
        close(*given)

    monkeypatch.setattr(engine, "_close", meanwhile)
    query = f"select (select count(*) from {NAME}) as a, (select count(*) from {NAME} where flight > 0) as b"
    assert answer(folder, query) == [{"a": 5, "b": 5}]
    assert late
    assert answer(folder, query) == [{"a": 12, "b": 12}]


def test_the_snapshot_is_named(folder: Path, catalog: Catalog):
    current = catalog.load_table(warehouse.TABLE).current_snapshot()
    assert current
    document = json.loads(run(folder, f"select 1 from {NAME}", "--json").stdout)
    assert document["snapshots"] == {NAME: str(current.snapshot_id)}
    assert str(current.snapshot_id) in run(folder, f"select 1 from {NAME}").stderr


# --- what is read for it ---


def test_a_file_whose_bounds_contradict_the_query_is_not_opened(folder: Path, catalog: Catalog):
    """The file of the other upload is not even there."""
    files = {each["file_path"]: each["record_count"] for each in data_files(catalog)}
    (other,) = (path for path, rows in files.items() if rows == 2)
    Path(other.removeprefix("file:")).unlink()
    for condition in (f"_batch_id = '{warehouse.BATCHES[0]}'", "origin = 'EWR'", "_source_row = 2"):
        assert answer(folder, f"select count(*) as n from {NAME} where {condition}")[0]["n"] > 0
    assert run(folder, f"select count(*) as n from {NAME} where dest = 'ORD'").exit_code == Exit.NO_STACK


def data_files(catalog: Catalog) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = catalog.load_table(warehouse.TABLE).inspect.data_files().to_pylist()
    return found


def test_a_column_that_came_later_is_null_in_older_rows(folder: Path, catalog: Catalog):
    table = catalog.load_table(warehouse.TABLE)
    with table.update_schema() as update:
        update.add_column("gate", StringType())
        update.rename_column("dest", "destination")
    query = f"select count(*) as n, count(gate) as g, min(destination) as d from {NAME}"
    assert answer(folder, query) == [{"n": 5, "g": 0, "d": "IAH"}]


def test_rows_that_were_deleted_are_gone(folder: Path, catalog: Catalog):
    catalog.load_table(warehouse.TABLE).delete("flight = 1500")
    assert answer(folder, f"select count(*) as n from {NAME}") == [{"n": 3}]


# --- what is refused ---


@pytest.mark.parametrize(
    ("query", "said"),
    [
        (f"select * from {NAME}x", f"there is no table {NAME}x: did you mean {NAME}?"),
        ("select * from departures", f"there is no table departures: did you mean {NAME}?"),
        ("select * from lake.flihgts.departures", f"did you mean {NAME}?"),
        ("select * from nothing.like.it", f"there are {NAME}"),
        (f"select desst from {NAME}", '"dest"'),
        (f"select count(* from {NAME}", "syntax error"),
        (f"insert into {NAME} values (1)", "this verb only reads, and this is a statement of the kind INSERT"),
        (f"delete from {NAME}", "the kind DELETE"),
        (f"drop table {NAME}", "the kind DROP"),
        ("create table t as select 1", "the kind CREATE"),
        ("copy (select 1) to 'out.csv'", "the kind COPY"),
        ("attach 'x.db'", "the kind ATTACH"),
        ("install httpfs", "the kind"),
        ("set enable_external_access = true", "the kind"),
        ("select 1; select 2", "there are 2 statements: give one query at a time"),
        ("/* nothing */", "there are 0 statements"),
        ("show tables", "without a query lists the tables"),
        ("select * from read_csv('/etc/passwd')", "disabled"),
    ],
)
def test_what_cannot_be_answered_is_told_and_ends_with_2(folder: Path, query: str, said: str):
    result = run(folder, query)
    assert result.exit_code == Exit.USAGE, result.output
    assert said.lower() in " ".join(result.stderr.split()).lower()
    assert result.stdout == ""
    assert "Traceback" not in result.stderr


WRITING = (
    *("copy (select 1 as x) to '{new}'", "copy {name} to '{data}' (format parquet)", "copy {name} from '{data}'"),
    *(
        "export database '{folder}/all'",
        "attach '{new}' as there",
        "create table t as select 1",
        "vacuum",
        "checkpoint",
    ),
    *("create secret s (type s3)", "install spatial", "load '{new}'", "set threads = 1", "reset threads", "use memory"),
    *("pragma enable_profiling = 'json'", "pragma profiling_output = '{new}'", "call enable_logging()", "begin"),
    *("prepare p as select 1", "execute p", "set variable v = 1", "insert into {name} select * from {name}"),
    *("delete from {name}", "update {name} set flight = 1", "truncate {name}", "drop view {name}", "detach lake"),
    *("merge into {name} using {name} b on true when matched then delete", "alter table {name} add column x int"),
    "with rows as (copy (select 1) to '{new}') select * from rows",
    "select 1; copy (select 1 as x) to '{new}'",
)
"""Statements that change something: a file, a table, or what the engine may do."""
EXPLAINS = ("explain", "/* this */ explain analyze", "explain (analyze, format json)")
ATTACKS = [*WRITING, *(f"{first} {WRITING[0]}" for first in EXPLAINS)]


@pytest.mark.parametrize("query", ATTACKS)
def test_what_would_write_is_refused_and_changes_nothing(folder: Path, catalog: Catalog, query: str):
    """By the kind of the statement, before it runs."""
    before = contents(folder)
    result = run(folder, filled(query, folder, catalog))
    assert contents(folder) == before
    assert result.exit_code == Exit.USAGE, result.output
    assert "LocalFileSystem" not in result.stderr


@pytest.mark.parametrize("query", ATTACKS)
def test_what_is_let_through_by_mistake_cannot_write(
    folder: Path, catalog: Catalog, query: str, monkeypatch: pytest.MonkeyPatch
):
    """The second fence alone: the files can only be read, whatever is run."""
    before = contents(folder)
    monkeypatch.setattr(engine, "_checked", lambda connection, query: query)
    run(folder, filled(query, folder, catalog))
    assert contents(folder) == before


def test_what_is_run_is_what_was_looked_at(folder: Path):
    """DuckDB nests comments: the second of these is a COPY to it, and a SELECT to who ends them as C does."""
    new = folder / "warehouse" / "new"
    result = run(folder, f"select 1 -- */ copy (select 1) to '{new}'")
    assert result.exit_code == Exit.OK
    result = run(folder, f"/* /* */ select 1 -- */ */ copy (select 1) to '{new}'")
    assert result.exit_code == Exit.USAGE
    assert not new.exists()


@pytest.mark.parametrize(
    "query",
    [
        "from enable_logging(storage = 'file', storage_path = '{folder}/log'), {name}",
        "from enable_profiling(format = 'json', save_location = '{new}'), {name}",
        "from query('copy (select 1 as x) to ''{new}''')",
        "from read_duckdb('{new}', table_name = 'x')",
        "from force_checkpoint()",
        "select * into t from {name}",
        "select * from read_csv('{new}', store_rejects = true)",
    ],
)
def test_a_function_of_a_query_writes_nothing(folder: Path, catalog: Catalog, query: str):
    before = contents(folder)
    run(folder, filled(query, folder, catalog))
    assert contents(folder) == before


@pytest.mark.parametrize(
    "query",
    [
        "select content from read_text('{outside}')",
        "select content from read_text('file://{outside}')",
        "select content from read_text('file://{folder}/warehouse/../../outside.txt')",
        "select content from read_text('file://{folder}/warehouse/link.txt')",
        "select file from glob('{outside}')",
        "select file from glob('file://{outside}')",
        "select * from '{outside}'",
        "select * from read_csv('{outside}')",
        "select content::varchar from read_blob('s3://outside/outside.txt')",
    ],
)
@pytest.mark.parametrize("named", ["", " union all select origin from {name}"], ids=["alone", "beside a table"])
def test_a_query_reads_nothing_but_the_warehouse(folder: Path, catalog: Catalog, query: str, named: str):
    outside = folder.parent / "outside.txt"
    outside.write_text("the secret\n")
    (folder / "warehouse" / "link.txt").symlink_to(outside)
    result = run(folder, filled(query + named, folder, catalog), "--csv")
    assert "secret" not in result.stdout
    assert "outside.txt" not in result.stdout


def filled(query: str, folder: Path, catalog: Catalog) -> str:
    return query.format(
        name=NAME,
        folder=folder,
        new=folder / "warehouse" / "new",
        data=data_files(catalog)[0]["file_path"],
        outside=folder.parent / "outside.txt",
    )


def contents(folder: Path) -> dict[str, bytes]:
    """Of all files near the stack, and so of those that a query might leave in the folder that it runs in."""
    assert Path.cwd() == folder.parent
    return {str(file): file.read_bytes() for file in folder.parent.rglob("*") if file.is_file()}


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("describe {name}", "carrier"),
        ("summarize {name}", "carrier"),
        ("from {name}", "UA"),
        ("values (1)", "1"),
    ],
)
def test_the_kin_of_select_is_answered(folder: Path, catalog: Catalog, query: str, said: str):
    result = run(folder, filled(query, folder, catalog), "--csv")
    assert result.exit_code == Exit.OK, result.stderr
    assert said in result.stdout


def test_a_place_of_a_file_is_the_reader_s_own():
    """DuckDB's threads share an opened file, and go to a place and read it in two calls."""
    reading = _OpenedRange(10, lambda start, count: b"0123456789"[start : start + count])
    assert (reading.read(2), reading.read(2), reading.tell()) == (b"01", b"23", 4)
    reading.seek(8)
    with ThreadPoolExecutor(1) as another:
        another.submit(reading.seek, 1).result()
        assert reading.read(5) == b"89"
        assert another.submit(reading.read, 2).result() == b"12"
    assert reading.read(1) == b"3"


@pytest.mark.parametrize(
    "arguments",
    [
        ["select 1", "--limit", "0"],
        ["select 1", "--json", "--csv"],
        ["select 1", "-f", "q.sql"],
        ["--csv"],
        ["  "],
        ["-f", "there-is-none.sql"],
    ],
    ids=" ".join,
)
def test_a_command_line_that_makes_no_sense_is_refused(folder: Path, arguments: list[str]):
    assert run(folder, *arguments).exit_code == Exit.USAGE


def test_without_tables_it_says_where_none_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("TIDEGATE_CATALOG_URI", raising=False)
    result = run(tmp_path, "select 1")
    assert result.exit_code == Exit.NO_STACK
    assert f"there are no tables in {tmp_path}" in result.stderr


@pytest.mark.parametrize(
    "query", ["select * from lake.flights.departures", "from flights.departures", "from departures"]
)
def test_before_the_first_batch_there_are_no_tables_and_that_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, query: str
):
    for name in ("TIDEGATE_CATALOG_URI", "TIDEGATE_LEDGER"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "warehouse").mkdir()
    listed = run(tmp_path)
    assert (listed.exit_code, listed.stderr) == (Exit.OK, "")
    assert f"There are no tables yet in {tmp_path / 'warehouse'}" in " ".join(listed.stdout.split())
    asked = run(tmp_path, query)
    assert asked.exit_code == Exit.USAGE
    assert "there are no tables yet in" in asked.stderr
    assert sorted(tmp_path.rglob("*")) == [tmp_path / "warehouse"]


def test_files_that_are_gone_are_no_traceback(folder: Path):
    for file in (folder / "warehouse").rglob("*.parquet"):
        file.unlink()
    result = run(folder, f"select * from {NAME}")
    assert result.exit_code in (Exit.NO_STACK, Exit.USAGE)
    assert "No such file" in result.stderr
    assert "Traceback" not in result.stderr


# --- what is printed ---


def test_without_a_query_the_tables_are_listed_and_how_to_ask(folder: Path, monkeypatch: pytest.MonkeyPatch):
    result = run(folder)
    assert result.exit_code == Exit.OK, result.stderr
    assert f"{NAME}  5 rows" in result.stdout
    assert "time_hour" in result.stdout
    assert "timestamp" in result.stdout
    command = result.stdout.partition("ask: ")[2].strip()
    monkeypatch.setenv("COLUMNS", "200")
    printed = subprocess.run(["sh", "-c", command], capture_output=True, text=True, cwd=ROOT, check=True)
    assert "IAH" in printed.stdout


def test_the_list_as_json(folder: Path):
    document = json.loads(run(folder, "--json").stdout)
    (table,) = document["tables"]
    assert (table["table"], table["rows"]) == (NAME, 5)
    assert {"name": "flight", "type": "int"} in table["columns"]
    assert {"name": "_source_row", "type": "bigint"} in table["columns"]
    assert {"name": "time_hour", "type": "timestamp"} in table["columns"]


def test_the_page_shows_both_documents(folder: Path):
    query = f"select origin, count(*) as departures from {NAME} group by origin"
    found = json.loads(run(folder, query, "--json").stdout)
    page = documented("sql")
    assert found.keys() == page.keys()
    assert [*found["rows"][0]] == [*page["rows"][0]]
    assert found["columns"] == page["columns"]
    assert agree(shape(json.loads(run(folder, "--json").stdout)), shape(documented("sql-tables")))


def test_csv_has_every_row_and_column(folder: Path):
    rows = list(
        csv.DictReader(io.StringIO(run(folder, f"select * from {NAME} order by time_hour, flight", "--csv").stdout))
    )
    assert len(rows) == 5
    assert rows[0]["_source_uri"].startswith("s3://landing/")
    assert rows[0]["time_hour"] == "2013-01-01T05:00:00Z"
    assert {row["dep_delay"] for row in rows} == {"0", "", "2"}


def test_a_table_fits_the_terminal_and_says_what_it_left_out(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "72")
    result = run(folder, f"select * from {NAME} order by flight")
    assert result.exit_code == Exit.OK
    assert max(map(len, result.stdout.splitlines())) <= 72
    assert "carrier" in result.stdout
    assert "dest" in result.stdout
    assert "not shown, for lack of room: " in result.stderr
    assert "_source_uri" in result.stderr
    assert "_source_uri" not in result.stdout


def test_a_long_answer_is_cut_and_says_so(folder: Path):
    result = run(folder, f"select flight from {NAME}", "--limit", "2")
    assert "the first 2 rows" in result.stderr
    assert result.stdout.count("150") == 2
    everything = run(folder, "select * from range(250)", "--limit", "250")
    assert "249" in everything.stdout
    cut = run(folder, "select * from range(250)")
    assert "the first 100 rows" in cut.stderr
    document = json.loads(run(folder, f"select flight from {NAME}", "--json", "--limit", "2").stdout)
    assert (len(document["rows"]), document["more"]) == (2, True)


def test_names_that_come_twice_stay_apart_in_json(folder: Path):
    assert answer(folder, "select 1 as a, 2 as a, 3 as a_2") == [{"a": 1, "a_2": 2, "a_2_2": 3}]


def test_what_would_move_the_cursor_is_shown(folder: Path):
    result = run(folder, "select chr(27) || '[2J' as red, 'two' || chr(10) || 'lines' as t")
    assert "\x1b[2J" not in result.stdout
    assert "\\x1b[2J" in result.stdout
    assert "two\\nlines" in result.stdout


def test_values_that_json_has_no_word_for(folder: Path):
    (row,) = answer(
        folder,
        "select 'NaN'::double as n, 1.10::decimal(9,2) as d, date '2026-11-21' as day, '\\xAA'::blob as b,"
        " [1, null] as l, {'a': 1} as s, null as z, 9007199254740993::bigint as big",
    )
    assert row == {
        "n": "nan",
        "d": "1.10",
        "day": "2026-11-21",
        "b": "qg==",
        "l": [1, None],
        "s": {"a": 1},
        "z": None,
        "big": 9007199254740993,
    }


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="what a process has loaded is looked for in /proc")
def test_ctrl_c_ends_a_query_and_nothing_runs_on(folder: Path):
    query = "select count(*) from range(100000000) a, range(100000000) b"
    command = [sys.executable, "-m", "tidegate.cli.main", "sql", "--dir", str(folder), query]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as running:
        try:
            # DuckDB's extension is loaded, so the query is about to begin
            maps = Path(f"/proc/{running.pid}/maps")
            deadline = time.monotonic() + HANGING
            while "iceberg.duckdb_extension" not in maps.read_text() and time.monotonic() < deadline:
                time.sleep(0.1)
            time.sleep(1)
            running.send_signal(signal.SIGINT)
            _, said = running.communicate(timeout=HANGING)
        finally:
            running.kill()
    assert running.returncode == Exit.INTERRUPTED, said
    assert "interrupted" in said
    assert "Traceback" not in said


def test_nothing_is_fetched(folder: Path):
    """An extension that the engine lacks would come from the net."""
    with pytest.raises(engine.BadQuery):
        engine.ask("select * from iceberg_scan('x')", lakes.find(folder))
