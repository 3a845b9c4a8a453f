"""The ledger on DynamoDB: one table, every decision one conditional write.

    item     pk              sk         written when
    claim    o#<object hash> <version>  a notice claims an upload; under 1 KB, so 1 write unit an upload
    notice   n#<id>          notice     the notice is registered, or void
    batch    b#<id>          batch      the batch changes state
    route    r#<name>        route      a batch of the route opens, is sealed, submitted, or ends
    settings routes          <name>     a route's settings are deployed, or its first batch opens

Reads are strongly consistent wherever a decision follows. A failed condition answers with the item that stood in
the way (`ReturnValuesOnConditionCheckFailure`), so finding out whose claim it is costs no read.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from boto3.dynamodb.types import TypeDeserializer, TypeSerializer
from botocore.exceptions import ClientError
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from tidegate.aws.errors import asking, code_of
from tidegate.core.batches import Batch, State
from tidegate.core.claims import Claim, Ownership, is_live, judge
from tidegate.core.errors import OutcomeUnknown, Rejected, Retryable
from tidegate.core.manifests import Part
from tidegate.core.notices import Entry, Notice
from tidegate.core.outcomes import Tally
from tidegate.core.receipts import Ending, Receipt
from tidegate.core.routes import Route, decode_route, encode_route
from tidegate.core.uploads import Upload, is_later, object_hash
from tidegate.core.versions import check_version
from tidegate.flows.ports import Claimed, Clock, NewId, NoticeRecord, Registration, RouteRecord

T = TypeVar("T")

RECORD_VERSION = 1
ROUTES = "routes"
"""The partition key of all routes' settings: a few hundred items at most, read together."""
DAY = 24 * 60 * 60
# A claim names a notice and a notice names a batch: each record outlives those that point to it.
NOTICE_OUTLIVES_CLAIM = DAY
BATCH_OUTLIVES_NOTICE = DAY
THREADS = 16
MAX_ERROR_BYTES = 300  # keeps a claim under 1 KB, hence at 1 write unit

_serialize = TypeSerializer().serialize
_deserialize = TypeDeserializer().deserialize

_ABSENT = "attribute_not_exists(#pk) OR #expires_at <= :now"


