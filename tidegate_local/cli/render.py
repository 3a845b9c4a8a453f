"""What a terminal shows about the local stack."""

import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path

from rich.text import Text

from tidegate.cli.command import this_command
from tidegate.cli.render import console

OLD_TABLES = (
    "The tables in this folder are from an earlier run; the emulated S3 and queues start empty. In a bucket without"
    " versions, a file that has landed and is uploaded again is refused: the ledger was rebuilt from the tables, as far"
    " back as `claims`. In a bucket with versions it is another upload, as on AWS: its rows land once more. Delete"
    " {warehouse} to start over, or use another --dir."
)


def stack_ready(
    folder: Path, environment: Mapping[str, str], *, existing_warehouse: bool, notes: Iterable[str], detached: bool
) -> None:
    out = console()
    command, there = this_command(), shlex.quote(str(folder))
    out.print(Text.assemble(("The stack is up", "bold green"), f" in {folder}"), soft_wrap=True)
    for name, value in (
        ("endpoint", environment["AWS_ENDPOINT_URL"]),
        ("warehouse", environment["TIDEGATE_WAREHOUSE"]),
        ("shell", f'eval "$({command} local env --dir {there})"'),
        ("stop", f"{command} local down --dir {there}" if detached else "Ctrl-C"),
    ):
        out.print(Text.assemble((f"  {name:<10}", "dim"), value), soft_wrap=True)
    for note in notes:
        out.print(Text(f"  note: {note}", "dim"), soft_wrap=True)
    if existing_warehouse:
        warehouse = folder / "warehouse"
        out.print(Text.assemble(("note: ", "bold yellow"), OLD_TABLES.format(warehouse=warehouse)), soft_wrap=True)
