"""Every change of the ledger: what each transition requires, and what it writes.

    transition      decides                                        requires
    claim           1: this version belongs to that notice         it has no live claim
    take_over       1: it belongs to this notice from now on       its owner is still the one that let go
    note_again      that the same bytes were uploaded again        its owner and outcome are as they were
    open_batch      which batch the route's notices join           the route has no open batch
    register        2: this notice belongs to that batch           the notice is undecided, the batch is open
    void            2: this notice belongs to no batch             the notice is undecided
    seal            that nothing joins the batch any more          it is open and not empty
    note_manifest   which parts count                              no other digest is recorded
    begin_attempt   that an attempt is made, in a slot             the attempt before it is the last; a slot is free
    fix_dataset     how an attempt reads its files                 the attempt is under way; the first write counts
    record_job      which job run an attempt has                   the attempt is under way, and has none, or a worker
                                                                   has taken it
    record_ending   how an upload ended, if not committed          it is live, and its owner is the ending's notice
    note_endings    how many endings are recorded                  the batch is submitted
    end_batch       3, after the table: published, or fenced       the batch is submitted
    note_emptied    that nothing of a batch is in quarantine       the leftover is the one that was read
    note_oldest     since when uploads are in quarantine           no batch has put one there since it was read
    note_announced  that its event was sent                        the record is still of that event
    halt            that nothing is started until a person acts    the attempt is the last
    step_aside      that the route goes on past it                 the attempt is the last; halted, and in a slot
    resume          that one more attempt is made, or a fence      the attempt is the last; halted, unless for a fence
    give_up         that the first attempt is a fence              the batch is sealed, and was never attempted
    wish            what becomes of a batch's uploads afterwards   it is abandoned, or the attempt is the last
    note_wish       that a wish is carried out so far              the wish is the last
    end_wish        that a wish is carried out, or is pointless    the wish is the last
    forget_wish     that there is no wish                          there is none, though the route lists one
    note_removed    that a batch can never bring its rows again    it is committed
    drop            that uploads have ended, because a person      the batch's notices own them, and they are recorded
                    gave them up                                   as abandoned
    drop_quarantined   the same, of what is in quarantine          the notices own them, and they are in quarantine
    pause, unpause  that the route begins no new batch             it is not paused yet; it is
    index_notice    what a manifest lists, while a ledger is       there is no record
    index_claim     built anew: which notice owns an upload,       it has no live claim
    index_over      instead of another notice,                     its owner is still the one that was read
    index_batch     and how the batch stands                       there is no record
    open_ledger     that a new deployment's ledger is whole        there is no record
    begin_rebuild   that the ledger is being rebuilt               it is as it was read
    end_rebuild     that it is whole                               it was not
    begin_watch     since when a place is watched                  it is not, or was not for as long as is remembered
    end_watch       that no route takes the place any more         it was not left
    resume_watch    that a route takes it again                    it was left when it was read
    begin_audit     which run audits the place                     the one before is the last, and has ended
    note_audit      that a page of the run is done                 the run is the last, the page its next
    note_screening  which job screens the bucket for the run       the run is the last; it has no job, and no page
    give_up_audit   that a run has ended without its findings      the run is the last, its pages and job as read
    take            which worker makes the first attempt           nobody has taken it
    offer, withdraw, note_started, note_alive, leave, remember_route, count_refused: no decisions

Decision 3 itself is made in the table (`core.publication`); `end_batch` records it. Nothing else writes the ledger.
A transition is data: a list of writes, each with what it requires of its item (`core.items`). So a store states no rule
of its own, and one contract (`tests/contract`) holds DynamoDB's, the tests' and any other to these.
Add a new rule here, and let the model explore it (`simulation/model/`).
"""

from tidegate.core.transitions.audits import (
    begin_audit,
    begin_watch,
    end_watch,
    give_up_audit,
    note_audit,
    note_screening,
    resume_watch,
)
from tidegate.core.transitions.batches import (
    begin_attempt,
    end_batch,
    fix_dataset,
    halt,
    note_announced,
    note_endings,
    note_manifest,
    note_removed,
    open_batch,
    record_job,
    register,
    seal,
    step_aside,
    void,
)
from tidegate.core.transitions.index import (
    begin_rebuild,
    end_rebuild,
    index_batch,
    index_claim,
    index_notice,
    index_over,
    open_ledger,
)
from tidegate.core.transitions.routes import (
    count_refused,
    note_emptied,
    note_oldest,
    pause,
    remember_route,
    unpause,
)
from tidegate.core.transitions.uploads import (
    MOST_DROPPED,
    claim,
    drop,
    drop_quarantined,
    note_again,
    record_ending,
    take_over,
)
from tidegate.core.transitions.wishes import end_wish, forget_wish, give_up, note_wish, resume, wish
from tidegate.core.transitions.workers import leave, note_alive, note_started, offer, take, withdraw

__all__ = [
    "MOST_DROPPED",
    "begin_attempt",
    "begin_audit",
    "begin_rebuild",
    "begin_watch",
    "claim",
    "count_refused",
    "drop",
    "drop_quarantined",
    "end_batch",
    "end_rebuild",
    "end_watch",
    "end_wish",
    "fix_dataset",
    "forget_wish",
    "give_up",
    "give_up_audit",
    "halt",
    "index_batch",
    "index_claim",
    "index_notice",
    "index_over",
    "leave",
    "note_again",
    "note_alive",
    "note_announced",
    "note_audit",
    "note_emptied",
    "note_endings",
    "note_manifest",
    "note_oldest",
    "note_removed",
    "note_screening",
    "note_started",
    "note_wish",
    "offer",
    "open_batch",
    "open_ledger",
    "pause",
    "record_ending",
    "record_job",
    "register",
    "remember_route",
    "resume",
    "resume_watch",
    "seal",
    "step_aside",
    "take",
    "take_over",
    "unpause",
    "void",
    "wish",
    "withdraw",
]
