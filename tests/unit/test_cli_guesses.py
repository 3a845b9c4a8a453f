"""Wrong guesses on the command line: what is meant is named, and is there."""

import pytest
from typer.testing import CliRunner

from tests.support.verbs import commands
from tidegate.cli import guesses, main
from tidegate.cli.exits import Exit


def said(*arguments: str) -> str:
    done = CliRunner().invoke(main.app, list(arguments), catch_exceptions=False)
    assert done.exit_code == Exit.USAGE
    return " ".join(done.stderr.split())


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (("local", "start"), "Did you mean `tidegate local up`?"),
        (("local", "stop"), "Did you mean `tidegate local down`?"),
        (("start",), "Did you mean `tidegate local up`?"),
        (("retry", "01B"), "Did you mean `tidegate resume`?"),
        (("status", "--format", "json"), "Did you mean --json?"),
        (("sql", "--format", "csv"), "Did you mean --json or --csv?"),
        (("files", "--output", "json"), "No such option: --output. Did you mean --json?"),
        (("quarantine", "ls"), "Did you mean `tidegate files --state quarantined`?"),
        (("env", "cdk.out/outputs.json"), "Did you mean `tidegate --env OUTPUTS`?"),
        (("files", "-n", "3"), "Did you mean --limit?"),
        (("sql", "select", "count(*)", "from", "lake.a.b"), "put it in quotes, as in tidegate sql 'select"),
        # what is spelled alike is still proposed
        (("statsu",), "Did you mean 'status'?"),
        (("files", "--routes", "x"), "--route"),
    ],
)
def test_a_wrong_guess_is_told_what_was_meant(typed: tuple[str, ...], meant: str):
    assert meant in said(*typed)


def test_nothing_is_proposed_that_the_verb_does_not_have():
    assert "Did you mean" not in said("pause", "flights", "--format", "json")


def test_every_proposal_is_there_and_no_guess_is():
    loaded = commands()
    named = set(loaded) | {f"{name} {each}" for name, verb in loaded.items() for each in getattr(verb, "commands", {})}
    words = {"resend quarantine", "audit s3://BUCKET/PREFIX"}
    proposed = {meant.partition(" --")[0] for meant in guesses.VERBS if not meant.startswith("--")} - words
    assert proposed | {each.partition(" ")[0] for each in words} <= named
    assert not {each for typed in guesses.VERBS.values() for each in typed} & named
    groups = [each for verb in loaded.values() for each in getattr(verb, "commands", {}).values()]
    options = {one for verb in (*loaded.values(), *groups) for each in verb.params for one in each.opts}
    assert guesses.OPTIONS.keys() <= options
