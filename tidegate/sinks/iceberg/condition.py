"""The condition of decision 3, inside Iceberg's commit."""

from typing import Any

from tidegate.core.publication import Floor, History, NotPublished, Verdict, down_to, verdict
from tidegate.flows.sink import SeenVersion, require_seen
from tidegate.sinks.iceberg.ancestry import ancestry


class CommitCondition:
    """`org.apache.iceberg.SnapshotAncestryValidator`: called on each try of a commit, with the ancestors of the head
    that the try is based on. Py4J proxies default methods too, so both are here."""

    def __init__(
        self, jvm: Any, table: str, table_uuid: str, batch_id: str, floor: Floor, seen: SeenVersion | None
    ) -> None:
        self._jvm = jvm
        self._table = table
        self._table_uuid = table_uuid
        self._batch_id = batch_id
        self._floor = floor
        self._seen = seen
        self.verdict: Verdict | None = None
        self.error: Exception | None = None

    def validate(self, ancestors: Any) -> bool:
        self.verdict = self.error = None
        try:
            read = ancestry(self._jvm).read(ancestors.iterator())
            found = down_to(self._floor, (each.plain for each in read))
            # a commit is based on the table that was loaded: Iceberg refuses one whose uuid has changed
            told = verdict(History(self._table_uuid, found), self._batch_id, self._floor)
            if isinstance(told, NotPublished):
                require_seen(self._seen, found, self._table)
            self.verdict = told
        except Exception as error:  # an exception from here would reach the JVM as text
            self.error = error
        return isinstance(self.verdict, NotPublished)

    def errorMessage(self) -> str:  # noqa: N802
        return str(self.error or self.verdict)

    class Java:
        implements = ["org.apache.iceberg.SnapshotAncestryValidator"]  # noqa: RUF012
