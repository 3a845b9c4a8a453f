"""The checker, checked: mistakes planted in the product, each with the run that shows it.

    python -m tests.sim.bugs              the table: which mistake, and what finds it
    python -m tests.sim.bugs --find NAME  look for the cheapest run that shows a mistake

`BUGS` break a promise, and the oracle has to say so. `HARMLESS` take away what only saves money or time: nothing may
break, or an argument for correctness has come to rest on it.
"""

import argparse
from collections.abc import Sequence

from tests.sim.explore import Result, simulation
from tests.sim.faults import Kind
from tests.sim.planting import Bug, Edit, Strike, find, hurried, show

CLAIMS = "tidegate.core.claims"
DISPATCH = "tidegate.flows.dispatch"
JOB = "tidegate.spark.job"
LEDGER = "tidegate.aws.ledger:DynamoLedger"
SETTLE = "tidegate.flows.settle"

# ---- decision 1: this upload belongs to that notice

_CLAIMING = (
    Bug(
        "own claim refused",
        "A put that was refused means a duplicate: the owner in the claim is not compared.",
        (Edit(f"{CLAIMS}:judge", "return Ownership.MINE", "return Ownership.DUPLICATE"),),
        strikes=(Strike("dispatch dynamodb.PutItem o", Kind.LOSE),),
    ),
    Bug(
        "every claim is mine",
        "A claim that stands there is taken for one's own, whoever it names.",
        (Edit(f"{CLAIMS}:judge", "return Ownership.DUPLICATE", "return Ownership.MINE"),),
    ),
    Bug(
        "seconds against milliseconds",
        "A live claim counts as expired, because the clock is in the wrong unit.",
        (Edit(f"{LEDGER}._claim_one", '{":now": now}', '{":now": now * 1_000}'),),
    ),
    Bug(
        "expiry left to TTL",
        "An expired claim is as good as a live one, as long as DynamoDB has not deleted it.",
        (Edit(f"{LEDGER}._claim_one", '{":now": now}', '{":now": 0}'),),
        "notices_purged",
        (Strike("dispatch dynamodb.PutItem o", Kind.DIE_AFTER), Strike("dispatch s3.PutObject parts", Kind.PAUSE)),
    ),
    Bug(
        "claims released on failure",
        "When anything fails after the claim, the claims are deleted, so that a retry finds the way free.",
        (
            Edit(
                f"{DISPATCH}:dispatch",
                "        _join_open_batch(notice, part, route, ledger=ledger, work=work, new_id=new_id, count=count)",
                "        try:\n"
                "            _join_open_batch("
                "notice, part, route, ledger=ledger, work=work, new_id=new_id, count=count)\n"
                "        except Exception:\n"
                "            from tidegate.aws.ledger import _claim_pk, _item\n"
                "            for each in claimed.owned:\n"
                '                key = _item({"pk": _claim_pk(each.bucket, each.key), "sk": each.version})\n'
                "                ledger._client.delete_item(TableName=ledger._table, Key=key)\n"
                "            raise",
            ),
        ),
        strikes=(Strike("dispatch dynamodb.TransactWriteItems n,b", Kind.MUTE),),
    ),
    Bug(
        "one duplicate, all duplicates",
        "A notice of which one upload is a duplicate is acknowledged as a whole.",
        (Edit(f"{DISPATCH}:dispatch", "if claimed.owned:", "if claimed.owned and not claimed.refused:"),),
        "notices_purged",
    ),
    Bug(
        "made for nobody",
        "A notice that was made to take an upload over is treated like any other: `takes_from` is not looked at.",
        (Edit(f"{CLAIMS}:judge", "if entry.takes_from and", "if False and"),),
        "returning",
    ),
    Bug(
        "any notice takes over",
        "An ordinary notice takes the claim of an owner that let go, instead of having a notice made for it.",
        (
            Edit(
                f"{LEDGER}._claim_one",
                "return self._uploaded_again(existing, entry)",
                "if not self.let_go(existing):\n"
                "            return self._uploaded_again(existing, entry)\n"
                "        entry, ownership = Entry(entry.upload, takes_from=existing.notice), Ownership.ASK_OWNER",
            ),
        ),
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
        (
            Edit(f"{LEDGER}.record_endings", '"#notice = :owner",', "None,"),
            Edit(f"{LEDGER}.record_endings", '":owner": ending.notice,', ""),
        ),
        "again_thrice",
        (Strike("settle dynamodb.UpdateItem o", Kind.LATE),),
    ),
    Bug(
        "what came again is forgotten",
        "The same bytes that came again before it was on record that the first ones did not land are not sent again.",
        (Edit(f"{SETTLE}:_record", "send_again(route.name, again, topic=topic, count=count)", "pass"),),
        "again_in_company",
        (Strike("platform emr state event", Kind.DROP),),
    ),
    Bug(
        "what came again is forgotten with a batch that is given up",
        "The claims of a fenced batch are not looked at: the same bytes that came while it was given up are forgotten.",
        (Edit(f"{SETTLE}:_record", "portions = _abandoned(batch, ledger=ledger, work=work)", "portions = ()"),),
        "told_while_given_up",
    ),
    Bug(
        "sequencers compared as numbers",
        "Of two sequencers the one with more digits is the later one.",
        (
            Edit(
                "tidegate.core.uploads:is_later",
                "return bool(sequencer and other) and ",
                "return bool(sequencer and other) and int(sequencer, 16) > int(other, 16) and ",
            ),
        ),
        "uneven_sequencers",
    ),
)

