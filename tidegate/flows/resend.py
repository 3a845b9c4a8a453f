"""Resend: send uploads again that have no row, because a person has removed the cause.

    of                  what it names
    an abandoned batch  every upload of its manifest that still belongs to it, dropped ones too
    a committed batch   every upload that it has landed, once a rollback has taken all its rows: a job fences it first
    quarantine          what a selection of a route's quarantine holds: a *release*
    one object          each of its versions that ended without a row
    a reload            what has landed, of a batch or (`flows.backfill`) under a prefix: its rows give way to what its
                        file gives today, in one commit (`flows.replacing`). If it cannot be read today, they stay

Nothing is decided here. A batch has let go of its uploads if it can never land any more: it is abandoned, which its
fence proves; or it was fenced after it had landed (`flows.fence_again`), which step 2 notes. The new notice names the
owner that each upload is taken from, and dispatch takes it over only if that owner has let go, and still is the owner
(rule 4).

    step of a committed batch         if it dies right after it
    1 a job fences it in its table    run it again: the job finds the fence, and that no row of the batch is there
    2 note that its rows are gone     as 1. A backfill may note and send the same: both name the same owner
    3 send, part by part              run it again: what was sent is refused, or present. Until 4 `tidegate audit
                                      --tables` says that its rows are missing
    4 note that all was sent          done

    if it dies, or is run twice     some notices are published twice, under other ids: the first one that claims an
                                    upload owns it, and the others are refused
    if an upload lands meanwhile    its claim has another owner by then: refused
    if the settings change          the batch that gathers the upload is read as the route is then. What is released,
                                    or is one object that its batch did not take, goes through the route that takes its
                                    key today, as an upload of today would
    if what it read is old          it names an owner that has been replaced: refused

**Uploads of a rolled back batch that another notice owns.** They were loaded once more since: into another table, or
while an earlier batch had rows of them. They are sent as well, if that owner brings no rows to this table any more.

**What has rows in its table** all the same is found by the job that would land it (`flows.publish.Attempt.stage`).

**Two routes.** A route was renamed, or another one takes its keys by now. A file is quarantined because it does not fit
its route, and the former route has the old schema: so it is released through the new one. A resend of an abandoned
batch names the former route, because its uploads were meant for that table. A claim is of an object's
version, and no route is in it. So two notices of one upload, of the former route and of the new one, meet at one claim,
and one of them owns it. The former batch has ended without a row of the upload, and that is final: its table does not
get one either, if that is another one. The upload leaves the sums of the route that its claim names, and is counted in
the new one's.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from itertools import islice

from tidegate.core.batches import Batch, State
from tidegate.core.claims import Claim
from tidegate.core.errors import Retryable
from tidegate.core.manifests import OwnedUpload, batch_folder, decode_part, decode_sealed
from tidegate.core.notices import ORIGIN_RELOAD, ORIGIN_RESEND, Entry
from tidegate.core.outcomes import DROPPED, NO_TALLY, Outcome
from tidegate.core.receipts import decode_receipt
from tidegate.core.routes import Route, route_of
from tidegate.core.uploads import Upload
from tidegate.flows.drop_quarantined import corrected
from tidegate.flows.hand_off import dataset_of
from tidegate.flows.landed_versions import keeps_latest_only
from tidegate.flows.outcomes import never_landed, published_outcomes
from tidegate.flows.ports import Fencer, Ports
from tidegate.flows.quarantine import Quarantined
from tidegate.flows.send import send

AT_ONCE = 2_000
"""How many uploads of quarantine are sent together: a few notices. What is held in memory does not grow with what is
released."""

OnSent = Callable[[int], None]
"""Called with the number of uploads that were sent."""


class Resent(Enum):
    """The result of a request to resend."""

    SENT = auto()
    NOTHING_LEFT = auto()  # all of it was taken over already, or landed
    NO_SUCH_BATCH = auto()
    NOT_ENDED = auto()  # its rows may yet land
    NO_ROUTE = auto()  # the ledger has no settings of its route, which say how its table is reached
    OTHER_TABLE = auto()  # its route writes to another table by now: its rows would stay where they are
    ASK_THE_TABLE = auto()  # its rows may have been replaced since, and its route replaces no more
    MISSING = auto()  # its manifest or one of its parts is missing in the work bucket
    UNKNOWN = auto()  # the ledger has no claim on the object


@dataclass(frozen=True, slots=True)
class Resend:
    """`sent` uploads are on their way. `elsewhere` ones belong to another notice by now. `expired` ones are found by a
    backfill: the ledger has forgotten their claims. Of `corrected` ones a later version has landed, and they are left
    in quarantine: their rows would land beside its rows."""

    ended: Resent
    sent: int = 0
    elsewhere: int = 0
    expired: int = 0
    corrected: int = 0


def resend_batch(
    batch_id: str, ports: Ports, *, run: str, fencer: Fencer, on_sent: OnSent = lambda sent: None
) -> Resend:
    """Send the uploads of a batch that has ended again, part by part. `run` is a new id for this command.

    Of one that had landed a job proves first that it has no row in its table, and never will. That is done, too, if a
    rebuilt ledger calls it abandoned, or the ledger has forgotten it: others may wait for its fence. Raises Rejected if
    the job finds that its rows are there, or were deleted and not rolled back; Retryable if the job failed."""
    folder = batch_folder(batch_id)
    manifest, receipt = ports.work.get(folder + "sealed.json"), ports.work.get(folder + "receipt.json")
    had_landed = receipt is not None and not never_landed(decode_receipt(receipt))
    known = ports.ledger.batch(batch_id)
    batch = known
    if batch is None and manifest and had_landed:
        sealed = decode_sealed(manifest)
        batch = Batch(batch_id, sealed.route, State.COMMITTED, 0, table=sealed.table)
    if batch is None:
        return Resend(Resent.NO_SUCH_BATCH)
    if batch.state not in (State.ABANDONED, State.COMMITTED):
        return Resend(Resent.NOT_ENDED)
    landed = batch.state is State.COMMITTED
    recorded = landed and known is not None
    # also if nothing is left: the table may have been rolled back past the fence since, and only this fences it again
    table = ""
    if landed or had_landed:
        route = ports.ledger.known_route(batch.route)
        if route is None:
            return Resend(Resent.NO_ROUTE)
        _let_go(batch, route, ports, fencer, note=recorded)
        table = route.dataset.table if landed else ""
    if manifest is None:
        return Resend(Resent.MISSING)
    sent = elsewhere = expired = 0
    for name in decode_sealed(manifest).parts:
        part = ports.work.get(folder + name)
        if part is None:
            return Resend(Resent.MISSING, sent, elsewhere, expired)
        owned = decode_part(part)
        entries, forgotten = resend_part(batch.route, owned, ports, run=run, landed_for=table)
        sent, expired = sent + entries, expired + forgotten
        elsewhere += len(owned) - entries - forgotten
        on_sent(sent)
    if recorded:
        ports.ledger.note_removed(batch_id, sent=True)
    return Resend(Resent.SENT if sent else Resent.NOTHING_LEFT, sent, elsewhere, expired)


def reload_batch(batch_id: str, ports: Ports, *, run: str, configured: Mapping[str, Route]) -> Resend:
    """Send what a batch had landed to be loaded again, through the route of `configured` that takes its key today,
    whoever has landed it since. The job that gets it replaces its rows (`flows.replacing`). What another notice has
    under way is `elsewhere`, and what a person has given up stays so. Nothing is sent to another table. Nothing is
    sent if a later version may have taken the place of rows, and the job would not ask for one: they would come
    back beside its rows."""
    manifest = ports.work.get(batch_folder(batch_id) + "sealed.json")
    outcomes = published_outcomes(batch_id, ports.work)
    if manifest is None or outcomes is None or (outcomes.fence and outcomes.tally == NO_TALLY):
        return Resend(Resent.NO_SUCH_BATCH)
    without = {(each.bucket, each.key, each.version) for each in outcomes.endings if each.outcome != Outcome.PRESENT}
    sealed, sent, elsewhere = decode_sealed(manifest), 0, 0
    batch = ports.ledger.batch(batch_id)
    replaced = batch is not None and keeps_latest_only(batch)
    parts: list[list[Upload]] = []
    for name in sealed.parts:
        part = ports.work.get(batch_folder(batch_id) + name)
        if part is None:
            return Resend(Resent.MISSING)
        parts.append([each.upload for each in decode_part(part) if each.upload.identity not in without])
    today = {route_today(sealed.route, each, configured) for uploads in parts for each in uploads}
    if replaced and not all(each in configured and configured[each].dataset.replaces for each in today):
        return Resend(Resent.ASK_THE_TABLE)
    routes = [configured.get(each) or ports.ledger.known_route(each) for each in today]
    if {each.dataset.table for each in routes if each is not None} - {sealed.table}:
        return Resend(Resent.OTHER_TABLE)
    for uploads in parts:
        now = ports.clock()
        claims = ports.ledger.claims_on(uploads)
        let_go = ports.ledger.let_go(claims.values(), sealed.table, reloads=True)
        by_route: dict[str, list[Entry]] = defaultdict(list)
        for upload in uploads:
            claim = claims.get(upload.identity)
            route = route_today(sealed.route, upload, configured)
            if claim is None:
                by_route[route].append(Entry(upload))
            elif claim in let_go and claim.outcome != DROPPED:
                # the same bytes may have been uploaded again since: the claim has the later sequencer
                known = replace(upload, sequencer=claim.sequencer)
                by_route[route].append(Entry(known, takes_from=claim.notice))
        for route, entries in by_route.items():
            send(route, entries, ports, origin=f"{ORIGIN_RELOAD} {run}", at=now)
            sent += len(entries)
        elsewhere += len(uploads) - sum(map(len, by_route.values()))
    return Resend(Resent.SENT if sent else Resent.NOTHING_LEFT, sent, elsewhere)


def _let_go(batch: Batch, route: Route, ports: Ports, fencer: Fencer, *, note: bool) -> None:
    """Fence a batch that had landed, and note that its rows are gone, if the ledger has it as committed."""
    fencer.fence(batch, dataset_of(batch, route), owner=route.owner)
    body = ports.work.get(batch_folder(batch.id) + "receipt.json")
    if body is None or not decode_receipt(body).fence:
        raise Retryable(f"batch {batch.id}: the job has ended, and its receipt names no fence. Nothing was sent")
    if note and not ports.ledger.note_removed(batch.id):
        raise Retryable(f"batch {batch.id} changed while it was fenced. Nothing was sent: run this again")


def resend_part(
    route: str, owned: Sequence[OwnedUpload], ports: Ports, *, run: str, landed_for: str = ""
) -> tuple[int, int]:
    """Send those of the uploads again that their notices still own. Of a batch that had landed, those that did; with
    those that other notices own, and bring to the table `landed_for` no more: it is the one that they go to now.
    Returns how many these are, and how many have no claim any more. Raises Retryable as `send`."""
    now = ports.clock()
    claims = ports.ledger.claims_on(each.upload for each in owned)
    let_go = ports.ledger.let_go(claims.values(), landed_for) if landed_for else None
    entries = _to_send(owned, claims, let_go)
    reloads = {each.upload.identity for each in owned if each.reloads}
    for origin, is_reload in ((_origin(run), False), (f"{ORIGIN_RELOAD} {run}", True)):
        found = [each for each in entries if (each.upload.identity in reloads) is is_reload]
        send(route, found, ports, origin=origin, at=now)
    return len(entries), sum(each.upload.identity not in claims for each in owned)


def _to_send(
    owned: Sequence[OwnedUpload], claims: Mapping[tuple[str, str, str], Claim], let_go: Collection[Claim] | None
) -> list[Entry]:
    """Those that their notices still own. Of a batch that had landed, those whose owners have `let_go`, but for what
    waits for a person: in quarantine, in a batch that was given up, or dropped."""
    return [
        Entry(each.upload, takes_from=claim.notice)
        for each in owned
        if (claim := claims.get(each.upload.identity))
        and (
            claim.notice == each.notice
            if let_go is None
            else claim in let_go and claim.outcome in ("", Outcome.PRESENT)
        )
    ]


def route_today(former: str, upload: Upload, configured: Mapping[str, Route]) -> str:
    """The route that what is released goes through: the one of `configured` that takes its key today; its `former` one
    if none does."""
    taker = route_of(upload, configured.values())
    return taker.name if taker else former


def release(
    found: Iterable[Quarantined],
    ports: Ports,
    *,
    run: str,
    configured: Mapping[str, Route],
    on_sent: OnSent = lambda sent: None,
    began: int | None = None,
) -> Resend:
    """Send what is in quarantine again, but for what a later version of the object has taken the place of. `run` as in
    `resend_batch`, `configured` as in `route_today`. `found` is read from `began` on (epoch seconds), or from now on,
    and not before: the notices are as old as that (docs/adr/0044)."""
    sent = left = 0
    coming = iter(found)
    began = ports.clock() if began is None else began
    while portion := list(islice(coming, AT_ONCE)):
        replaced = {each for each, _ in corrected(portion, ports)}
        left += len(replaced)
        portion = [each for each in portion if each not in replaced]
        for route, entries in _by_route(portion, configured, ports).items():
            send(route, entries, ports, origin=_origin(run), at=began)
            sent += len(entries)
        on_sent(sent)
    return Resend(Resent.SENT if sent else Resent.NOTHING_LEFT, sent, corrected=left)


def resend_object(
    bucket: str, key: str, ports: Ports, *, run: str, configured: Mapping[str, Route] | None = None, version: str = ""
) -> Resend:
    """Send the versions of one object again that ended without a row; `version` names one of them. What ended in a
    committed batch goes through the route of `configured` that takes the key today, as what is released does; what is
    in an abandoned one goes to that batch's route."""
    now = ports.clock()
    claims = [each for each in ports.ledger.claims(bucket, key) if version in ("", each.version)]
    if not claims:
        return Resend(Resent.UNKNOWN)
    let_go = ports.ledger.let_go(each for each in claims if each.outcome != Outcome.PRESENT)
    owners = ports.ledger.owners(let_go)
    by_route: dict[str, list[Entry]] = defaultdict(list)
    for claim in let_go:
        owner, batch = owners[claim]
        # an owner whose record has expired can be asked neither for the route nor for the size
        if owner:
            upload = Upload(bucket, key, claim.version, 0, claim.sequencer)
            listed = _listed(owner.batch, {owner.part}, ports) if owner.batch else {}
            upload = listed.get(upload.identity, upload)
            ended = batch is not None and batch.state is State.COMMITTED
            route = route_today(owner.route, upload, configured or {}) if ended else owner.route
            by_route[route].append(Entry(upload, takes_from=claim.notice))
    for route, entries in by_route.items():
        send(route, entries, ports, origin=_origin(run), at=now)
    sent = sum(map(len, by_route.values()))
    return Resend(Resent.SENT if sent else Resent.NOTHING_LEFT, sent, len(claims) - sent)


