"""The mischief that S3, its users and strangers make, planned beforehand, so that every count is predicted."""

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote_plus

from tidegate.core.outcomes import Tally

REPEATED = 0.03
"""The share of uploads whose notification is delivered more than once."""

GARBAGE = '{"Records": [{"s3": this is what a stranger with the queue\'s address sends'


@dataclass(frozen=True, slots=True)
class Mischief:
    """Which key meets which fate. No key meets two."""

    seed: int
    keys: tuple[str, ...]
    at_once: frozenset[str]
    """Notified twice, the second time right after the first."""
    three_times: frozenset[str]
    """Notified three times: at first, right after, and when everything has been uploaded."""
    late: frozenset[str]
    """Notified again when everything has been committed."""
    overwritten: str
    deleted: str
    corrupt: str

    @property
    def uploads(self) -> int:
        """How many uploads are notified: one for each key, and one more for the key that is overwritten."""
        return len(self.keys) + 1

    @property
    def expected(self) -> Tally:
        """How the uploads must end; the rows are counted from the source."""
        lost = Tally(quarantined=1, superseded=1, vanished=1)
        return Tally(committed=self.uploads - lost.uploads) + lost

    @property
    def committed_keys(self) -> tuple[str, ...]:
        """The keys whose rows must be in the table."""
        return tuple(key for key in self.keys if key not in (self.deleted, self.corrupt))

    @property
    def copies(self) -> int:
        """How many notifications are sent in excess."""
        return len(self.at_once) + 2 * len(self.three_times) + len(self.late)

    @property
    def upload_order(self) -> tuple[str, ...]:
        """The two keys that change before they are read come first: no job can be running yet."""
        first = (self.overwritten, self.deleted)
        return (*first, *(key for key in self.keys if key not in first))

    def describe(self) -> list[str]:
        """The plan in words, a line each."""
        return [
            f"{len(self.at_once)} notifications delivered twice, at once",
            f"{len(self.three_times)} delivered three times",
            f"{len(self.late)} delivered again after everything is committed",
            f"overwritten before it is read: {self.overwritten}",
            f"deleted before it is read: {self.deleted}",
            f"broken off in the middle: {self.corrupt}",
            "one message that is no notification at all",
        ]


def plan(keys: Sequence[str], seed: int) -> Mischief:
    """The same plan for the same keys and seed. Raises ValueError if there are too few keys for it."""
    repeated = round(REPEATED * len(keys))
    if repeated < 3:
        raise ValueError(f"{len(keys)} objects are too few: {REPEATED:.0%} of them is less than one of each kind")
    chosen = random.Random(seed).sample(list(keys), repeated + 3)
    third = repeated // 3
    return Mischief(
        seed=seed,
        keys=tuple(keys),
        at_once=frozenset(chosen[:third]),
        three_times=frozenset(chosen[third : 2 * third]),
        late=frozenset(chosen[2 * third : repeated]),
        overwritten=chosen[-3],
        deleted=chosen[-2],
        corrupt=chosen[-1],
    )


def notification(bucket: str, key: str, *, etag: str, size: int) -> str:
    """What S3 sends for an upload to an unversioned bucket, with the key encoded as S3 does."""
    record = {
        "eventVersion": "2.1",
        "eventSource": "aws:s3",
        "awsRegion": "us-east-1",
        "eventName": "ObjectCreated:Put",
        "responseElements": {"x-amz-request-id": "repeated", "x-amz-id-2": "repeated"},
        "s3": {
            "s3SchemaVersion": "1.0",
            "bucket": {"name": bucket, "arn": f"arn:aws:s3:::{bucket}"},
            "object": {"key": quote_plus(key, safe="/"), "size": size, "eTag": etag},
        },
    }
    return json.dumps({"Records": [record]})