# ---- what S3 said, and what becomes of it

_NOTICES = (
    Bug(
        "plus stays plus",
        "The key is decoded with `unquote`, which leaves `+` alone, instead of `unquote_plus`.",
        (
            Edit(
                "tidegate.core.notifications:_from_s3",
                "unquote_plus(encoded,",
                'unquote_plus(encoded.replace("+", "%2B"),',
            ),
        ),
    ),
    Bug(
        "decoded twice",
        "The key is decoded once more than S3 has encoded it.",
        (Edit("tidegate.core.notifications:_from_s3", "unquote_plus(encoded,", "unquote_plus(unquote_plus(encoded),"),),
    ),
    Bug(
        "EventBridge's key decoded",
        "EventBridge's key is decoded like that of an S3 event, though it is not encoded.",
        (
            Edit(
                "tidegate.core.notifications:_from_eventbridge",
                '_text(event, "detail", "object", "key")',
                'unquote_plus(_text(event, "detail", "object", "key"))',
            ),
        ),
        "eventbridge",
    ),
    Bug(
        "a new notice each delivery",
        "A notice is given a new random id whenever it is read from the queue.",
        (
            Edit(
                "tidegate.core.notices:make_notice",
                "return Notice(digest,",
                'digest = __import__("uuid").uuid4().hex\n    return Notice(digest,',
            ),
            Edit("tidegate.core.notices:decode", "if notice.id != said:", "if False:"),
        ),
        strikes=(Strike("dispatch dynamodb.PutItem o", Kind.DIE_AFTER),),
    ),
    Bug(
        "the same bytes, the same notice",
        "The sequencer is no part of a notice's id: the same bytes uploaded again look like the old notice come twice.",
        (
            Edit(
                "tidegate.core.notices:_hashed",
                "return fields if wire == 1 else [*fields, entry.upload.sequencer]",
                "return fields",
            ),
        ),
        "again_alone",
    ),
    Bug(
        "intake acknowledges whatever happened",
        "Intake says that all is well, also if the topic did not take the notices.",
        (Edit("lambdas.intake.app:handler", "for message_id in sorted(give_back)", "for message_id in ()"),),
        strikes=(Strike("intake sns.PublishBatch", Kind.THROTTLE),),
    ),
    Bug(
        "one deduplication id per notice",
        "The topic's deduplication id is the notice's, so what a later attempt publishes is swallowed.",
        (Edit("tidegate.aws.topic:SnsTopic._publish", 'f"{notice.id}-{self._attempt}"', 'f"{notice.id}"'),),
        "stuck_behind_the_topic",
    ),
    Bug(
        "dispatch swallows errors",
        "Any error in dispatch is logged, and the message acknowledged.",
        (Edit("lambdas.dispatch.app:handler", "except FenceLost as error:", "except Exception as error:"),),
        strikes=(Strike("dispatch dynamodb.PutItem o", Kind.THROTTLE),),
    ),
    Bug(
        "only the first failure given back",
        "Of a group only the message that failed is given back; those behind it, not yet handled, are acknowledged.",
        (
            Edit(
                "lambdas.dispatch.app:handler",
                "    return answer",
                '    return {"batchItemFailures": answer["batchItemFailures"][:1]}',
            ),
        ),
        "outcomes",
        (Strike("platform dispatch receive", Kind.DROP), Strike("dispatch dynamodb.GetItem n", Kind.THROTTLE)),
    ),
)

