"""Dead letters are judged, and moved back or left where they are, on emulated queues."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from moto import mock_aws
from typer.testing import CliRunner

from tests.support.build import notice, route, s3_message, s3_record
from tests.support.world import memory_ports
from tidegate.aws.letters import SqsLetters
from tidegate.aws.topic import SqsDeadLetters
from tidegate.cli import deployment, main
from tidegate.cli.exits import Exit
from tidegate.core.errors import OutcomeUnknown, Retryable
from tidegate.core.lanes import group_of
from tidegate.core.letters import LetterJudgement, judge_notice, judge_notification
from tidegate.core.notices import decode
from tidegate.flows.letters import LettersMoved, move_back_letters

ROUTES = (route(),)


@dataclass
class Queues:
    sqs: Any
    buffer: str
    dead: str
    notices: str
    dead_notices: str

    def bodies(self, url: str) -> list[str]:
        """What is visible, and is taken out."""
        found: list[str] = []
        while messages := self.sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages"):
            for each in messages:
                self.sqs.delete_message(QueueUrl=url, ReceiptHandle=each["ReceiptHandle"])
                found.append(each["Body"])
        return found

    def count(self, url: str) -> int:
        """With what is hidden."""
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        attributes = self.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
        return sum(map(int, attributes.values()))

    def notices_letters(self) -> SqsLetters:
        return SqsLetters(self.sqs, self.dead_notices, self.notices)

    def letters(self) -> SqsLetters:
        return SqsLetters(self.sqs, self.dead, self.buffer)


@pytest.fixture
def queues(monkeypatch: pytest.MonkeyPatch) -> Iterator[Queues]:
    monkeypatch.setattr("tidegate.aws.letters.PATIENCE", 0)
    with mock_aws():
        sqs = boto3.client("sqs", region_name="us-east-1")
        fifo = {"FifoQueue": "true"}
        yield Queues(
            sqs,
            buffer=sqs.create_queue(QueueName="buffer")["QueueUrl"],
            dead=sqs.create_queue(QueueName="dead")["QueueUrl"],
            notices=sqs.create_queue(QueueName="notices.fifo", Attributes=fifo)["QueueUrl"],
            dead_notices=sqs.create_queue(QueueName="dead.fifo", Attributes=fifo)["QueueUrl"],
        )


def judge(body: str) -> LetterJudgement:
    return judge_notice(body, {"flights": 1}, lambda at: 0 < at < 100)


# ---- the judgement


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (s3_message(s3_record("flights/a.json")), ""),
        (s3_message(s3_record("nights/a.json"), s3_record("flights/a.json")), ""),
        (s3_message(s3_record("nights/a.json")), "no route takes s3://landing/nights/a.json"),
        ("no JSON", "the message is not JSON"),
        (s3_message({**s3_record("flights/a.json"), "eventTime": "1970-01-01T00:01:00Z"}), "its uploads are older"),
        (json.dumps({"Event": "s3:TestEvent"}), "it announces no upload"),
    ],
)
def test_a_notification_may_succeed_if_a_route_takes_one_of_its_uploads(body: str, why: str):
    judgement = judge_notification(body, ROUTES, lambda at: 0 < at < 100)
    assert judgement.why.startswith(why)
    assert bool(judgement.why) is bool(why)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (notice("flights/a.json").encode(), ""),
        (notice("nights/a.json", route="nights").encode(), "neither tidegate.toml nor the ledger has route 'nights'"),
        ("no JSON", "the message is not a notice"),
        (json.dumps({**json.loads(notice("flights/a.json").encode()), "at": 50}), "older than `claims`"),
    ],
)
def test_a_notice_may_succeed_if_its_route_is_known_and_it_is_not_too_old(body: str, why: str):
    judgement = judge(body)
    assert why in judgement.why
    assert (bool(judgement.why), judgement.group) == (bool(why), "" if why else "flights")


def test_a_notice_goes_back_to_its_lane():
    letters = [notice(f"flights/{number}.json") for number in range(20)]
    groups = [judge_notice(each.encode(), {"flights": 4}, lambda at: False).group for each in letters]
    assert groups == [group_of(each, 4) for each in letters]
    assert len(set(groups)) == 4


# ---- the queues


def test_notices_go_back_in_their_routes_group_and_the_others_stay(queues: Queues):
    letters = SqsDeadLetters(queues.sqs, queues.dead_notices)
    bodies = [notice(f"flights/{number}.json").encode() for number in range(25)]
    for number, body in enumerate(bodies):
        letters.set_aside(f"garbage {number}", "no notice")  # in one group, in front of each
        queues.sqs.send_message(
            QueueUrl=queues.dead_notices, MessageBody=body, MessageGroupId="flights", MessageDeduplicationId=str(number)
        )
    done = move_back_letters(queues.notices_letters(), judge, run="1", dry_run=False)
    assert (done.moved, done.kept, len(done.shown)) == (25, 25, 20)
    assert "not a notice" in done.shown[0][1]
    assert sorted(queues.bodies(queues.notices)) == sorted(bodies)
    assert queues.count(queues.dead_notices) == 25


def test_what_stays_keeps_its_reason_and_is_judged_again_by_the_next_run(queues: Queues):
    SqsDeadLetters(queues.sqs, queues.dead_notices).set_aside("garbage", "no notice")
    for run in ("1", "2"):
        assert move_back_letters(queues.notices_letters(), judge, run=run, dry_run=False).kept == 1
    (letter,) = queues.notices_letters().receive()
    assert (letter.body, letter.reason, letter.judged_in) == ("garbage", "no notice", "2")


def test_a_dry_run_judges_all_and_moves_none(queues: Queues):
    for number in range(12):
        queues.sqs.send_message(
            QueueUrl=queues.dead_notices,
            MessageBody=notice(f"flights/{number}.json").encode(),
            MessageGroupId="flights",
            MessageDeduplicationId=str(number),
        )
    for run in ("1", "2"):
        assert move_back_letters(queues.notices_letters(), judge, run=run, dry_run=True) == LettersMoved(moved=12)
    assert (queues.count(queues.notices), queues.count(queues.dead_notices)) == (0, 12)
    # at once, and not a quarter of an hour later
    assert move_back_letters(queues.notices_letters(), judge, run="3", dry_run=False) == LettersMoved(moved=12)
    assert (queues.count(queues.notices), queues.count(queues.dead_notices)) == (12, 0)


def test_notifications_go_back_and_garbage_stays(queues: Queues):
    good, bad = s3_message(s3_record("flights/a.json")), "garbage"
    for body in (good, bad):
        queues.sqs.send_message(QueueUrl=queues.dead, MessageBody=body)
    done = move_back_letters(
        queues.letters(), lambda body: judge_notification(body, ROUTES, lambda at: 0 < at < 100), run="1", dry_run=False
    )
    assert (done.moved, done.kept) == (1, 1)
    assert queues.bodies(queues.buffer) == [good]
    assert queues.count(queues.dead) == 1


def test_a_letter_whose_deletion_fails_is_in_both_queues_and_never_lost(
    queues: Queues, monkeypatch: pytest.MonkeyPatch
):
    body = notice("flights/a.json").encode()
    queues.sqs.send_message(
        QueueUrl=queues.dead_notices, MessageBody=body, MessageGroupId="flights", MessageDeduplicationId="1"
    )
    box = queues.notices_letters()

    def fails(letter: Any) -> None:
        raise OutcomeUnknown("no answer")

    monkeypatch.setattr(box, "_delete", fails)
    with pytest.raises(OutcomeUnknown):
        move_back_letters(box, judge, run="1", dry_run=False)
    assert (queues.count(queues.notices), queues.count(queues.dead_notices)) == (1, 1)
    assert decode(queues.bodies(queues.notices)[0]) == notice("flights/a.json")


# ---- the command


def test_letters_are_counted_also_those_that_are_hidden(queues: Queues):
    assert queues.letters().count() == 0
    for number in range(3):
        queues.sqs.send_message(QueueUrl=queues.dead, MessageBody=str(number))
    queues.sqs.receive_message(QueueUrl=queues.dead, MaxNumberOfMessages=1)
    assert queues.letters().count() == queues.count(queues.dead) == 3
    SqsDeadLetters(queues.sqs, queues.dead_notices).set_aside("garbage", "no notice")
    assert queues.notices_letters().count() == 1


def test_a_queue_that_is_not_there_cannot_be_counted(queues: Queues):
    with pytest.raises(Retryable, match="could not count the letters in"):
        SqsLetters(queues.sqs, queues.dead + "-gone", queues.buffer).count()


def test_the_command_moves_both_queues_and_shows_what_stays(queues: Queues, monkeypatch: pytest.MonkeyPatch):
    found = SimpleNamespace(
        routes={"flights": ROUTES[0]},
        ports=lambda attempt="": memory_ports(),
        letters=lambda: (queues.letters(), queues.notices_letters()),
    )
    monkeypatch.setattr(deployment, "find", lambda folder: found)
    queues.sqs.send_message(QueueUrl=queues.dead, MessageBody=s3_message(s3_record("flights/a.json")))
    SqsDeadLetters(queues.sqs, queues.dead_notices).set_aside("garbage", "no notice")
    done = CliRunner().invoke(main.app, ["resend", "dead-letters", "--dry-run"], catch_exceptions=False)
    assert done.exit_code == Exit.FINDING
    assert "dead letters of notifications: 1 would be moved back, 0 can never succeed" in done.stdout
    assert "dead letters of notices: 0 would be moved back, 1 can never succeed\n    the message is not a notice" in (
        done.stdout
    )
    done = CliRunner().invoke(main.app, ["resend", "dead-letters"], catch_exceptions=False)
    assert "dead letters of notifications: 1 moved back, 0 can never succeed" in done.stdout
    assert queues.count(queues.buffer) == 1
