"""Of which uploads a table has rows now, of whichever batch.

A batch that has let go of its uploads need not have been the first to land them: rows of an earlier batch were deleted,
the uploads were loaded once more, and then the table was rolled back to before the deletion.
"""

import os.path
from collections.abc import Iterable

from tidegate.core.uploads import Upload
from tidegate.flows.ports import Ports


def rows_there(table: str, uploads: Iterable[Upload], ports: Ports) -> frozenset[tuple[str, str, str]]:
    """The identities of those of the uploads of which the table has rows. A job reads that, unless there are none.

    Memory holds the uploads. Raises as `flows.ports.Lineage`."""
    wanted = {each.identity for each in uploads}
    if not wanted:
        return frozenset()
    uris = [f"s3://{bucket}/{key}" for bucket, key, _ in wanted]
    # by characters, as the prefix of a listing is
    _, landed = ports.lineage.with_history(table, os.path.commonprefix(uris))  # noqa: RUF071
    return frozenset(each.identity for each in landed if each.identity in wanted)
