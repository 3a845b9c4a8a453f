"""What a driver staged, as one commit to `main`.

Rows are staged by one snapshot. What leaves the table for them is staged by another one on top
(`IcebergTable.stage_removal`), so a file of the first may lose rows, or be gone, by the second. The commit adds what is
left of both. It is an append if nothing leaves. Source read: Iceberg 1.11.0, `BaseRowDelta`.
"""

from collections.abc import Sequence
from typing import Any

from tidegate.flows.sink import SeenVersion, StagedIsGone
from tidegate.sinks.iceberg.marks import ON_TOP_OF


def commit_of(jvm: Any, table: Any, staged: Any, seen: SeenVersion | None) -> Any:
    """The pending update (`org.apache.iceberg.SnapshotUpdate`) that brings the snapshot `staged`, and the one on top of
    which it was staged. Raises StagedIsGone if that has expired."""
    under = staged.summary().get(ON_TOP_OF)
    if under is None:
        append = table.newAppend()
        for file in _changes(jvm, table, staged).addedDataFiles():
            append = append.appendFile(file)
        return append
    rows = table.snapshot(int(under))
    if rows is None:
        raise StagedIsGone(f"snapshot {under}, on which snapshot {staged.snapshotId()} was staged, is gone")
    assert seen is not None, "rows leave a table only from a version that was looked at"
    return _row_delta(jvm, table, (rows, staged), seen)


def _row_delta(jvm: Any, table: Any, line: Sequence[Any], seen: SeenVersion) -> Any:
    added: dict[str, Any] = {}
    removed: list[Any] = []
    marked: dict[tuple[str, int], Any] = {}
    unmarked: list[Any] = []
    for snapshot in line:
        changes = _changes(jvm, table, snapshot)
        added |= {str(file.location()): file for file in changes.addedDataFiles()}
        removed += [file for file in changes.removedDataFiles() if not added.pop(str(file.location()), None)]
        marked |= {_place(file): file for file in changes.addedDeleteFiles()}
        unmarked += [file for file in changes.removedDeleteFiles() if not marked.pop(_place(file), None)]
    # of what others have marked since then Iceberg looks itself
    delta = table.newRowDelta().validateFromSnapshot(seen.version)
    for file in added.values():
        delta = delta.addRows(file)
    for file in removed:
        delta = delta.removeRows(file)
    for file in marked.values():
        delta = delta.addDeletes(file)
    for file in unmarked:
        delta = delta.removeDeletes(file)
    return delta


def _changes(jvm: Any, table: Any, snapshot: Any) -> Any:
    return jvm.org.apache.iceberg.SnapshotChanges.builderFor(table).snapshot(snapshot).build()


def _place(file: Any) -> tuple[str, int]:
    """Deletion vectors share a file."""
    return str(file.location()), int(file.contentOffset() or 0)
