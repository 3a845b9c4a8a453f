"""`tidegate shell`: real shells of Spark on a warehouse without a stack, and `tidegate sql` on what they write."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.support import warehouse
from tidegate.cli import main
from tidegate.cli.exits import Exit

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[2]
SQL = """
create table shop.orders (id bigint, total decimal(12,2), placed_at timestamp, tags array<string>)
  using iceberg partitioned by (days(placed_at))
  tblproperties ('format-version' = '2', 'write.delete.mode' = 'merge-on-read');
insert into shop.orders values
  (1, 1.10, timestamp '2026-11-21 10:21:00', array('a', null)), (2, 2.20, timestamp '2026-11-22 10:21:00', null),
  (3, 3.30, timestamp '2026-11-22 11:21:00', array());
delete from lake.shop.orders where id = 2;
select 'there are', count(*) from flights.departures;
"""


def shell(folder: Path, typed: str, *options: str) -> subprocess.CompletedProcess[str]:
    """The shell, with what somebody types, started in the folder."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("TIDEGATE_", "AWS_"))}
    environment |= {"PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), *sys.path])), "AWS_PROFILE": "production"}
    words = [sys.executable, "-m", "tidegate.cli.main", "shell", "--dir", str(folder), *options]
    return subprocess.run(words, input=typed, env=environment, cwd=folder, capture_output=True, text=True, check=False)


def test_what_spark_writes_is_answered(tmp_path: Path):
    warehouse.make(tmp_path)
    before = sorted(tmp_path.iterdir())
    done = shell(tmp_path, f"create namespace shop;{SQL}")
    assert done.returncode == 0, done.stderr[-2000:]
    assert "there are\t5" in done.stdout
    assert sorted(tmp_path.iterdir()) == before, "a shell leaves nothing where it is started"
    query = "select id, total, placed_at, tags from lake.shop.orders order by id"
    result = CliRunner().invoke(main.app, ["sql", "--dir", str(tmp_path), "--csv", query])
    assert result.exit_code == Exit.OK, result.stderr
    assert result.stdout.splitlines() == [
        "id,total,placed_at,tags",
        '1,1.10,2026-11-21T10:21:00Z,"[""a"", null]"',
        "3,3.30,2026-11-22T11:21:00Z,[]",
    ]
    listed = CliRunner().invoke(main.app, ["sql", "--dir", str(tmp_path)])
    assert "lake.shop.orders  some rows" in listed.stdout
    assert "array<string>" in listed.stdout


def test_python_has_a_session_on_the_tables_and_no_account(tmp_path: Path):
    warehouse.make(tmp_path)
    typed = (
        "import os\nprint('rows', spark.table('lake.flights.departures').count())\n"
        "print('profile', os.environ.get('AWS_PROFILE'), os.environ['AWS_ACCESS_KEY_ID'])\n"
    )
    done = shell(tmp_path, typed, "--python")
    assert done.returncode == 0, done.stderr[-2000:]
    assert "rows 5" in done.stdout
    assert "profile None testing" in done.stdout
