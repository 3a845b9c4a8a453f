"""One Spark for all tests here, a moto server for S3 and Glue, and a fresh table and batch for each test."""

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest
from moto.server import ThreadedMotoServer
from pyspark.sql import SparkSession

from tests.spark.world import LANDING, WORK, World, session
from tests.support import glue, maven
from tidegate.core.routes import Dataset
from tidegate_local.mends.keys import a_listing_of_versions_goes_on_after_any_text, keys_may_hold_line_breaks


@pytest.fixture(scope="session")
def s3_endpoint() -> Iterator[str]:
    keys_may_hold_line_breaks()
    a_listing_of_versions_goes_on_after_any_text()
    glue.repair_update()
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    endpoint = f"http://{host}:{port}"
    changed = {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        # Spark's worker processes import what the tests plant
        "PYTHONPATH": os.getcwd(),
    }
    before = {name: os.environ.get(name) for name in changed}
    os.environ.update(changed)
    client = boto3.client("s3")
    for bucket in (LANDING, WORK):
        client.create_bucket(Bucket=bucket)
    yield endpoint
    server.stop()
    for name, value in before.items():
        os.environ.pop(name) if value is None else os.environ.update({name: value})


@pytest.fixture(scope="session")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("warehouse")


@pytest.fixture(scope="session")
def spark(s3_endpoint: str, warehouse: Path) -> Iterator[SparkSession]:
    running = session(warehouse, maven.fetched([maven.AWS_BUNDLE]))
    yield running
    running.stop()


@pytest.fixture
def world(spark: SparkSession) -> World:
    """A world whose table does not exist yet; `id` tells rows apart."""
    table = f"lake.tests.t{uuid.uuid4().hex[:12]}"
    return World(Dataset(table, "id bigint, text string", "json", max_object_bytes=1_000_000), spark)


@pytest.fixture
def batch() -> str:
    return f"B{uuid.uuid4().hex[:20]}"
