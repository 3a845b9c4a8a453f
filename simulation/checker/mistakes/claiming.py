"""Mistakes in decision 1: this upload belongs to that notice."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from botocore.exceptions import ClientError

from simulation.checker.mistakes.writes import WriteRequest
from simulation.checker.planting import Bug, Call, Planting, Strike, answered, replaced, rewritten
from simulation.world.faults import Kind
from tidegate import wiring
from tidegate.core.claims import Ownership
from tidegate.core.notices import decode
from tidegate.core.outcomes import ABANDONED
from tidegate.core.uploads import object_hash
from tidegate.flows.ledger import Claimed

JUDGE = "tidegate.core.claims:judge"
CLAIM = "tidegate.flows.ledger:Ledger.claim"
IS_LATER = "tidegate.core.uploads:is_later"


def _judged(was: Ownership, becomes: Ownership) -> Any:
    def make(real: Any) -> Any:
        def judge(*arguments: Any) -> Ownership:
            ownership: Ownership = real(*arguments)
            return becomes if ownership is was else ownership

        return judge

    return replaced(JUDGE, make)


def _made_for_nobody(real: Any) -> Any:
    return lambda existing, notice, entry: real(existing, notice, replace(entry, takes_from=""))


def _released_on_failure(real: Any) -> Any:
    def dispatch(body: str, ports: Any, **routes: Any) -> Any:
        try:
            return real(body, ports, **routes)
        except Exception:
            notice = decode(body)
            for entry in notice.entries:
                _release(notice.bucket, entry.upload.key, entry.upload.version, notice.id)
            raise

    return dispatch


def _release(bucket: str, key: str, version: str, notice_id: str) -> None:
    with suppress(ClientError):
        wiring._client("dynamodb").delete_item(
            TableName=wiring.this_deployment().resources.ledger,
            Key={"pk": {"S": f"o#{object_hash(bucket, key)}"}, "sk": {"S": version}},
            ConditionExpression="#notice = :mine",
            ExpressionAttributeNames={"#notice": "notice"},
            ExpressionAttributeValues={":mine": {"S": notice_id}},
        )


def _nothing_beside_a_duplicate(real: Any) -> Any:
    def claim(ledger: Any, notice: Any, *table: Any) -> Claimed:
        claimed: Claimed = real(ledger, notice, *table)
        return replace(claimed, owned=()) if claimed.refused else claimed

    return claim


def _taken_over_at_once(real: Any) -> Any:
    def claim(ledger: Any, notice: Any, *table: Any) -> Claimed:
        claimed: Claimed = real(ledger, notice, *table)
        if not claimed.again:
            return claimed
        taken: Claimed = real(ledger, replace(notice, entries=claimed.again), *table)
        return Claimed((*claimed.owned, *taken.owned), (*claimed.refused, *taken.refused))

    return claim


def _ending_whoever_owns_it(write: WriteRequest) -> None:
    if write.sets("outcome"):
        write.forgets("notice")


def _untold(ask: Call) -> Call:
    def update(parameters: dict[str, Any]) -> Any:
        answer = ask(parameters)
        if WriteRequest(parameters).sets("outcome"):
            answer.get("Attributes", {}).pop("later", None)
        return answer

    return update


def _not_looked_at(ask: Call) -> Call:
    def update(parameters: dict[str, Any]) -> Any:
        if WriteRequest(parameters).value("outcome") == ABANDONED:
            raise ClientError({"Error": {"Code": "ConditionalCheckFailedException"}}, "UpdateItem")
        return ask(parameters)

    return update


def _told_after_the_end(write: WriteRequest) -> None:
    if write.sets("later"):
        write.forgets("outcome")


def _from_whoever_owns_it(write: WriteRequest) -> None:
    if write.asks("notice") and "Item" in write.request:
        write.unconditional()


def _not_told(ask: Call) -> Call:
    def update(parameters: dict[str, Any]) -> Any:
        return {"Attributes": {}} if WriteRequest(parameters).sets("later") else ask(parameters)

    return update


def _any_version(write: WriteRequest) -> None:
    if "sk" in write.request.get("Item", {}):
        write.gives("sk", "version")
    else:
        write.request["Key"]["sk"] = {"S": "version"}


def _expired_at_once(write: WriteRequest) -> None:
    if write.sets("expires_at"):
        write.gives("expires_at", write.value("claimed_at"))


def _in_milliseconds(write: WriteRequest) -> None:
    if write.sets("expires_at"):
        write.gives("expires_at", write.value("expires_at") * 1_000)


def _all_done(real: Any) -> Any:
    def insert(inserts: Any, wanted: Any) -> list[bool]:
        real(inserts, wanted)
        return [True] * len(wanted)

    return insert


def _failed_is_done(ask: Call) -> Call:
    def insert(parameters: dict[str, Any]) -> Any:
        answer = ask(parameters)
        for each in answer["Responses"]:
            if each.get("Error", {}).get("Code") != "DuplicateItem":
                each.pop("Error", None)
        return answer

    return insert


def _let_go(also: Callable[[Any], bool]) -> Planting:
    def make(real: Any) -> Any:
        return lambda claim, owner, batch: bool(real(claim, owner, batch) or (batch and also(batch)))

    return replaced("tidegate.core.claims:has_let_go", make)


BUGS = (
    Bug(
        "own claim refused",
        "A refused put counts as a duplicate: the owner in the claim is not compared.",
        (_judged(Ownership.MINE, Ownership.DUPLICATE),),
        strikes=(Strike("dispatch dynamodb.PutItem o", Kind.LOSE),),
    ),
    Bug(
        "every claim is mine",
        "An existing claim counts as the notice's own, whatever notice it names.",
        (_judged(Ownership.DUPLICATE, Ownership.MINE),),
    ),
    Bug(
        "every insert is done",
        "A claim whose insert was refused counts as the notice's own.",
        (replaced("tidegate.stores.inserts:Inserts._insert", _all_done),),
        "claims_together",
    ),
    Bug(
        "a failed insert is done",
        "A claim whose insert was answered with an error other than `DuplicateItem` counts as the notice's own.",
        (answered("dynamodb", "BatchExecuteStatement", _failed_is_done),),
        "claims_together",
    ),
    Bug(
        "own insert refused",
        "A claim that an insert meets counts as another notice's: the owner in it is not compared.",
        (_judged(Ownership.MINE, Ownership.DUPLICATE),),
        "claims_together",
        (Strike("dispatch dynamodb.BatchExecuteStatement o", Kind.LOSE),),
    ),
    Bug(
        "seconds against milliseconds",
        "A live claim counts as expired, because the clock is in the wrong unit.",
        (rewritten("o#", lambda write: write.compares("expires_at", 1_000)),),
    ),
    Bug(
        "expiry left to TTL",
        "An expired claim counts as live until DynamoDB has deleted it.",
        (rewritten("o#", lambda write: write.forgets("expires_at")),),
        "notices_purged",
        (Strike("dispatch dynamodb.PutItem o", Kind.DIE_AFTER), Strike("dispatch s3.PutObject parts", Kind.PAUSE)),
    ),
    Bug(
        "claims released on failure",
        "If a step after the claim fails, the claims are deleted, so that a retry can claim again.",
        (replaced("tidegate.flows.dispatch:dispatch", _released_on_failure),),
        strikes=(Strike("dispatch dynamodb.TransactWriteItems n,b", Kind.MUTE),),
    ),
    Bug(
        "one duplicate, all duplicates",
        "If one upload of a notice is a duplicate, the whole notice is acknowledged.",
        (replaced(CLAIM, _nothing_beside_a_duplicate),),
        "notices_purged",
    ),
    Bug(
        "the takeover notice is an ordinary one",
        "A notice that was made to take an upload over is treated like any other: `takes_from` is ignored.",
        (
            replaced(
                JUDGE, lambda real: lambda there, notice, entry: real(there, notice, replace(entry, takes_from=""))
            ),
        ),
        "returning",
    ),
    Bug(
        "any notice takes over",
        "An ordinary notice takes over the claim of an owner that let go. No notice is made for it.",
        (replaced(CLAIM, _taken_over_at_once),),
        "again_in_company",
        (
            Strike("platform s3 receipt event", Kind.DROP),
            Strike("dispatch s3.PutObject parts", Kind.PAUSE, 2),
            Strike("dispatch s3.PutObject parts", Kind.DIE_BEFORE, 3),
            Strike("dispatch s3.PutObject parts", Kind.DIE_BEFORE, 4),
        ),
    ),
    Bug(
        "endings written to whoever owns it now",
        "An ending is written into a claim without the condition that the claim still has its owner.",
        (rewritten("o#", _ending_whoever_owns_it),),
        "again_thrice",
        (Strike("settle dynamodb.UpdateItem o", Kind.LATE),),
    ),
    Bug(
        "a repeated upload is forgotten",
        "The same bytes are uploaded again before the first upload's ending without a row is recorded. Settling does"
        " not send them again.",
        (answered("dynamodb", "UpdateItem", _untold),),
        "again_in_company",
        (Strike("platform s3 receipt event", Kind.DROP),),
    ),
    Bug(
        "a repeated upload is forgotten when its batch is given up",
        "Settling does not read the claims of a fenced batch: the same bytes, uploaded again before the fence, are"
        " forgotten.",
        (answered("dynamodb", "UpdateItem", _not_looked_at),),
        "told_while_given_up",
    ),
    Bug(
        "sequencers compared as numbers",
        "The sequencer with more digits counts as the later one.",
        (replaced(IS_LATER, lambda real: lambda one, two: real(one, two) and int(one, 16) > int(two, 16)),),
        "uneven_sequencers",
    ),
    Bug(
        "what a listing found is never put again",
        "A claim without a sequencer refuses each later upload of the same bytes.",
        (replaced("tidegate.core.claims:was_put_again", lambda real: lambda *_: False),),
        "again_after_a_listing",
    ),
    Bug(
        "a repeat is not recorded in the claim",
        "The same bytes, uploaded again before the outcome is known, are refused, and the claim does not record them.",
        (answered("dynamodb", "UpdateItem", _not_told),),
        "told_while_given_up",
    ),
    Bug(
        "claimed by key",
        "A claim is for an object, not for a version of it.",
        (rewritten("o#", _any_version),),
        "outcomes",
    ),
    Bug(
        "a claim for no time",
        "A claim expires at once: the retention is not added to its time.",
        (rewritten("o#", _expired_at_once),),
    ),
    Bug(
        "a claim without its sequencer",
        "A claim does not record the sequencer, so it does not tell two uploads of the same bytes apart.",
        (rewritten("o#", lambda write: write.leaves("sequencer")),),
        "returning",
    ),
    Bug(
        "let go before the fence",
        "Another notice may take the uploads of a batch whose fence is not published yet.",
        (_let_go(lambda batch: bool(batch.fencing)),),
        "given_up_too_late",
    ),
    Bug(
        "let go at the second attempt",
        "Another notice may take the uploads of a batch as soon as it has a second attempt.",
        (_let_go(lambda batch: batch.attempt > 1),),
        "told_while_given_up",
    ),
    Bug(
        "a claim without an expiry",
        "A claim has no expiry.",
        (rewritten("o#", lambda write: write.leaves("expires_at")),),
        strikes=(Strike("dispatch dynamodb.PutItem o", Kind.DIE_AFTER),),
    ),
    Bug(
        "let go when halted",
        "Another notice may take the uploads of a halted batch.",
        (_let_go(lambda batch: bool(batch.halted)),),
        "again_while_it_is_tried",
        tuple(Strike("driver iceberg.load", Kind.DIE_BEFORE, time) for time in (1, 2, 3)),
    ),
    Bug(
        "a repeat is recorded after the ending",
        "A claim records that the same bytes were uploaded again, although it already has the first upload's ending.",
        (rewritten("o#", _told_after_the_end),),
        "told_while_given_up",
        (Strike("dispatch dynamodb.UpdateItem o", Kind.SLOW),),
    ),
    Bug(
        "taken from whoever owns it by now",
        "A claim is taken over without the condition that its owner is still the one that let go.",
        (rewritten("o#", _from_whoever_owns_it),),
        "again_twice_at_once",
        (Strike("dispatch dynamodb.PutItem o", Kind.PAUSE, 4),),
    ),
    Bug(
        "expiry in milliseconds",
        "A claim expires in fifty thousand years: its expiry is in the wrong unit.",
        (rewritten("o#", _in_milliseconds),),
        "core",
    ),
)

UNSEEN = (
    Bug(
        "expired a second later",
        "A claim that expires this second is still live.",
        (replaced("tidegate.core.claims:is_live", lambda real: lambda expires_at, now: expires_at >= now),),
        because="harmless: the put's condition decides, and each record outlives by a day those that point to it",
    ),
)
