"""The content of a batch: its parts, one for each notice, and the sealed list of them.

In the batch's folder of the work bucket:

    parts/<notice>-<hash>.jsonl.gz   the uploads that one notice claimed
    sealed.json                      the parts that count, and a digest of them
    floor.json                       where the table stood before the first attempt
    floor-<n>.json                   the same, after a person decided for the nth time that the batch is not in it
    outcomes/<staged snapshot>.jsonl.gz
    failures/<attempt>.json          why an attempt gave up, for settling and for people
    receipt.json                     the table's decision
    removed.json                     rows of the batch are gone, and it never brings them again
"""

import gzip
import hashlib
import heapq
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tidegate.core.errors import Rejected
from tidegate.core.uploads import Upload
from tidegate.core.versions import check_version

VERSION = 1


@dataclass(frozen=True, slots=True)
class Part:
    """The uploads that one notice claimed, as a file: its name and its bytes.

    The name contains the hash of the uncompressed content. Each writer of this part writes the same bytes. A twin that
    claimed other uploads writes another file. `size` is the bytes of all uploads together.
    """

    name: str
    body: bytes
    objects: int
    size: int


@dataclass(frozen=True, slots=True)
class Sealed:
    """The manifest of a sealed batch: which parts count, and their sums.

    `table` was decided when the batch was sealed. It is here for a ledger that is rebuilt, and is no part of the
    digest.
    """

    batch: str
    route: str
    parts: tuple[str, ...]
    objects: int
    size: int
    table: str = ""

    @property
    def digest(self) -> str:
        """The digest of the parts and their sums. What lists other parts under the same batch id has another digest."""
        content = json.dumps([self.batch, sorted(self.parts), self.objects, self.size])
        return hashlib.sha256(content.encode()).hexdigest()[:32]

    def encode(self) -> bytes:
        return json.dumps(
            {
                "v": VERSION,
                "batch": self.batch,
                "route": self.route,
                "table": self.table,
                "parts": list(self.parts),
                "objects": self.objects,
                "bytes": self.size,
                "digest": self.digest,
            },
            indent=1,
        ).encode()


@dataclass(frozen=True, slots=True)
class OwnedUpload:
    """One upload of a batch, and the notice that owns it. `again`: it may have been in the table before, so the job
    looks there (`flows.publish.Attempt.stage`). `reloads`: what is there gives way to what its file gives now."""

    notice: str
    upload: Upload
    again: bool = False
    reloads: bool = False


def decode_sealed(body: bytes) -> Sealed:
    """Raises Rejected if newer code wrote it, or if its digest does not match its content."""
    data = json.loads(body)
    check_version(data["v"], "sealed.json", VERSION)
    sealed = Sealed(data["batch"], data["route"], tuple(data["parts"]), data["objects"], data["bytes"], data["table"])
    if data["digest"] != sealed.digest:
        raise Rejected(f"sealed.json of batch {sealed.batch} was changed after it was written: its digest differs")
    return sealed


BATCHES = "batches/"


def batch_folder(batch_id: str) -> str:
    return f"{BATCHES}{batch_id}/"


def removed_name(batch_id: str) -> str:
    """The file that says what `Batch.rows_removed` says: a ledger that is built anew reads it."""
    return batch_folder(batch_id) + "removed.json"


REMOVED = json.dumps({"v": VERSION}).encode()


def floor_name(number: int) -> str:
    """The file of the floor after a person decided `number` times that the batch is not in the table."""
    return f"floor-{number}.json" if number else "floor.json"


REJECTED_FLOORS = "rejected-floor-"


def rejected_floor_name(table_uuid: str) -> str:
    """The file of the floor in the table of rejected rows that has this uuid."""
    return f"{REJECTED_FLOORS}{table_uuid}.json"


def outcomes_name(folder: str, staged: int) -> str:
    """The file of the outcomes of a staged snapshot of the batch of `folder`."""
    return f"{folder}outcomes/{staged}.jsonl.gz"


def failure_name(folder: str, attempt: int | str) -> str:
    """The file in which this attempt (or run of another name) of the batch of `folder` reports why it gave up."""
    return f"{folder}failures/{attempt}.json"


