"""Commands that a verb prints run as they stand."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.verbs import commands
from tidegate.cli import printed


@pytest.fixture(autouse=True)
def nothing_given() -> Iterator[None]:
    printed.forget()
    yield
    printed.forget()


def options_of(command: Any) -> set[str]:
    return {option for each in command.params for option in each.opts}


def test_the_verbs_with_a_folder_are_those_that_take_the_option():
    loaded: dict[str, Any] = {}
    for name, verb in commands().items():
        loaded |= {f"{name} {each}": one for each, one in verb.commands.items()} if hasattr(verb, "commands") else {}
        loaded[name] = verb
    # a demo makes a folder of its own
    assert {name for name, verb in loaded.items() if "--dir" in options_of(verb)} - {"demo"} == printed.WITH_DIR
    for name in printed.WITH_CONFIG:
        assert "--config" in options_of(loaded[name])


def test_without_a_given_folder_a_text_stays_as_it_is():
    assert printed.runnable("see `tidegate status`") == "see `tidegate status`"


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("tidegate resume 01B", "tidegate resume --dir /a/b 01B"),
        ("see `tidegate status`, then abort", "see `tidegate status --dir /a/b`, then abort"),
        ("tidegate quarantine ls --route x", "tidegate quarantine ls --dir /a/b --route x"),
        ("tidegate ledger recover --help", "tidegate ledger recover --dir /a/b --help"),
        ("`tidegate redrive` or `tidegate audit`", "`tidegate redrive --dir /a/b` or `tidegate audit --dir /a/b`"),
        ("`tidegate local down --dir /c`, then", "`tidegate local down --dir /c`, then"),
        ("tidegate check tidegate.toml", "tidegate check tidegate.toml"),
        ("neither tidegate.toml nor the ledger", "neither tidegate.toml nor the ledger"),
        ("/x/tidegate status", "/x/tidegate status"),
        ("this tidegate reads 3", "this tidegate reads 3"),
    ],
)
def test_a_given_folder_is_put_behind_each_command_that_takes_it(written: str, shown: str):
    printed.chose(Path("/a/b"))
    assert printed.runnable(written) == shown


def test_a_folder_is_quoted_as_a_shell_needs_it_and_a_route_list_reads_the_stacks_file():
    printed.chose(Path("/a b"))
    printed.reads(Path("/c/tidegate.toml"))
    assert printed.runnable("tidegate status") == "tidegate status --dir '/a b'"
    assert printed.runnable("see `tidegate routes`") == "see `tidegate routes --config /c/tidegate.toml`"