# ---- decision 2: this notice belongs to that batch

_BATCHES = (
    Bug(
        "registered in any batch",
        "Registering does not ask whether the batch is still open.",
        (Edit(f"{LEDGER}.register", '"#state = :open"', '"#state = :open OR attribute_exists(#state)"'),),
        "slow_dispatch",
    ),
    Bug(
        "a closed batch will do",
        "That the batch was sealed meanwhile is taken for an answer, not for a reason to try the next one.",
        (Edit(f"{DISPATCH}:_join_open_batch", "continue", "return"),),
        "slow_dispatch",
    ),
    Bug(
        "registered first, written after",
        "The notice is registered before its part is written.",
        (
            Edit(f"{DISPATCH}:_join_open_batch", "work.put(batch_folder(batch.id) + part.name, part.body)", "pass"),
            Edit(
                f"{DISPATCH}:_join_open_batch",
                'count("UploadsRegistered", part.objects, notice.route)',
                "work.put(batch_folder(batch.id) + part.name, part.body)",
            ),
        ),
        strikes=(Strike("dispatch dynamodb.TransactWriteItems n,b", Kind.DIE_AFTER),),
    ),
    Bug(
        "parts named by notice alone",
        "A part's name does not hold the hash of its content, so a twin writes over it.",
        (
            Edit(
                "tidegate.core.manifests:make_part",
                'name=f"parts/{notice_id}-{digest}.jsonl.gz"',
                'name=f"parts/{notice_id}-part.jsonl.gz"',
            ),
        ),
        "notices_purged",
        (Strike("dispatch dynamodb.PutItem o", Kind.DIE_AFTER), Strike("dispatch s3.PutObject parts", Kind.PAUSE)),
    ),
    Bug(
        "the sealed batch stays the open one",
        "Sealing leaves the batch where notices look for an open one.",
        (Edit(f"{LEDGER}.seal", "REMOVE #open_batch ADD #sealed :set", "ADD #sealed :set"),),
        "growing",
    ),
    Bug(
        "whatever lies there is in the batch",
        "The manifest lists the parts that are found, not those that are registered.",
        (
            Edit(
                "tidegate.flows.seal:ensure_manifest",
                "sealed = registered(batch, ledger=ledger, work=work)",
                "found = registered(batch, ledger=ledger, work=work)\n"
                "    there_too = sorted(each.removeprefix(batch_folder(batch.id))"
                ' for each in work.names(batch_folder(batch.id) + "parts/"))\n'
                "    sealed = Sealed(found.batch, found.route, tuple(there_too), found.objects, found.size)",
            ),
        ),
        "outcomes",
        (Strike("dispatch s3.PutObject parts", Kind.DIE_AFTER, 2),),
    ),
    Bug(
        "sealed without counting",
        "The manifest is not held against the batch's header.",
        (Edit("tidegate.flows.seal:registered", "if summed != expected:", "if False:"),),
        "part_mislaid",
    ),
)

# ---- what is deployed

_DEPLOYED = (
    Bug(
        "only configured routes are settled",
        "What a route had gathered is looked after only as long as the configuration has the route.",
        (
            Edit(
                f"{SETTLE}:routes_to_settle",
                "*(route for name, route in sorted(known.items()) if name not in configured)",
                "",
            ),
        ),
        "renamed_under_way",
    ),
    Bug(
        "the table of the moment",
        "An attempt writes to the table that the route has now, not to the one that its batch was sealed for.",
        (
            Edit(
                "tidegate.flows.hand_off:_dataset",
                "if not batch.table or",
                "if True or",
            ),
        ),
        "moved_under_way",
        (Strike("driver iceberg.swap", Kind.DIE_AFTER, 3),),
    ),
)

# ---- attempts

