"""The ancestors of a snapshot, read from the JVM a page at a time.

A call of the JVM from Python costs a round trip, so reading snapshots one by one costs as much as there are snapshots.
Here a page of them is one JSON text, made in the JVM by a Java stream: `SnapshotParser.toJson` of each, joined. The
stream needs a `java.util.function.Function`. `java.lang.invoke.MethodHandleProxies` makes one of a public method, so
nothing is called back and no jar is added. Only public methods of Java and of Iceberg (1.11.0) are used:
`SnapshotParser.toJson`, `SnapshotUtil.ancestorsOf`, `TableMetadata.snapshot`.

A page costs five calls, and a reading eleven more (`tests/spark/test_ancestry.py`). 100,000 snapshots take 511 calls;
one by one, with seven each, they took 26 times as long. To load the table still parses all of its metadata.
"""

import json
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from tidegate.sinks.iceberg.marks import IcebergSnapshot

FIRST_PAGE = 32
"""Snapshots in the first page: as a rule the floor is among the latest."""
PAGE = 1_000
"""Snapshots in each page after the first. A snapshot's JSON has about 1 KB."""


class Ancestry:
    """Reads ancestors through this JVM (`pyspark`'s view of it). It keeps three Java objects, and no table."""

    def __init__(self, jvm: Any) -> None:
        self._jvm = jvm
        invoke = jvm.java.lang.invoke
        handles, method_type = invoke.MethodHandles, invoke.MethodType.methodType
        snapshot = jvm.org.apache.iceberg.Snapshot._java_lang_class
        to_json = handles.publicLookup().findStatic(
            jvm.org.apache.iceberg.SnapshotParser._java_lang_class,
            "toJson",
            method_type(jvm.java.lang.String._java_lang_class, snapshot),
        )
        self._lookup = handles.publicLookup().findVirtual(
            jvm.org.apache.iceberg.TableMetadata._java_lang_class,
            "snapshot",
            method_type(snapshot, jvm.java.lang.Long.TYPE),
        )
        self._as_function = invoke.MethodHandleProxies.asInterfaceInstance
        self._function = jvm.java.util.function.Function._java_lang_class
        self._to_json = self._as_function(self._function, to_json)
        self._joined = jvm.java.util.stream.Collectors.joining(",", "[", "]")
        self._ancestors_of = jvm.org.apache.iceberg.util.SnapshotUtil.ancestorsOf
        self._spliterator = jvm.java.util.Spliterators.spliteratorUnknownSize
        self._stream = jvm.java.util.stream.StreamSupport.stream

    def of_main(self, metadata: Any) -> Iterator[IcebergSnapshot]:
        """The head of `main` in this `TableMetadata`, then its ancestors. Later changes of the table are not seen."""
        head = metadata.currentSnapshot()
        if head is None:
            return iter(())
        lookup = self._as_function(self._function, self._lookup.bindTo(metadata))
        return self.read(self._ancestors_of(head.snapshotId(), lookup).iterator())

    def read(self, snapshots: Any) -> Iterator[IcebergSnapshot]:
        """What is left of this `java.util.Iterator` of snapshots. Who stops early has read a page at most too many."""
        size = FIRST_PAGE
        while True:
            # a stream takes no more from the iterator than its limit
            stream = self._stream(self._spliterator(snapshots, 0), False)
            page = json.loads(stream.limit(size).map(self._to_json).collect(self._joined))
            for told in page:
                yield stored(told)
            if len(page) < size:
                return
            size = PAGE


@lru_cache(maxsize=1)
def ancestry(jvm: Any) -> Ancestry:
    """One for each JVM: to look its classes up costs some fifty calls."""
    return Ancestry(jvm)


def stored(told: dict[str, Any]) -> IcebergSnapshot:
    """A snapshot from Iceberg's own JSON of it."""
    summary = told.get("summary", {})
    return IcebergSnapshot(int(told["snapshot-id"]), told.get("parent-snapshot-id"), summary, int(told["timestamp-ms"]))
