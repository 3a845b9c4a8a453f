"""Decision 3 on other catalogs than the local stack's: a few races each, and commits whose answer is lost.

`rest` is Iceberg's own REST catalog. `glue` is Iceberg's GlueCatalog in front of moto, whose UpdateTable is repaired to
compare versions (`tests/support/glue.py`), with the table's files in moto's S3. Between Spark and each of them is a
wire that can hold a request back or lose its answer, so that no race here is left to chance.
"""

import json
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import boto3
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from tests.spark import test_reload
from tests.spark.world import World, asked
from tests.support import rest_catalog
from tests.support.patience import HANGING
from tests.support.wire import Fault, Request, Wire
from tidegate.core.publication import Published
from tidegate.core.receipts import Receipt
from tidegate.flows.publish import run

pytestmark = pytest.mark.spark

FILES = {f"in/{name}.json": json.dumps({"id": name, "text": "x"}).encode() for name in range(3)}
IDS = list(range(3))
CATALOGS = ("rest", "glue")
OUTAGE = {"rest": 4, "glue": 12}
"""How many requests an outage swallows. What gets no answer the REST client sends twice, the AWS SDK three times."""


def is_rest_commit(request: Request) -> bool:
    """https://iceberg.apache.org/rest-catalog-spec/: `updateTable`."""
    return request.method == "POST" and re.fullmatch(r"/v1/namespaces/[^/]+/tables/[^/]+", request.path) is not None


def glue_operation(request: Request) -> str:
    headers = {name.lower(): value for name, value in request.headers.items()}
    return headers["x-amz-target"].removeprefix("AWSGlue.")


def is_glue_commit(request: Request) -> bool:
    return glue_operation(request) == "UpdateTable"


@pytest.fixture(scope="session")
def rest(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wire]:
    with (
        rest_catalog.running(tmp_path_factory.mktemp("rest")) as address,
        Wire(address, is_rest_commit).served() as wire,
    ):
        # it asks again after 1 s; by default five times, after 1, 2, 4, 8 and 16 s
        configure(spark, "rest", {"type": "rest", "uri": wire.url, "rest.client.max-retries": "1"})
        yield wire


@pytest.fixture(scope="session")
def glue(spark: SparkSession, s3_endpoint: str) -> Iterator[Wire]:
    boto3.client("s3").create_bucket(Bucket="warehouse")
    with Wire(s3_endpoint, is_glue_commit).served() as wire:
        settings = {
            "type": "glue",
            "warehouse": "s3://warehouse/",
            "glue.endpoint": wire.url,
            "s3.endpoint": s3_endpoint,
            "s3.path-style-access": "true",
            "client.region": "us-east-1",
        }
        configure(spark, "glue", settings)
        yield wire


def configure(spark: SparkSession, catalog: str, settings: dict[str, str]) -> None:
    """Add a catalog to the running session, which opens it when it is first named."""
    name = f"spark.sql.catalog.{catalog}"
    spark.conf.set(name, "org.apache.iceberg.spark.SparkCatalog")
    for key, value in {"cache-enabled": "false", **settings}.items():
        spark.conf.set(f"{name}.{key}", value)


@pytest.fixture(params=CATALOGS)
def wire(request: pytest.FixtureRequest) -> Wire:
    found: Wire = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def world(world: World, wire: Wire, request: pytest.FixtureRequest) -> World:
    """The world of the other tests, with its table in this catalog."""
    _, rest_of_name = world.dataset.table.split(".", 1)
    catalog = request.node.callspec.params["wire"]
    return World(replace(world.dataset, table=f"{catalog}.{rest_of_name}"), world.spark)


def sealed(world: World, batch: str) -> None:
    world.seal(batch, world.put(FILES))


def somebody_else_publishes(world: World, batch: str) -> None:
    other = f"{batch}x"
    world.seal(other, world.put({"in/other.json": b'{"id": 100}'}))
    assert run(world.attempt(other, 1), "ingest") == 0


def in_main(world: World) -> int:
    """How many snapshots in main publish or fence a batch."""
    return len(world.published())


def background(work: Callable[[], Any]) -> Any:
    pool = ThreadPoolExecutor(1)
    try:
        return pool.submit(work)
    finally:
        pool.shutdown(wait=False)