_ATTEMPTS = (
    Bug(
        "the client token for a fence",
        "No Powertools, and no attempt in the client token: a second attempt is told of the first one's run.",
        (
            Edit("tidegate.aws.jobs:EmrServerless.start", "self._start_once(", "self._start("),
            Edit(
                "tidegate.aws.jobs:EmrServerless._start",
                '{batch.id}-{batch.attempt}",\n            executionRole',
                '{batch.id}",\n            executionRole',
            ),
        ),
        strikes=(Strike("driver iceberg.load", Kind.DIE_BEFORE),),
    ),
    Bug(
        "an attempt begins in any state",
        "Beginning an attempt asks neither for the batch's state nor for its attempt.",
        (
            Edit(
                f"{LEDGER}.begin_attempt",
                '''f"{came_from} AND #attempt = :before"''',
                '''f"({came_from} AND #attempt = :before) OR attribute_exists(#state)"''',
            ),
        ),
        strikes=(Strike("settle dynamodb.TransactWriteItems b,r", Kind.LATE, 2),),
    ),
    Bug(
        "the job ended, so it is done",
        "Settling takes the end of the job for the batch's commit, and needs no receipt.",
        (
            Edit(
                f"{SETTLE}:settle_batch",
                "begin(route, batch.id, batch.attempt + 1, ledger=ledger, jobs=jobs, count=count)",
                "ledger.commit(batch.id, route.name, Receipt(batch.id, 0, 0, False, batch.tally))",
            ),
        ),
        strikes=(Strike("driver iceberg.load", Kind.DIE_BEFORE),),
    ),
    Bug(
        "given up without a fence",
        "A request to abort makes the batch ABANDONED at once: a driver that still runs can publish it.",
        (
            Edit(
                "tidegate.flows.abort:abort",
                "done = ledger.resume(batch_id, batch.route, batch.attempt + 1, fencing=True, floors=batch.floors)",
                "from tidegate.core.receipts import Receipt\n"
                "    done = ledger.commit(batch_id, batch.route, Receipt(batch_id, 0, 0, True, batch.tally))",
            ),
        ),
        "aborted",
        (Strike("driver iceberg.swap", Kind.PAUSE, 2),),
    ),
)

# ---- decision 3: this batch is published, or fenced

_PUBLISHING = (
    Bug(
        "straight into the table",
        "Rows are written to `main` (in the model of the table: the product leaves it to Spark).",
        (
            Edit(
                "tests.sim.table:ModelTable._stage",
                "snapshots=snapshots, branches=branches)",
                "snapshots=snapshots, branches=branches, head=number)",
            ),
        ),
    ),
    Bug(
        "whatever was staged first",
        "A driver publishes the first snapshot that was staged for the batch, not its own.",
        (
            Edit(
                f"{JOB}:Attempt._publish_once",
                "self.table.publish(staged, self.batch",
                "self.table.publish(min(at for name, at in self.table._load().branches.items()"
                " if name.startswith(self.branches)), self.batch",
            ),
        ),
        strikes=(Strike("driver iceberg.swap", Kind.DIE_AFTER, 2),),
    ),
    Bug(
        "published because it was asked to",
        "After an error of the commit, the history is not asked whether it came about.",
        (
            Edit(
                f"{JOB}:Attempt._publish_once",
                "told = verdict(self.table.history(floor), self.batch, floor)",
                "told = Published(staged, staged)",
            ),
        ),
        strikes=(Strike("driver iceberg.swap", Kind.FAIL, 3),),
    ),
    Bug(
        "no floor",
        "Each attempt takes the table's head of the moment for the floor.",
        (
            Edit(
                f"{JOB}:Attempt.known_floor",
                "return decode_floor(body) if body else None",
                "return self.table.position() if body else None",
            ),
        ),
        strikes=(Strike("driver iceberg.swap", Kind.DIE_AFTER, 3),),
    ),
    Bug(
        "a lost floor means: not published",
        "If the history does not reach back to the floor, the batch is taken for unpublished.",
        (Edit("tidegate.core.publication:verdict", "if below != floor.head:", "if False:"),),
        "history_expired",
        (Strike("driver iceberg.swap", Kind.DIE_AFTER, 3),),
    ),
    Bug(
        "asked before, committed after",
        "The question is asked once, before the commit, and not by the commit itself (in the model of the table).",
        (
            Edit(
                "tests.sim.table:ModelTable.publish",
                "down_to(floor, base.ancestors())",
                "down_to(floor, loaded.ancestors())",
            ),
        ),
        "twins",
        (Strike("driver iceberg.load", Kind.PAUSE, 6),),
    ),
    Bug(
        "a fence that is only staged",
        "The fence is in the table's metadata, and does not move `main`.",
        (
            Edit(
                f"{JOB}:Attempt.fence",
                "found = self.publish(self.stage_fence(), found or floor)",
                "found = Published(*[self.stage_fence()] * 2)",
            ),
        ),
        "aborted",
        (Strike("driver iceberg.swap", Kind.PAUSE, 3),),
    ),
)

