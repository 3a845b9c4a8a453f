"""What is written stays readable, and what newer code wrote is not misread. From the first release on, the files are
never changed."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tidegate.core.errors import Rejected, Retryable
from tidegate.core.manifests import OwnedUpload, Sealed, decode_part, decode_sealed
from tidegate.core.notices import Entry, decode
from tidegate.core.outcomes import Outcome, Tally
from tidegate.core.publication import Floor
from tidegate.core.receipts import (
    Ending,
    Failure,
    Outcomes,
    Receipt,
    RejectedRows,
    decode_failure,
    decode_floor,
    decode_outcomes,
    decode_receipt,
)
from tidegate.core.records import VERSION, decode_batch, decode_claim, decode_notice, decode_standing
from tidegate.core.uploads import Upload
from tidegate.core.versions import check_version

WIRE = Path(__file__).parents[1] / "wire"
NOTICE = "5c99eb67e7cd1a5f1b22a4fc60beba41d8706ffb"
VERSIONED = Upload(
    "landing", "flights/2013/01 a+b.json", "096fKKXTRTtl3on89fVO.nfljtsv6qko", 4096, "0055AED6DCD90281E5"
)
PLAIN = Upload("landing", "flights/é.json", "etag:9bb58f26192e4ba00f01e2e7b136bbd8", 17)
TABLE = "lake.raw.flights"
STAGED = 8070450532247928832
TALLY = Tally(committed=1, quarantined=1, rows=12)


def stored(name: str) -> bytes:
    """As it lies in the work bucket: lines are compressed there."""
    body = (WIRE / name).read_bytes()
    return gzip.compress(body) if name.endswith(".jsonl") else body


def test_a_notice_is_read():
    text = (WIRE / "notice_v1.json").read_text()
    found = decode(text)
    assert (found.id, found.route, found.bucket, found.origin) == (NOTICE, "flights", "landing", "again")
    assert found.entries == (Entry(VERSIONED), Entry(PLAIN, "a" * 40))
    # delivered again, set aside and moved back, it is still the same text
    assert found.encode() + "\n" == text


FILES: list[tuple[str, Callable[[bytes], Any], Any]] = [
    ("part_v1.jsonl", decode_part, [OwnedUpload(NOTICE, VERSIONED), OwnedUpload(NOTICE, PLAIN)]),
    (
        "sealed_v1.json",
        decode_sealed,
        Sealed("01JABCDEFGHJKMNPQRSTVWXYZ0", "flights", (f"parts/{NOTICE}-94ad0564f7c89957.jsonl.gz",), 2, 4113, TABLE),
    ),
    (
        "outcomes_v1.jsonl",
        decode_outcomes,
        Outcomes(
            STAGED,
            False,
            Tally(committed=1, quarantined=1, rows=12, rejected=2),
            (Ending(NOTICE, "landing", "flights/é.json", PLAIN.version, Outcome.QUARANTINED, "line 3: no JSON"),),
            "9f2c",
            ((12, 0),),
            RejectedRows("lake.raw.flights__rejected", "f79c3e09-677c-4bbd-a479-3f349cb785e7", 5938491829130234512, 2),
            ((2, 0),),
        ),
    ),
    (
        "receipt_v1.json",
        decode_receipt,
        Receipt("01JABCDEFGHJKMNPQRSTVWXYZ0", STAGED + 1, STAGED, False, TALLY),
    ),
    ("failure_v1.json", decode_failure, Failure(2, "table lake.raw.flights has no column day", True)),
    ("floor_v1.json", decode_floor, Floor("f79c3e09-677c-4bbd-a479-3f349cb785e7", None)),
]


CALLED = {
    "part_v1.jsonl": "a part",
    "sealed_v1.json": "sealed.json",
    "outcomes_v1.jsonl": "a file of outcomes",
    "receipt_v1.json": "receipt.json",
    "failure_v1.json": "the report of a failed attempt",
    "floor_v1.json": "floor.json",
}
"""What whoever meets another version is told that it is of."""


@pytest.mark.parametrize(("name", "read", "expected"), FILES)
def test_a_file_of_each_version_is_read(name: str, read: Callable[[bytes], Any], expected: Any):
    assert read(stored(name)) == expected


def test_every_file_is_read_by_some_test():
    assert {path.name for path in WIRE.iterdir()} == {"notice_v1.json", *(name for name, *_ in FILES)}


@pytest.mark.parametrize(("name", "read", "expected"), FILES)
@pytest.mark.parametrize("version", [2, 0, "1", None, True])
def test_a_file_of_another_version_is_not_misread(name: str, read: Callable[[bytes], Any], expected: Any, version: Any):
    header, *lines = (WIRE / name).read_text().splitlines() if name.endswith("l") else [(WIRE / name).read_text()]
    body = "\n".join([json.dumps({**json.loads(header), "v": version}), *lines]).encode()
    advice = ": newer code wrote it, deploy that" if version == 2 else ""
    with pytest.raises(Rejected, match=f"^{CALLED[name]} has version {version!r}; this code reads 1{advice}$"):
        read(gzip.compress(body) if name.endswith(".jsonl") else body)


def test_whoever_meets_newer_writing_is_told_what_to_do():
    with pytest.raises(
        Rejected, match=r"receipt\.json has version 3; this code reads 2: newer code wrote it, deploy that"
    ):
        check_version(3, "receipt.json", 2)
    check_version(1, "receipt.json", 2)


# ---- the ledger's records, as DynamoDB hands them out

RECORDS: list[tuple[Callable[[dict[str, Any]], Any], dict[str, Any]]] = [
    (decode_claim, {"pk": "o#1", "sk": "v1", "v": 1, "notice": "n", "claimed_at": 1, "expires_at": 2}),
    (decode_notice, {"pk": "n#1", "sk": "notice", "v": 1, "route": "flights", "decided_at": 1, "expires_at": 2}),
    (decode_batch, {"pk": "b#1", "sk": "batch", "v": 1, "route": "flights", "state": "OPEN", "opened_at": 1}),
    (lambda item: decode_standing("flights", item), {"pk": "r#flights", "sk": "route"}),
]


@pytest.mark.parametrize(("read", "item"), RECORDS)
def test_a_record_of_each_version_is_read(read: Callable[[dict[str, Any]], Any], item: dict[str, Any]):
    assert VERSION == 1, "add the records of the new version"
    read(item)


@pytest.mark.parametrize(("read", "item"), RECORDS)
def test_a_newer_record_is_left_for_newer_code(read: Callable[[dict[str, Any]], Any], item: dict[str, Any]):
    with pytest.raises(Retryable, match=f"record {item['pk']} has version 2; .* newer code wrote it, deploy that"):
        read({**item, "v": 2})
