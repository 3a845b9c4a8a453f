"""The rules, broken on purpose: a transition requires less, or a judgement is wrong. The model must see each."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

from simulation.model import actors, setups
from tidegate.core import transitions
from tidegate.core.claims import Ownership
from tidegate.core.items import Has, Is, IsNot, Lacks, Put, Transition, Update, Vacant
from tidegate.core.manifests import make_part
from tidegate.core.publication import NotPublished
from tidegate.core.replacing import Contest
from tidegate.core.transitions import batches
from tidegate.flows import announce, audit, dispatch, publish, rejected, replacing, watch
from tidegate.flows.ledger import claiming
from tidegate.flows.sink import require_seen

Breaking = Callable[[], AbstractContextManager[Any]]


def _as_it_comes(batch: str, items: Any, sink: Any, newest_first: Any, seen: Any, work: Any) -> Any:
    """Each upload is taken for the latest version of its object."""
    return replacing.look_at_versions(batch, items, sink, lambda upload, _: [upload.version], seen, work)


def _moved_by_rows_only(seen: Any, line: Any, table: str) -> None:
    require_seen(seen, [replace(each, publishes=frozenset()) for each in line], table)


@dataclass(frozen=True)
class Variant:
    """`breaks` in a sentence, and the set-up that shows it."""

    name: str
    breaks: str
    setup: str
    breaking: Breaking

    @property
    def shown_by(self) -> setups.Setup:
        (found,) = (each for each in setups.SETUPS if each.name == self.setup)
        return found


def requires_less(name: str, *kinds: type, of: str = "", attribute: str = "") -> Breaking:
    """The transition `name` without its requirements of these kinds; `of` an item whose key begins so, and only of this
    attribute, if given."""
    real: Callable[..., Transition] = getattr(transitions, name)

    def stays(one: Any) -> bool:
        return not isinstance(one, kinds) or bool(attribute and one.name != attribute)

    def less(*arguments: Any, **named: Any) -> Transition:
        whole = real(*arguments, **named)
        writes = tuple(
            replace(each, requires=tuple(filter(stays, each.requires))) if each.key.pk.startswith(of) else each
            for each in whole.writes
        )
        assert writes != whole.writes, f"{name} requires nothing of the kind"
        return replace(whole, writes=writes)

    return _patched(transitions, name, less)


def leaves_less(name: str, attribute: str) -> Breaking:
    """The transition `name`, and nothing leaves the set `attribute`."""
    real: Callable[..., Transition] = getattr(transitions, name)

    def less(*arguments: Any, **named: Any) -> Transition:
        whole = real(*arguments, **named)
        writes = tuple(replace(each, change=_left_in(attribute, each.change)) for each in whole.writes)
        assert writes != whole.writes, f"{name} takes nothing out of {attribute}"
        return replace(whole, writes=writes)

    return _patched(transitions, name, less)


def _left_in(attribute: str, change: Put | Update) -> Put | Update:
    if isinstance(change, Put):
        return change
    return replace(change, leaves={name: member for name, member in change.leaves.items() if name != attribute})


def judged(was: Ownership, becomes: Ownership) -> Breaking:
    real = claiming.judge

    def judge(*arguments: Any) -> Ownership:
        ownership = real(*arguments)
        return becomes if ownership is was else ownership

    return _patched(claiming, "judge", judge)


def _patched(module: Any, name: str, instead: Any) -> Breaking:
    return lambda: patch.object(module, name, instead)


def _unregistered_is_let_go(claim: Any, owner: Any, batch: Any) -> bool:
    return owner is None or _has_let_go(claim, owner, batch)


_has_let_go = claiming.has_let_go


def _noted_first(group: Any, bus: Any, ports: Any) -> dict[str, str]:
    ports.ledger.note_announced(group)
    return dict(bus.send(group))


def _page_noted_first(route: Any, takers: Any, look: Any, after: Any, ports: Any) -> Any:
    run = ports.ledger.audit(route.place)
    ports.ledger.note_audit(replace(run, page=run.page + 1, finished_at=1))
    return _audit_page(route, takers, look, after, ports)


def _left_first(routes: Any, limits: Any, ports: Any) -> Any:
    for run in ports.ledger.audits():
        if not any(route.place == run.place for route in routes):
            ports.ledger.end_watch(run, ports.clock(), limits.horizon)
    return _watch_places(routes, limits, ports)


_watch_places = watch.watch_places


_audit_page = audit._audit_page


_to_announce = batches.to_announce


def _elsewhere(batch: Any, receipt: Any, now: int) -> Any:
    written = _to_announce(batch, receipt, now)
    return replace(written, key=written.key._replace(pk="elsewhere"))


_take_over = transitions.take_over


def _taken_over_anyhow(*arguments: Any, **named: Any) -> Transition:
    whole = _take_over(*arguments, **named)
    (write,) = whole.writes
    return replace(
        whole, writes=(replace(write, requires=tuple(each for each in write.requires if isinstance(each, Is))),)
    )


VARIANTS: Sequence[Variant] = (
    Variant(
        "own claim is a duplicate",
        "A claim that names the notice itself is refused as somebody else's.",
        "twins",
        judged(Ownership.MINE, Ownership.DUPLICATE),
    ),
    Variant(
        "every claim is mine",
        "A claim that names another notice is taken for its own.",
        "twins",
        judged(Ownership.DUPLICATE, Ownership.MINE),
    ),
    Variant(
        "claims are not exclusive",
        "A claim is written over one that is there.",
        "twins",
        requires_less("claim", Vacant),
    ),
    Variant(
        "any notice takes over",
        "An ordinary notice takes a claim over from an owner that let go.",
        "voided, shared",
        judged(Ownership.DUPLICATE, Ownership.ASK_OWNER),
    ),
    Variant(
        "registered twice",
        "A notice that is registered is registered once more.",
        "twins",
        requires_less("register", Vacant),
    ),
    Variant(
        "a closed batch takes notices",
        "A notice registers in a batch that is sealed.",
        "sealed",
        requires_less("register", Is, of="b#"),
    ),
    Variant(
        "a void notice is registered",
        "A notice that was voided is registered all the same.",
        "voided",
        requires_less("register", Vacant, of="n#"),
    ),
    Variant(
        "a registered notice is voided",
        "A notice that joined a batch is voided all the same.",
        "voided",
        requires_less("void", Vacant),
    ),
    Variant(
        "a page is noted first",
        "The scheduled audit notes a page before it has sent what it found there.",
        "audited by two",
        _patched(audit, "_audit_page", _page_noted_first),
    ),
    Variant(
        "left first",
        "A place is left before those that follow it are watched.",
        "split",
        _patched(actors, "watch_places", _left_first),
    ),
    Variant(
        "counted again",
        "An upload that comes back stays in the sums that it was in.",
        "released",
        _patched(batches, "sums_left", lambda back: {}),
    ),
    Variant(
        "the oldest is forgotten",
        "A look for the oldest upload in quarantine overwrites what a batch has noted meanwhile.",
        "oldest in quarantine",
        requires_less("note_oldest", Is, attribute="quarantined"),
    ),
    Variant(
        "taken from whoever has it",
        "An upload is taken over although its owner is not the one any more that let go.",
        "resent",
        requires_less("take_over", Is),
    ),
    Variant(
        "unregistered is let go",
        "A notice that is not registered counts as one that has let go.",
        "on its way",
        _patched(claiming, "has_let_go", _unregistered_is_let_go),
    ),
    Variant(
        "what came again is not looked for",
        "The part of what has landed before does not have its job look whether it is in the table.",
        "landed elsewhere",
        _patched(dispatch, "make_part", lambda *arguments, **named: make_part(*arguments)),
    ),
    Variant(
        "dropped by whoever has it",
        "An upload is dropped although it was dropped, or taken over, since its claim was read.",
        "dropped twice",
        requires_less("drop", Is),
    ),
    Variant(
        "dropped while it is taken over",
        "An upload that was dropped since its claim was read leaves the sum of the abandoned ones.",
        "dropped",
        _patched(transitions, "take_over", _taken_over_anyhow),
    ),
    Variant(
        "abandoned anew",
        "A slow run of settling writes that a dropped upload is abandoned.",
        "dropped, and uploaded again",
        requires_less("record_ending", IsNot),
    ),
    Variant(
        "a wish is forgotten",
        "A wish that replaced another one is taken for carried out.",
        "wished",
        requires_less("end_wish", Is),
    ),
    Variant(
        "a wish is overlooked",
        "A wish that was noted since its batch was read is taken off the route's list.",
        "wished in vain",
        requires_less("forget_wish", Lacks),
    ),
    Variant(
        "two open batches",
        "A batch is opened although the route has one.",
        "twins",
        requires_less("open_batch", Lacks, of="r#"),
    ),
    Variant(
        "ended twice",
        "A batch that has ended is ended once more.",
        "uploaded again",
        requires_less("end_batch", Is),
    ),
    Variant(
        "aside for ever",
        "A batch that ends while it is aside stays in that list of its route.",
        "aside",
        leaves_less("end_batch", "aside"),
    ),
    Variant(
        "aside while it is under way",
        "A batch steps aside although it was resumed meanwhile.",
        "aside",
        requires_less("step_aside", Is, Has, of="b#"),
    ),
    Variant(
        "resumed, and still aside",
        "A batch that is resumed stays aside.",
        "aside",
        leaves_less("resume", "aside"),
    ),
    Variant(
        "the same bytes noted too late",
        "A claim is told that its upload came again after its outcome was recorded: nobody reads that.",
        "uploaded again",
        requires_less("note_again", Lacks),
    ),
    Variant(
        "given up in any state",
        "The first attempt becomes a fence although it has begun as another one.",
        "given up early",
        requires_less("give_up", Is),
    ),
    Variant(
        "noted before it is sent",
        "An announcement leaves the outbox before the bus has taken it.",
        "announced",
        _patched(announce, "_send", _noted_first),
    ),
    Variant(
        "not written with the end",
        "A batch is committed, and its announcement is written by nobody.",
        "announced",
        _patched(batches, "to_announce", _elsewhere),
    ),
    Variant(
        "published without the condition",
        "A commit does not check whether the batch is in the table.",
        "drivers",
        _patched(actors, "verdict", lambda *_: NotPublished()),
    ),
    Variant(
        "replaced, whatever came since",
        "A driver publishes what replaces earlier rows although others have come since it looked for them.",
        "replaced",
        _patched(actors, "require_seen", lambda *_: None),
    ),
    Variant(
        "skipped, whatever came since",
        "A driver publishes an upload although the same bytes have landed since it looked for them.",
        "the same bytes",
        _patched(actors, "require_seen", lambda *_: None),
    ),
    Variant(
        "rows of the same bytes are not looked for",
        "An upload lands beside rows that have its bytes.",
        "the same bytes",
        _patched(replacing, "contested", lambda *_: {}),
    ),
    Variant(
        "replaced by an earlier version",
        "Which version of an object is the latest is not asked.",
        "replaced",
        _patched(publish, "look_at_versions", _as_it_comes),
    ),
    Variant(
        "reloaded beside its rows",
        "What is reloaded leaves the rows that it has in the table.",
        "reloaded in the table",
        _patched(Contest, "gives_way", lambda *_: []),
    ),
    Variant(
        "deleted, and nobody asked",
        "A reader does not ask whether the object of an upload was deleted since.",
        "marked as deleted",
        _patched(actors.ModelSink, "is_deleted", lambda sink: False),
    ),
    Variant(
        "deleted in between",
        "A driver publishes although a deletion of its object has landed since it read.",
        "marked as deleted",
        _patched(replacing.Replacement, "_empties", lambda *_: False),
    ),
    Variant(
        "deleted, and nothing moved",
        "A batch that has moved no row is taken for one that had no deletion.",
        "marked as deleted",
        _patched(actors, "require_seen", _moved_by_rows_only),
    ),
    Variant(
        "ended without its rejected rows",
        "The receipt is written before the rejected rows have landed.",
        "rejected",
        _patched(publish, "land_rejected", lambda *_: None),
    ),
    Variant(
        "rejected rows above a floor of the moment",
        "Each driver takes the position of the table of rejected rows as its floor.",
        "rejected",
        _patched(rejected, "_floor", lambda attempt, position: position),
    ),
    Variant(
        "the history is not read",
        "A driver takes the table's history for one without its batch.",
        "fenced",
        _patched(actors, "verdict", lambda *_: NotPublished()),
    ),
)
