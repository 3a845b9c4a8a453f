"""Files that have landed, as the rows of a table tell of them when nothing else is left."""

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase


@dataclass(frozen=True, slots=True)
class LandedFile:
    """An upload that has rows in a table, put there by one batch. `ingested_at` (epoch seconds) is when its batch was
    read. `snapshot` is 0 if the table has the batch's snapshot no more. So many `versions` of its object have rows in
    the table, with this one."""

    uri: str
    version: str
    table: str
    batch: str
    rows: int
    ingested_at: int
    snapshot: int = 0
    versions: int = 1


@dataclass(frozen=True, slots=True)
class LandedPage:
    """`after` says from where to go on, "" if there is nothing more; `unknown` what the tables do not tell; `troubles`
    which tables could not be read."""

    files: tuple[LandedFile, ...]
    after: str
    unknown: str
    troubles: tuple[str, ...] = ()


def landed_page(
    found: Iterable[LandedFile],
    *,
    key: str = "",
    since: int = 0,
    until: float = math.inf,
    skip: int = 0,
    limit: int,
    unknown: str = "",
    troubles: tuple[str, ...] = (),
) -> LandedPage:
    """Those with matching keys that were read in [since, until), the latest first, without the first `skip`."""
    found = list(found)
    versions: dict[tuple[str, str], set[str]] = defaultdict(set)
    for each in found:
        versions[each.table, each.uri].add(each.version)
    wanted = [each for each in found if since <= each.ingested_at < until and _has_key(each.uri, key)]
    wanted.sort(key=lambda each: (-each.ingested_at, each.uri, each.version, each.batch))
    page = [replace(each, versions=len(versions[each.table, each.uri])) for each in wanted[skip : skip + limit]]
    end = skip + len(page)
    return LandedPage(tuple(page), str(end) if end < len(wanted) else "", unknown, troubles)


def _has_key(uri: str, pattern: str) -> bool:
    _, _, rest = uri.partition("://")
    return not pattern or fnmatchcase(rest.partition("/")[2], pattern)
