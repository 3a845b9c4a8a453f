"""What grows with the number of uploads: time, peak memory and requests, each size in a process of its own.

    python -m bench.cases.growth KIND UPLOADS     one measurement, as JSON

`planning` reads a sealed batch from a work bucket that answers after 5 ms, and packs it into tasks as the driver does
before Spark begins. The parts are files on disk here, so they are no part of the memory. `audit` compares a bucket with
the ledger page by page. `settling` writes the endings of a batch of which 1 in 100 is quarantined; `settling, all` of
one that is quarantined as a whole. `status` is asked of a route that has committed so many.
"""

import json
import math
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench.findings import BenchFindings, BenchLimit, BenchTable, WrongAnswer
from bench.inputs import BUCKET, make_uploads
from bench.measure import peak_megabytes
from tests.support.fakes import MemoryWork, play_publishing
from tests.support.world import World, small_world
from tidegate.core.audit import AuditCounts, Listed, Marker, Window
from tidegate.core.batches import Batch, State
from tidegate.core.items import Item, Key
from tidegate.core.manifests import Sealed, batch_folder, bin_pack, make_part, pack_tasks
from tidegate.core.notices import Notice, pack
from tidegate.core.outcomes import Outcome
from tidegate.core.uploads import Upload
from tidegate.flows.audit import Look, audit_window
from tidegate.flows.ports import ListedPage
from tidegate.flows.publish import Attempt
from tidegate.flows.status import status
from tidegate.stores.memory import MemoryStore

PART = 1_000
LATENCY = 0.005
TASK_BYTES, TASK_OBJECTS = 64_000_000, 2_000
KINDS = {
    "planning": (1_000, 10_000, 100_000, 1_000_000),
    "audit": (1_000, 10_000, 100_000, 1_000_000),
    "settling": (1_000, 10_000, 100_000),
    "settling, all": (1_000, 10_000, 100_000),
    "status": (1_000, 10_000, 100_000),
}
PLANNED_MEGABYTES, PLANNED_SECONDS = 1_000, 15
LINEAR = 1.25
"""The largest exponent that counts as linear. A straight line with a fixed part has less than 1; noise adds some."""
NOISE = 0.005
"""Seconds below which a time says nothing."""


@dataclass(frozen=True, slots=True)
class Grown:
    """One measurement. `seconds` are the processor's: they do not depend on what else the machine does."""

    uploads: int
    seconds: float
    waited: float
    """Seconds on the clock."""
    megabytes: float
    requests: int


class Clocks:
    """The processor's time and the clock's, since this was made."""

    def __init__(self) -> None:
        self.began = (time.process_time(), time.perf_counter())

    def since(self, less: tuple[float, float] = (0.0, 0.0)) -> tuple[float, float]:
        now = (time.process_time(), time.perf_counter())
        return now[0] - self.began[0] - less[0], now[1] - self.began[1] - less[1]


# ---- what is asked


@dataclass
class FolderWork(MemoryWork):
    """A work bucket in a folder, which counts and takes its time. What is written stays in memory."""

    folder: Path = Path()
    wait: float = 0.0
    requests: int = 0

    def get(self, name: str) -> bytes | None:
        self.requests += 1
        if self.wait:
            time.sleep(self.wait)
        path = self.folder / name
        return path.read_bytes() if path.exists() else super().get(name)


