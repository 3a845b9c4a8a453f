"""Mistakes where two ways back meet: what is sent again, how old it is, and what is left out of it."""

from dataclasses import replace
from itertools import islice
from typing import Any

from simulation.checker.planting import Bug, but, replaced
from tidegate.core.batches import State
from tidegate.core.notices import ORIGIN_AGAIN, Entry
from tidegate.core.outcomes import Outcome
from tidegate.core.uploads import Upload
from tidegate.flows import resend


def _only_what_it_owns(real: Any) -> Any:
    def left_to(ledger: Any, notice: Any) -> tuple[Entry, ...]:
        return tuple(each for each in real(ledger, notice) if each.takes_from == notice.id)

    return left_to


def _of_no_time(real: Any) -> Any:
    def pack(*arguments: Any, **named: Any) -> Any:
        for notice in real(*arguments, **named):
            yield replace(notice, at=0) if notice.origin.startswith(ORIGIN_AGAIN) else notice

    return pack


def _nothing_listed(real: Any) -> Any:
    return lambda *_: {}


def _by_the_ages_of_the_batches(real: Any) -> Any:
    return lambda route, ports: sorted(real(route, ports), key=lambda each: each.batch)


def _counted_at_the_end(real: Any) -> Any:
    def look(route: str, ports: Any) -> Any:
        def note_oldest(record: Any, since: int, seen: int) -> Any:
            now = ports.ledger.route(route).back.get(Outcome.QUARANTINED.value, 0)
            return ports.ledger.note_oldest(record, since, now)

        return real(route, replace(ports, ledger=but(ports.ledger, note_oldest=note_oldest)))

    return look


def _the_first_floor(real: Any) -> Any:
    def floors(run: Any, batch: str) -> Any:
        yield from list(real(run, batch))[:1]

    return floors


def _the_first_version(real: Any) -> Any:
    def resend_object(bucket: str, key: str, ports: Any, **said: Any) -> Any:
        def let_go(claims: Any) -> Any:
            return dict(list(ports.ledger.let_go(claims).items())[:1])

        return real(bucket, key, replace(ports, ledger=but(ports.ledger, let_go=let_go)), **said)

    return resend_object


def _of_any_age(real: Any) -> Any:
    return lambda ledger, at: False


def _without_sizes(real: Any) -> Any:
    return lambda *of: {at: replace(each, size=0) for at, each in real(*of).items()}


def _a_part_is_passed_over(real: Any) -> Any:
    def abandoned(batch: Any, ports: Any) -> Any:
        found = real(batch, ports)
        if batch.endings:
            next(found, None)
        yield from found

    return abandoned


def _one_too_many(real: Any) -> Any:
    return lambda ledger, batch, wish, parts, **said: real(ledger, batch, wish, parts + 1, **said)


def _not_of_what_was_published(real: Any) -> Any:
    def end_wish(ledger: Any, batch_id: str, *of: Any, **said: Any) -> bool:
        return ledger.batch(batch_id).state is State.COMMITTED or real(ledger, batch_id, *of, **said)

    return end_wish


def _the_first_portion(real: Any) -> Any:
    return lambda found, *of, **said: real(islice(found, resend.AT_ONCE), *of, **said)


def _always_certain(real: Any) -> Any:
    def note_oldest(ledger: Any, there: Any, since: int, seen: int) -> Any:
        return real(ledger, there, since, there.back.get(Outcome.QUARANTINED.value, 0))

    return note_oldest


def _whoever_owns_it(real: Any) -> Any:
    def still_there(endings: Any, ports: Any) -> Any:
        uploads = {each: Upload(each.bucket, each.key, each.version, size=0) for each in endings}
        claims = ports.ledger.claims_on(uploads.values())
        for each, upload in uploads.items():
            claim = claims.get(upload.identity)
            if claim and claim.outcome == Outcome.QUARANTINED:
                yield each

    return still_there


