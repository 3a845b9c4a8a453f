"""What has left the tables for rows of later versions, and for deletions (`flows.replacing`): a comparison with the
ledger counts it with what is held."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from functools import cached_property

from tidegate.core.publication import History
from tidegate.core.reconcile import NOTHING_HELD, Holding
from tidegate.core.replacing import HeldRows
from tidegate.flows.outcomes import published_outcomes, staged_outcomes
from tidegate.flows.ports import Work

Taken = dict[str, dict[tuple[str, str], int]]
"""By batch, how many rows of which versions (uri, version) have left a table."""


@dataclass(frozen=True, slots=True)
class CommittedBatch:
    """What the ledger has of a committed batch."""

    route: str
    table: str
    held: Holding
    sent_again: bool = False
    goes_to: str = ""
    present: bool = False
    """Whether uploads of it were in the table already."""
    replaced: bool = False
    """Whether rows left the table for its rows."""


@dataclass
class ReplacedRows:
    """`expected` are the committed batches, `held` what the tables have, by table and batch."""

    work: Work
    expected: Mapping[str, CommittedBatch]
    held: Mapping[str, Mapping[str, Holding]]
    histories: Mapping[str, History]
    _taken: dict[str, tuple[HeldRows, ...]] = field(default_factory=dict)

    @property
    def gave_way(self) -> Mapping[tuple[str, str], Holding]:
        """By table and batch, what has left the table for rows of later versions (`flows.replacing`). It counts with
        what is held. Who took it has recorded that in its outcomes, before it was published; a rollback past that
        publication has brought it back."""
        return self._told[0]

    @property
    def undone(self) -> frozenset[str]:
        """The batches that took rows away and brought none, such as deletions, where the table has got those back."""
        return self._told[1]

    @cached_property
    def _told(self) -> tuple[Mapping[tuple[str, str], Holding], frozenset[str]]:
        gave_way: dict[tuple[str, str], Holding] = {}
        undone: frozenset[str] = frozenset()
        for table, history in self.histories.items():
            found: Taken = defaultdict(dict)
            published = {batch: each.source for each in history.ancestors for batch in each.publishes if each.removes}
            for each in published.items():
                outcomes = staged_outcomes(*each, self.work)
                _note(found, outcomes.replaced if outcomes else ())
            said = {batch for each in history.ancestors for batch in each.publishes}
            # whose snapshot is in the history no more is in the table all the same, if its rows are, or were replaced
            mine = {each: of for each, of in self.expected.items() if of.table == table and not of.sent_again}
            left = {each for each, of in mine.items() if of.replaced and of.held.rows} - published.keys()
            left -= self._spread(table, found, left)
            empty = {each for each, of in mine.items() if of.replaced and not of.held.rows} - said
            back = self._back(table, found, empty)
            for batch_id in empty - back:
                _note(found, self._taken_by(batch_id))
            self._spread(table, found, left)
            gave_way |= {(table, batch): Holding(len(rows), sum(rows.values())) for batch, rows in found.items()}
            undone |= back
        return gave_way, undone

    def _spread(self, table: str, found: Taken, left: Set[str]) -> Set[str]:
        """Note what those took whose rows are there, or have given way. Returns them."""
        done: set[str] = set()
        while there := {each for each in left - done if each in self.held[table] or each in found}:
            for each in there:
                _note(found, self._taken_by(each))
            done |= there
        return done

    def _back(self, table: str, found: Taken, empty: Set[str]) -> frozenset[str]:
        """Those of the batches without rows for which nothing is missing any more. A rollback takes the latest."""
        took: dict[str, Counter[str]] = defaultdict(Counter)
        for batch_id in sorted(empty):
            for each in self._taken_by(batch_id):
                took[each.batch][batch_id] += each.rows
        stays: set[str] = set()
        for batch, of_each in took.items():
            rows = self.expected[batch].held.rows if batch in self.expected else 0
            missing = rows - self.held[table].get(batch, NOTHING_HELD).rows - sum(found[batch].values())
            for batch_id, number in of_each.items():
                if batch not in self.expected or number <= missing:
                    missing -= number
                    stays.add(batch_id)
        return frozenset({each for of_each in took.values() for each in of_each} - stays)

    def _taken_by(self, batch_id: str) -> tuple[HeldRows, ...]:
        """What left its table for a batch. It is read once."""
        if batch_id not in self._taken:
            outcomes = published_outcomes(batch_id, self.work)
            self._taken[batch_id] = outcomes.replaced if outcomes else ()
        return self._taken[batch_id]


def _note(found: Taken, rows: Iterable[HeldRows]) -> None:
    for each in rows:
        found[each.batch][each.uri, each.version] = each.rows
