"""Versions of one object that have landed beside each other.

Each is an upload of its own, so a corrected file at the same key adds its rows to those of the first one
(docs/guarantee.md). A person who wants the newest only deletes the older rows.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cmp_to_key

from tidegate.core.batches import Batch
from tidegate.core.claims import Claim, in_table
from tidegate.core.uploads import is_later


@dataclass(frozen=True, slots=True)
class SeveralLanded:
    """`versions` of the object that have landed in `table`, the oldest first. `ordered`: S3 has said so. Otherwise they
    are in the order of their claims, and the bucket may have another one now: an upload that a listing has found has
    no order; nor is it recorded that an unversioned bucket has got back bytes that had landed before."""

    uri: str
    table: str
    versions: tuple[str, ...]
    ordered: bool

    @property
    def told(self) -> str:
        return (
            f"{len(self.versions)} versions of this object have landed in {self.table}: the table has the rows of each,"
            " unless somebody has deleted them"
        )

    @property
    def why(self) -> str:
        """What `delete` is for."""
        newest = self.versions[-1]
        if self.ordered:
            return f"to keep only the newest, version {newest}"
        return f"to keep only version {newest}, if the bucket has that version now"

    @property
    def delete(self) -> str:
        """A statement of Spark SQL. It names the older versions, so a version that lands meanwhile stays."""
        older = ", ".join(map(_literal, self.versions[:-1]))
        return f"DELETE FROM {self.table} WHERE _source_uri = {_literal(self.uri)} AND _source_version IN ({older})"


def several_landed(uri: str, found: Iterable[tuple[Claim, Batch | None]]) -> tuple[SeveralLanded, ...]:
    """Of each table in which two or more of the object's versions have landed. `found` are its claims, each with the
    batch of its notice."""
    landed: dict[str, list[Claim]] = defaultdict(list)
    for claim, batch in found:
        for table in landed_in(claim, batch):
            landed[table].append(claim)
    return tuple(_several(uri, table, claims) for table, claims in sorted(landed.items()) if len(claims) > 1)


def landed_in(claim: Claim, batch: Batch | None) -> frozenset[str]:
    """The table in which the upload has landed last, as far as is recorded. `batch` is that of the claim's notice. If
    some of its rows were removed and are loaded once more, the claims of those uploads move to another batch. What has
    the bytes of another version has no rows of its own."""
    has_rows = in_table(claim, batch) and not claim.same_as
    return frozenset({batch.table}) if batch and batch.table and has_rows else frozenset()


def _several(uri: str, table: str, claims: list[Claim]) -> SeveralLanded:
    known = all(claim.sequencer for claim in claims)
    by_claim = sorted(claims, key=lambda each: (each.claimed_at, each.version))
    by_put = sorted(by_claim, key=cmp_to_key(_compare)) if known else by_claim
    versions = tuple(each.version for each in by_put)
    return SeveralLanded(uri, table, versions, known and not any(each.startswith("etag:") for each in versions))


def _compare(one: Claim, other: Claim) -> int:
    return is_later(one.sequencer, other.sequencer) - is_later(other.sequencer, one.sequencer)


def _literal(text: str) -> str:
    r"""A string of Spark SQL (https://spark.apache.org/docs/latest/sql-ref-literals.html#string-literal), on one line.
    `${` would begin a variable (`spark.sql.variable.substitute` in
    https://spark.apache.org/docs/latest/configuration.html).
    """
    return "'" + "".join(map(_escaped, text)).replace("${", "\\u0024{") + "'"


def _escaped(character: str) -> str:
    if character in "'\\":
        return "\\" + character
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\u{code:04X}" if code < 0x10000 else f"\\U{code:08X}"
