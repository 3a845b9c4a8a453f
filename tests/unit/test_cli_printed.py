"""Commands that a verb prints run as they stand."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.verbs import commands
from tidegate.cli import printed, terminal


def options_of(command: Any) -> set[str]:
    return {option for each in command.params for option in each.opts}


def test_the_verbs_with_a_folder_are_those_that_take_the_option():
    loaded: dict[str, Any] = {}
    for name, verb in commands().items():
        loaded |= {f"{name} {each}": one for each, one in verb.commands.items()} if hasattr(verb, "commands") else {}
        loaded[name] = verb
    # a demo makes a folder of its own
    assert {name for name, verb in loaded.items() if "--dir" in options_of(verb)} - {"local demo"} == printed.WITH_DIR
    for name in printed.WITH_CONFIG:
        assert "--config" in options_of(loaded[name])


def test_without_a_given_folder_a_text_stays_as_it_is():
    assert printed.in_prose("see `tidegate status`") == "see `tidegate status`"


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("tidegate resume 01B", "tidegate resume --dir /a/b 01B"),
        ("tidegate ledger rebuild --dry-run", "tidegate ledger rebuild --dir /a/b --dry-run"),
        ("tidegate ledger rebuild --help", "tidegate ledger rebuild --dir /a/b --help"),
        ("tidegate local down --dir /c", "tidegate local down --dir /c"),
        ("tidegate cost --size 1KB", "tidegate cost --size 1KB"),
        ("tidegate trace 's3://b/how to tidegate abort'", "tidegate trace --dir /a/b 's3://b/how to tidegate abort'"),
        ("/x/tidegate status", "/x/tidegate status"),
    ],
)
def test_a_given_folder_is_put_behind_a_command_that_takes_it(written: str, shown: str):
    printed.chose(Path("/a/b"))
    assert printed.runnable(written) == shown


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("see `tidegate status`, then abort", "see `tidegate status --dir /a/b`, then abort"),
        ("`tidegate resend` or `tidegate audit`", "`tidegate resend --dir /a/b` or `tidegate audit --dir /a/b`"),
        ("`tidegate local down --dir /c`, then", "`tidegate local down --dir /c`, then"),
        ("neither tidegate.toml nor the ledger", "neither tidegate.toml nor the ledger"),
        # what has no backticks is no command of ours, and a name has none
        ("landed: s3://b/how to tidegate abort", "landed: s3://b/how to tidegate abort"),
        (
            f"no {printed.named('s3://b/`tidegate abort`')}: `tidegate status`",
            r"no s3://b/\x60tidegate abort\x60: `tidegate status --dir /a/b`",
        ),
    ],
)
def test_a_given_folder_is_put_behind_the_commands_of_a_sentence(written: str, shown: str):
    printed.chose(Path("/a/b"))
    assert printed.in_prose(written) == shown


def test_a_row_is_no_sentence(capsys: pytest.CaptureFixture[str]):
    """What a row shows others have written: no command in it is ours."""
    printed.chose(Path("/a/b"))
    row = "s3://landing/how to `tidegate abort`"
    terminal.say(terminal.console(), "  quarantined  ", row)
    assert row in capsys.readouterr().out


def test_a_folder_is_quoted_as_a_shell_needs_it_and_a_route_list_reads_the_stacks_file():
    printed.chose(Path("/a b"))
    printed.reads(Path("/c/tidegate.toml"))
    assert printed.runnable("tidegate status") == "tidegate status --dir '/a b'"
    assert printed.in_prose("see `tidegate check`") == "see `tidegate check --config /c/tidegate.toml`"


def test_commands_are_called_as_the_command_line_was():
    printed.begin(".venv/bin/tidegate")
    assert printed.in_prose("see `tidegate status`") == "see `.venv/bin/tidegate status`"
    assert printed.runnable("tidegate sql 'x'") == ".venv/bin/tidegate sql 'x'"
    printed.chose(Path("/a"))
    assert printed.runnable("tidegate ledger rebuild") == ".venv/bin/tidegate ledger rebuild --dir /a"
    for said in ("tidegate.toml", "of Tidegate's", "`.venv/bin/tidegate status`", "/x/tidegate status"):
        assert printed.runnable(said).startswith(said)
