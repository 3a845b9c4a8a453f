"""What is printed for people goes through one door, which shows the text of others as it is and acts on none of it."""

import ast
import io
import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.table import Table

import tidegate.cli
import tidegate_local.cli
from tidegate.cli import json_output, printed, terminal
from tidegate.cli.terminal import Text

EVIL = "a\x1b[1F\x1b[2K\x1b]0;owned\x07\x08\r\x85\x9b2J\u2028\u2029\u202e\u2066\ufeff\x00z"
"""What moves a cursor, ends a line or turns it round."""


def acts(text: str) -> list[str]:
    """What of the text a terminal would act on, but for the ends of lines."""
    return [char for char in text if char != "\n" and not char.isprintable()]


def test_what_a_terminal_would_act_on_is_shown_as_an_escape():
    assert printed.visible("s3://b/ein Käfer 😀.json") == "s3://b/ein Käfer 😀.json"
    assert acts(printed.visible(EVIL)) == []
    assert printed.visible("a\x1b[2K\n\u202eb") == "a\\x1b[2K\\n\\u202eb"


def test_a_text_stays_in_its_line(capsys: pytest.CaptureFixture[str]):
    forged = f"{EVIL}\n  committed  never-uploaded"
    table = Table(title=Text(EVIL))
    table.add_column(EVIL)
    table.add_row(EVIL)
    terminal.console().print(f"{forged} [bold]no markup[/bold]", soft_wrap=True)
    terminal.console().print(Text.assemble("\n", (forged, "bold"), "\n"), soft_wrap=True)
    terminal.console().print(table)
    terminal.say(terminal.console(), f"label {forged}: ", forged)
    terminal.tell(forged)
    printed.echo(f"x{EVIL}")
    said = capsys.readouterr().out
    assert acts(said) == []
    assert not [line for line in said.splitlines() if line.startswith("  committed")]
    assert "[bold]no markup[/bold]" in said


def test_the_lines_of_a_paragraph_look_like_no_other(capsys: pytest.CaptureFixture[str]):
    forged = f"what happened\nerror: forged {EVIL}\n  committed  3 rows"
    for say in (terminal.error, terminal.warning, terminal.progress, lambda text: printed.echo(text, err=True)):
        say(forged)
        said = capsys.readouterr().err
        assert acts(said) == []
        first, *others = said.splitlines()
        assert "what happened" in first
        assert others
        assert all(line.startswith("    ") for line in others)


def test_a_style_stays_where_it_was():
    line = terminal._one_line(Text.assemble("\n", ("red\nred", "red"), "plain\n"))
    assert line.plain == "\nred\\nredplain\n"
    assert {line.plain[each.start : each.end] for each in line.spans if str(each.style) == "red"} >= {"red"}


def test_the_log_has_a_record_in_a_line():
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    handler.setFormatter(printed.OneLine("%(message)s"))
    try:
        raise ValueError(EVIL)
    except ValueError:
        record = logging.LogRecord("x", logging.WARNING, "", 1, "of %s\nforged", (EVIL,), None)
    handler.emit(record)
    assert acts(out.getvalue()) == []
    assert len(out.getvalue().splitlines()) == 1


def test_json_is_the_same_to_its_readers_and_plain_to_a_terminal():
    text = json_output.dumps({"key": EVIL, "name": "Käfer 😀"})
    assert acts(text) == []
    assert json.loads(text)["key"] == EVIL
    assert "Käfer 😀" in text


# --- nothing is printed around it ---

AROUND = {
    ("printed.py", "typer.echo"): "the door itself",
    ("main.py", "typer.echo"): "lines for a shell, quoted for it",
    ("local.py", "typer.echo"): "lines for a shell, quoted for it",
    ("sql.py", "csv.writer"): "a file of rows, which has what the table has; a terminal gets it visible",
    ("watch.py", "out.file.write"): "what the door has drawn before",
    ("options.py", "typer.confirm"): "asked by `visible`",
    ("init.py", "out.write"): "a file",
}
"""Who may print otherwise, and why."""
PRINTS = ("print", "typer.echo", "typer.secho", "click.echo", "typer.confirm", "typer.prompt", "Console", "csv.writer")


def calls(file: Path) -> Iterator[tuple[str, ast.Call]]:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node


def prints(name: str, call: ast.Call) -> bool:
    """Whether a call prints, and not JSON."""
    if (
        name == "typer.echo"
        and call.args
        and ast.unparse(call.args[0]).startswith(("json_output.dumps(", "json.dumps("))
    ):
        return False
    return name in PRINTS or name.startswith(("sys.stdout.", "sys.stderr.")) or name.endswith(".write")


def test_no_verb_prints_around_the_door():
    files = [
        file
        for package in (tidegate.cli, tidegate_local.cli)
        for file in sorted(Path(str(package.__file__)).parent.rglob("*.py"))
    ]
    assert len(files) > 60
    found = {(file.name, name) for file in files for name, call in calls(file) if prints(name, call)}
    found -= {each for each in found if each[1] in ("sys.stdout.isatty", "sys.stderr.isatty")}
    assert found == AROUND.keys()
    # rich's own leaves some characters out, and says so to nobody
    of_rich = {file.name for file in files if re.search(r"from rich\.text import|rich\.text\.Text", file.read_text())}
    assert of_rich == {"terminal.py"}