@dataclass
class CountedStore(MemoryStore):
    """Items in memory; counts DynamoDB's requests: 100 keys to a read, one to a write."""

    requests: int = 0

    def get(self, key: Key) -> Item | None:
        self.requests += 1
        return super().get(key)

    def get_many(self, keys: Sequence[Key], what: str) -> Mapping[Key, Item]:
        self.requests += -(-len(keys) // 100)
        return super().get_many(keys, what)

    def query(self, pk: str, what: str, most: int = 0) -> Sequence[Item]:
        self.requests += 1
        return super().query(pk, what, most)

    def apply(self, transition: Any) -> Any:
        self.requests += 1
        return super().apply(transition)


# ---- planning


def sealed_folder(folder: Path, count: int) -> Sealed:
    """Write a sealed batch of so many uploads, as dispatch and seal do."""
    names = []
    for start in range(0, count, PART):
        uploads = make_uploads(min(PART, count - start), seed=start)
        uploads = [replace(each, key=f"{each.key}-{start:07}") for each in uploads]
        part = make_part(f"{start:040x}", BUCKET, uploads)
        path = folder / batch_folder("B") / part.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(part.body)
        names.append(part.name)
    sealed = Sealed("B", "events", tuple(names), count, 2_000 * count)
    path = folder / batch_folder("B") / "sealed.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(sealed.encode())
    return sealed


def planning(count: int) -> Grown:
    with tempfile.TemporaryDirectory() as name:
        # another process writes it: what it took to make the input is no part of the memory
        subprocess.run([sys.executable, "-m", __spec__.name, "input", str(count), name], check=True)
        work = FolderWork(folder=Path(name), wait=LATENCY)
        began = Clocks()
        items = Attempt(sink=None, work=work, batch="B", attempt=1).manifest()  # type: ignore[arg-type]
        sizes = [item.upload.size for item in items]
        tasks = bin_pack(sizes, parallelism=8, task_bytes=TASK_BYTES, task_objects=TASK_OBJECTS)
        shipped = pack_tasks(items, tasks)
        with (Path(name) / "broadcast").open("wb") as file:
            pickle.dump(shipped, file, pickle.HIGHEST_PROTOCOL)
        found = Grown(count, *began.since(), peak_megabytes(), work.requests)
    if sorted(position for task in tasks for position in task) != list(range(count)):
        raise WrongAnswer(f"growth: the tasks do not have each of {count} uploads once")
    return found


# ---- audit


@dataclass
class LongListing:
    """A bucket of so many uploads, listed 1,000 at a time. The ledger has the claims of a page when it is listed: each
    but for the first of a page, which is lost."""

    count: int
    store: CountedStore
    claims: Callable[[Sequence[Upload]], Mapping[Key, Item]]
    modified: int
    pages: int = 0

    def page(self, bucket: str, prefix: str, after: Marker, owner: str) -> ListedPage:
        self.pages += 1
        start = (self.pages - 1) * PART
        size = min(PART, self.count - start)
        uploads = [replace(each, key=f"events/{start:07}/{each.key}") for each in make_uploads(size, seed=start)]
        for key in [key for key in self.store.items if key.pk.startswith("o#")]:
            del self.store.items[key]
        self.store.items.update(self.claims(uploads[1:]))
        more = start + size < self.count
        last = Marker(uploads[-1].key, uploads[-1].version)
        return ListedPage(tuple(Listed(each, self.modified) for each in uploads), last if more else None)


def audit(count: int) -> Grown:
    from tidegate.core.records import claim_key

    world = small_world()
    world.arrive(1)
    (template,) = [item for key, item in world.store.items.items() if key.pk.startswith("o#")]

    def claims(uploads: Sequence[Upload]) -> Mapping[Key, Item]:
        keys = [claim_key(*each.identity) for each in uploads]
        return {key: {**template, "pk": key.pk, "sk": key.sk} for key in keys}

    store = CountedStore(world.store.items)
    world.store = store
    route = replace(world.flights, prefix="events/", suffix="")
    modified = world.clock() - 10_000
    listing = LongListing(count, store, claims, modified)
    ports = replace(world.ports, listing=listing)
    window = Window(since=0, until=world.clock(), min_age=60, horizon=45 * 24 * 3_600)
    store.requests = 0
    made = Clocks()
    for _ in range(listing_pages(count)):
        listing.page(BUCKET, "", Marker("", ""), "")
    without = made.since()
    listing.pages = 0
    began = Clocks()
    counts: AuditCounts = audit_window(route, Look("run", window), ports, pace=lambda sent: None)
    found = Grown(count, *began.since(without), peak_megabytes(), store.requests + listing.pages)
    if counts.sent != listing_pages(count) or len(world.topic.keys) != counts.sent:
        raise WrongAnswer(f"growth: the audit sent {counts.sent} of {listing_pages(count)} lost uploads")
    return found


def listing_pages(count: int) -> int:
    return -(-count // PART)


# ---- settling, and status


def submitted(count: int) -> tuple[World, CountedStore, Batch, list[Upload]]:
    """A batch of so many uploads whose job runs."""
    world = small_world(target_objects=10 * count)
    store = CountedStore()
    world.store = store
    uploads = [replace(each, key=f"flights/{each.key}") for each in make_uploads(count)]
    for start in range(0, count, PART):
        notice: Notice
        for notice in pack("flights", BUCKET, uploads[start : start + PART]):
            world.dispatch(notice)
    batch = world.open
    world.clock.advance(3_600)
    world.settle()
    batch = world.batch(batch.id)
    if batch.state is not State.SUBMITTED:
        raise WrongAnswer(f"growth: batch {batch.id} is {batch.state}, not submitted")
    return world, store, batch, uploads


def settling(count: int, one_in: int = 100) -> Grown:
    world, store, batch, uploads = submitted(count)
    ends = {each.key: (Outcome.QUARANTINED, "line 1: not JSON") for each in uploads[::one_in]}
    play_publishing(world.work, batch.id, ends)
    store.requests = 0
    began = Clocks()
    while world.batch(batch.id).state is State.SUBMITTED:
        world.settle()
    found = Grown(count, *began.since(), peak_megabytes(), store.requests)
    if world.record.tally.quarantined != len(ends):
        raise WrongAnswer(f"growth: {world.record.tally.quarantined} uploads are quarantined of {len(ends)}")
    return found


def asked_status(count: int) -> Grown:
    world, store, batch, _ = submitted(count)
    play_publishing(world.work, batch.id)
    world.settle()
    store.requests = 0
    began = Clocks()
    (said,) = status([world.flights], world.ports)
    found = Grown(count, *began.since(), peak_megabytes(), store.requests)
    if said.uploads.ended.committed != count or not said.uploads.holds:
        raise WrongAnswer(f"growth: status has {said.uploads.ended.committed} of {count} uploads")
    return found


MEASURED: Mapping[str, Callable[[int], Grown]] = {
    "planning": planning,
    "audit": audit,
    "settling": settling,
    "settling, all": lambda count: settling(count, 1),
    "status": asked_status,
}
WITH_MEMORY = frozenset({"planning", "audit"})
"""The others keep the ledger itself in memory here."""


# ---- the bench


def run(small: bool) -> BenchFindings:
    rows, limits = [], []
    for kind, sizes in KINDS.items():
        found = [_alone(kind, size) for size in (sizes[:2] if small else sizes)]
        for before, each in zip([None, *found], found, strict=False):
            rows.append(
                (
                    kind,
                    f"{each.uploads:,}",
                    f"{each.seconds:.3f}",
                    f"{each.waited:.3f}",
                    f"{each.megabytes:,.0f}" if kind in WITH_MEMORY else "",
                    f"{each.requests:,}",
                    f"{exponent(before, each):.2f}" if before else "",
                )
            )
        if not small:
            limits.append(BenchLimit(f"{kind}: the exponent of the last step", exponent(*found[-2:]), LINEAR, ""))
        if kind == "planning" and not small:
            limits.append(BenchLimit("planning a million uploads", found[-1].seconds, PLANNED_SECONDS, "s"))
            limits.append(BenchLimit("planning a million uploads", found[-1].megabytes, PLANNED_MEGABYTES, "MB"))
    note = (
        f"{PART:,} uploads to a notice. The exponent is of the growth since a tenth as many uploads: 1 is linear. A"
        f" time under {NOISE * 1e3:.0f} ms counts as {NOISE * 1e3:.0f} ms in it. Exponents and limits are of processor"
        " time."
    )
    head = ("what", "uploads", "processor, s", "clock, s", "peak MB", "requests", "exponent")
    return BenchFindings((BenchTable("growth", head, rows, note),), (), tuple(limits))


def exponent(before: Grown, after: Grown) -> float:
    """Of the time, if it grows as a power of the uploads. Shorter times than `NOISE` count as that."""
    times = max(after.seconds, NOISE) / max(before.seconds, NOISE)
    return math.log(times) / math.log(after.uploads / before.uploads)


def _alone(kind: str, count: int) -> Grown:
    command = [sys.executable, "-m", __name__, kind, str(count)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return Grown(**json.loads(done.stdout.splitlines()[-1]))


def main(arguments: Sequence[str]) -> None:
    kind, count, *more = arguments
    if kind == "input":
        sealed_folder(Path(more[0]), int(count))
        return
    found = MEASURED[kind](int(count))
    print(json.dumps({name: getattr(found, name) for name in Grown.__slots__}))


if __name__ == "__main__":
    main(sys.argv[1:])
