"""Whether another table's files are in a table's folder.

A catalog gives a table the folder of its name. Whoever renames a table, or drops it without its files, leaves them
there, and a table that is created anew under the old name gets the same folder. To Iceberg's orphan removal every file
that this table does not name is an orphan: also all files of the other one.

A table cannot be without metadata, and its metadata has its uuid. So the metadata files that this table does not name
are read, until one is of another uuid.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from py4j.java_gateway import is_instance_of
from py4j.protocol import Py4JJavaError

ENDINGS = (".metadata.json", ".metadata.json.gz")
PAGE = 1_000
"""Names that one call of the JVM returns."""
FORGETS = "write.metadata.delete-after-commit.enabled"
"""A table that has this true deletes what its current metadata no longer lists. The earlier lists name nothing more
that is there, and Iceberg logs each that it cannot read."""
NOT_FOUND = "org.apache.iceberg.exceptions.NotFoundException"


@dataclass(frozen=True, slots=True)
class OtherTable:
    """A table that is not this one, and a metadata file of it in this one's folder."""

    uuid: str
    file: str


def other_table(jvm: Any, gateway: Any, table: Any) -> OtherTable | None:
    """Another table whose metadata is beside that of `table` (a Java `Table`); None if there is none. It lists the
    folder of the metadata, and reads the metadata files that the table does not name. There are few: what a commit has
    written that failed."""
    iceberg = jvm.org.apache.iceberg
    mine = str(table.uuid())
    earlier = str(table.properties().getOrDefault(FORGETS, "false")).lower() != "true"
    listed = iceberg.ReachableFileUtil.metadataFileLocations(table, earlier)
    known = {_base(each) for each in _texts(jvm, listed.stream())}
    for location in _listed(jvm, table):
        if not location.endswith(ENDINGS) or _base(location) in known:
            continue
        try:
            uuid = str(iceberg.TableMetadataParser.read(table.io(), location).uuid())
        except Py4JJavaError as error:
            # deleted since it was listed
            if is_instance_of(gateway, error.java_exception, NOT_FOUND):
                continue
            raise
        if uuid != mine:
            return OtherTable(uuid, location)
    return None


def _listed(jvm: Any, table: Any) -> Iterator[str]:
    """The files beside the table's current metadata."""
    folder = str(table.operations().current().metadataFileLocation()).rpartition("/")[0]
    files = table.io().listPrefix(folder + "/").iterator()
    invoke = jvm.java.lang.invoke
    location = invoke.MethodHandles.publicLookup().findVirtual(
        jvm.org.apache.iceberg.io.FileInfo._java_lang_class,
        "location",
        invoke.MethodType.methodType(jvm.java.lang.String._java_lang_class),
    )
    function = invoke.MethodHandleProxies.asInterfaceInstance(
        jvm.java.util.function.Function._java_lang_class, location
    )
    spliterator = jvm.java.util.Spliterators.spliteratorUnknownSize
    while True:
        stream = jvm.java.util.stream.StreamSupport.stream(spliterator(files, 0), False)
        page = _texts(jvm, stream.limit(PAGE).map(function))
        yield from page
        if len(page) < PAGE:
            return


def _texts(jvm: Any, stream: Any) -> list[str]:
    """A Java stream of texts, none of which has a line break, in one call."""
    joined = str(stream.collect(jvm.java.util.stream.Collectors.joining("\n")))
    return joined.split("\n") if joined else []


def _base(location: str) -> str:
    return location.rpartition("/")[2]
