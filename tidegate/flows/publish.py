"""Publish: one attempt at one batch, by one driver. `ingest` publishes the batch; `fence` prevents that for good.

    step                           if the driver dies right after it        if a twin runs beside it
    1 check: already decided?      nothing has happened                     the same
    2 read the floor, or write it  written once; later drivers read it      the same
    3 look for what came again,    no driver publishes them                 each stages its own
      stage the rows
    4 write the outcomes           named by the staged snapshot: harmless   each writes its own
    5 publish, on condition        the next attempt finds it at step 1      the table accepts one of them
    6 land the rejected rows       the next attempt does (flows.rejected)   their table accepts one of them
    7 write the receipt            settling reads it                        the first one stays
    8 drop the staged branches     a later batch drops them in 30 days      a twin's may go too: it has lost

Step 1 comes before all other steps that can fail: a published batch must not halt because a column was renamed since.
It reads the table only if there is a floor, because nothing is staged before there is one. The check that decides is
part of step 5, and of each try of its commit. Nothing is deleted before the table has decided.
"""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from tidegate.core.errors import OutcomeUnknown, Retryable
from tidegate.core.manifests import (
    OwnedUpload,
    batch_folder,
    failure_name,
    floor_name,
    outcomes_name,
)
from tidegate.core.outcomes import NO_TALLY
from tidegate.core.publication import Floor, NotPublished, Published, Unprovable, Verdict, verdict
from tidegate.core.receipts import (
    Failure,
    Outcomes,
    Receipt,
    decode_failure,
    decode_floor,
    decode_outcomes,
    decode_receipt,
    encode_floor,
    reads_carefully,
)
from tidegate.core.replacing import HeldRows
from tidegate.core.uploads import Upload
from tidegate.flows.accounting import accounted, judge_refused, no_neighbour, outcomes_of_staged, present
from tidegate.flows.came_again import look_for
from tidegate.flows.manifest import read_manifest
from tidegate.flows.ports import Work
from tidegate.flows.rejected import land_rejected
from tidegate.flows.replacing import NewestFirst, Replacement, look_at_versions, not_asked
from tidegate.flows.sink import (
    Hopeless,
    PublishTarget,
    ReaderDied,
    RejectedUndecided,
    SeenVersion,
    Sink,
    TableMoved,
    Undecided,
)

log = logging.getLogger("tidegate")

PUBLISH_TRIES = 8
ATTEMPTS_LOOKED_AT = 10


NOTHING_ENDED = Outcomes(staged=0, fence=True, tally=NO_TALLY)


ToldUndecided = Callable[[str, int], Undecided]


@dataclass
class Tries:
    """A driver's tries to publish. `unknown`: one of them may have been applied without an answer."""

    unknown: bool = False


