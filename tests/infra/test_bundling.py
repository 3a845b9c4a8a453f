"""What is packed for Lambda and for EMR has everything that it imports, for the machine that it runs on."""

import ast
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from infra import bundling

ROOT = Path(__file__).parents[2]
EMR_HAS = {"pyspark", "py4j"}


def imported(*folders: Path) -> set[str]:
    """The packages of others that the modules in these folders import."""
    names: set[str] = set()
    for path in (path for folder in folders for path in folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                names.add(node.module.partition(".")[0])
    return names - set(sys.stdlib_module_names) - {"tidegate", "lambdas"}


def present(folder: Path, name: str) -> bool:
    return (folder / name).is_dir() or bool(list(folder.glob(f"{name}.*")))


def packed(bundle: AbstractContextManager[Path]) -> Iterator[Path]:
    try:
        with bundle as folder:
            yield folder
    except bundling.BundlingError as error:
        if any(sign in str(error) for sign in ("dns error", "error sending request", "client error (Connect)")):
            pytest.skip("the dependencies cannot be fetched without a network")
        raise


@pytest.fixture(scope="module")
def functions() -> Iterator[Path]:
    yield from packed(bundling.functions(ROOT, ROOT / "tidegate.toml", dependencies=True))


@pytest.fixture(scope="module")
def spark() -> Iterator[Path]:
    yield from packed(bundling.spark(ROOT))


def test_the_functions_find_all_that_they_import(functions):
    ours = [functions / "tidegate" / part for part in ("aws", "core", "flows")]
    names = imported(functions / "lambdas", *ours) | {"pydantic", "pydantic_core"}
    assert {"aws_lambda_powertools", "botocore"} <= names
    assert not [name for name in sorted(names) if not present(functions, name)]
    assert (functions / "tidegate.toml").read_text() == (ROOT / "tidegate.toml").read_text()


def test_the_spark_step_finds_all_that_it_imports(spark):
    names = imported(*(spark / "tidegate" / part for part in ("aws", "core", "flows", "spark"))) - EMR_HAS
    assert {"pyarrow", "obstore"} <= names
    names |= {"pandas", "numpy"}  # PySpark's mapInArrow wants them
    assert not [name for name in sorted(names) if not present(spark, name)]
    assert not (spark / "lambdas").exists()


def test_functions_stay_small(functions):
    """Lambda takes 250 MB unpacked."""
    assert sum(path.stat().st_size for path in functions.rglob("*")) < 100_000_000
    assert not present(functions, "pyarrow")
    assert not present(functions, "aws_cdk")


def test_native_code_is_for_arm_and_for_that_python(functions, spark):
    for folder in (functions, spark):
        native = [path.name for path in folder.rglob("*.so")]
        assert any("cpython-313-aarch64" in name for name in native)
        assert not [name for name in native if "x86_64" in name or ("cpython-" in name and "313" not in name)]


def test_no_trace_of_this_machine_is_packed(functions):
    assert not (functions / "bin").exists()
    assert not list(functions.rglob("__pycache__"))


def test_a_package_that_is_not_the_locked_one_is_refused(tmp_path):
    (tmp_path / "tidegate").mkdir()
    (tmp_path / "pyproject.toml").write_text(
        '[project]\nname = "x"\nversion = "1"\ndependencies = ["six"]\n[project.optional-dependencies]\nspark = []'
    )
    (tmp_path / "requirements.txt").write_text(f"six==1.17.0 --hash=sha256:{'0' * 64}\n")
    with pytest.raises(bundling.BundlingError, match="Hash mismatch for `six"):
        next(packed(bundling.spark(tmp_path)))


def test_each_job_is_given_the_modules_of_its_version(synthesize, simple, monkeypatch):
    monkeypatch.setattr(bundling, "_install", lambda target, *_: (target / "dependency.py").touch())
    template = synthesize(simple.toml, local=False)
    parameters = template.body["Outputs"]["SparkParameters"]["Value"]["Fn::Join"][1]
    assert parameters[0] == "--conf spark.sql.catalogImplementation=in-memory --conf spark.archives="
    assert parameters[1]["Fn::Sub"].startswith("s3://")
    assert parameters[2] == "#modules"
    key = parameters[1]["Fn::Sub"].rpartition("/")[2]
    role = template.one("AWS::IAM::Role", "EmrJobRole")[0]
    assert f"/{key}" in str([each["Resource"] for each in template.statements(role)])

    (configuration,) = template.one("AWS::EMRServerless::Application")[1]["RuntimeConfiguration"]
    properties = configuration["Properties"]
    assert key not in str(properties), "EMR refuses to change an application that is started"
    for process in ("spark.emr-serverless.driverEnv", "spark.executorEnv"):
        assert properties[f"{process}.PYTHONPATH"] == "./modules"
        assert properties[f"{process}.PYSPARK_PYTHON"] == f"python{bundling.PYTHON}"
        assert properties[f"{process}.AWS_REGION"] == {"Ref": "AWS::Region"}
    assert properties["spark.jars"] == "/usr/share/aws/iceberg/lib/iceberg-spark3-runtime.jar"


def test_the_workers_fit_sizes_that_emr_serverless_has():
    from infra.emr import WORKERS

    def total(process: str) -> int:
        return sum(int(WORKERS[f"spark.{process}.{part}"].removesuffix("g")) for part in ("memory", "memoryOverhead"))

    # https://docs.aws.amazon.com/emr/latest/EMR-Serverless-UserGuide/app-behavior.html
    sizes = {"2": range(4, 17), "4": range(8, 31)}
    for process in ("driver", "executor"):
        assert total(process) in sizes[WORKERS[f"spark.{process}.cores"]]
