"""`tidegate resend` and `tidegate abort`: what they print and how they end, on a deployment in memory."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.functional.test_resend import KEYS, abandoned, committed_with, deliver
from tests.support.build import BUCKET
from tests.support.fakes import play_publishing
from tests.support.ledgers import RETENTION
from tests.support.world import World, small_world
from tidegate.cli import deployment, main
from tidegate.cli import resend as resend_verb
from tidegate.cli.exits import Exit
from tidegate.core.manifests import batch_folder
from tidegate.core.outcomes import Outcome
from tidegate.core.receipts import Receipt, decode_outcomes

URI = f"s3://{BUCKET}/{KEYS[0]}"


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    world = small_world(max_wait=0)
    found = SimpleNamespace(routes=world.routes, ports=lambda attempt="": world.ports, fencer=lambda tell: None)
    monkeypatch.setattr(deployment, "find", lambda folder: found)
    return world


def run(*arguments: str, input: str = "") -> Any:
    return CliRunner().invoke(main.app, list(arguments), input=input, catch_exceptions=False)


def test_nothing_in_quarantine_says_so(world: World):
    committed_with(world)
    for words in (("resend", "quarantine", "--dry-run"), ("abort", "quarantine", "--reason", "old")):
        done = run(*words)
        assert (done.exit_code, "nothing of this is in quarantine, so nothing is" in done.stdout) == (Exit.OK, True)


def test_a_dry_run_lists_what_would_be_sent_and_sends_nothing(world: World):
    committed_with(world, *KEYS[:2])
    shown = run("resend", "quarantine", "--dry-run").stdout
    assert f"{URI}\n    line 3: 'x' is no INT\n" in shown
    assert KEYS[2] not in shown
    assert "2 uploads would be sent" in shown
    assert not world.topic.published


def test_a_long_list_says_how_long_it_is(world: World, monkeypatch: pytest.MonkeyPatch):
    committed_with(world, *KEYS[:2])
    monkeypatch.setattr("tidegate.cli.render.QUARANTINE_SHOWN", 1)
    assert "the first 1 of 2 uploads" in run("resend", "quarantine", "--dry-run").stdout


def test_a_dry_run_of_a_batch_or_an_object_sends_nothing(world: World):
    batch = abandoned(world)
    assert f"3 uploads of batch {batch} would be sent" in run("resend", batch, "--dry-run").stdout
    assert f"1 upload of {URI} would be sent" in run("resend", URI, "--dry-run").stdout
    assert not world.topic.published


def test_what_is_left_over_of_one_does_not_hide_another(world: World):
    batch = abandoned(world)
    done = run("resend", "01BNONE", batch)
    assert (done.exit_code, world.topic.keys) == (Exit.FINDING, KEYS)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("resend", "01B", "--key", "x"), "go with quarantine"),
        (("resend", "quaratine"), "did you mean `quarantine`?"),
        (("abort", "01B", "--reason", "x"), "go with quarantine"),
        (("abort", "quarantine"), "give --reason"),
        (("abort", "quarantine", "--reason", "x", "--drop"), "go with a batch"),
    ],
)
def test_options_of_the_other_kind_are_refused(world: World, words: tuple[str, ...], text: str):
    done = run(*words)
    assert done.exit_code == Exit.USAGE
    assert text in " ".join(done.stderr.replace("│", " ").split())


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--route", "nights"], "there is no route 'nights': there are flights, weather"),
        (["--since", "monday"], "'monday' is neither an age such as 2h"),
        (["--until", "2026-11-21T10:21:00"], "has no time zone"),
        (["--since", "2h", "--until", "3h"], "--since must be earlier than --until"),
        (["--since", "2999-01-01"], "--since is in the future"),
    ],
)
def test_a_mistake_is_named(world: World, arguments: list[str], text: str):
    done = run("resend", "quarantine", *arguments)
    assert done.exit_code == Exit.USAGE
    assert text in " ".join(done.stderr.replace("│", " ").split())


def test_the_line_that_was_refused_is_shown_and_is_in_nothing_but_the_outcomes(world: World):
    batch = world.submitted()
    play_publishing(world.work, batch.id, {KEYS[0]: (Outcome.QUARANTINED, "line 3: 'x' is no INT")}, receipt=False)
    (name,) = [each for each in world.work.objects if "/outcomes/" in each]
    told = decode_outcomes(world.work.objects[name])
    (ending,) = told.endings
    place = r"line 4: 7,x\x1b[31m,hush"
    world.work.objects[name] = replace(told, endings=(replace(ending, where=place),)).encode()
    receipt = Receipt(batch.id, told.staged + 1, told.staged, False, told.tally, told.manifest)
    world.work.put(batch_folder(batch.id) + "receipt.json", receipt.encode())
    world.settle()
    assert f"where        {place}\n" in run("trace", URI).stdout
    assert "hush" not in run("resend", "quarantine", "--dry-run").stdout + run("trace", URI, "--json").stdout
    assert "hush" not in repr(world.store.items)
    world.work.objects[name] = told.encode()
    assert "where " not in run("trace", URI).stdout


def test_release_says_how_many_first(world: World):
    committed_with(world, *KEYS[:2])
    assert run("resend", "quarantine", input="n\n").exit_code != Exit.OK
    assert not world.topic.published
    done = run("resend", "quarantine", input="y\n")
    assert "Release 2 uploads?" in done.stderr
    assert "2 uploads are sent again" in done.stdout
    assert world.topic.keys == KEYS[:2]


def test_release_takes_what_is_selected(world: World):
    committed_with(world, *KEYS)
    run("resend", "quarantine", "--key", "*-00001.json", "--route", "flights", "--yes")
    assert world.topic.keys == [KEYS[1]]


def test_an_abandoned_batch_is_resent(world: World):
    batch = abandoned(world)
    done = run("resend", batch)
    assert (done.exit_code, f"3 uploads of batch {batch} are sent again" in done.stdout) == (Exit.OK, True)
    deliver(world)
    done = run("resend", batch)
    assert (done.exit_code, "nothing of batch" in done.stderr) == (Exit.FINDING, True)


def test_one_object_is_resent(world: World):
    committed_with(world, KEYS[0])
    assert "1 upload of" in run("resend", URI, "--version", world.claim(KEYS[0]).version).stdout
    assert run("resend", URI, "--version", "another").exit_code == Exit.FINDING


def test_a_batch_is_reloaded_and_one_that_has_not_landed_is_not(world: World):
    batch = committed_with(world)
    rehearsed = run("resend", batch, "--reload", "--dry-run")
    assert f"3 uploads of batch {batch} would be loaded again" in rehearsed.stdout + rehearsed.stderr
    assert not world.topic.published
    assert run("resend", batch, "--reload", input="n\n").exit_code != Exit.OK
    assert not world.topic.published
    done = run("resend", batch, "--reload", "--yes")
    assert f"3 uploads of batch {batch} on the way" in done.stdout + done.stderr
    assert "`tidegate files --state present` which keep their rows" in " ".join((done.stdout + done.stderr).split())
    deliver(world)
    again = run("resend", batch, "--reload", "--yes")
    assert again.exit_code == Exit.FINDING
    assert "3 uploads have not ended elsewhere" in again.stdout + again.stderr
    given_up = abandoned(world, "flights/other/")
    refused = run("resend", given_up, "--reload", "--yes")
    assert refused.exit_code == Exit.FINDING
    assert f"batch {given_up} is ABANDONED, and has no rows to replace" in refused.stderr


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("01BNONE", "there is no batch 01BNONE: `tidegate files --batches` lists them"),
        ("flights", "there is no batch flights: reload s3://landing/flights/"),
        ("lake.raw.flights", "there is no batch lake.raw.flights: reload s3://landing/flights/"),
    ],
)
def test_a_word_that_is_no_batch_is_refused_before_anybody_is_asked(world: World, word: str, said: str):
    other = committed_with(world, prefix="flights/third/")
    refused = run("resend", word, other, "--reload")
    assert refused.exit_code == Exit.USAGE
    assert said in " ".join(refused.stderr.replace("│", "").split())
    assert "Replace the rows" not in refused.stdout + refused.stderr
    assert world.topic.published == []


def test_a_resend_of_what_has_landed_says_that_it_has(world: World):
    committed_with(world)
    done = run("resend", URI)
    assert done.exit_code == Exit.FINDING
    assert f"nothing of {URI} is left to send; 1 version has landed" in " ".join(done.stderr.split())
    assert "another notice" not in done.stderr


def test_a_resend_of_a_deleted_object_says_what_brings_its_rows_back(world: World, monkeypatch: pytest.MonkeyPatch):
    committed_with(world)
    ask = resend_verb.ask_trace
    monkeypatch.setattr(resend_verb, "ask_trace", lambda *place: [replace(each, deleted=True) for each in ask(*place)])
    said = " ".join(run("resend", URI).stderr.split())
    assert f"delete the marker in S3 and run `tidegate audit {URI} --send`" in said
    assert "--reload" not in said


@pytest.mark.parametrize(
    ("what", "text"),
    [
        ("01BNONE", "there is no batch 01BNONE"),
        ("s3://landing/flights/never.json", "the ledger knows no such upload"),
        ("s3://landing/flights/2026/", "sent again by `tidegate resend s3://landing/flights/2026/ --reload`"),
    ],
)
def test_what_is_not_there_is_named(world: World, what: str, text: str):
    done = run("resend", what)
    assert (done.exit_code, text in done.stderr) == (Exit.FINDING, True)


def test_a_batch_that_is_not_abandoned_names_the_way(world: World):
    batch = world.submitted()
    done = run("resend", batch.id)
    assert (done.exit_code, f"`tidegate abort {batch.id}`" in done.stderr) == (Exit.FINDING, True)


def test_a_drop_says_what_it_leaves(world: World):
    batch = abandoned(world)
    said = " ".join(run("abort", batch, "--drop", "--yes").stdout.split())
    assert "Within a minute after it is abandoned its uploads are dropped" in said
    assert said.endswith("3 of its 3 uploads can be dropped")
    world.settle()
    said = run("abort", batch, "--drop", "--yes").stdout
    assert "none of its 3 uploads can be dropped\n  3 are dropped already\n" in said
    other = abandoned(world, prefix="flights/other/")
    run("resend", f"s3://{BUCKET}/flights/other/0000-00000.json")
    deliver(world)
    said = run("abort", other, "--drop", "--yes").stdout
    assert "2 of its 3 uploads can be dropped\n  1 are not dropped: they landed, or belong to another" in said
    world.clock.advance(RETENTION)
    done = run("abort", other, "--drop", "--yes")
    expected = (
        "none of its 3 uploads can be dropped\n  3 are not dropped: the ledger has forgotten their claims, and they"
    )
    assert (done.exit_code, f"{expected} stay pending\n" in done.stdout) == (Exit.OK, True)


def test_a_version_without_an_object_is_refused(world: World):
    assert run("resend", "01B", "--version", "v").exit_code == Exit.USAGE


def test_one_object_is_told_without_a_search_through_other_batches(world: World):
    other = committed_with(world, "flights/other/0000-00000.json", prefix="flights/other/")
    committed_with(world, KEYS[0])
    read: list[str] = []
    real = world.work.get
    world.work.get = lambda name: read.append(name) or real(name)  # type: ignore[method-assign,func-returns-value]
    assert "line 3: 'x' is no INT" in run("trace", URI).stdout
    assert read
    assert not [name for name in read if other in name]


@pytest.mark.parametrize(("counted", "said"), [(1, "more than 1 upload"), (2, "2 uploads"), (10_000, "2 uploads")])
def test_release_lists_once_however_much_there_is(
    world: World, monkeypatch: pytest.MonkeyPatch, counted: int, said: str
):
    committed_with(world, *KEYS[:2])
    listed = []
    real = world.work.get
    monkeypatch.setattr(world.work, "get", lambda name: listed.append(name) or real(name))
    monkeypatch.setattr("tidegate.cli.selecting.COUNTED", counted)
    result = run("resend", "quarantine", input="y\n")
    assert (result.exit_code, f"Release {said}?" in result.output) == (Exit.OK, True)
    assert sum("outcomes/" in name for name in listed) == 1
    deliver(world)
    assert dict(world.record.back) == {"quarantined": 2}


def test_resend_names_what_is_elsewhere_and_what_is_forgotten(world: World):
    batch = abandoned(world)
    run("resend", batch)
    deliver(world)
    result = run("resend", batch)
    assert result.exit_code == Exit.FINDING
    assert "3 uploads belong to another notice by now, and landed with it or will" in " ".join(result.stderr.split())
    world.clock.advance(RETENTION)
    result = run("resend", batch)
    assert "of 3 the ledger has forgotten the claims" in " ".join(result.stderr.split())
