"""What a folder has of earlier stacks, and whether another one can go on from there."""

import sqlite3
from contextlib import closing

import pytest

from tidegate_local import continuing
from tidegate_local.continuing import Begun, Past, clear_way, forget, look
from tidegate_local.durable import database
from tidegate_local.durable.database import Database
from tidegate_local.errors import LocalError

BEGUN = Begun("/a/tidegate.toml", "digest", {"services": 4566})


def kept(folder, version=database.VERSION, *, begun=True, tables=True):
    """A folder as a stack leaves it."""
    (folder / "warehouse").mkdir()
    Database(folder / "state").close()
    with closing(sqlite3.connect(folder / "state" / database.FILE)) as connection:
        connection.execute(f"PRAGMA user_version = {version}")
    if begun:
        BEGUN.write(folder)
    if tables:
        (folder / "warehouse" / "catalog.db").touch()
    return folder


def test_a_new_folder_has_nothing(tmp_path):
    assert look(tmp_path) == (Past.NONE, Begun())
    clear_way(tmp_path, Past.NONE)
    assert not forget(tmp_path / "nowhere")


def test_a_stack_goes_on_from_what_is_whole(tmp_path):
    assert look(kept(tmp_path)) == (Past.KEPT, BEGUN)
    clear_way(tmp_path, Past.KEPT)
    assert look(tmp_path) == (Past.KEPT, BEGUN)


@pytest.mark.parametrize("tables", [True, False])
def test_what_a_first_start_did_not_finish_counts_for_nothing(tmp_path, tables):
    """Its ledger may not be rebuilt yet: a later start that went on from it would take landed files for new."""
    kept(tmp_path, begun=False, tables=tables)
    past, begun = look(tmp_path)
    assert (past, begun) == (Past.LOST if tables else Past.NONE, Begun())
    clear_way(tmp_path, past)
    assert not (tmp_path / "state").exists()


def test_a_state_without_its_tables_is_an_error(tmp_path):
    """Its ledger would refuse what is in no table."""
    kept(tmp_path, tables=False)
    assert look(tmp_path)[0] is Past.KEPT, "nothing has landed yet"
    (tmp_path / "warehouse").rmdir()
    with pytest.raises(LocalError, match=r"tables in .*warehouse are gone.* local down --forget --dir "):
        look(tmp_path)


def test_tables_without_a_state_are_told(tmp_path):
    kept(tmp_path)
    (tmp_path / "state" / database.FILE).unlink()
    past, begun = look(tmp_path)
    assert past is Past.LOST
    assert begun.ports == BEGUN.ports, "the ports are still known"


def test_the_state_of_another_version_is_an_error(tmp_path):
    with pytest.raises(LocalError, match=r"another Tidegate .*version 99.* local down --forget --dir "):
        look(kept(tmp_path, version=99))


@pytest.mark.parametrize("name", [database.FILE, continuing.FILE])
def test_a_damaged_state_is_an_error_that_says_what_to_do(tmp_path, name):
    kept(tmp_path)
    (tmp_path / "state" / name).write_bytes(b"no such thing" * 1000)
    with pytest.raises(LocalError, match=r"cannot be read.* local down --forget --dir "):
        look(tmp_path)


def test_forgetting_deletes_what_a_stack_makes_and_nothing_else(tmp_path):
    folder = tmp_path / "dir"
    folder.mkdir()
    kept(folder)
    (folder / "tidegate.toml").touch()
    for name in ("jobs", "logs", "cdk.out"):
        (folder / name).mkdir()
    for name in ("stack.json", "supervisor.log", "stack.pid"):
        (folder / name).touch()
    assert forget(folder)
    assert [each.name for each in folder.iterdir()] == ["tidegate.toml"]
    assert not forget(folder)
    (folder / "tidegate.toml").unlink()
    forget(folder)
    assert not folder.exists()
