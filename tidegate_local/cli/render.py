"""What a terminal shows about the local stack."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from tidegate.cli.render import console
from tidegate.cli.terminal import Text
from tidegate_local.commands import command
from tidegate_local.continuing import Past
from tidegate_local.environment import NOBODY

NOT_KEPT = (
    "The tables in this folder are from an earlier run, and what the buckets and queues held is gone. In a bucket"
    " without versions, a file that has landed and is uploaded again is refused: the ledger was rebuilt from the"
    " tables, as far back as `claims`. In a bucket with versions it is another upload, as on AWS: its rows land once"
    " more. To start over: {forget}"
)


def shell_command(folder: Path) -> str:
    """What makes a shell call the stack. If it cannot, no call of that shell reaches an account."""
    return f'eval "$({command("local", "env", folder=folder)} || echo export AWS_ENDPOINT_URL={NOBODY})"'


def applied(folder: Path, config: Path, notes: Iterable[str] | None) -> None:
    """A stack runs there, and has applied what the file says; without `notes` it ran by that already."""
    out = console()
    what = "runs already, and nothing has changed in" if notes is None else "now runs by"
    out.print(Text(f"The stack in {folder} {what} {config}"), soft_wrap=True)
    for note in notes or ():
        out.print(Text(f"  note: {note}", "dim"), soft_wrap=True)


def stack_ready(
    folder: Path, environment: Mapping[str, str], *, past: Past, notes: Iterable[str], detached: bool
) -> None:
    out = console()
    out.print(Text.assemble(("The stack is up", "bold green"), f" in {folder}"), soft_wrap=True)
    for name, value in (
        ("endpoint", environment["AWS_ENDPOINT_URL"]),
        ("warehouse", environment["TIDEGATE_WAREHOUSE"]),
        ("shell", shell_command(folder)),
        ("stop", command("local", "down", folder=folder) if detached else "Ctrl-C"),
    ):
        out.print(Text.assemble((f"  {name:<10}", "dim"), value), soft_wrap=True)
    for note in notes:
        out.print(Text(f"  note: {note}", "dim"), soft_wrap=True)
    if past is Past.LOST:
        text = NOT_KEPT.format(forget=command("local", "down", "--forget", folder=folder))
        out.print(Text.assemble(("note: ", "bold yellow"), text), soft_wrap=True)


def sam(command: str) -> None:
    """What runs a function in a container, beside those that the stack runs itself."""
    console().print(Text.assemble((f"  {'sam':<10}", "dim"), command), soft_wrap=True)
