"""Counts the states that a campaign must meet: from requests to AWS, commits to tables, and how batches ended."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from simulation.world.wire import Refusal

CLAIM_REFUSED = "a claim was refused"
INSERT_REFUSED = "an insert of a claim met another one"
TOLD = "a claim recorded a repeat of its upload"
OPEN_BATCH_LOST = "another process opened the batch first"
SEALED_FIRST = "a batch was sealed before a notice joined"
ATTEMPT_LOST = "another process began the attempt first"
PORTIONS = "endings were written in portions"
SENT_AGAIN = "uploads were sent again"
REBASED = "a commit conflicted, and was tried again"
REFUSED_BY_CONDITION = "a commit was refused by its own condition"
FENCE_LOST = "a fence came too late: the batch was published"
ABANDONED = "a batch was abandoned"
RETRIED = "a batch took more than one attempt"
HALTED = "a batch was resumed"
DECIDED = "a person decided"
MAINTAINED = "a table was maintained"
MOVED_BACK = "dead letters were moved back"
REBUILT = "the ledger was lost, and rebuilt"
REBUILT_AGAIN = "rebuilding took more than one run"
FOUND_LOST = "an audit found lost uploads"
BACKFILLED = "a backfill sent what the table lacked"
RELOADED = "what had landed was loaded again"
VOIDED = "a notice was voided"
CUT = "somebody else: cut"
RESENDN = "an abandoned batch was resent"
RELEASED = "what S3 had refused was released"
ASIDE = "a halted batch stepped aside"
DROPPED = "an upload was dropped"
TAKEN_OVER = "an upload that ended without a row was taken over"
RODE = "a batch rode in another one's job"
QUARANTINED, SUPERSEDED, VANISHED = ("an upload was quarantined", "an upload was superseded", "an upload vanished")


def asked_of_dynamodb(
    happened: Counter[str],
    operation: str,
    asked: Mapping[str, Any],
    answer: Callable[[str, Mapping[str, Any]], dict[str, Any]],
) -> dict[str, Any]:
    try:
        answered = answer(operation, asked)
    except Refusal as refusal:
        if refusal.code in ("ConditionalCheckFailedException", "TransactionCanceledException"):
            happened.update(_refused(operation, asked))
        raise
    if operation == "PutItem" and asked["Item"]["pk"]["S"].startswith("n#"):
        happened[VOIDED] += 1  # a registration is part of a transaction
    if operation == "BatchExecuteStatement":
        happened[INSERT_REFUSED] += any(
            each.get("Error", {}).get("Code") == "DuplicateItem" for each in answered["Responses"]
        )
    if operation == "UpdateItem":
        after = answered.get("Attributes", {})
        if asked["Key"]["pk"]["S"].startswith("o#") and "later" in after and "outcome" not in after:
            happened[TOLD] += 1
        if asked["UpdateExpression"].startswith("SET #endings"):
            # the first portion of several looks like the only one: the second is counted
            happened[PORTIONS] += int(after["endings"]["N"]) > 1
    return answered


def _refused(operation: str, asked: Mapping[str, Any]) -> list[str]:
    if operation == "PutItem" and asked["Item"]["pk"]["S"].startswith("o#"):
        return [CLAIM_REFUSED]
    if operation != "TransactWriteItems":
        return []
    first = next(iter(asked["TransactItems"][0].items()))
    kind, write = first
    pk = (write.get("Item") or write.get("Key"))["pk"]["S"]
    if kind == "Put":
        return [OPEN_BATCH_LOST] if pk.startswith("b#") else [SEALED_FIRST] if pk.startswith("n#") else []
    return [ATTEMPT_LOST] if "attempt" in write["ExpressionAttributeNames"].values() else []


def asked_of_sns(happened: Counter[str], asked: Mapping[str, Any], answered: dict[str, Any]) -> dict[str, Any]:
    origins = [json.loads(entry["Message"])["origin"] for entry in asked["PublishBatchRequestEntries"]]
    happened[SENT_AGAIN] += any(origin == "again" for origin in origins)
    happened[FOUND_LOST] += any(origin.startswith("audit-") for origin in origins)
    return answered


def in_the_end(happened: Counter[str], batches: Iterable[Mapping[str, Any]]) -> None:
    runs: Counter[str] = Counter()
    for batch in batches:
        runs[batch.get("job_run", "")] += 1
        happened[RODE] += bool(batch.get("job_run")) and runs[batch["job_run"]] > 1
        happened[ABANDONED] += batch["state"] == "ABANDONED"
        happened[FENCE_LOST] += batch["state"] == "COMMITTED" and bool(batch.get("fencing"))
        happened[RETRIED] += batch["attempt"] > 1
        happened[ASIDE] += "aside_at" in batch
        for ending, name in (("quarantined", QUARANTINED), ("superseded", SUPERSEDED), ("vanished", VANISHED)):
            happened[name] += batch.get("tally", {}).get(ending, 0) > 0
    for name in [name for name, times in happened.items() if not times]:
        del happened[name]