class DynamoLedger:
    """`flows.ports.Ledger` on a DynamoDB table. `client` must allow `THREADS` connections at once.

    `claim_retention` in seconds: how long the ledger remembers an upload (setting `retention.claims`).
    """

    def __init__(self, client: Any, table: str, *, clock: Clock, claim_retention: int) -> None:
        self._client = client
        self._table = table
        self._clock = clock
        self._claim_retention = claim_retention
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="claims")

    # ---- reading

    def notice(self, notice_id: str) -> NoticeRecord | None:
        item = self._get(_notice_key(notice_id))
        return _notice_record(item) if item else None

    def notices(self, notice_ids: Iterable[str]) -> Mapping[str, NoticeRecord]:
        items = self._get_all((_notice_key(each) for each in sorted(set(notice_ids))), "notices")
        return {item["pk"].removeprefix("n#"): _notice_record(item) for item in items}

    def claims(self, bucket: str, key: str) -> Sequence[Claim]:
        items = self._query(_claim_pk(bucket, key), f"read the claims on s3://{bucket}/{key}")
        return [_claim(item) for item in items if is_live(int(item["expires_at"]), self._clock())]

    def claims_on(self, uploads: Iterable[Upload]) -> Mapping[tuple[str, str, str], Claim]:
        by_key = {(_claim_pk(each.bucket, each.key), each.version): each.identity for each in uploads}
        items = self._get_all(({"pk": pk, "sk": sk} for pk, sk in sorted(by_key)), "claims")
        return {by_key[item["pk"], item["sk"]]: _claim(item) for item in items}

    def batch(self, batch_id: str) -> Batch | None:
        item = self._get(_batch_key(batch_id))
        return _batch(item) if item else None

    def route(self, name: str) -> RouteRecord:
        item = self._get(_route_key(name))
        return _route_record(name, item or {})

    def known_routes(self) -> Mapping[str, Route]:
        items = self._query(ROUTES, "read the routes")
        return {item["sk"]: _settings(item) for item in items}

    def known_route(self, name: str) -> Route | None:
        item = self._get(_settings_key(name))
        return _settings(item) if item else None

    def remember_route(self, route: Route) -> None:
        self._change(
            f"remember route {route.name}",
            _settings_key(route.name),
            "SET #settings = :settings, #v = :v",
            "attribute_not_exists(#settings) OR #settings <> :settings",
            {":settings": encode_route(route), ":v": RECORD_VERSION},
        )

    # ---- decision 1

    def claim(self, notice: Notice) -> Claimed:
        now = self._clock()
        # list() before judging any: a put that failed must not leave others unread in the pool
        results = list(self._pool.map(lambda entry: self._claim_one(notice, entry, now), notice.entries))
        entries = list(zip(notice.entries, results, strict=True))
        return Claimed(
            owned=tuple(entry.upload for entry, result in entries if result is Ownership.MINE),
            refused=tuple(entry.upload for entry, result in entries if result is Ownership.DUPLICATE),
            again=tuple(result for _, result in entries if isinstance(result, Entry)),
        )

    def _claim_one(self, notice: Notice, entry: Entry, now: int) -> Ownership | Entry:
        """MINE, DUPLICATE, or the entry of a notice that may have what this one may not."""
        existing = self._put_claim(notice.id, entry, now, _ABSENT, {":now": now})
        if existing is None:
            return Ownership.MINE
        ownership = judge(existing, notice.id, entry)
        if ownership is Ownership.UPLOADED_AGAIN:
            return self._uploaded_again(existing, entry)
        if ownership is not Ownership.ASK_OWNER:
            return ownership
        if not self.let_go(existing):
            return Ownership.DUPLICATE
        # conditional on the owner that let go: a twin of this notice may have been faster
        now_there = self._put_claim(notice.id, entry, now, "#notice = :owner", {":owner": entry.takes_from})
        return Ownership.MINE if now_there is None or now_there.notice == notice.id else Ownership.DUPLICATE

    def _uploaded_again(self, existing: Claim, entry: Entry) -> Ownership | Entry:
        """What the owner let go of is for a notice made for it. What has landed, or may still, is a duplicate, but the
        claim is told: whoever writes into it that it did not land reads, in the same write, that it came again. And it
        lives on from now: the new notification may be delivered again for as long as any other (docs/adr/0038)."""
        if self.let_go(existing):
            return Entry(entry.upload, takes_from=existing.notice)
        if is_later(existing.later, entry.upload.sequencer) or existing.later == entry.upload.sequencer:
            return Ownership.DUPLICATE
        told = self._change(
            f"note that {entry.upload} came again",
            {"pk": _claim_pk(entry.upload.bucket, entry.upload.key), "sk": entry.upload.version},
            "SET #later = :later, #expires_at = :expires",
            "#notice = :owner AND attribute_not_exists(#outcome)",
            {
                ":later": entry.upload.sequencer,
                ":expires": self._clock() + self._claim_retention,
                ":owner": existing.notice,
            },
        )
        if told is None:
            raise Retryable(f"the claim on {entry.upload} changed while it was looked at; it will be tried again")
        return Ownership.DUPLICATE

    def _put_claim(
        self, notice_id: str, entry: Entry, now: int, condition: str, values: dict[str, Any]
    ) -> Claim | None:
        """Put the claim if `condition` holds; else the claim that stands there."""
        upload = entry.upload
        item = {
            "pk": _claim_pk(upload.bucket, upload.key),
            "sk": upload.version,
            "v": RECORD_VERSION,
            "notice": notice_id,
            **({"sequencer": upload.sequencer} if upload.sequencer else {}),
            "claimed_at": now,
            "expires_at": now + self._claim_retention,
        }
        try:
            self._put_once(f"claim {upload}", self._put(item, condition, values)["Put"])
            return None
        except _Refused as refused:
            old = refused.item
        if not old:
            # a put conditional on an owner met no claim at all: it expired and was deleted in between
            raise Retryable(f"the claim on {upload} changed while it was being taken; it will be tried again")
        return _claim(old)

    def let_go(self, claim: Claim) -> bool:
        """Whether the claim's owner will never publish this upload. Each of these facts is final."""
        if claim.outcome:
            # recorded once the table had decided: the batch is published, without a row of this upload
            return True
        owner = self.notice(claim.notice)
        if owner is None:
            return False
        if owner.void:
            return True
        batch = self.batch(owner.batch)
        return batch is not None and batch.state is State.ABANDONED

    # ---- decision 2

    def open_batch(self, route: str, new_id: NewId) -> Batch:
        for _ in range(10):
            record = self.route(route)
            if record.open_batch and (batch := self.batch(record.open_batch)):
                return batch
            batch = Batch(new_id(), route, State.OPEN, opened_at=self._clock())
            opened = self._transact(
                f"open batch {batch.id}",
                self._put(
                    {
                        **_batch_key(batch.id),
                        "v": RECORD_VERSION,
                        "route": route,
                        "state": State.OPEN,
                        "opened_at": batch.opened_at,
                        "objects": 0,
                        "bytes": 0,
                        "notices": 0,
                        "attempt": 0,
                    },
                    "attribute_not_exists(#pk)",
                ),
                self._update(
                    _route_key(route),
                    "SET #open_batch = :b",
                    "attribute_not_exists(#open_batch)",
                    {":b": batch.id},
                ),
            )
            if opened is None:
                return batch
        raise Retryable(f"route {route}: its open batch changed ten times while it was read; it will be tried again")

    def register(self, notice: Notice, batch_id: str, part: Part) -> Registration:
        now = self._clock()
        failed = self._transact(
            f"register notice {notice.id} in batch {batch_id}",
            self._put(
                {
                    **_notice_key(notice.id),
                    "v": RECORD_VERSION,
                    "route": notice.route,
                    "batch": batch_id,
                    "part": part.name,
                    "objects": part.objects,
                    "bytes": part.size,
                    "decided_at": now,
                    "expires_at": now + self._claim_retention + NOTICE_OUTLIVES_CLAIM,
                },
                _ABSENT,
                {":now": now},
            ),
            self._update(
                _batch_key(batch_id),
                "ADD #objects :objects, #bytes :bytes, #notices :one",
                "#state = :open",
                {":objects": part.objects, ":bytes": part.size, ":one": 1, ":open": State.OPEN},
            ),
        )
        if failed is None:
            return Registration.REGISTERED
        there = failed[0]
        if there is None:
            return Registration.BATCH_CLOSED
        record = _notice_record(there)
        if record.void:
            return Registration.VOID
        # the SDK may repeat a transaction whose answer was lost: then what stands there is this very registration
        same = record.batch == batch_id and record.part == part.name
        return Registration.REGISTERED if same else Registration.ELSEWHERE

    def void(self, notice_id: str, route: str) -> bool:
        now = self._clock()
        item = {
            **_notice_key(notice_id),
            "v": RECORD_VERSION,
            "route": route,
            "decided_at": now,
            "expires_at": now + self._claim_retention + NOTICE_OUTLIVES_CLAIM,
        }
        try:
            self._put_once(f"void notice {notice_id}", self._put(item, _ABSENT, {":now": now})["Put"])
            return True
        except _Refused as refused:
            return _notice_record(refused.item).void

    def refuse(self, route: str, count: int) -> None:
        self._change(f"count duplicates of route {route}", _route_key(route), "ADD #refused :n", None, {":n": count})

    # ---- the life of a batch

    def seal(self, batch_id: str, route: str, table: str = "", dataset: str = "") -> bool:
        failed = self._transact(
            f"seal batch {batch_id}",
            self._update(
                _batch_key(batch_id),
                "SET #state = :sealed, #sealed_at = :now, #table = :table, #sealed_for = :dataset",
                "#state = :open AND #notices > :none",
                {
                    ":sealed": State.SEALED,
                    ":open": State.OPEN,
                    ":none": 0,
                    ":now": self._clock(),
                    ":table": table,
                    ":dataset": dataset,
                },
            ),
            self._update(
                _route_key(route),
                "REMOVE #open_batch ADD #sealed :set",
                "#open_batch = :b",
                {":b": batch_id, ":set": {batch_id}},
            ),
        )
        return failed is None

    def note_manifest(self, batch_id: str, digest: str) -> bool:
        noted = self._change(
            f"note the manifest of batch {batch_id}",
            _batch_key(batch_id),
            "SET #manifest = :digest",
            "attribute_exists(#state) AND (attribute_not_exists(#manifest) OR #manifest = :digest)",
            {":digest": digest},
        )
        return noted is not None

    def begin_attempt(self, batch_id: str, route: str, attempt: int, in_flight: int) -> bool:
        values: dict[str, Any] = {
            ":submitted": State.SUBMITTED,
            ":attempt": attempt,
            ":before": attempt - 1,
            ":now": self._clock(),
        }
        if attempt == 1:
            came_from, values[":from"] = "#state = :from", State.SEALED
            slot = self._update(
                _route_key(route),
                "ADD #running :set, #jobs :one DELETE #sealed :set",
                "attribute_not_exists(#running) OR size(#running) < :slots",
                {":set": {batch_id}, ":one": 1, ":slots": in_flight},
            )
        else:
            came_from, values[":from"] = "#state = :from AND attribute_not_exists(#halted)", State.SUBMITTED
            slot = self._update(_route_key(route), "ADD #jobs :one", None, {":one": 1})
        batch = self._update(
            _batch_key(batch_id),
            "SET #state = :submitted, #attempt = :attempt, #submitted_at = :now REMOVE #job_run, #dataset, #halted",
            f"{came_from} AND #attempt = :before",
            values,
        )
        return self._transact(f"begin attempt {attempt} of batch {batch_id}", batch, slot) is None

    def fix_dataset(self, batch_id: str, attempt: int, dataset: str) -> str | None:
        fixed = self._change(
            f"fix how attempt {attempt} of batch {batch_id} reads",
            _batch_key(batch_id),
            "SET #dataset = if_not_exists(#dataset, :dataset)",
            "#state = :submitted AND #attempt = :attempt",
            {":dataset": dataset, ":submitted": State.SUBMITTED, ":attempt": attempt},
        )
        return str(fixed["dataset"]) if fixed else None

    def record_job(self, batch_id: str, attempt: int, job_run: str) -> None:
        self._change(
            f"record job {job_run} of batch {batch_id}",
            _batch_key(batch_id),
            "SET #job_run = :job",
            "#state = :submitted AND #attempt = :attempt AND attribute_not_exists(#job_run)",
            {":job": job_run, ":submitted": State.SUBMITTED, ":attempt": attempt},
        )

    def record_endings(self, endings: Sequence[Ending]) -> tuple[Entry, ...]:
        def record(ending: Ending) -> Entry | None:
            written = self._change(
                f"record that s3://{ending.bucket}/{ending.key} was {ending.outcome}",
                {"pk": _claim_pk(ending.bucket, ending.key), "sk": ending.version},
                "SET #outcome = :outcome, #error = :error",
                # a claim that was taken over since is another notice's, and so is its ending
                "#notice = :owner",
                {
                    ":outcome": ending.outcome,
                    ":error": ending.error.encode()[:MAX_ERROR_BYTES].decode(errors="ignore"),
                    ":owner": ending.notice,
                },
            )
            if written is None or not (later := _claim(written).later):
                return None
            # its size is a hint only, and was not kept
            return Entry(Upload(ending.bucket, ending.key, ending.version, 0, later), takes_from=ending.notice)

        return tuple(again for again in self._pool.map(record, endings) if again)

    def note_endings(self, batch_id: str, done: int) -> None:
        self._change(
            f"note that {done} endings of batch {batch_id} are recorded",
            _batch_key(batch_id),
            "SET #endings = :done",
            "#state = :submitted",
            {":done": done, ":submitted": State.SUBMITTED},
        )

    def commit(self, batch_id: str, route: str, receipt: Receipt) -> bool:
        batch = self.batch(batch_id)
        if batch is None or batch.state is not State.SUBMITTED:
            return False
        now = self._clock()
        tally = {f":{name}": value for name, value in receipt.tally.as_dict().items()}
        if receipt.fence:
            sums = "#abandoned_batches :one, #abandoned_objects :objects"
            values: dict[str, Any] = {":objects": batch.objects}
        else:
            sums = "#committed_batches :one, " + ", ".join(f"#{name[1:]} {name}" for name in tally)
            values = tally
        failed = self._transact(
            f"settle batch {batch_id}",
            self._update(
                _batch_key(batch_id),
                "SET #state = :ended, #ended_at = :now, #snapshot = :snapshot, #tally = :tally, #expires_at = :expires"
                " REMOVE #halted",
                "#state = :submitted",
                {
                    ":ended": State.ABANDONED if receipt.fence else State.COMMITTED,
                    ":submitted": State.SUBMITTED,
                    ":now": now,
                    ":snapshot": receipt.snapshot,
                    ":tally": receipt.tally.as_dict(),
                    ":expires": now + self._claim_retention + NOTICE_OUTLIVES_CLAIM + BATCH_OUTLIVES_NOTICE,
                },
            ),
            self._update(
                _route_key(route),
                f"ADD #notified :notified, {sums} DELETE #running :set",
                "contains(#running, :b)",
                {":notified": batch.objects, ":one": 1, ":set": {batch_id}, ":b": batch_id, **values},
            ),
        )
        return failed is None

    def halt(self, batch_id: str, attempt: int, reason: str) -> None:
        self._change(
            f"halt batch {batch_id}",
            _batch_key(batch_id),
            "SET #halted = :reason",
            "(#state = :sealed OR #state = :submitted) AND #attempt = :attempt",
            {
                ":reason": reason[:4000],
                ":sealed": State.SEALED,
                ":submitted": State.SUBMITTED,
                ":attempt": attempt,
            },
        )

    def resume(self, batch_id: str, route: str, attempt: int, fencing: bool, floors: int = 0) -> bool:
        came_from = "#state = :submitted AND #attempt = :before"
        failed = self._transact(
            f"begin attempt {attempt} of batch {batch_id} on request",
            self._update(
                _batch_key(batch_id),
                "SET #attempt = :attempt, #submitted_at = :now, #fencing = :fencing, #floors = :floors"
                " REMOVE #job_run, #dataset, #halted",
                # a fence needs no halt: the table decides between it and a job that still runs
                came_from if fencing else f"{came_from} AND attribute_exists(#halted)",
                {
                    ":attempt": attempt,
                    ":before": attempt - 1,
                    ":submitted": State.SUBMITTED,
                    ":now": self._clock(),
                    ":fencing": fencing,
                    ":floors": floors,
                },
            ),
            self._update(_route_key(route), "ADD #jobs :one", None, {":one": 1}),
        )
        return failed is None

    # ---- putting right what a restored ledger has forgotten

    def take_back(self, notice_id: str, uploads: Sequence[Upload]) -> tuple[tuple[Upload, Claim], ...]:
        now = self._clock()

        def take(upload: Upload) -> tuple[Upload, Claim] | None:
            existing = self._put_claim(notice_id, Entry(upload), now, _ABSENT, {":now": now})
            # its own claim, if it says how the upload ended, says so of a batch that is not the notice's any more
            if existing and (existing.outcome if existing.notice == notice_id else self.let_go(existing)):
                existing = self._put_claim(
                    notice_id, Entry(upload), now, "#notice = :owner", {":owner": existing.notice}
                )
            return (upload, existing) if existing and existing.notice != notice_id else None

        # list() before judging any, as in `claim`
        return tuple(each for each in list(self._pool.map(take, uploads)) if each)

    def write_notice(self, becomes: NoticeRecord, there: NoticeRecord | None, *, withdraw: bool = False) -> bool:
        now = self._clock()
        item = {
            **_notice_key(becomes.id),
            "v": RECORD_VERSION,
            "route": becomes.route,
            **({} if becomes.void else {"batch": becomes.batch, "part": becomes.part}),
            **({} if becomes.void else {"objects": becomes.objects, "bytes": becomes.bytes}),
            "decided_at": there.decided_at if there else now,
            "expires_at": now + self._claim_retention + NOTICE_OUTLIVES_CLAIM,
        }
        if there is None:
            actions = [self._put(item, _ABSENT, {":now": now})]
        elif there.void:
            actions = [self._put(item, "attribute_not_exists(#batch)")]
        else:
            read = {":batch": there.batch, ":part": there.part}
            actions = [self._put(item, "#batch = :batch AND #part = :part", read)]
        if withdraw and there:
            less = {":objects": -there.objects, ":bytes": -there.bytes, ":less": -1, ":open": State.OPEN}
            lowered = "ADD #objects :objects, #bytes :bytes, #notices :less"
            actions.append(self._update(_batch_key(there.batch), lowered, "#state = :open", less))
        return self._transact(f"put notice {becomes.id} right", *actions) is None

    def restore_batch(self, becomes: Batch, there: Batch | None) -> bool:
        item = {
            **_batch_key(becomes.id),
            "v": RECORD_VERSION,
            "route": becomes.route,
            "state": becomes.state,
            "opened_at": becomes.opened_at,
            "objects": becomes.objects,
            "bytes": becomes.bytes,
            "notices": becomes.notices,
            "attempt": becomes.attempt,
            "sealed_at": becomes.sealed_at,
            "table": becomes.table,
            "manifest": becomes.manifest,
            **({"submitted_at": becomes.submitted_at} if becomes.submitted_at else {}),
        }
        if there is None:
            header = self._put(item, "attribute_not_exists(#pk)")
        else:
            read = {":state": there.state, ":notices": there.notices, ":objects": there.objects}
            header = self._put(item, "#state = :state AND #notices = :notices AND #objects = :objects", read)
        enters, leaves = ("running", "sealed") if becomes.state is State.SUBMITTED else ("sealed", "running")
        moved = f"ADD #{enters} :set DELETE #{leaves} :set"
        values: dict[str, Any] = {":set": {becomes.id}, ":b": becomes.id}
        if self.route(becomes.route).open_batch == becomes.id:
            line = self._update(_route_key(becomes.route), f"REMOVE #open_batch {moved}", "#open_batch = :b", values)
        else:
            elsewhere = "attribute_not_exists(#open_batch) OR #open_batch <> :b"
            line = self._update(_route_key(becomes.route), moved, elsewhere, values)
        return self._transact(f"put batch {becomes.id} right", header, line) is None

    # ---- asking DynamoDB

    def _get_all(self, keys: Iterable[dict[str, str]], what: str) -> Iterator[dict[str, Any]]:
        """Every live item under these keys, which must differ."""
        wanted = [_item(each) for each in keys]
        while wanted:
            request = {self._table: {"Keys": wanted[:100], "ConsistentRead": True}}
            with asking(f"read {what} in ledger {self._table}"):
                answer = self._client.batch_get_item(RequestItems=request)
            for item in map(_plain, answer["Responses"].get(self._table, ())):
                if is_live(int(item["expires_at"]), self._clock()):
                    yield item
            left_over = answer.get("UnprocessedKeys", {}).get(self._table, {}).get("Keys", [])
            wanted = left_over + wanted[100:]

    def _get(self, key: dict[str, str]) -> dict[str, Any] | None:
        with asking(f"read {key['pk']} in ledger {self._table}"):
            answer = self._client.get_item(TableName=self._table, Key=_item(key), ConsistentRead=True)
        item = _plain(answer["Item"]) if "Item" in answer else None
        if item and "expires_at" in item and not is_live(int(item["expires_at"]), self._clock()):
            return None
        return item

    def _query(self, pk: str, what: str) -> list[dict[str, Any]]:
        """Every item under this partition key, live or not."""
        pages = self._client.get_paginator("query").paginate(
            TableName=self._table,
            KeyConditionExpression="pk = :pk",
            ExpressionAttributeValues=_item({":pk": pk}),
            ConsistentRead=True,
        )
        with asking(f"{what} in ledger {self._table}"):
            return [_plain(raw) for page in pages for raw in page["Items"]]

    def _put(
        self, item: dict[str, Any], condition: str, values: dict[str, Any] | None = None
    ) -> dict[str, dict[str, Any]]:
        put: dict[str, Any] = {
            "TableName": self._table,
            "Item": _item(item),
            "ConditionExpression": condition,
            "ExpressionAttributeNames": _names(condition),
        }
        if values:
            put["ExpressionAttributeValues"] = _item(values)
        return {"Put": put}

    def _update(
        self,
        key: dict[str, str],
        expression: str,
        condition: str | None,
        values: dict[str, Any],
    ) -> dict[str, dict[str, Any]]:
        update: dict[str, Any] = {
            "TableName": self._table,
            "Key": _item(key),
            "UpdateExpression": expression,
            "ExpressionAttributeValues": _item(values),
        }
        if condition:
            update["ConditionExpression"] = condition
        update["ExpressionAttributeNames"] = _names(expression + (condition or ""))
        return {"Update": update}

    def _put_once(self, what: str, put: dict[str, Any]) -> None:
        """One conditional put. Raises _Refused if the condition did not hold."""
        with asking(f"{what} in ledger {self._table}"):
            try:
                self._client.put_item(**put, ReturnValuesOnConditionCheckFailure="ALL_OLD")
            except ClientError as error:
                if code_of(error) != "ConditionalCheckFailedException":
                    raise
                raise _Refused(_plain(error.response.get("Item", {}))) from None

    def _change(
        self,
        what: str,
        key: dict[str, str],
        expression: str,
        condition: str | None,
        values: dict[str, Any],
    ) -> dict[str, Any] | None:
        """One update; the item after it, or None if its condition did not hold."""
        return _patiently(self._change_once, what, self._update(key, expression, condition, values)["Update"])

    def _change_once(self, what: str, update: dict[str, Any]) -> dict[str, Any] | None:
        with asking(f"{what} in ledger {self._table}"):
            try:
                answer = self._client.update_item(**update, ReturnValues="ALL_NEW")
            except ClientError as error:
                if code_of(error) == "TransactionConflictException":
                    raise _Conflict(f"could not {what} in ledger {self._table}: {code_of(error)}") from error
                if code_of(error) != "ConditionalCheckFailedException":
                    raise
                return None
        return _plain(answer["Attributes"])

    def _transact_once(self, what: str, actions: Sequence[Any]) -> list[Any] | None:
        """None if it was done; else DynamoDB's reasons, a failed condition among them. Raises _Conflict."""
        with asking(f"{what} in ledger {self._table}"):
            try:
                self._client.transact_write_items(TransactItems=list(actions))
                return None
            except ClientError as error:
                if code_of(error) != "TransactionCanceledException":
                    raise
                reasons: list[Any] = error.response.get("CancellationReasons", [])
        codes = [reason.get("Code", "None") for reason in reasons]
        if "ConditionalCheckFailed" not in codes:
            # a conflict with another transaction, or throttling
            raise _Conflict(f"could not {what} in ledger {self._table}: {', '.join(codes) or 'no reason given'}")
        return reasons

    def _transact(self, what: str, *actions: dict[str, dict[str, Any]]) -> list[dict[str, Any] | None] | None:
        """Both or neither. None if it was done; else, by action, the item that stood in its way (or None).

        boto3 adds the request token that lets DynamoDB recognise the SDK's own retries for 10 minutes.
        """
        for action in actions:
            for request in action.values():
                request["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
        reasons = _patiently(self._transact_once, what, actions)
        if reasons is None:
            return None
        if len(reasons) != len(actions):
            raise OutcomeUnknown(f"could not {what} in ledger {self._table}: unreadable answer {reasons}")
        return [
            _plain(reason["Item"]) if reason.get("Code") == "ConditionalCheckFailed" and "Item" in reason else None
            for reason in reasons
        ]


class _Refused(Exception):
    """A condition did not hold; `item` is what stood in the way, empty if nothing was there."""

    def __init__(self, item: dict[str, Any]) -> None:
        super().__init__(item)
        self.item = item


class _Conflict(Retryable):
    """Somebody else was at the same item: nothing was done, and a moment later it will go through."""


def _patiently(call: Callable[..., T], *arguments: Any) -> T:
    """Call it again after a conflict, for a second or so: SQS would take minutes. The SDK repeats no conflicts."""
    retrying = Retrying(
        retry=retry_if_exception_type(_Conflict),
        stop=stop_after_attempt(6),
        wait=wait_random_exponential(0.03, max=0.5),
        reraise=True,
    )
    return retrying(call, *arguments)


def _names(expression: str) -> dict[str, str]:
    """Every attribute is written `#name` in expressions: DynamoDB reserves 573 words, `state` and `rows` among them."""
    return {f"#{name}": name for name in re.findall(r"#(\w+)", expression)}


def _item(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _serialize(value) for name, value in values.items()}


def _plain(item: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _deserialize(value) for name, value in item.items()}


def _claim_pk(bucket: str, key: str) -> str:
    return f"o#{object_hash(bucket, key)}"


def _notice_key(notice_id: str) -> dict[str, str]:
    return {"pk": f"n#{notice_id}", "sk": "notice"}


def _batch_key(batch_id: str) -> dict[str, str]:
    return {"pk": f"b#{batch_id}", "sk": "batch"}


def _route_key(name: str) -> dict[str, str]:
    return {"pk": f"r#{name}", "sk": "route"}


def _settings_key(name: str) -> dict[str, str]:
    return {"pk": ROUTES, "sk": name}


def _readable(item: Mapping[str, Any]) -> None:
    """Raises Retryable if newer code wrote the record: nothing happens until that code is deployed again.

    A route's record, which updates alone make, has no version and counts as of the first.
    """
    try:
        check_version(int(item.get("v", 1)), f"the ledger's record {item.get('pk')}", RECORD_VERSION)
    except Rejected as error:
        raise Retryable(str(error)) from error


def _claim(item: Mapping[str, Any]) -> Claim:
    _readable(item)
    return Claim(
        version=item["sk"],
        notice=item["notice"],
        claimed_at=int(item["claimed_at"]),
        expires_at=int(item["expires_at"]),
        outcome=item.get("outcome", ""),
        error=item.get("error", ""),
        sequencer=item.get("sequencer", ""),
        later=item.get("later", ""),
    )


def _notice_record(item: Mapping[str, Any]) -> NoticeRecord:
    _readable(item)
    return NoticeRecord(
        id=item["pk"].removeprefix("n#"),
        route=item["route"],
        batch=item.get("batch", ""),
        part=item.get("part", ""),
        objects=int(item.get("objects", 0)),
        bytes=int(item.get("bytes", 0)),
        decided_at=int(item["decided_at"]),
    )


def _batch(item: Mapping[str, Any]) -> Batch:
    _readable(item)
    numbers = ("objects", "bytes", "notices", "attempt", "sealed_at", "submitted_at", "ended_at", "snapshot")
    return Batch(
        id=item["pk"].removeprefix("b#"),
        route=item["route"],
        state=State(item["state"]),
        opened_at=int(item["opened_at"]),
        job_run=item.get("job_run", ""),
        halted=item.get("halted", ""),
        tally=Tally.from_dict(item.get("tally", {})),
        fencing=bool(item.get("fencing", False)),
        table=item.get("table", ""),
        manifest=item.get("manifest", ""),
        dataset=item.get("dataset", ""),
        sealed_for=item.get("sealed_for", ""),
        **{name: int(item.get(name, 0)) for name in (*numbers, "endings", "floors")},
    )


def _settings(item: Mapping[str, Any]) -> Route:
    _readable(item)
    return decode_route(item["settings"])


def _route_record(name: str, item: Mapping[str, Any]) -> RouteRecord:
    _readable(item)
    numbers = ("refused", "jobs", "notified", "committed_batches", "abandoned_batches", "abandoned_objects")
    return RouteRecord(
        name=name,
        open_batch=item.get("open_batch", ""),
        sealed=tuple(sorted(item.get("sealed", ()))),
        running=tuple(sorted(item.get("running", ()))),
        tally=Tally.from_dict(item),
        **{each: int(item.get(each, 0)) for each in numbers},
    )