def make_part(
    notice_id: str, bucket: str, uploads: Iterable[Upload], *, again: bool = False, reloads: bool = False
) -> Part:
    """`again` and `reloads` as in `OwnedUpload`, of all of them."""
    ordered = sorted(uploads, key=lambda each: each.identity)
    said = {name: 1 for name, is_said in (("again", again), ("reloads", reloads)) if is_said}
    lines = [json.dumps({"v": VERSION, "notice": notice_id, "bucket": bucket, **said})]
    lines += [json.dumps([each.key, each.version, each.size, each.sequencer]) for each in ordered]
    content = ("\n".join(lines) + "\n").encode()
    digest = hashlib.sha256(content).hexdigest()[:16]
    return Part(
        name=f"parts/{notice_id}-{digest}.jsonl.gz",
        body=gzip.compress(content, mtime=0),
        objects=len(ordered),
        size=sum(each.size for each in ordered),
    )


def decode_part(body: bytes) -> list[OwnedUpload]:
    header, *lines = gzip.decompress(body).decode().splitlines()
    about = json.loads(header)
    check_version(about["v"], "a part", VERSION)
    notice, bucket, said = about["notice"], about["bucket"], ("again" in about, "reloads" in about)
    # one call for all lines takes half the time of one for each
    return [OwnedUpload(notice, Upload(bucket, *fields), *said) for fields in json.loads(f"[{','.join(lines)}]")]


def pack_tasks(items: Sequence[OwnedUpload], tasks: Sequence[Sequence[int]]) -> list[bytes]:
    """The uploads of each task with their positions in `items`, as bytes for its executor. A process that has all tasks
    then holds some 200 bytes for an upload, and makes objects of its own tasks only."""
    packed = []
    for task in tasks:
        fields = [
            (position, item.notice, each.bucket, each.key, each.version, each.size, each.sequencer, each.at)
            for position, item, each in ((position, items[position], items[position].upload) for position in task)
        ]
        packed.append(json.dumps(fields, separators=(",", ":")).encode())
    return packed


def unpack_task(packed: bytes) -> list[tuple[int, OwnedUpload]]:
    """What `pack_tasks` made of one task."""
    return [(position, OwnedUpload(notice, Upload(*fields))) for position, notice, *fields in json.loads(packed)]


def notice_of_part(name: str) -> str:
    """The notice that a part's name (as in `Part.name`) belongs to."""
    return name.removeprefix("parts/").split("-", 1)[0]


def bin_pack(sizes: Sequence[int], *, parallelism: int, task_bytes: int, task_objects: int) -> list[list[int]]:
    """The positions in `sizes` (bytes), grouped into tasks of about equal weight: largest first, each to the lightest.

    A small object costs a request more than its bytes, so each weighs at least `task_bytes / task_objects`.
    There are enough tasks for `parallelism` slots, and more if a task would exceed its bounds: then as many for each
    slot, because three on two slots take as long as four. An object of more than `task_bytes` is a task of its own.
    These come first, because they take longest.
    """
    large = sorted((at for at, size in enumerate(sizes) if size > task_bytes), key=lambda at: -sizes[at])
    small = [at for at, size in enumerate(sizes) if size <= task_bytes]
    slots = max(1, parallelism - len(large))
    shared = _share_out([sizes[at] for at in small], slots, task_bytes, task_objects)
    return [[at] for at in large] + [[small[number] for number in task] for task in shared]


def _share_out(sizes: Sequence[int], parallelism: int, task_bytes: int, task_objects: int) -> list[list[int]]:
    if not sizes:
        return []
    lightest = max(1, task_bytes // task_objects)
    weights = [max(lightest, size) for size in sizes]
    rounds = max(1, -(-sum(weights) // (task_bytes * parallelism)))
    count = min(len(sizes), rounds * parallelism)
    tasks: list[list[int]] = [[] for _ in range(count)]
    heap = [(0, number) for number in range(count)]
    for position in sorted(range(len(sizes)), key=lambda each: -weights[each]):
        weight, number = heapq.heappop(heap)
        tasks[number].append(position)
        heapq.heappush(heap, (weight + weights[position], number))
    return [sorted(task) for task in tasks]