def test_the_driver_looks_for_rows_in_few_files_itself(
    world: World, batch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate.sinks.iceberg.table.ranges_of", None)
    upload, other = test_reload.put(world, batch, "a", 1, 2), test_reload.put(world, batch, "b", 3)
    test_reload.landed(world, f"{batch}1", upload, other)
    for number in (2, 3):
        test_reload.landed(world, f"{batch}{number}", upload, reloads=True)
    assert [(each.id, each._batch_id) for each in world.rows()] == [
        (1, f"{batch}3"),
        (2, f"{batch}3"),
        (3, f"{batch}1"),
    ]


def test_twins_that_publish_by_rebase_at_once_agree_on_who_won(world: World, batch: str) -> None:
    sealed(world, batch)
    twins = [world.attempt(batch, 1, "one"), world.attempt(batch, 1, "other")]
    twins[0].sink.prepare()
    floor = twins[0].floor()
    staged = [twin.stage() for twin in twins]
    somebody_else_publishes(world, batch)
    together = threading.Barrier(2)

    def publish(number: int) -> Published:
        together.wait(HANGING)
        return twins[number].publish(staged[number], floor)

    with ThreadPoolExecutor(2) as pool:
        one, other = pool.map(publish, range(2))
    assert one == other
    assert twins[0].write_receipt(one) == twins[1].write_receipt(other)
    assert world.ids() == [*IDS, 100]
    assert in_main(world) == 2


def test_a_commit_that_was_under_way_when_a_twin_published_is_refused(world: World, batch: str, wire: Wire) -> None:
    """It has asked and found nothing, and its commit is sent: only the catalog's compare-and-swap can stop it."""
    sealed(world, batch)
    late, early = world.attempt(batch, 1, "late"), world.attempt(batch, 1, "early")
    late.sink.prepare()
    floor = late.floor()
    late_staged = late.stage()
    early_staged = early.stage()
    with wire.commit_held() as held:
        late_decided = background(lambda: late.publish(late_staged, floor))
        held.wait()
        decided = early.publish(early_staged, floor)
        held.let_arrive()
        assert late_decided.result(HANGING) == decided
    assert world.ids() == IDS
    assert in_main(world) == 1


def test_a_commit_that_was_under_way_when_the_fence_came_is_refused(world: World, batch: str, wire: Wire) -> None:
    sealed(world, batch)
    zombie = world.attempt(batch, 1)
    zombie.sink.prepare()
    floor = zombie.floor()
    staged = zombie.stage()
    with wire.commit_held() as held:
        decided = background(lambda: zombie.publish(staged, floor))
        held.wait()
        assert run(world.attempt(batch, 2), "fence") == 0
        fence = world.receipt(batch)
        held.let_arrive()
        assert zombie.write_receipt(decided.result(HANGING)) == fence
    assert isinstance(fence, Receipt)
    assert fence.fence
    assert world.ids() == []


def test_a_fence_that_was_under_way_when_the_rows_came_finds_them(world: World, batch: str, wire: Wire) -> None:
    sealed(world, batch)
    driver, fence = world.attempt(batch, 1), world.attempt(batch, 2)
    driver.sink.prepare()
    floor = driver.floor()
    staged = driver.stage()
    fence_staged = fence.stage_fence()
    with wire.commit_held() as held:
        decided = background(lambda: fence.publish(fence_staged, floor))
        held.wait()
        published = driver.publish(staged, floor)
        held.let_arrive()
        assert decided.result(HANGING) == published
    assert not fence.write_receipt(published).fence
    assert world.ids() == IDS
    assert in_main(world) == 1


def test_a_commit_that_was_under_way_when_somebody_else_published_is_rebased(
    world: World, batch: str, wire: Wire
) -> None:
    sealed(world, batch)
    attempt = world.attempt(batch, 1)
    attempt.sink.prepare()
    floor = attempt.floor()
    staged = attempt.stage()
    with wire.commit_held() as held:
        decided = background(lambda: attempt.publish(staged, floor))
        held.wait()
        somebody_else_publishes(world, batch)
        held.let_arrive()
        receipt = attempt.write_receipt(decided.result(HANGING))
    assert (receipt.tally.committed, receipt.tally.rows, receipt.fence) == (3, 3, False)
    assert asked(attempt, floor) == decided.result()
    assert world.ids() == [*IDS, 100]
    assert in_main(world) == 2


@pytest.mark.parametrize(
    ("lost", "moved"),
    [(Wire.commit_cut_off, False), (Wire.commit_answered_500, True)],
    ids=["cut off", "500 to a rebase"],
)
def test_a_lost_answer_is_found_out_by_asking(
    world: World, batch: str, wire: Wire, lost: Callable[[Wire], AbstractContextManager[Fault]], moved: bool
) -> None:
    sealed(world, batch)
    attempt = world.attempt(batch, 1)
    attempt.sink.prepare()
    floor = attempt.floor()
    staged = attempt.stage()
    if moved:
        somebody_else_publishes(world, batch)
    with lost(wire) as fault:
        decided = attempt.publish(staged, floor)
    assert fault.struck == [200], "the commit was not applied, or its answer not lost"
    published_and_whole(world, batch, attempt, decided, moved)


def test_a_lost_answer_with_an_outage_after_it_is_found_out_by_asking(world: World, batch: str, wire: Wire) -> None:
    """The client's own question, whether its commit was applied, is not answered either: the outcome is unknown."""
    sealed(world, batch)
    attempt = world.attempt(batch, 1)
    attempt.sink.prepare()
    # else Iceberg itself asks for a minute
    assert world.spark is not None
    world.spark.sql(f"ALTER TABLE {world.dataset.table} SET TBLPROPERTIES ('commit.status-check.num-retries' = '0')")
    floor = attempt.floor()
    staged = attempt.stage()
    requests = OUTAGE[world.dataset.table.split(".")[0]]
    with wire.outage_after_a_commit(requests) as outage:
        decided = attempt.publish(staged, floor)
    assert outage.struck == [None] * requests
    published_and_whole(world, batch, attempt, decided, moved=False)


def test_a_commit_that_failed_and_was_not_applied_is_sent_again(world: World, batch: str, wire: Wire) -> None:
    sealed(world, batch)
    attempt = world.attempt(batch, 1)
    attempt.sink.prepare()
    floor = attempt.floor()
    staged = attempt.stage()
    with wire.commit_never_applied() as fault:
        decided = attempt.publish(staged, floor)
    assert fault.struck == [None]
    published_and_whole(world, batch, attempt, decided, moved=False)


def test_a_fence_whose_answer_is_lost_stands(world: World, batch: str, wire: Wire) -> None:
    sealed(world, batch)
    zombie, fence = world.attempt(batch, 1), world.attempt(batch, 2)
    zombie.sink.prepare()
    floor = zombie.floor()
    staged = zombie.stage()
    fence_staged = fence.stage_fence()
    with wire.commit_answered_500() as fault:
        decided = fence.publish(fence_staged, floor)
    assert fault.struck == [200]
    assert fence.write_receipt(decided).fence
    assert zombie.publish(staged, floor) == decided
    assert world.ids() == []
    assert in_main(world) == 1


def published_and_whole(world: World, batch: str, attempt: Any, decided: Published, moved: bool) -> None:
    """Once, in one snapshot, readable, and a later attempt finds it there."""
    receipt = attempt.write_receipt(decided)
    assert (receipt.tally.committed, receipt.tally.rows, receipt.fence) == (3, 3, False)
    assert run(world.attempt(batch, 2), "ingest") == 0
    assert world.receipt(batch) == receipt
    assert world.ids() == IDS + [100] * moved
    assert in_main(world) == 1 + moved


class TestTheMeans:
    """That the catalogs and the wire do what the tests above rest on."""

    @pytest.mark.parametrize("wire", ["rest"], indirect=True)
    def test_a_lost_answer_leaves_the_client_in_doubt(self, world: World, batch: str, wire: Wire) -> None:
        """Iceberg's own word for it. (The client of Glue asks by itself, so there it takes an outage.)"""
        attempt = world.attempt(batch, 1)
        attempt.sink.prepare()
        assert world.spark is not None
        jvm = world.spark._jvm
        assert jvm is not None
        table = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(
            world.spark._jsparkSession, world.dataset.table
        )
        with wire.commit_answered_500() as fault, pytest.raises(Py4JJavaError) as raised:
            table.updateProperties().set("seen", "yes").commit()
        assert fault.struck == [200]
        assert raised.value.java_exception.getClass().getSimpleName() == "CommitStateUnknownException"
        table.refresh()
        assert dict(table.properties())["seen"] == "yes"

    def test_glue_refuses_an_update_at_another_version(self, s3_endpoint: str) -> None:
        client = boto3.client("glue")
        client.create_database(DatabaseInput={"Name": "versions"})
        client.create_table(DatabaseName="versions", TableInput={"Name": "t"})

        def update(version: str, said: str) -> None:
            table = {"Name": "t", "Parameters": {"said": said}}
            client.update_table(DatabaseName="versions", TableInput=table, SkipArchive=True, VersionId=version)

        first = client.get_table(DatabaseName="versions", Name="t")["Table"]["VersionId"]
        update(first, "mine")
        with pytest.raises(client.exceptions.ConcurrentModificationException):
            update(first, "a late twin's")
        second = client.get_table(DatabaseName="versions", Name="t")["Table"]
        assert second["Parameters"] == {"said": "mine"}
        update(second["VersionId"], "the next")

    @pytest.mark.parametrize("wire", ["glue"], indirect=True)
    def test_a_job_asks_glue_only_for_what_its_role_allows(self, world: World, batch: str, wire: Wire) -> None:
        """In a namespace that is not there yet, to the end of a batch and of another one's fence."""
        from infra.catalogs import GLUE_ACTIONS

        before = len(wire.seen)
        new = World(replace(world.dataset, table=f"glue.n{batch.lower()}.t"), world.spark)
        sealed(new, batch)
        assert run(new.attempt(batch, 1), "ingest") == 0
        assert run(new.attempt(f"{batch}y", 1), "fence") == 0
        asked = {f"glue:{glue_operation(request)}" for request in wire.seen[before:]}
        assert asked <= set(GLUE_ACTIONS)
        assert {"glue:CreateDatabase", "glue:CreateTable", "glue:UpdateTable"} <= asked
