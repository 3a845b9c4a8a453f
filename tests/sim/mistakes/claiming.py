"""Mistakes in decision 1: this upload belongs to that notice."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from botocore.exceptions import ClientError

from tests.sim.faults import Kind
from tests.sim.mistakes.writes import Write
from tests.sim.planting import Bug, Call, Planting, Strike, answered, replaced, rewritten
from tidegate import wiring
from tidegate.core.claims import Ownership
from tidegate.core.notices import decode
from tidegate.core.outcomes import ABANDONED
from tidegate.core.uploads import object_hash
from tidegate.flows.ports import Claimed

JUDGE = "tidegate.core.claims:judge"
CLAIM = "tidegate.aws.ledger:DynamoLedger.claim"
IS_LATER = "tidegate.core.uploads:is_later"


def _judged(was: Ownership, becomes: Ownership) -> Any:
    def make(real: Any) -> Any:
        def judge(*arguments: Any) -> Ownership:
            ownership: Ownership = real(*arguments)
            return becomes if ownership is was else ownership

        return judge

    return replaced(JUDGE, make)


def _made_for_nobody(real: Any) -> Any:
    return lambda existing, notice_id, entry: real(existing, notice_id, replace(entry, takes_from=""))


def _released_on_failure(real: Any) -> Any:
    def dispatch(body: str, **ports: Any) -> Any:
        try:
            return real(body, **ports)
        except Exception:
            notice = decode(body)
            for entry in notice.entries:
                _release(notice.bucket, entry.upload.key, entry.upload.version, notice.id)
            raise

    return dispatch


def _release(bucket: str, key: str, version: str, notice_id: str) -> None:
    with suppress(ClientError):
        wiring._client("dynamodb").delete_item(
            TableName=wiring.application().resources.ledger,
            Key={"pk": {"S": f"o#{object_hash(bucket, key)}"}, "sk": {"S": version}},
            ConditionExpression="#notice = :mine",
            ExpressionAttributeNames={"#notice": "notice"},
            ExpressionAttributeValues={":mine": {"S": notice_id}},
        )


def _nothing_beside_a_duplicate(real: Any) -> Any:
    def claim(ledger: Any, notice: Any) -> Claimed:
        claimed: Claimed = real(ledger, notice)
        return replace(claimed, owned=()) if claimed.refused else claimed

    return claim


def _taken_over_at_once(real: Any) -> Any:
    def claim(ledger: Any, notice: Any) -> Claimed:
        claimed: Claimed = real(ledger, notice)
        if not claimed.again:
            return claimed
        taken: Claimed = real(ledger, replace(notice, entries=claimed.again))
        return Claimed((*claimed.owned, *taken.owned), (*claimed.refused, *taken.refused))

    return claim


def _ending_whoever_owns_it(write: Write) -> None:
    if write.sets("outcome"):
        write.forgets("notice")


def _untold(ask: Call) -> Call:
    def update(parameters: dict[str, Any]) -> Any:
        answer = ask(parameters)
        if Write(parameters).sets("outcome"):
            answer.get("Attributes", {}).pop("later", None)
        return answer

    return update


def _not_looked_at(ask: Call) -> Call:
    def update(parameters: dict[str, Any]) -> Any:
        if Write(parameters).value("outcome") == ABANDONED:
            raise ClientError({"Error": {"Code": "ConditionalCheckFailedException"}}, "UpdateItem")
        return ask(parameters)

    return update


def _told_after_the_end(write: Write) -> None:
    if write.sets("later"):
        write.forgets("outcome")


def _from_whoever_owns_it(write: Write) -> None:
    if write.asks("notice") and "Item" in write.request:
        write.unconditional()


def _not_told(ask: Call) -> Call:
    def update(parameters: dict[str, Any]) -> Any:
        return {"Attributes": {}} if Write(parameters).sets("later") else ask(parameters)

    return update


def _any_version(write: Write) -> None:
    if "sk" in write.request.get("Item", {}):
        write.gives("sk", "version")
    else:
        write.request["Key"]["sk"] = {"S": "version"}


def _expired_at_once(write: Write) -> None:
    if write.sets("expires_at"):
        write.gives("expires_at", write.value("claimed_at"))


def _in_milliseconds(write: Write) -> None:
    if write.sets("expires_at"):
        write.gives("expires_at", write.value("expires_at") * 1_000)


def _let_go(also: Callable[[Any], bool]) -> Planting:
    def make(real: Any) -> Any:
        def let_go(ledger: Any, claim: Any) -> bool:
            owner = ledger.notice(claim.notice)
            batch = ledger.batch(owner.batch) if owner and owner.batch else None
            return bool(real(ledger, claim) or (batch and also(batch)))

        return let_go

    return replaced("tidegate.aws.ledger:DynamoLedger.let_go", make)


BUGS = (
    Bug(
        "own claim refused",
        "A put that was refused means a duplicate: the owner in the claim is not compared.",
        (_judged(Ownership.MINE, Ownership.DUPLICATE),),
        strikes=(Strike("dispatch dynamodb.PutItem o", Kind.LOSE),),
    ),
    Bug(
        "every claim is mine",
        "A claim that stands there is taken for one's own, whoever it names.",
        (_judged(Ownership.DUPLICATE, Ownership.MINE),),
    ),
    Bug(
        "seconds against milliseconds",
        "A live claim counts as expired, because the clock is in the wrong unit.",
        (rewritten("o#", lambda write: write.compares("expires_at", 1_000)),),
    ),
    Bug(
        "expiry left to TTL",
        "An expired claim is as good as a live one, as long as DynamoDB has not deleted it.",
        (rewritten("o#", lambda write: write.forgets("expires_at")),),
        "notices_purged",
        (Strike("dispatch dynamodb.PutItem o", Kind.DIE_AFTER), Strike("dispatch s3.PutObject parts", Kind.PAUSE)),
    ),
    Bug(
        "claims released on failure",
        "When anything fails after the claim, the claims are deleted, so that a retry finds the way free.",
        (replaced("tidegate.flows.dispatch:dispatch", _released_on_failure),),
        strikes=(Strike("dispatch dynamodb.TransactWriteItems n,b", Kind.MUTE),),
    ),
    Bug(
        "one duplicate, all duplicates",
        "A notice of which one upload is a duplicate is acknowledged as a whole.",
        (replaced(CLAIM, _nothing_beside_a_duplicate),),
        "notices_purged",
    ),
    Bug(
        "made for nobody",
        "A notice that was made to take an upload over is treated like any other: `takes_from` is not looked at.",
        (
            replaced(
                JUDGE, lambda real: lambda there, notice, entry: real(there, notice, replace(entry, takes_from=""))
            ),
        ),
        "returning",
    ),
    Bug(
        "any notice takes over",
        "An ordinary notice takes the claim of an owner that let go, instead of having a notice made for it.",
        (replaced(CLAIM, _taken_over_at_once),),
        "again_in_company",
        (
            Strike("platform emr state event", Kind.DROP),
            Strike("dispatch s3.PutObject parts", Kind.PAUSE, 2),
            Strike("dispatch s3.PutObject parts", Kind.DIE_BEFORE, 3),
            Strike("dispatch s3.PutObject parts", Kind.DIE_BEFORE, 4),
        ),
    ),
    Bug(
        "endings written to whoever owns it now",
        "An ending is written into the claim without asking whose claim it is by now.",
        (rewritten("o#", _ending_whoever_owns_it),),
        "again_thrice",
        (Strike("settle dynamodb.UpdateItem o", Kind.LATE),),
    ),
    Bug(
        "what came again is forgotten",
        "The same bytes that came again before it was on record that the first ones did not land are not sent again.",
        (answered("dynamodb", "UpdateItem", _untold),),
        "again_in_company",
        (Strike("platform emr state event", Kind.DROP),),
    ),
    Bug(
        "what came again is forgotten with a batch that is given up",
        "The claims of a fenced batch are not looked at: the same bytes that came while it was given up are forgotten.",
        (answered("dynamodb", "UpdateItem", _not_looked_at),),
        "told_while_given_up",
    ),
    Bug(
        "sequencers compared as numbers",
        "Of two sequencers the one with more digits is the later one.",
        (replaced(IS_LATER, lambda real: lambda one, two: real(one, two) and int(one, 16) > int(two, 16)),),
        "uneven_sequencers",
    ),
    Bug(
        "the claim is not told",
        "The same bytes that come while it is open how the first ones end are refused, and the claim is not told.",
        (answered("dynamodb", "UpdateItem", _not_told),),
        "told_while_given_up",
    ),
    Bug(
        "claimed by key",
        "A claim is on an object, not on a version of it.",
        (rewritten("o#", _any_version),),
        "outcomes",
    ),
    Bug(
        "a claim for no time",
        "A claim expires when it is made: how long it is kept is not added.",
        (rewritten("o#", _expired_at_once),),
    ),
    Bug(
        "a claim without its sequencer",
        "A claim does not say which upload of the same bytes it is of.",
        (rewritten("o#", lambda write: write.leaves("sequencer")),),
        "returning",
    ),
    Bug(
        "being given up is given up",
        "The uploads of a batch are given to whoever asks, while its fence is only on its way.",
        (_let_go(lambda batch: bool(batch.fencing)),),
        "given_up_too_late",
    ),
    Bug(
        "submitted is let go",
        "The uploads of a batch are given to whoever asks as soon as it has a second attempt.",
        (_let_go(lambda batch: batch.attempt > 1),),
        "again_while_it_is_tried",
        (Strike("driver iceberg.load", Kind.DIE_BEFORE),),
    ),
    Bug(
        "a claim without an expiry",
        "A claim does not say when it expires.",
        (rewritten("o#", lambda write: write.leaves("expires_at")),),
        strikes=(Strike("dispatch dynamodb.PutItem o", Kind.DIE_AFTER),),
    ),
    Bug(
        "halted is let go",
        "The uploads of a halted batch are given to whoever asks.",
        (_let_go(lambda batch: bool(batch.halted)),),
        "again_while_it_is_tried",
        tuple(Strike("driver iceberg.load", Kind.DIE_BEFORE, time) for time in (1, 2, 3)),
    ),
    Bug(
        "told after the end",
        "A claim is told that the same bytes came again although it says by now how the first ones ended.",
        (rewritten("o#", _told_after_the_end),),
        "told_while_given_up",
        (Strike("dispatch dynamodb.UpdateItem o", Kind.SLOW),),
    ),
    Bug(
        "taken from whoever owns it by now",
        "A claim is taken over without asking whether its owner is still the one that let go.",
        (rewritten("o#", _from_whoever_owns_it),),
        "again_twice_at_once",
        (Strike("dispatch dynamodb.PutItem o", Kind.PAUSE, 4),),
    ),
)

UNSEEN = (
    Bug(
        "expiry in milliseconds",
        "A claim expires in fifty thousand years.",
        (rewritten("o#", _in_milliseconds),),
        because="harmless, but for its price: the ledger grows for ever; what it would forget is not announced again",
    ),
    Bug(
        "expired a second later",
        "A claim that expires this second is still live.",
        (replaced("tidegate.core.claims:is_live", lambda real: lambda expires_at, now: expires_at >= now),),
        because="harmless: the put decides by its own condition, and a record outlives by a day what points to it",
    ),
)
