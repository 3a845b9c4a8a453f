"""How places are watched, and their audits."""

from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.core import transitions
from tidegate.core.audit import AuditRun
from tidegate.core.records import (
    AUDITS,
    audit_key,
    decode_audit,
)
from tidegate.core.routes import Place
from tidegate.flows.ledger.records import LedgerRecords


@dataclass(frozen=True)
class LedgerAudits(LedgerRecords):
    def audits(self) -> Sequence[AuditRun]:
        """How each place is watched, and its scheduled audit that began last. One that was left is among them for as
        long as an audit may look at it."""
        items = self.store.query(AUDITS, "how places are watched")
        return [decode_audit(item) for item in items if self._live(item)]

    def audit(self, place: Place, number: int = 1) -> AuditRun | None:
        """One of them."""
        item = self._live(self.store.get(audit_key(place, number)))
        return decode_audit(item) if item else None

    def begin_watch(self, run: AuditRun) -> bool:
        """Watch a place from now on: `run` is its first one. False if another process did."""
        return self._applied(transitions.begin_watch(run, self.clock()))

    def end_watch(self, run: AuditRun, at: int, horizon: int) -> bool:
        """No route takes the place any more, since `at`. It is forgotten after `horizon` (seconds), when no audit may
        look at anything of it. False if that was noted already."""
        return self._applied(transitions.end_watch(run, at, at + horizon))

    def resume_watch(self, run: AuditRun) -> bool:
        """A place that was left is watched as if it had not been. False if it is not as it was read."""
        return self._applied(transitions.resume_watch(run, self.clock()))

    def begin_audit(self, run: AuditRun, last: AuditRun) -> bool:
        """Begin `run` after `last`, which has ended. False if another process did."""
        return self._applied(transitions.begin_audit(run, last))

    def note_audit(self, run: AuditRun) -> bool:
        """Note that the run has done one more page. False if another process did, or if another run has begun."""
        return self._applied(transitions.note_audit(run))

    def note_screening(self, run: AuditRun) -> bool:
        """Note the job that screens the bucket for the run. False if another process noted one, or if the run has
        pages, or another one has begun."""
        return self._applied(transitions.note_screening(run))

    def give_up_audit(self, run: AuditRun) -> bool:
        """End the run without its findings: the next one begins where it did. False if it is not as it was read."""
        return self._applied(transitions.give_up_audit(run, self.clock()))
