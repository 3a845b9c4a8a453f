"""The archives of modules that EMR gets, in a Spark that has nothing else: they are unpacked, and the job lands its
batch.

As much of EMR as a Spark on one machine can take: the environment is that of `infra.emr`, and neither interpreter has a
package besides those of SPARK_HOME. The entry script has Spark fetch the archives. The executor is a process of its
own, in a folder of its own (`local-cluster`), and fetches and unpacks them itself.
"""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from infra import bundling
from tests.infra.bundles import packed
from tests.spark.world import WORK, World
from tests.support.patience import HANGING
from tidegate.cli.account.job import judge_report
from tidegate.cli.checks import CheckState
from tidegate.core.routes import encode_dataset
from tidegate.settings import LimitSettings
from tidegate.spark import entry
from tidegate_local import toolchain
from tidegate_local.emr.sharing import installed_archive, sharing_options
from tidegate_local.emr.submit import JAVA_OPTIONS, driver_environment

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[2]
RUNNING = f"{sys.version_info.major}.{sys.version_info.minor}"
MASTER = "local-cluster[1,2,1024]"
"""One executor with two cores and 1024 MB."""
EXECUTOR_ENVIRONMENT = "spark.executorEnv."
FROM_HERE = ("PATH", "LD_LIBRARY_PATH", "AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")


@dataclass(frozen=True)
class Archive:
    """As much of an asset of CDK as `infra.emr` looks at."""

    s3_object_url: str


@pytest.fixture(scope="module")
def archives(tmp_path_factory) -> Iterator[dict[str, Archive]]:
    """The bundles, built for this machine, as zips like those of CDK, but not compressed, which is quicker."""
    home = tmp_path_factory.mktemp("archive")
    made = {}
    for bundle in packed(bundling.spark(ROOT, targets={RUNNING: bundling.THIS_MACHINE})):
        for name, folder in bundle.items():
            path = home / f"{name}.zip"
            with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
                for each in sorted(folder.rglob("*")):
                    archive.write(each, each.relative_to(folder))
            made[name] = Archive(path.as_uri())
    yield made
    shutil.rmtree(home)