@dataclass
class Attempt:
    """One driver's try at one batch. EMR Serverless may run the driver of one attempt twice; each has its own `sink`.

    `digest` is that of the parts that the ledger has registered; without it the manifest is not compared. `floors` is
    how often a person has decided that the batch is not in the table (`tidegate.flows.decide`). `last`: no other
    attempt follows. `can_read_near` reports whether another object near an upload can be read. `run` names a driver
    that is no attempt, for its report."""

    sink: Sink
    work: Work
    batch: str
    attempt: int
    digest: str = ""
    floors: int = 0
    last: bool = False
    can_read_near: Callable[[Upload], bool] = no_neighbour
    run: str = ""
    newest_first: NewestFirst = not_asked
    seen: SeenVersion | None = field(default=None, init=False)
    """The version of the table at which what came again, or what is replaced, was looked for."""
    replacement: Replacement | None = field(default=None, init=False)

    @property
    def folder(self) -> str:
        return batch_folder(self.batch)

    @property
    def failure_name(self) -> str:
        """Where this attempt reports why it gave up."""
        return failure_name(self.folder, self.run or self.attempt)

    # ---- the two modes

    def ingest(self) -> Receipt:
        """Publish the batch, or find that the table has decided it already."""
        found = self.look()
        if not isinstance(found, Published):
            self.sink.prepare()
            floor = self.floor()
            found = self.publish(self.stage(), found or floor)
        return self.end(found)

    def fence(self) -> Receipt:
        """Publish an empty append under the batch's id, so that nothing else can be; or find that it was published
        before.

        The fence needs a table, even if none was ever created: a zombie may create it at any moment.
        """
        found = self.look()
        if not isinstance(found, Published):
            self.sink.create_if_absent()
            floor = self.floor()
            found = self.publish(self.stage_fence(), found or floor)
        return self.end(found)

    def end(self, decided: Published) -> Receipt:
        """After the table has decided: land the rows that do not fit, and write the receipt."""
        outcomes = self.outcomes_of(decided)
        land_rejected(self, decided, outcomes)
        return self.write_receipt(decided, outcomes)

    def tidy(self) -> None:
        """Drop the staged branches of a decided batch. If it fails, a later batch of the table drops them."""
        try:
            self.sink.tidy()
        except Exception as error:
            log.warning("the staged branches of batch %s were not dropped: %s", self.batch, error)

    # ---- decision 3

    def look(self) -> Published | Floor | None:
        """What an earlier attempt or a twin has published; else the oldest floor that the history still reaches. None
        if there is no floor: then nothing can have been staged.

        Raises Hopeless if the history reaches no floor.
        """
        floors = [floor for number in range(self.floors + 1) if (floor := self.known_floor(number))]
        said = "the table is gone, and the batch was attempted before that"
        # The oldest floor that the history reaches decides. It overrules what a person has recorded since.
        for floor in floors if floors and self.sink.exists else ():
            match verdict(self.sink.history(floor), self.batch, floor):
                case Published() as published:
                    return published
                case NotPublished():
                    return floor
                case Unprovable(reason):
                    said = reason
        if len(floors) > self.floors:
            raise self._unprovable(said)
        return None

    def floor(self) -> Floor:
        """Where the table stood before the batch was first attempted. The first attempt writes it, for all attempts.

        After a person has decided that the batch is not in the table, a new floor counts. Every floor up to that one is
        written before anything is staged. Otherwise a driver could find a floor missing later, and write one above what
        was published meanwhile.
        """
        missing = [number for number in range(self.floors + 1) if self.known_floor(number) is None]
        if missing:
            body = encode_floor(self._position() if self.floors else self.sink.position())
            # it began before the batch was decided, and this floor might be above what was published
            if self.floors and self.work.get(self.folder + "receipt.json"):
                raise Retryable(f"batch {self.batch} was decided meanwhile, and this attempt has staged nothing")
            for number in missing:
                self.work.put_if_absent(self.folder + floor_name(number), body)
        known = self.known_floor(self.floors)
        if known is None:
            raise Retryable(f"{self.folder}{floor_name(self.floors)} was written but cannot be read")
        return known

    def _position(self) -> Floor:
        """Where the table stands, which a person may have rolled forward since this driver looked, to where the batch
        is in it. Both are told by one reading: so the batch is in no ancestor of this position."""
        self.sink.position()  # an empty table has a first version from now on
        history, _ = self.sink.rolled_back()
        oldest = Floor(history.table_uuid, history.ancestors[-1].parent)
        told = verdict(history, self.batch, oldest)
        if isinstance(told, Published):
            raise self._unprovable(
                f"the batch is in it as snapshot {told.snapshot}, although a person has decided that it is not: was the"
                " table rolled forward since?"
            )
        return Floor(history.table_uuid, history.ancestors[0].id)

    def known_floor(self, number: int) -> Floor | None:
        body = self.work.get(self.folder + floor_name(number))
        return decode_floor(body) if body else None

    def publish(self, staged: int, floor: Floor) -> Published:
        """Try to publish what this driver staged, and only that, until the table has decided."""
        for tries_left in reversed(range(PUBLISH_TRIES)):
            try:
                return self.publish_to(self.sink, staged, floor, self._unprovable, self.seen)
            except TableMoved:
                if not (tries_left and self.replacement):
                    raise
                self.seen = self.replacement.follow()
        raise AssertionError("a try returns or raises")

    def publish_to(
        self,
        target: PublishTarget,
        staged: int,
        floor: Floor,
        undecided: "ToldUndecided",
        seen: SeenVersion | None = None,
    ) -> Published:
        """As `publish`, to this table, whose history must have `seen`. `undecided` makes the error for a history that
        proves nothing: of the reason, and of the staged snapshot that may have been published."""
        retrying = Retrying(
            retry=retry_if_exception_type(OutcomeUnknown),
            stop=stop_after_attempt(PUBLISH_TRIES),
            wait=wait_random_exponential(0.2, max=20),
            reraise=True,
        )
        tries = Tries()
        return retrying(self._publish_once, target, staged, floor, tries, undecided, seen)

    def _publish_once(
        self,
        target: PublishTarget,
        staged: int,
        floor: Floor,
        tries: "Tries",
        undecided: "ToldUndecided",
        seen: SeenVersion | None,
    ) -> Published:
        """One commit; after an error, one reading of the history.

        If the condition refused the commit, the verdict is final. A commit that failed in any other way may have been
        applied: from then on an unprovable history does not mean that nothing was published.
        """
        told: Verdict
        try:
            told = target.publish(staged, floor, seen)
        except OutcomeUnknown as error:
            # a conflict or a lost answer: only the history proves which
            refusal = str(error)
            log.warning("publishing snapshot %s: %s", staged, refusal)
            tries.unknown = True
            try:
                told = verdict(target.history(floor), self.batch, floor)
            except (OutcomeUnknown, Retryable) as again:
                raise OutcomeUnknown(
                    f"whether snapshot {staged} of batch {self.batch} is published cannot be read: {again}"
                ) from again
        match told:
            case Published():
                return told
            case Unprovable(reason):
                raise undecided(reason, staged if tries.unknown else 0)
            case NotPublished():
                raise OutcomeUnknown(f"snapshot {staged} of batch {self.batch} is not published yet: {refusal}")

    def _unprovable(self, reason: str, perhaps: int = 0) -> Undecided:
        """`perhaps` is the staged snapshot that this attempt may have published."""
        what = (
            f"Snapshot {perhaps}, which this attempt staged, may have been published: no answer came"
            if perhaps
            else "This attempt published nothing"
        )
        return Undecided(
            f"table {self.sink.table}: {reason}. {what}. A person has to decide: see `tidegate resume --help`"
        )

    # ---- staging

    def stage(self) -> int:
        """Read every object, stage the rows, write the outcomes. Returns the id of the staged snapshot.

        What came again is looked for first: a rollback may have brought its rows back since it was sent, or the route
        may have got its former table back. The condition demands the version that was looked at. So whoever brings the
        rows there after that has done it by taking that version away, or is a driver of a batch without a fence
        (`flows.came_again`).
        """
        items = self.manifest()
        again = [item for item in items if item.again]
        version, there = look_for(again, self.sink, self.work, batch=self.batch) if again else (None, {})
        self.seen = None if version is None else SeenVersion(version)
        taken = [item for item in items if item.upload.identity not in there]
        if self.sink.replaces or self.sink.skips or any(item.reloads for item in taken):
            self.replacement = look_at_versions(self.batch, taken, self.sink, self.newest_first, version, self.work)
            self.seen, taken = self.replacement.seen, self.replacement.taken(taken)
        # on the version that was looked at: what leaves is told by files of that version
        at = self.replacement.seen.version if self.replacement else None
        staged = self.sink.stage(taken, careful=reads_carefully(self._failures(), last=self.last), at=at)
        read = accounted(self.batch, taken, staged)
        judge_refused(self.batch, read, last=self.last, can_read_near=self.can_read_near)
        replaced: tuple[HeldRows, ...] | None = None
        if self.replacement:
            read, staged, replaced = self.replacement.stage(read, staged)
        reads = {item.upload.identity: each for item, each in read}
        reads |= {identity: present(batch) for identity, batch in there.items()}
        if self.replacement:
            unread = (item.upload for item in items if item.upload.identity not in reads)
            reads |= {each.identity: self.replacement.not_taken(each) for each in unread}
        ended = [(item, reads[item.upload.identity]) for item in items]
        outcomes = outcomes_of_staged(self.batch, ended, staged, self.digest, replaced)
        self.work.put(outcomes_name(self.folder, staged.id), outcomes.encode())
        return staged.id

    def _failures(self) -> Iterator[Failure | None]:
        """The reports of the attempts before this one: of the latest, since a person may resume a batch for ever."""
        for attempt in range(max(1, self.attempt - ATTEMPTS_LOOKED_AT), self.attempt):
            body = self.work.get(failure_name(self.folder, attempt))
            yield decode_failure(body) if body else None

    def stage_fence(self, ended: Outcomes = NOTHING_ENDED) -> int:
        """Stage an empty append, and write its outcomes: the endings of `ended`, if the batch has landed before."""
        staged = self.sink.stage_nothing()
        outcomes = Outcomes(staged, fence=True, tally=ended.tally, endings=ended.endings, manifest=ended.manifest)
        self.work.put(outcomes_name(self.folder, staged), outcomes.encode())
        return staged

    def manifest(self) -> list[OwnedUpload]:
        return read_manifest(self.batch, self.digest, self.work)

    # ---- the receipt

    def write_receipt(self, decided: Published, known: Outcomes | None = None) -> Receipt:
        """Write the table's decision, whichever driver published. The first receipt stays: a driver that comes late may
        tell of a snapshot that a rollback has taken since. Returns the one that is there."""
        outcomes = known or self.outcomes_of(decided)
        receipt = Receipt.of(outcomes, self.batch, decided.snapshot)
        name = self.folder + "receipt.json"
        if not self.work.put_if_absent(name, receipt.encode()) and (there := self.work.get(name)):
            return decode_receipt(there)
        return receipt

    def outcomes_of(self, decided: Published) -> Outcomes:
        body = self.work.get(outcomes_name(self.folder, decided.staged))
        if body is None:
            raise Hopeless(
                f"batch {self.batch} is published as snapshot {decided.snapshot}, but the outcomes of its staged"
                f" snapshot {decided.staged} are missing in the work bucket: who published it?"
            )
        return decode_outcomes(body)