# ---- reading

_READING = (
    Bug(
        "whatever the key holds now",
        "The object is read by its key, without the version or the ETag that was claimed.",
        (
            Edit(
                "tidegate.spark.fetch:_with_boto3",
                "options = {",
                "options = {} if upload else {",
            ),
        ),
        "outcomes",
    ),
    Bug(
        "the good rows of a bad file",
        "A file that breaks in its second row leaves its first one in the table.",
        (
            Edit(
                "tidegate.spark.decode.json_lines:_rows",
                "RecursionError) as error:",
                "RecursionError) as error:\n        return rows",
            ),
        ),
        "outcomes",
    ),
)

BUGS: tuple[Bug, ...] = (*_CLAIMING, *_NOTICES, *_BATCHES, *_DEPLOYED, *_ATTEMPTS, *_PUBLISHING, *_READING)

HARMLESS: tuple[Bug, ...] = (
    Bug(
        "no memory of started jobs",
        "Powertools is left out, and the client token is new each time: more drivers than needed, one of which counts.",
        (
            Edit("tidegate.aws.jobs:EmrServerless.start", "self._start_once(", "self._start("),
            Edit(
                "tidegate.aws.jobs:EmrServerless._start",
                'clientToken=f"',
                'clientToken=__import__("uuid").uuid4().hex + f"',
            ),
        ),
    ),
    Bug(
        "a new attempt does not ask",
        "An attempt reads and stages without asking first whether the batch is in the table: the commit asks.",
        (Edit(f"{JOB}:Attempt.ingest", "found = self.look()", "found = None"),),
    ),
    Bug(
        "any number of jobs",
        "Beginning an attempt asks for no free slot: jobs of one route run side by side.",
        (
            Edit(
                f"{LEDGER}.begin_attempt",
                "attribute_not_exists(#running) OR size(#running) < :slots",
                "attribute_not_exists(#running) OR size(#running) < :slots OR attribute_exists(#running)",
            ),
        ),
    ),
    Bug(
        "the receipt first, the job second",
        "Settling looks for the receipt before it asks for the job: an attempt too many finds the batch published.",
        (
            Edit(
                f"{SETTLE}:settle_batch",
                "report = jobs.report(batch.job_run)",
                'early = work.get(folder + "receipt.json")\n    report = jobs.report(batch.job_run)',
            ),
            Edit(f"{SETTLE}:settle_batch", '    receipt = work.get(folder + "receipt.json")', "    receipt = early"),
        ),
    ),
    Bug(
        "no order within a route",
        "A message that failed is given back alone, and those behind it go first.",
        (
            Edit(
                "lambdas.dispatch.app:handler",
                "processor = SqsFifoPartialProcessor(skip_group_on_error=True)",
                "from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType\n\n"
                "    processor = BatchProcessor(EventType.SQS)",
            ),
        ),
    ),
    Bug(
        "decided or not, claim again",
        "Dispatch does not look first whether the notice is registered already.",
        (Edit(f"{DISPATCH}:dispatch", "if decided := ledger.notice(notice.id):", "if decided := None:"),),
    ),
)


def _said(result: Result) -> str:
    """Which promises were broken, without which upload or batch it was."""
    known = ("repeated", "lost", "torn", "foreign", "sums")
    broken = [promise.split(":")[0] for promise in result.judgement.broken]
    kinds = [kind if kind in known else "the table and the ledger" for kind in broken if kind != "liveness"]
    return ", ".join(dict.fromkeys(kinds)) or ("it never ends" if broken else "nothing")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.sim.bugs")
    parser.add_argument("--find", metavar="NAME", nargs="*", help="look for the cheapest run that shows these mistakes")
    wanted = parser.parse_args(arguments).find
    with simulation(), hurried():
        if wanted:
            for bug in BUGS:
                if bug.name in wanted:
                    print(f"{bug.name}: {find(bug) or 'nothing shows it'}", flush=True)
            return
        print("| mistake | what it is | scenario | how | what the oracle says |")
        print("|---|---|---|---|---|")
        for bug in BUGS:
            shown, _ = show(bug)
            print(f"| {bug.name} | {bug.mistake} | {bug.scenario} | {bug.how} | {_said(shown)} |")
        print("\nTaken away without harm:\n\n| what | what it would do |\n|---|---|")
        for bug in HARMLESS:
            print(f"| {bug.name} | {bug.mistake} |")


if __name__ == "__main__":
    main()
