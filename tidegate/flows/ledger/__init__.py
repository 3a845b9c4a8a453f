"""The ledger: decisions 1 and 2 and the life of batches, on a store.

Each method that writes applies a transition of `tidegate.core.transitions` and returns its result. Every method may
raise Retryable or OutcomeUnknown. To call it again with the same arguments is always safe: if a transition was applied
and its answer was lost, the stored item shows it.

Reads are consistent, because a decision follows most of them. Expired items count as absent, even if the store still
has them (rule 5).
"""

from dataclasses import dataclass

from tidegate.flows.ledger.afterwards import Afterwards
from tidegate.flows.ledger.audits import LedgerAudits
from tidegate.flows.ledger.batches import LedgerBatches
from tidegate.flows.ledger.claiming import Claimed, Claiming, Registration
from tidegate.flows.ledger.index import LedgerIndex
from tidegate.flows.ledger.records import CLOCKS
from tidegate.flows.ledger.workers import LedgerWorkers

__all__ = ["CLOCKS", "Claimed", "Ledger", "Registration"]


@dataclass(frozen=True)
class Ledger(Claiming, LedgerBatches, LedgerWorkers, Afterwards, LedgerAudits, LedgerIndex):
    """All of it, on one store."""
