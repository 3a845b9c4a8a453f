"""What happens to a table and its history, to the ledger, and to what is deployed."""

from functools import partial

from simulation.checker.accidents.scene import HOUR, RENAMED, Scene
from simulation.checker.scenarios import BAD, MORE
from simulation.world import foreign, people
from simulation.world.configs import configured
from simulation.world.emr import SimulatedJobRun
from simulation.world.kernel import START
from simulation.world.knobs import Knobs
from simulation.world.product import deploy
from simulation.world.rebuilt import lose
from simulation.world.table import Metadata
from simulation.world.world import CONFIG
from tidegate.core.records import WHOLE

TABLE = "lake.sim.events"


def twins(world: Scene) -> None:
    """Each job run gets a second driver, a second after the first."""
    world.emr.twin_after = lambda: 1.0
    world.upload_each("ab")


# ---- its history


def _alter(world: Scene, change: foreign.Change, *times: float) -> None:
    """Of this table only, and unseen by the trace."""

    def act(world: Scene) -> None:
        if TABLE in world.catalog.tables:
            world.catalog.tables[TABLE] = change(world, world.catalog.tables[TABLE])

    world.at(act, *times)


def history_expired(world: Scene) -> None:
    """Somebody else's maintenance adds a snapshot and expires the history below it. Eight hours later that history
    comes back. A person is called before that."""
    world.lasts = 8 * HOUR
    world.upload_each("a")
    _alter(world, foreign.append_and_expire, 120.0)
    _alter(world, foreign.remember, 8 * HOUR)


def maintenance_under_way(world: Scene) -> None:
    """Every two minutes somebody appends to the table and expires all history below the head of `main`. After an hour
    the history comes back, so that all batches can end."""
    world.upload_each("a")
    world.upload_each("b", MORE, after=300.0)
    _alter(world, foreign.append_and_expire, *(60.0 * minute for minute in range(2, 60, 2)))
    _alter(world, foreign.remember, HOUR)


def cleaned_under_way(world: Scene) -> None:
    """Two routes write to one table. Somebody expires its history. The files that only those snapshots refer to are
    deleted."""
    world.kernel.after(0.0, lambda: deploy(configured(Knobs(one_table=True))))
    world.upload_each("a")
    world.upload_each("a", MORE, plain=True)

    def expire(world: Scene, metadata: Metadata) -> Metadata:
        left = metadata.expired()
        kept = {name for stored in left.snapshots.values() for name in stored.files} | {name for _, name in left.held()}
        for number in left.gone.keys() - metadata.gone.keys():
            for name in set(left.gone[number].files) - kept:
                del world.catalog.files[name]
        return left

    _alter(world, expire, 600.0)


def expired_to_the_floor(world: Scene) -> None:
    """While a driver works somebody appends, and expires all earlier history. The remaining history begins right after
    the driver's floor."""
    world.upload_each("a")
    world.as_each_driver_begins(lambda number, run: world.commit(foreign.append_and_expire, 0.1))


# ---- what people decide


def given_up_after_a_decision(world: Scene) -> None:
    """The table's history is cut while the first driver works, and a person decides. The batch is given up after the
    second driver has read the table. The second driver dies before it publishes."""
    world.upload_each("a")

    def begins(number: int, run: SimulatedJobRun) -> None:
        if number == 1:
            world.commit(foreign.cut, 0.1)
        if number == 2:
            world.at(people.give_up, 0.15)
            world.kernel.after(0.2, run.drivers[-1].kill)

    world.as_each_driver_begins(begins)


def decided_unasked(world: Scene) -> None:
    """S3 refuses the only object of a batch until its attempts are used up. A person tries to decide all the time."""
    world.upload_each("a")
    world.refuse_each("a", 2_000.0)
    world.at(people.decide_unasked, *(60.0 * minute for minute in range(2, 30, 2)))


def decided_twice(world: Scene) -> None:
    """The table's history is cut while each of the first two drivers works, and each time a person decides. The history
    of the first cut comes back before the third driver begins."""
    world.upload_each("a")
    world.upload_each("b", MORE, after=4.0)

    def begins(number: int, run: SimulatedJobRun) -> None:
        if number <= 2:
            world.commit(foreign.cut, 0.1)
        else:
            foreign.commit(world, foreign.remember)

    world.as_each_driver_begins(begins)


def decided_in_vain(world: Scene) -> None:
    """The first driver publishes, and the answer is lost. Then the table's history is cut. A person finds the rows.
    Each job run has a second driver, so two snapshots are staged."""
    world.emr.twin_after = lambda: 0.02
    world.upload_each("a")
    world.as_each_driver_begins(lambda number, run: number == 1 and world.commit(foreign.cut, 0.22))