def _origin(run: str) -> str:
    return f"{ORIGIN_RESEND} {run}"


def _by_route(portion: Sequence[Quarantined], configured: Mapping[str, Route], ports: Ports) -> dict[str, list[Entry]]:
    """The entries for new notices, with what the parts say of the uploads: their sizes keep the new batch within what a
    job should read, their sequencers tell later uploads of the same bytes."""
    notices = ports.ledger.notices(each.notice for each in portion)
    parts: dict[str, set[str]] = defaultdict(set)
    for record in notices.values():
        parts[record.batch].add(record.part)
    listed: dict[tuple[str, str, str], Upload] = {}
    for batch, names in parts.items():
        listed |= _listed(batch, names, ports)
    by_route: dict[str, list[Entry]] = defaultdict(list)
    for each in portion:
        upload = Upload(each.bucket, each.key, each.version, 0)
        upload = listed.get(upload.identity, upload)
        by_route[route_today(each.route, upload, configured)].append(Entry(upload, takes_from=each.notice))
    return by_route


def _listed(batch_id: str, parts: Iterable[str], ports: Ports) -> dict[tuple[str, str, str], Upload]:
    bodies = (ports.work.get(batch_folder(batch_id) + name) for name in sorted(parts))
    return {each.upload.identity: each.upload for body in bodies if body for each in decode_part(body)}
