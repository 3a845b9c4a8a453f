"""How places are watched and audited."""

from tidegate.core.audit import AuditRun
from tidegate.core.items import Has, Is, Item, Key, Lacks, MoreThan, Put, Transition, Update, Vacant, Write
from tidegate.core.records import VERSION, audit_key
from tidegate.core.transitions.common import single


def begin_watch(run: AuditRun, now: int) -> Transition:
    """The place is watched from now on: `run` is its first one, which has ended."""
    item: Item = {
        "v": VERSION,
        "bucket": run.place.bucket,
        "prefix": run.place.prefix,
        "suffix": run.place.suffix,
        "number": run.number,
        "watched_since": run.watched_since,
        **_begun(run),
        **_progress(run),
    }
    return single(f"begin to watch {run.place}", Write(_watch(run), Put(item), (Vacant(now),)))


def end_watch(run: AuditRun, at: int, until: int) -> Transition:
    """No route takes the place any more since `at`. Nothing of it is looked at after `until`."""
    requires = (Is("watched_since", run.watched_since), Lacks("left_at"))
    change = Update(sets={"left_at": at, "expires_at": until})
    return single(f"note that no route takes {run.place} any more", Write(_watch(run), change, requires))


def resume_watch(run: AuditRun, now: int) -> Transition:
    """A route takes the place again: it is watched as if it had not been left."""
    change = Update(removes=("left_at", "expires_at"))
    requires = (Is("left_at", run.left_at), MoreThan("expires_at", now))
    return single(f"watch {run.place} on", Write(_watch(run), change, requires))


def begin_audit(run: AuditRun, last: AuditRun) -> Transition:
    """`run` has no page yet. It replaces `last`, which has ended. Whether the place was left meanwhile does not matter:
    the window ends before."""
    sets = {**_begun(run), **_progress(run)}
    gone = tuple(name for name in ("finished_at", "source", "job", "given_up") if name not in sets)
    requires = (Is("run", last.id), Has("finished_at"))
    return single(f"begin audit {run.id} of {run.place}", Write(_watch(run), Update(sets=sets, removes=gone), requires))


def note_audit(run: AuditRun) -> Transition:
    """One more page is done: `run` is as it stands after that page."""
    change = Update(sets=_progress(run))
    requires = (Is("run", run.id), Is("page", run.page - 1), Lacks("finished_at"))
    return single(f"note page {run.page} of audit {run.id}", Write(_watch(run), change, requires))


def note_screening(run: AuditRun) -> Transition:
    """The job was started: `run` names it."""
    requires = (Is("run", run.id), Is("page", 0), Lacks("finished_at"), Lacks("job"))
    change = Update(sets={"job": run.job})
    return single(f"note job {run.job} of audit {run.id}", Write(_watch(run), change, requires))


def give_up_audit(run: AuditRun, at: int) -> Transition:
    """`run` is as it was read. The next run begins where it did."""
    change = Update(sets={"finished_at": at, "given_up": True, "until": run.since})
    job = Is("job", run.job) if run.job else Lacks("job")
    requires = (Is("run", run.id), Is("page", run.page), job, Lacks("finished_at"))
    return single(f"give up audit {run.id}", Write(_watch(run), change, requires))


def _watch(run: AuditRun) -> Key:
    return audit_key(run.place, run.number)


def _begun(run: AuditRun) -> Item:
    return {
        "run": run.id,
        "started_at": run.started_at,
        "since": run.since,
        **({"source": run.source} if run.source else {}),
    }


def _progress(run: AuditRun) -> Item:
    return {
        "until": run.until,
        "page": run.page,
        "after_key": run.after.key,
        "after_version": run.after.version,
        "counts": run.counts.as_dict(),
        **({"finished_at": run.finished_at} if run.finished_at else {}),
    }