# ---- what is deployed


def renamed_under_way(world: Scene) -> None:
    """A route gets another name while a batch of it gathers. Then an upload is announced again, and another one
    comes."""
    world.announce = lambda version: [1.0, 2_000.0] if version.key.endswith("a.json") else [1.0]
    world.upload_each("ab")
    world.upload_each("c", MORE, after=300.0)
    world.kernel.after(20.0, lambda: deploy(RENAMED))


def moved_under_way(world: Scene) -> None:
    """A route gets another table while a batch of it is handed off, and again while one gathers."""
    world.upload_each("a")
    world.upload_each("b", MORE, after=200.0)
    for after, table in ((75.0, "lake.sim.later"), (230.0, "lake.sim.last")):
        world.kernel.after(after, partial(deploy, CONFIG.replace('"lake.sim.events"', f'"{table}"')))


def moved_with_its_format(world: Scene) -> None:
    """A route gets another table, for files of another format, while the first job starts."""
    world.upload_each("a")
    moved = CONFIG.replace('"lake.sim.events"', '"lake.sim.later"').replace('format = "json"', 'format = "csv"', 1)

    def startup() -> float:
        deploy(moved)
        return 40.0

    world.emr.startup = startup


# ---- the ledger is lost


def first_of_all(world: Scene) -> None:
    """Nothing has run before the first upload: the ledger is empty, and nobody has called it whole."""
    del world.dynamodb.items["ledger", *WHOLE]
    world.upload_each("a")
    world.upload_each("c", MORE, plain=True, after=1.0)


def lost_with_everything_landed(world: Scene) -> None:
    """When everything has landed, the ledger is lost. S3 announces each upload again. One file is broken."""
    world.announce = lambda version: [1.0, 2_000.0 + 100.0 * version.number]
    world.upload_each("a")
    world.upload_each("b", BAD)
    world.upload_each("c", plain=True)
    lose(world, 400.0)


def lost_while_it_gathers(world: Scene) -> None:
    """An upload is claimed and registered. Before its batch is sealed, the ledger is lost."""
    world.upload_each("a")
    lose(world, 40.0)


def lost_under_way(world: Scene) -> None:
    """The ledger is lost while the job of a batch runs. Each upload is announced again."""
    world.announce = lambda version: [1.0, 2_000.0]
    world.upload_each("a")
    world.upload_each("b", MORE, after=30.0)
    lose(world, 80.0)


def lost_with_its_work_bucket(world: Scene) -> None:
    """When everything has landed, in several batches, the ledger and the work bucket are lost. Each upload is announced
    again, and a new one comes."""
    world.announce = lambda version: [1.0, 3_000.0 + 100.0 * version.number]
    for number in range(3):
        world.upload_each(str(number), after=300.0 * number)
        world.upload_each(str(number), MORE, plain=True, after=300.0 * number)
    world.lasts = 4 * HOUR
    lose(world, 1_400.0, work=True)
    world.upload_each(["new"], after=2_900.0)


def lost_with_its_job(world: Scene) -> None:
    """The ledger is lost while the job of a batch starts, and then each driver of the job is killed."""
    world.first_starts_in(900.0)

    def begins(number: int, run: SimulatedJobRun) -> None:
        if START + 900.0 < world.kernel.now < START + 1_100.0:
            world.kernel.after(0.05, run.drivers[-1].kill)

    world.as_each_driver_begins(begins)
    world.upload_each("a")
    lose(world, 250.0)


def lost_with_what_came_back(world: Scene) -> None:
    """An upload vanishes, the same bytes come again and land. Then the ledger is lost, and another upload comes."""
    world.vanish()
    world.upload_each("b", plain=True, after=300.0)
    world.lasts = 4 * HOUR
    lose(world, 900.0)
    world.upload_each("n", plain=True, after=2_000.0)


def lost_and_nobody_switches_off(world: Scene) -> None:
    """When everything has landed, the ledger is lost. The functions go on, S3 announces each upload again, and a new
    one comes, all before somebody rebuilds."""
    world.announce = lambda version: [1.0, 1_500.0 + 10.0 * version.number]
    world.upload_each("a")
    world.upload_each("c", plain=True)
    world.lasts = 3 * HOUR
    lose(world, 400.0, switched_off=False, waits=2_000.0)
    world.upload_each(["new"], after=900.0)