@pytest.fixture(scope="module")
def image(archives: dict[str, Archive]) -> dict[str, str]:
    """The properties that `infra.emr` gives a job for its archives."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in toolchain.cdk_environment().items():
            patch.setenv(name, value)
        from infra import emr  # starts Node, so only here

        return emr._image(LimitSettings(), archives)


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory) -> Path:
    """An interpreter like this one, with the standard library and nothing else."""
    home = tmp_path_factory.mktemp("python")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True)
    return home / "bin" / "python"


@pytest.fixture
def folder(tmp_path) -> Iterator[Path]:
    """Where spark-submit runs; gone afterwards, for it fills with unpacked archives."""
    path = tmp_path / "job"
    path.mkdir()
    yield path
    shutil.rmtree(path)


def spark_home(folder: Path) -> Path:
    """PySpark's own, in a place where it may put its workers' folders, and with no package beside it."""
    home = folder / "spark"
    home.mkdir()
    installed = Path(toolchain.spark_environment()["SPARK_HOME"])
    for name in ("bin", "jars", "python"):
        (home / name).symlink_to((installed / name).resolve())
    return home


def submit(
    world: World,
    image: dict[str, str],
    python: Path,
    folder: Path,
    batch: str,
    mode: str = "ingest",
    **more: str,
) -> subprocess.CompletedProcess[str]:
    """spark-submit in `folder`, of the job that hand-off would start for the batch, with `more` in its environment.
    `python` is the one of the image that begins."""
    # what only a deployment knows is a placeholder in the settings
    regions = dict.fromkeys(("AWS_DEFAULT_REGION", "AWS_REGION"), "us-east-1")
    home = spark_home(folder)
    here = {**toolchain.spark_environment(), "PYSPARK_PYTHON": str(python), "PYSPARK_DRIVER_PYTHON": str(python)}
    environment = {
        **{name: os.environ[name] for name in FROM_HERE if name in os.environ},
        **here,
        **driver_environment(image),
        **regions,
        "SPARK_HOME": str(home),
        **more,
    }
    for_executors = {key: value for key, value in image.items() if key.startswith(EXECUTOR_ENVIRONMENT)}
    replaced = {EXECUTOR_ENVIRONMENT + name: region for name, region in regions.items()}
    assert replaced.keys() <= for_executors.keys()
    settings = {
        **{key: value for key, value in world.spark.sparkContext.getConf().getAll() if key.startswith("spark.sql.")},
        **for_executors,
        **replaced,
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"{JAVA_OPTIONS} {sharing_options(installed_archive())}",
        "spark.driver.host": "127.0.0.1",
        "spark.executor.extraJavaOptions": JAVA_OPTIONS,
        "spark.executor.memory": "1g",
        "spark.local.dir": str(folder / "scratch"),
        "spark.ui.enabled": "false",
    }
    command = [
        *(str(home / "bin" / "spark-submit"), "--master", MASTER, "--driver-memory", "1g"),
        *("--jars", ",".join(map(str, toolchain.jars()))),
        *(part for key, value in settings.items() for part in ("--conf", f"{key}={value}")),
        str(shutil.copy(ROOT / "tidegate" / "spark" / "entry.py", folder)),
        *(mode, "--batch", batch, "--attempt", "1", "--work", WORK),
        *("--dataset", encode_dataset(world.dataset)),
    ]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=HANGING, check=False
    )


def test_the_archives_are_all_that_a_bare_python_and_spark_need(world, batch, image, bare_python, folder) -> None:
    files = {f"in/{name}.json": b'{"id": %d, "text": "x"}\n' % name for name in range(1, 41)}
    world.seal(batch, world.put(files | {"in/broken.json": b'{"id": '}))

    done = submit(world, image, bare_python, folder, batch)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    assert world.ids() == list(range(1, 41))
    assert {row._batch_id for row in world.rows()} == {batch}
    receipt = world.receipt(batch)
    assert receipt is not None
    assert (receipt.tally.committed, receipt.tally.quarantined, receipt.tally.rows) == (40, 1, 40)
    assert [ending.key for ending in world.outcomes(batch).endings] == ["in/broken.json"]
    unpacked = list((folder / "spark" / "work").glob(f"app-*/0/{entry.PACKAGE}/tidegate/spark/job.py"))
    assert len(unpacked) == 1, "the executor took its modules from elsewhere"


def test_the_self_test_says_where_driver_and_executor_found_their_modules(world, image, bare_python, folder) -> None:
    identifier = "selftest-archive"
    done = submit(world, image, bare_python, folder, identifier, mode="selftest")
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    body = world.work.get(f"batches/{identifier}/report.json")
    assert body is not None
    report = json.loads(body)
    assert {step["name"]: step["state"] for step in report["steps"]} == dict.fromkeys(
        (
            "modules",
            "work bucket",
            "iceberg",
            "catalog",
            "executors",
            "work bucket from an executor",
            "route's table",
            "data files",
            "own table",
        ),
        "ok",
    )
    driver, (executor,) = report["driver"], report["executors"]
    assert driver["interpreter"] == executor["interpreter"] == str(bare_python)
    assert Path(driver["modules_from"]).is_relative_to(folder / "scratch"), "Spark has unpacked it"
    assert Path(executor["modules_from"]).is_relative_to(folder / "spark" / "work"), "the executor has its own archive"
    assert driver["modules"] == executor["modules"]
    assert executor["tasks"] == 4
    lines = judge_report(report, driver["region"])
    assert [line for line in lines if line.state is CheckState.FAIL] == []
    assert not world.spark.catalog.tableExists(f"lake.tests.tidegate_selftest_{identifier.removeprefix('selftest-')}")


def test_a_driver_without_the_archives_finds_nothing(world, batch, image, bare_python, folder) -> None:
    """So the job above does not run on what lies about on this machine."""
    done = submit(world, image, bare_python, folder, batch, **{entry.ARCHIVES: ""})
    assert done.returncode != 0
    assert "No module named 'tidegate'" in done.stdout + done.stderr