def run(attempt: Attempt, mode: str) -> int:
    """Run one attempt completely, to `ingest` or to `fence` the batch."""
    return run_verb(attempt, Attempt.ingest if mode == "ingest" else Attempt.fence)


def run_verb(attempt: Attempt, verb: Callable[[Attempt], Receipt]) -> int:
    """0 if the table has decided. Never raises: it writes the reason, for settling or for a person."""
    try:
        receipt = verb(attempt)
    except Exception as error:
        hopeless = isinstance(error, Hopeless)
        told = isinstance(error, (Hopeless, Retryable, OutcomeUnknown))
        reason = str(error) if told else f"{type(error).__name__}: {error}"
        log.error("attempt %s of batch %s gave up: %s", attempt.attempt, attempt.batch, reason, exc_info=not hopeless)
        undecided, died = isinstance(error, Undecided), isinstance(error, (ReaderDied, MemoryError))
        rejected = isinstance(error, RejectedUndecided)
        staged = error.staged if isinstance(error, RejectedUndecided) else 0
        failure = Failure(attempt.attempt, reason, hopeless, undecided, died, rejected, staged)
        try:
            attempt.work.put(attempt.failure_name, failure.encode())
        except Exception:
            log.exception("the reason could not be written to the work bucket")
        return 1
    attempt.tidy()
    log.info("batch %s: %s as snapshot %s", receipt.batch, "fenced" if receipt.fence else "published", receipt.snapshot)
    return 0
