"""The set-ups that are exhausted: which actors meet, from which state, and what must be true in every state."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from simulation.model import actors as act
from simulation.model import promises, states
from simulation.model.actors import (
    AGAIN,
    BATCH,
    ELSEWHERE,
    ELSEWHERE_TOO,
    FIRST,
    FOURTH,
    JOINED,
    LATER,
    MOVED,
    OTHER_FIRST,
    PARTS,
    RELOADED,
    RELOADED_TOO,
    ROUTE,
    SECOND,
    THIRD,
    A,
    B,
    C,
)
from simulation.model.explore import Actor, Cell, Explored, explore
from tidegate.core.batches import Wish

# ---- who meets

TWINS = (act.delivery("d", FIRST), act.delivery("e", FIRST, backwards=True), act.delivery("f", SECOND))
VOIDED = (act.delivery("d", SECOND), act.delivery("e", SECOND), act.audit("v", (B,)), act.delivery_of_sent("t"))
REPEATED = (act.settling("x", BATCH), act.settling("y", BATCH), act.delivery("e", AGAIN), act.delivery_of_sent("t"))
SENT_TWICE = (act.delivery_of_sent("t"), act.delivery_of_sent("u", 1))
DRIVERS = (act.driver("d", 1, BATCH), act.driver("e", 2, BATCH))
SETTING_ASIDE = (act.driver("d", 1, BATCH, sets_aside=True), act.driver("e", 2, BATCH, sets_aside=True))
REMOVING = (
    act.driver("d", 1, BATCH, replaces=True, removes=True),
    act.driver("e", 2, LATER, replaces=True, removes=True, deletes=True),
)
REPLACING = (act.driver("d", 1, BATCH, replaces=True), act.driver("e", 2, LATER, replaces=True))
SKIPPING = (act.driver("d", 1, BATCH, skips=True), act.driver("e", 2, LATER, skips=True))
FENCE = act.driver("f", 3, BATCH, fence=True)

# ---- set-ups


@dataclass(frozen=True)
class Setup:
    """`large` ones take minutes: `make model` exhausts them."""

    name: str
    says: str
    actors: tuple[Actor, ...]
    begins: states.Begins = dict
    safe: Callable[[Mapping[Cell, Any]], str] = promises.lands_once
    ends_well: promises.EndsWell = lambda cells, acknowledged: ""
    large: bool = False

    def explore(self, at_most: int = 1_000_000) -> Explored:
        return explore(self.begins(), self.actors, safe=self.safe, ends_well=self.ends_well, at_most=at_most)


SETUPS = (
    Setup(
        "twins",
        "two deliveries of one notice, and one of a notice that has an upload of it",
        TWINS,
        ends_well=promises.every_upload_joins((A, B), {"de": FIRST, "f": SECOND}),
    ),
    Setup(
        "crossed",
        "two notices have the same two uploads, and claim them in opposite orders",
        (act.delivery("d", FIRST), act.delivery("e", OTHER_FIRST, backwards=True)),
        ends_well=promises.every_upload_joins((A, B), {"d": FIRST, "e": OTHER_FIRST}),
    ),
    Setup(
        "voided",
        "a notice is voided at any moment of its twins, and another one takes its upload over",
        VOIDED,
        ends_well=promises.every_upload_joins((B,), {"de": SECOND}, "t", [act.audit("w", (B,))]),
    ),
    Setup(
        "voided, shared",
        "the owner of an upload is voided while twins of a notice come that has it, too",
        (act.delivery("e", THIRD), act.delivery("f", THIRD), act.audit("v", (B,))),
        states.claimed,
        ends_well=promises.every_upload_joins((B, C), {"x": SECOND, "ef": THIRD}, "t", [act.audit("w", (B, C))]),
    ),
    Setup(
        "audited by two",
        "two invocations of the scheduled audit find what a notice has claimed that is gone",
        (act.audit_on_schedule("v", (B, C)), act.audit_on_schedule("w", (B, C)), act.delivery_of_sent("t")),
        states.claimed_and_watched,
        # a run that has ended looks at nothing again: what it has found is sent
        ends_well=promises.every_upload_joins((B, C), {}, also=[act.audit_on_schedule("z", (B, C))]),
    ),
    Setup(
        "split",
        "three invocations of the scheduled audit find that a route was split",
        (act.watching("v", PARTS), act.watching("w", PARTS), act.watching("x", PARTS)),
        states.watched,
        safe=promises.every_time_is_watched,
    ),
    Setup(
        "split, and not yet everywhere",
        "invocations of the scheduled audit have the settings from before and after a route was split",
        (act.watching("v", PARTS), act.watching("w", PARTS), act.watching("x", [ROUTE])),
        states.watched,
        ends_well=promises.watched_in_the_end,
    ),
    Setup(
        "uploaded again",
        "the same bytes come again while it is recorded, twice at once, that they did not land",
        REPEATED,
        states.failed,
        ends_well=promises.every_upload_joins((B,), {"e": AGAIN}, "t", [act.settling("z", BATCH)]),
    ),
    Setup(
        "given up",
        "the same bytes come again while their batch is recorded as fenced",
        REPEATED,
        states.fenced,
        ends_well=promises.every_upload_joins((B,), {"e": AGAIN}, "t", [act.settling("z", BATCH)]),
    ),
    Setup(
        "released",
        "two people resend what is in quarantine",
        (act.resending("x", B), act.resending("y", B), *SENT_TWICE),
        states.quarantined,
        ends_well=promises.every_upload_joins((B,), {}, also=[act.resending("z", B)]),
    ),
    Setup(
        "oldest in quarantine",
        "two runs of settling look for the oldest upload in quarantine while another one gets there",
        (act.looking_for_oldest("v"), act.looking_for_oldest("w"), act.settling("x", LATER)),
        states.came_back,
        safe=promises.quarantine_is_seen,
        ends_well=promises.oldest_is_certain,
    ),
    Setup(
        "resent",
        "an upload of an abandoned batch is resent, and its bytes come again",
        (act.resending("x", B), act.delivery("e", AGAIN), *SENT_TWICE),
        states.abandoned,
        ends_well=promises.every_upload_joins((B,), {"e": AGAIN}, also=[act.resending("z", B)]),
    ),
    Setup(
        "dropped",
        "an upload is dropped while a person resends it",
        (act.carrying_out("v", BATCH), act.resending("x", B), act.delivery_of_sent("t")),
        states.to_be_dropped,
        ends_well=promises.every_upload_joins((), {}, "t"),
    ),
    Setup(
        "dropped twice",
        "two runs of settling drop an upload",
        (act.carrying_out("v", BATCH), act.carrying_out("w", BATCH)),
        states.to_be_dropped,
        ends_well=promises.done_as_said("v", Wish.DROP),
    ),
    Setup(
        "dropped, and uploaded again",
        "an upload is dropped while its bytes come again, and a slow run of settling records that its batch is fenced",
        (
            act.carrying_out("v", BATCH),
            act.settling_slowly("x", BATCH),
            act.delivery("e", AGAIN),
            act.delivery_of_sent("t"),
        ),
        states.to_be_dropped,
        ends_well=promises.every_upload_joins((B,), {"e": AGAIN}, "t"),
    ),
    Setup(
        "wished",
        "a person wants an upload resent after all, while it is dropped",
        (act.aborting("q", BATCH, Wish.RESEND), act.carrying_out("v", BATCH), act.carrying_out("w", BATCH)),
        states.to_be_dropped,
        ends_well=promises.done_as_said("q", Wish.RESEND),
    ),
    Setup(
        "wished in vain",
        "a batch has lost its wish while settling looks at it, and a person asks again",
        (act.aborting("p", BATCH, Wish.DROP), act.carrying_out("v", BATCH), act.carrying_out("w", BATCH)),
        states.listed_in_vain,
        ends_well=promises.done_as_said("p", Wish.DROP),
    ),
    Setup(
        "landed elsewhere",
        "two backfills send what is in the former table of its route, which gets that table back meanwhile",
        (
            act.delivery("e", ELSEWHERE, route=MOVED),
            act.delivery("f", ELSEWHERE_TOO, route=MOVED),
            act.delivery("g", ELSEWHERE),
            act.sealing("s"),
            act.sealing("t", MOVED),
        ),
        states.landed,
        safe=promises.once_in_each_table,
        ends_well=promises.reloaded,
    ),
    Setup(
        "deleted",
        "a backfill and a person send what is gone from the table",
        (act.sending_what_was_deleted("p"), act.sending_what_was_deleted("q"), *SENT_TWICE),
        states.landed,
        safe=promises.moved_once,
    ),
    Setup(
        "reloaded",
        "two people reload what has landed, and each notice comes twice",
        (
            act.delivery("d", RELOADED),
            act.delivery("e", RELOADED),
            act.delivery("f", RELOADED_TOO),
        ),
        states.landed,
        safe=promises.moved_once,
    ),
    Setup(
        "on its way",
        "the same bytes come again while the first notice is on its way",
        (act.delivery("d", SECOND), act.delivery("e", AGAIN), act.delivery_of_sent("t")),
        ends_well=promises.every_upload_joins((B,), {"d": SECOND, "e": AGAIN}, "t"),
    ),
    Setup(
        "sealed",
        "a batch is sealed and handed off while one more notice joins",
        (act.delivery("d", FOURTH), act.sealing("s"), act.handing_off("h")),
        states.joined,
        ends_well=promises.every_upload_joins((B, C), {"d": FOURTH}),
    ),
    Setup(
        "handed off",
        "a batch is handed off twice at once",
        (act.sealing("s"), act.handing_off("h"), act.handing_off("i")),
        states.joined,
    ),
    Setup(
        "given up early",
        "a person gives up an open batch while it is sealed and handed off",
        (act.aborting("p", JOINED), act.sealing("s"), act.handing_off("h")),
        states.joined_with_table,
        safe=promises.as_it_was_begun,
        ends_well=promises.given_up_or_published,
    ),
    Setup(
        "given up by two",
        "two people give up an open batch while settling looks at it",
        (act.aborting("p", JOINED), act.aborting("q", JOINED), act.settling("x", JOINED)),
        states.joined_with_table,
        safe=promises.as_it_was_begun,
        ends_well=promises.given_up_or_published,
    ),
    Setup(
        "aside",
        "a halted batch steps aside and is resumed while a zombie's receipt is settled, and another batch handed off",
        (act.stepping_aside("v", BATCH), act.resuming("p", BATCH), act.settling("x", BATCH), act.handing_off("h")),
        states.halted_before_another,
        ends_well=promises.both_go_on,
    ),
    Setup(
        "announced",
        "a published batch is settled and announced, twice at once",
        (act.announcing("x", BATCH), act.announcing("y", BATCH)),
        states.published,
        safe=promises.announces_what_is_committed,
        ends_well=promises.announced_in_the_end,
    ),
    Setup(
        "drivers", "two drivers of a batch meet at the table", DRIVERS, states.with_table, ends_well=promises.decided
    ),
    Setup(
        "replaced",
        "drivers of two batches, with two versions of an object, meet at the table",
        REPLACING,
        states.corrected,
        safe=promises.one_version,
        ends_well=promises.the_latest,
    ),
    Setup(
        "the same bytes",
        "drivers of two batches, with two versions that have the same bytes, meet at the table",
        SKIPPING,
        states.corrected,
        safe=promises.one_version,
        ends_well=promises.one_of_the_same_bytes,
    ),
    Setup(
        "reloaded in the table",
        "two drivers of a batch that reloads an upload, and a zombie of the one that brought it, meet at the table",
        (act.driver("d", 1, LATER), act.driver("e", 2, LATER), act.driver("f", 3, BATCH)),
        states.reloaded,
        safe=promises.one_row,
        ends_well=promises.one_row_of_the_later_batch,
    ),
    Setup(
        "marked as deleted",
        "an object is deleted, and the drivers of its batch and of the deletion's meet at the table",
        REMOVING,
        states.corrected,
        ends_well=promises.nothing_is_left,
    ),
    Setup(
        "rejected",
        "two drivers of a batch with rows that do not fit meet at its two tables",
        SETTING_ASIDE,
        states.with_both_tables,
        safe=promises.rejected_with_the_batch,
        ends_well=promises.decided_with_rejected,
    ),
    Setup(
        "rejected, fenced",
        "a driver of a batch with rows that do not fit and a fence meet at its two tables",
        (SETTING_ASIDE[0], FENCE),
        states.with_both_tables,
        safe=promises.rejected_with_the_batch,
        ends_well=promises.decided_with_rejected,
    ),
    Setup(
        "fenced",
        "a driver and a fence meet at the table",
        (DRIVERS[0], FENCE),
        states.with_table,
        ends_well=promises.decided,
    ),
    # ---- minutes
    Setup(
        "twins, sealed",
        "twins, a notice that shares an upload, and sealing",
        (*TWINS, act.sealing("s")),
        ends_well=promises.every_upload_joins((A, B), {"de": FIRST, "f": SECOND}),
        large=True,
    ),
    Setup(
        "sealed, twice",
        "a batch is sealed and handed off, twice at once, while one more notice joins",
        (act.delivery("d", FOURTH), act.sealing("s"), act.handing_off("h"), act.handing_off("i")),
        states.joined,
        ends_well=promises.every_upload_joins((B, C), {"d": FOURTH}),
        large=True,
    ),
    Setup(
        "voided, shared, sent",
        "the owner of an upload is voided while twins of a notice come that has it, and so does what is sent",
        (act.delivery("e", THIRD), act.delivery("f", THIRD), act.audit("v", (B,)), act.delivery_of_sent("t")),
        states.claimed,
        ends_well=promises.every_upload_joins((B, C), {"x": SECOND, "ef": THIRD}, "t", [act.audit("w", (B, C))]),
        large=True,
    ),
    Setup(
        "voided, twice",
        "a notice is voided at any moment, and what is sent is delivered twice",
        (VOIDED[0], *VOIDED[2:], act.delivery_of_sent("u")),
        ends_well=promises.every_upload_joins((B,), {"d": SECOND}, "tu", [act.audit("w", (B,))]),
        large=True,
    ),
    Setup(
        "drivers and a fence",
        "two drivers of a batch and a fence meet at the table",
        (*DRIVERS, FENCE),
        states.with_table,
        ends_well=promises.decided,
        large=True,
    ),
)
