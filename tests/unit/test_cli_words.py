"""What the verbs say where people get stuck: a mistyped route, no credentials, a question that nobody answers."""

import re
import time
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from botocore.exceptions import ClientError, NoCredentialsError, UnauthorizedSSOTokenError
from typer.testing import CliRunner

from tests.functional.test_resend import KEYS, committed_with
from tests.support.world import World, small_world
from tests.unit.test_settings import GOOD
from tidegate import wiring
from tidegate.aws.errors import asking
from tidegate.cli import deployment, main
from tidegate.cli.exits import Exit
from tidegate.cli.failures import advice_for
from tidegate.cli.options import moment
from tidegate.core.errors import Rejected, TidegateError
from tidegate.settings import DAY, parse

WHEN_VERBS = (
    ("files",),
    ("audit",),
    ("resend",),
    ("abort",),
)
MIDNIGHT = 1_795_219_200
"""2026-11-21T00:00:00Z."""


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    world = small_world(max_wait=0)
    settings = parse(GOOD)
    found = SimpleNamespace(
        routes=world.routes,
        settings=settings,
        ports=lambda attempt="": world.ports,
        lineage=lambda tell: world.lineage,
        fencer=lambda tell: None,
    )
    monkeypatch.setattr(deployment, "find", lambda folder: found)
    monkeypatch.setattr(wiring, "clock", world.clock)
    return world


def run(*arguments: str, typed: str | None = None) -> tuple[int, str]:
    done = CliRunner().invoke(main.app, list(arguments), input=typed, catch_exceptions=False)
    return done.exit_code, " ".join((done.stdout + done.stderr).replace("│", " ").split())


# ---- no credentials


def failed_by(error: Exception) -> TidegateError:
    with pytest.raises(TidegateError) as raised, asking("read it"):
        raise error
    return raised.value