BUGS = (
    Bug(
        "what came again with a void notice is left",
        "A void notice sends on what it owns, and not what came again since its owner let go.",
        (replaced("tidegate.flows.ledger:Ledger.left_to", _only_what_it_owns),),
        "void_with_what_came_again",
    ),
    Bug(
        "what is sent again has no age",
        "A notice of what came again says no time, so it is new whenever it arrives (rule 13).",
        (replaced("tidegate.core.notices:pack_entries", _of_no_time, within="tidegate.flows.send"),),
        "replayed_for_months",
    ),
    Bug(
        "a notice of any age is new",
        "Dispatch claims for a notice that is older than the ledger's memory.",
        (replaced("tidegate.flows.ledger:Ledger.may_have_forgotten", _of_any_age),),
        "replayed_for_months",
    ),
    Bug(
        "a release loses the sequencers",
        "What is released has no sequencer: when the same bytes come again after it has vanished, they are a repeat.",
        (replaced("tidegate.flows.resend:_listed", _nothing_listed),),
        "released_and_gone",
    ),
    Bug(
        "a release loses the sizes",
        "What is released has no size, so a batch of it may be larger than a job should read.",
        (replaced("tidegate.flows.resend:_listed", _without_sizes),),
        "released",
    ),
    Bug(
        "one version of an object is resent",
        "A resend by name sends one of the object's versions that ended without a row.",
        (replaced("tidegate.flows.resend:resend_object", _the_first_version),),
        "resent_by_name_twice_over",
    ),
    Bug(
        "the oldest batch for the oldest upload",
        "A look for the oldest in quarantine goes by when batches began, and not by when they ended.",
        (replaced("tidegate.flows.quarantine_age:_by_age", _by_the_ages_of_the_batches),),
        "quarantined_out_of_turn",
    ),
    Bug(
        "what came back during a look is taken as seen",
        "A look for the oldest in quarantine counts what has come back when it ends, and not when it began.",
        (replaced("tidegate.flows.quarantine_age:look_for_oldest", _counted_at_the_end),),
        "released_while_somebody_looks",
    ),
    Bug(
        "reconcile asks the first floor",
        "Reconcile looks for a fence above the first floor only, and a driver may have another one.",
        (replaced("tidegate.flows.reconcile:floors_of", _the_first_floor),),
        "fence_rolled_back",
    ),
    Bug(
        "a fence is settled without a part",
        "Of a fenced batch, settling passes over a part where it goes on after its last run.",
        (replaced("tidegate.flows.settle:_abandoned", _a_part_is_passed_over),),
        "given_up_in_portions",
    ),
    Bug(
        "a wish passes over a part",
        "Settling notes one part too many of a wish as done.",
        (replaced("tidegate.flows.ledger:Ledger.note_wish", _one_too_many),),
        "dropped_in_portions",
    ),
    Bug(
        "a wish that came too late stays",
        "The wish for a batch that was published before its fence is never ended.",
        (replaced("tidegate.flows.ledger:Ledger.end_wish", _not_of_what_was_published),),
        "dropped_too_late",
    ),
    Bug(
        "a release ends after a portion",
        "A release sends the first portion of what is in quarantine.",
        (replaced("tidegate.flows.resend:release", _the_first_portion),),
        "released_in_portions",
    ),
    Bug(
        "a release goes through the former route",
        "What is released goes through the route that quarantined it, whichever takes its key today.",
        (replaced("tidegate.flows.resend:route_today", lambda real: lambda former, *of: former),),
        "renamed_and_released",
    ),
    Bug(
        "a portion of a look is certain",
        "A look for the oldest in quarantine that has asked about as many batches as it may takes the next for the"
        " oldest for good.",
        (replaced("tidegate.flows.ledger:Ledger.note_oldest", _always_certain),),
        "looked_for_in_portions",
    ),
    Bug(
        "what was quarantined again is listed twice",
        "The quarantine of a batch lists what another batch has quarantined since.",
        (replaced("tidegate.flows.quarantine:_still_there", _whoever_owns_it),),
        "quarantined_again",
    ),
)
