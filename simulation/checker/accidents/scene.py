"""What several scenarios have in common: uploads that come and vanish, slow jobs, and what people ask for."""

import itertools
import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

from simulation.checker.scenarios import GOOD
from simulation.world import audits, foreign, people, resending
from simulation.world.emr import SimulatedJobRun
from simulation.world.foreign import Change
from simulation.world.kernel import START
from simulation.world.world import CONFIG, World
from tidegate.flows.drop_quarantined import is_its_minute

HOUR, DAY = 3_600, 86_400
RENAMED = CONFIG.replace('name = "events"', 'name = "things"')
"""The settings in which a route has another name."""


def place(name: str, plain: bool = False) -> tuple[str, str]:
    """(bucket, key) of an upload."""
    return ("plain", f"{name}.json") if plain else ("landing", f"events/{name}.json")


class Scene(World):
    """A world in which people act, and accidents happen."""

    def turn(self, **knobs: Any) -> None:
        self.knobs = replace(self.knobs, **knobs)

    # ---- uploads

    def upload_each(self, names: Iterable[str], body: bytes = GOOD, *, plain: bool = False, after: float = 0.0) -> None:
        """One upload of each name, to the bucket without versions if `plain`."""
        for name in names:
            bucket, key = place(name, plain)
            self.upload(key, body, bucket=bucket, after=after)

    def vanish(self) -> None:
        """Unversioned: an upload is deleted before it is read."""
        self.upload_each("b", plain=True)
        self.remove("b.json", bucket="plain", after=6.0)

    def announce_only(self, name: str) -> None:
        """S3 announces no other upload than this."""
        self.announce = lambda version: [1.0] if version.key.endswith(f"{name}.json") else []

    def refuse_each(self, names: str, seconds: float, *, plain: bool = False) -> None:
        """S3 refuses each of these uploads for so long."""
        for name in names:
            self.refuse(*place(name, plain), "AccessDenied", seconds)

    # ---- functions, jobs and records

    def several_at_once(self) -> None:
        """The notices' queue keeps no order, and several notices are handled at once."""
        self.notices.fifo = self.sns.ordered = False
        self.from_notices.concurrency = 4

    def first_starts_in(self, seconds: float) -> None:
        """The first job has its driver after so long, the others after 40 seconds."""
        startups = iter((seconds,))
        self.emr.startup = lambda: next(startups, 40.0)

    def as_each_driver_begins(self, act: Callable[[int, SimulatedJobRun], object]) -> None:
        """`act` is given the number of the driver, from one on, and its run."""
        numbers = itertools.count(1)
        self.emr.on_driver = lambda run: act(next(numbers), run)

    def is_called_by(self, role: str) -> bool:
        caller = self.kernel.current
        return caller is not None and caller.role == role

    def slow_down_dispatch(self, seconds: float, *, since: float = -1.0, until: float = math.inf) -> None:
        """Each request of dispatch, and each answer, takes so long meanwhile."""

        def latency() -> float:
            meanwhile = since < self.kernel.now - START < until
            return seconds if meanwhile and self.is_called_by("dispatch") else 0.005

        self.network.latency = latency

    def make_older(self, prefix: str, days: int, *, after: float) -> None:
        """Records turn out to have been written so many days earlier."""

        def act(world: World) -> None:
            for _, item in self.dynamodb.items.on(prefix):
                item["expires_at"] -= days * DAY

        self.at(act, after)

    def expire_claims(self, after: float) -> None:
        def act(world: World) -> None:
            for _, item in self.dynamodb.items.on("o#"):
                item["expires_at"] = int(self.kernel.now) - 1

        self.at(act, after)

    def mislay_part(self, *, after: float, until: float) -> None:
        """A person deletes a part from the work bucket, and puts it back."""
        work = self.s3.buckets["work"].current
        taken: dict[str, Any] = {}

        def take() -> None:
            name = min(name for name in work if "/parts/" in name)
            taken[name] = work.pop(name)

        self.kernel.after(after, take)
        self.kernel.after(until, lambda: work.update(taken))

    # ---- what people and others do

    def at(self, act: Callable[[World], object], *times: float) -> None:
        for after in times:
            self.kernel.after(after, partial(act, self))

    def commit(self, change: Change, *times: float) -> None:
        """Somebody else changes the table."""
        self.at(lambda _: foreign.commit(self, change), *times)

    def asks(self, act: Callable[[], object], *times: float) -> None:
        """A person asks, in a process that faults may strike."""
        for after in times:
            self.kernel.after(after, partial(self.kernel.spawn, "person", act))

    def of_each_batch(self, act: Callable[[World, str], object], *times: float) -> None:
        """Whatever batches there are by then."""

        def acts(_: World) -> None:
            for (_, pk, _), _ in list(self.dynamodb.items.on("b#")):
                act(self, pk[2:])

        self.at(acts, *times)

    def ask_of_each_batch(self, act: Callable[[World, str], object], *times: float) -> None:
        self.of_each_batch(lambda world, batch: self.kernel.spawn("person", partial(act, world, batch)), *times)

    def give_up(self, *times: float) -> None:
        """A person gives each batch up."""
        self.ask_of_each_batch(people.give_up_one, *times)

    def resend_each(self, *times: float) -> None:
        """A person resends each batch."""
        self.ask_of_each_batch(lambda _, batch: resending.resend_one_batch(batch), *times)

    def resend_by_name(self, name: str, *times: float, plain: bool = False) -> None:
        """A person resends the object by its name."""
        self.asks(partial(resending.resend_one_object, *place(name, plain)), *times)

    def release_all(self, *times: float) -> None:
        """A person releases all that is in quarantine."""
        self.asks(resending.release_all, *times)

    def audit_hourly(self, *, min_age: float, horizon: float = 0.0) -> None:
        """From the beginning the schedule audits the buckets."""
        self.turn(audit=min_age, horizon=horizon)
        audits.begin(self)

    def have_settling_look(self) -> None:
        """An upload has settling look in the minute in which it looks for what was corrected."""
        looks = next(at for at in range(3_600, 7_200, 60) if is_its_minute("events", int(START) + at, 60))
        self.lasts = looks + 900.0
        self.upload_each("c", after=looks - 30.0)