def refused(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": ""}, "ResponseMetadata": {"HTTPStatusCode": 400}}, "Get")


@pytest.mark.parametrize(
    "error", [NoCredentialsError(), UnauthorizedSSOTokenError(), refused("ExpiredToken"), refused("InvalidAccessKeyId")]
)
@pytest.mark.parametrize("local", [True, False])
def test_who_has_no_credentials_is_told_to_log_in(monkeypatch: pytest.MonkeyPatch, error: Exception, local: bool):
    if local:
        monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    advice = advice_for(failed_by(error))
    assert "AWS_PROFILE" in advice
    assert "local" not in advice


def test_a_local_stack_is_hinted_at_only_if_one_is_called(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    error = failed_by(refused("ThrottlingException"))
    assert advice_for(error) == ""
    monkeypatch.setenv("AWS_ENDPOINT_URL_SQS", "http://127.0.0.1:1")
    assert "tidegate local up" in advice_for(error)
    assert advice_for(Rejected("no")) == ""


# ---- dates


def test_a_date_is_when_it_begins_in_utc(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        assert moment("2026-11-21", 0) == moment("2026-11-21T00:00:00Z", 0) == MIDNIGHT
    finally:
        monkeypatch.undo()
        time.tzset()
    for wrong in ("2026-11-31", "2026-11-21T00:00:00", "21.11.2026"):
        with pytest.raises(typer.BadParameter):
            moment(wrong, 0)


def test_an_age_is_so_long_ago():
    assert moment("2h", MIDNIGHT) == MIDNIGHT - 7_200
    assert moment("30d", MIDNIGHT) == MIDNIGHT - 30 * DAY
    assert moment("2w", MIDNIGHT) == MIDNIGHT - 14 * DAY
    assert moment("today", MIDNIGHT + 7) == MIDNIGHT
    assert moment("yesterday", MIDNIGHT + 7) == MIDNIGHT - DAY
    assert moment(None, MIDNIGHT) is None


@pytest.mark.parametrize("verb", WHEN_VERBS, ids=" ".join)
def test_every_verb_that_takes_a_time_takes_an_age(verb: tuple[str, ...]):
    done = CliRunner().invoke(main.app, [*verb, "--help"], env={"COLUMNS": "300"})
    for line in re.findall(r"^ *--(?:since|until) .*$", done.stdout, re.MULTILINE):
        assert "AGE|TIME" in line
    assert "--since AGE|TIME" in done.stdout
    assert "2026-11-21" in done.stdout


@pytest.mark.parametrize(
    ("verb", "why"),
    [
        (("audit", "landing/flights/"), "is not s3://BUCKET/PREFIX"),
        (("audit", "s3://landing/", "--since", "soon"), "neither an age"),
        (("audit", "s3://landing/", "--since", "1h", "--until", "2h"), "must be earlier than --until"),
        (("audit", "--since", "soon"), "neither an age"),
        (("audit", "--since", "1h", "--until", "2h"), "must be earlier than --until"),
        (("audit", "--until", "2999-01-01"), "--until is in the future"),
        (("abort", "quarantine", "--since", "soon"), "neither an age"),
        (("resend", "quarantine", "--since", "1h", "--until", "2h"), "must be earlier than --until"),
        (("trace", "landing/a"), "is not s3://bucket/key"),
        (("resend", "01A", "--version", "v"), "--version goes with one s3://BUCKET/KEY"),
        (("abort", "01A", "--drop", "--resend"), "give --drop or --resend, not both"),
        (("abort", "01A", "--skip-missing"), "--skip-missing goes with --drop or --resend"),
        (("resume", "01A", "--published", "--not-published"), "not both"),
        # the wrong one doubles rows, so the last of two does not win
        (("resume", "01A", "--not-published", "--published"), "not both"),
        (("resume", "01A", "--staged", "86"), "--staged goes with --published"),
        (("resume", "01A", "--not-published", "--staged", "86"), "--staged goes with --published"),
    ],
)
def test_a_mistake_on_the_command_line_is_told_before_a_stack_is_looked_for(
    monkeypatch: pytest.MonkeyPatch, verb: tuple[str, ...], why: str
):
    def looked_for(folder: object) -> None:
        raise AssertionError("a stack is looked for")

    monkeypatch.setattr(deployment, "find", looked_for)
    found, text = run(*verb)
    assert (found, why in text) == (Exit.USAGE, True), text


def test_an_audit_looks_from_a_date_on(world: World):
    world.clock.now = MIDNIGHT + 10 * DAY
    found, text = run("audit", "--since", "2026-11-21", "--until", "2026-11-30", "--json")
    assert found == Exit.OK
    assert '"since": "2026-11-21T00:00:00Z"' in text
    assert '"until": "2026-11-30T00:00:00Z"' in text
    for wrong, why in (("monday", "is neither an age"), ("2026-12-02", "--since is in the future")):
        found, text = run("audit", "--since", wrong)
        assert (found, why in text) == (Exit.USAGE, True), text


# ---- routes


@pytest.mark.parametrize(
    "verb",
    [
        ("pause", "flihgts"),
        ("pause", "flihgts", "--end"),
        ("audit", "--route", "flihgts"),
        ("audit", "s3://landing/flights/", "--route", "flihgts"),
        ("abort", "quarantine", "--reason", "x", "--route", "flihgts"),
        ("resend", "quarantine", "--route", "flihgts"),
        ("audit", "--tables", "--route", "flihgts"),
    ],
    ids=" ".join,
)
def test_a_route_that_is_not_there_is_the_same_mistake_everywhere(world: World, verb: tuple[str, ...]):
    found, text = run(*verb)
    assert found == Exit.USAGE
    assert "there is no route 'flihgts': there are flights, weather" in text
    assert world.listing.asked == []


# ---- questions


QUESTIONS = pytest.mark.parametrize("verb", [("abort",), ("resend", "quarantine")], ids=" ".join)


@QUESTIONS
@pytest.mark.parametrize(("typed", "why"), [("n\n", "not confirmed"), ("", "nobody is there to confirm it")])
def test_who_says_no_or_cannot_answer_is_told_of_yes(world: World, verb: tuple[str, ...], typed: str, why: str):
    committed_with(world, KEYS[0])
    running = world.submitted(prefix="flights/other")
    found, text = run(*verb, *([running.id] if verb == ("abort",) else []), typed=typed)
    assert found == Exit.FINDING
    assert f"{why}, so nothing was done" in text
    assert "--yes does it without asking" in text
    assert world.topic.published == []
    assert not world.batch(running.id).fencing


def test_control_c_at_a_question_is_an_interruption(world: World, monkeypatch: pytest.MonkeyPatch):
    committed_with(world, KEYS[0])

    def interrupt(*_: Any, **__: Any) -> bool:
        """As `typer.confirm` says it."""
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt:
            raise typer.Abort from None

    monkeypatch.setattr(typer, "confirm", interrupt)
    assert run("resend", "quarantine") == (Exit.INTERRUPTED, "error: interrupted")


def test_nothing_to_release_is_no_question(world: World):
    committed_with(world)
    for options in ((), ("--yes",)):
        found, text = run("resend", "quarantine", *options)
        assert (found, "nothing is sent" in text, "Release" in text) == (Exit.OK, True, False)


# ---- names


def test_a_batch_that_is_not_there_is_told(world: World, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(wiring, "new_id", lambda: "01")
    found, text = run("resend", "nosuch")
    assert found == Exit.FINDING
    assert "there is no batch nosuch: a batch is remembered for the setting `claims`" in text


@pytest.mark.parametrize("typo", ["deadletters", "dead_letters", "dead-leters", "Dead-Letters"])
def test_a_mistyped_word_is_told(world: World, typo: str):
    found, text = run("resend", typo)
    assert found == Exit.USAGE
    assert "did you mean `dead-letters`?" in text


def test_what_looks_like_an_object_is_no_batch(world: World):
    found, text = run("resend", "s3:/landing/flights/a.json")
    assert (found, "is not s3://bucket/key" in text) == (Exit.USAGE, True)
