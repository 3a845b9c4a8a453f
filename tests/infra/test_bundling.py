"""What is packed for Lambda and for EMR has everything that it imports, for the machine that it runs on."""

import ast
import base64
import hashlib
import io
import re
import sys
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from infra import bundling
from tests.infra.test_permissions import resources
from tidegate.spark import entry

ROOT = Path(__file__).parents[2]
EMR_HAS = {"pyspark", "py4j"}
PARTS_OF_A_JOB = ("aws", "core", "flows", "formats", "reading", "spark")
OUR_BYTES = 1_700_000
"""More than our own code in a bundle."""


def imported(*folders: Path) -> set[str]:
    """The packages of others that the modules in these folders import when they run."""
    names: set[str] = set()
    for path in (path for folder in folders for path in folder.rglob("*.py")):
        for node in running(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                names.add(node.module.partition(".")[0])
    return names - set(sys.stdlib_module_names) - {"tidegate", "lambdas"}


def running(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes below, but for what only a type checker reads."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            for each in child.orelse:
                yield each
                yield from running(each)
        else:
            yield child
            yield from running(child)


def present(folder: Path, name: str) -> bool:
    return (folder / name).is_dir() or bool(list(folder.glob(f"{name}.*")))


def test_the_functions_find_all_that_they_import(functions):
    ours = [functions / "tidegate" / part for part in ("aws", "core", "flows")]
    names = imported(functions / "lambdas", *ours) | {"pydantic", "pydantic_core"}
    assert {"aws_lambda_powertools", "botocore"} <= names
    assert not [name for name in sorted(names) if not present(functions, name)]
    assert (functions / "tidegate.toml").read_text() == (ROOT / "tidegate.example.toml").read_text()


def dependencies(spark: Mapping[str, Path]) -> dict[str, Path]:
    return {name: folder for name, folder in spark.items() if name != bundling.PACKAGE}


def test_the_spark_step_finds_all_that_it_imports_in_whatever_python(spark):
    package = spark[bundling.PACKAGE]
    names = imported(*(package / "tidegate" / part for part in PARTS_OF_A_JOB)) - EMR_HAS
    assert {"pyarrow", "obstore"} <= names
    names |= {"pandas", "numpy"}  # PySpark's mapInArrow wants them
    assert [path.name for path in package.iterdir()] == ["tidegate"]
    assert dependencies(spark).keys() == {"3.11", "3.12", "3.13"}
    for folder in dependencies(spark).values():
        assert not [name for name in sorted(names) if not present(folder, name)]


def test_a_job_calls_no_service_whose_description_is_left_out(spark):
    """Without its description botocore knows no service."""
    called = {
        name
        for path in (spark[bundling.PACKAGE] / "tidegate" / "spark").rglob("*.py")
        for name in re.findall(r'boto3\.client\("([a-z0-9-]+)"', path.read_text())
    }
    assert called >= {"dynamodb", "s3", "secretsmanager"}
    assert called <= bundling.SERVICES
    for folder in dependencies(spark).values():
        there = {each.name for each in (folder / "botocore" / "data").iterdir() if each.is_dir()}
        assert there == bundling.SERVICES


def test_what_no_job_runs_is_left_out(spark):
    for folder in dependencies(spark).values():
        left = [path for pattern in bundling.NOT_RUN for path in folder.glob(pattern)]
        assert left == []
        assert {"libarrow.so", "libarrow_substrait.so", "libarrow_python.so"} <= {
            path.name.rpartition(".")[0] for path in (folder / "pyarrow").glob("libarrow*")
        }


def test_functions_carry_nothing_of_other_parts(functions):
    assert not present(functions, "pyarrow")
    assert not present(functions, "aws_cdk")


def test_neither_bundle_carries_the_stack_of_one_machine(functions, spark):
    """Nor the command line and the page. Nor does anything in them import these, or anything that only they need."""
    for folder in (functions, spark[bundling.PACKAGE]):
        assert present(folder, "tidegate")
        assert not present(folder, "tidegate_local")
        ours = [each for each in (folder / "tidegate", folder / "lambdas") if each.exists()]
        assert not {"tidegate_local", "moto", "flask", "werkzeug", "jinja2"} & imported(*ours)
        assert not (folder / "tidegate" / "cli").exists()
        assert not (folder / "tidegate" / "ui").exists()
        assert sum(path.stat().st_size for each in ours for path in each.rglob("*.py")) < OUR_BYTES


def test_native_code_is_for_arm_and_for_that_python(functions, spark):
    for python, folder in {bundling.PYTHON: functions, **dependencies(spark)}.items():
        tag = python.replace(".", "")
        native = [path for path in folder.rglob("*") if path.is_file() and head(path).startswith(b"\x7fELF")]
        assert any(f"cpython-{tag}-aarch64" in path.name for path in native)
        assert not [path for path in native if "cpython-" in path.name and tag not in path.name]
        # 64 bits wide, little-endian, EM_AARCH64
        assert {(head(path)[4:6], head(path)[18:20]) for path in native} == {(b"\x02\x01", b"\xb7\x00")}
        assert not [path for path in folder.rglob("*") if path.suffix in (".pyd", ".dll", ".dylib")]


def head(path: Path) -> bytes:
    with path.open("rb") as content:
        return content.read(20)


def wheel(folder: Path, tag: str) -> bytes:
    """Put the wheel of a package `native` 1.0 into the folder; its bytes."""
    info = "native-1.0.dist-info"
    contents = {
        "native/_native.so": b"",
        f"{info}/METADATA": b"Metadata-Version: 2.1\nName: native\nVersion: 1.0\n",
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {tag}\n".encode(),
    }
    record = "".join(
        f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(body).digest()).decode().rstrip('=')},{len(body)}\n"
        for name, body in contents.items()
    )
    body = io.BytesIO()
    with zipfile.ZipFile(body, "w") as archive:
        for name, content in {**contents, f"{info}/RECORD": f"{record}{info}/RECORD,,\n".encode()}.items():
            archive.writestr(name, content)
    (folder / f"native-1.0-{tag}.whl").write_bytes(body.getvalue())
    return body.getvalue()


@pytest.fixture
def index(tmp_path, monkeypatch) -> Path:
    """The only place that uv may find packages in."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("UV_FIND_LINKS", str(folder))
    monkeypatch.setenv("UV_NO_INDEX", "1")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
    return folder


def locked(folder: Path, body: bytes) -> Path:
    """A checkout that asks for the package `native`, locked to these bytes."""
    (folder / "tidegate").mkdir()
    (folder / "pyproject.toml").write_text(
        '[project]\nname = "x"\nversion = "1"\ndependencies = ["native"]\n[project.optional-dependencies]\nspark = []'
    )
    digest = hashlib.sha256(body).hexdigest()
    (folder / "requirements.txt").write_text(f"native==1.0 --hash=sha256:{digest}\n")
    return folder


WHEEL = "cp313-cp313-manylinux_2_28_aarch64"


def taken(sources: Path) -> bool:
    with bundling.spark(sources, targets={bundling.PYTHON: bundling.AWS}) as archives:
        return (archives[bundling.PYTHON] / "native" / "_native.so").is_file()


@pytest.mark.parametrize("tag", [WHEEL, "cp311-abi3-manylinux2014_aarch64"])
def test_a_wheel_for_the_target_is_taken(tmp_path, index, tag):
    assert taken(locked(tmp_path, wheel(index, tag)))


@pytest.mark.parametrize(
    "tag",
    [
        *("cp313-cp313-macosx_11_0_arm64", "cp313-cp313-manylinux_2_28_x86_64", "cp313-cp313-musllinux_1_2_aarch64"),
        *("cp313-cp313-manylinux_2_39_aarch64", "cp312-cp312-manylinux_2_28_aarch64"),
    ],
)
def test_a_package_with_wheels_for_others_only_is_refused(tmp_path, index, tag):
    with pytest.raises(bundling.BundlingError, match=r"native[\s\S]*no wheels with a matching"):
        taken(locked(tmp_path, wheel(index, tag)))


def test_a_package_without_wheels_is_not_built_here(tmp_path, index):
    (index / "native-1.0.tar.gz").write_bytes(b"sources")
    with pytest.raises(bundling.BundlingError, match=r"native[\s\S]*no usable wheels"):
        taken(locked(tmp_path, b"sources"))


def test_a_package_that_is_not_the_locked_one_is_refused(tmp_path, index):
    wheel(index, WHEEL)
    with pytest.raises(bundling.BundlingError, match="Hash mismatch for `native"):
        taken(locked(tmp_path, b"other bytes"))


def test_no_trace_of_this_machine_is_packed(functions):
    assert not (functions / "bin").exists()
    assert not list(functions.rglob("__pycache__"))


def archives_of(properties: Mapping[str, str]) -> dict[str, str]:
    said = properties["spark.emr-serverless.driverEnv.TIDEGATE_ARCHIVES"]
    return dict(each.split("=", 1) for each in said.split(","))


def installed(target, *_):
    (target / "dependency.py").touch()


def test_each_job_is_given_the_modules_of_its_version(synthesize, simple, monkeypatch):
    monkeypatch.setattr(bundling, "_install", installed)
    template = synthesize(simple.toml, local=False)
    properties = template.parameters
    archives = archives_of(properties)
    assert archives.keys() == {"package", *bundling.PYTHONS}
    role = template.one("AWS::IAM::Role", "EmrJobRole")[0]
    allowed = str([each["Resource"] for each in template.statements(role)])
    for address in archives.values():
        assert address.startswith("<s3://")
        assert f"/{address.rpartition('/')[2].removesuffix('>')}" in allowed

    # what an earlier version's job was started with is read by the same role
    granted = resources(template, "job", "s3:GetObject")
    for kind in ("py", "zip"):
        assert [each for each in granted if "-assets-" in each and each.endswith(f"/*.{kind}")]

    for process in ("spark.emr-serverless.driverEnv", "spark.executorEnv"):
        for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
            assert properties[f"{process}.{name}"] == "<AWS::Region>"
    assert properties["spark.executorEnv.PYTHONPATH"] == f"./{entry.PACKAGE}:./{entry.MODULES}"
    assert properties["spark.dynamicAllocation.maxExecutors"] == "2"
    assert properties["spark.sql.catalogImplementation"] == "in-memory"


def test_no_job_names_a_jar_or_a_python_of_the_image(synthesize, simple, monkeypatch):
    """A path that an image has not ends a job before its driver starts: emr-spark-8.0.0 has not the one of the User
    Guide. Which Pythons an image has is not known for sure."""
    monkeypatch.setattr(bundling, "_install", installed)
    properties = synthesize(simple.toml, local=False).parameters
    assert not [name for name in properties if "jars" in name or "PYSPARK" in name or "ClassPath" in name]
    assert "/usr/" not in str(properties)


LONGEST = f"""
[deployment]
name = "{"d" * 20}"

[network]
subnets = ["subnet-01234567"]
security_groups = ["sg-01234567"]

[catalog]
uri = "https://{"c" * 248}"
warehouse = "{"w" * 256}"
credential_secret = "arn:aws:secretsmanager:us-east-1:123456789012:secret:catalog-AbCdEf"

[[route]]
name = "flights"
bucket = "example-landing"
format = "json"
table = "lake.flights.departures"
schema = "id bigint"
"""


def test_the_parameters_fit_the_environment_of_a_function(synthesize, monkeypatch):
    """4 KB for all variables (https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html)."""
    monkeypatch.setattr(bundling, "_install", installed)
    template = synthesize(LONGEST, local=False)
    longest = {
        "AWS::Region": "ap-southeast-1",
        "AWS::AccountId": "123456789012",
        "AWS::Partition": "aws-us-gov",
        "AWS::URLSuffix": "amazonaws.com.cn",
    }

    def resolved(value: Any) -> str:
        match value:
            case {"Fn::Join": [between, parts]}:
                return str(between).join(resolved(part) for part in parts)
            case {"Fn::Sub": text}:
                for name, said in longest.items():
                    text = text.replace(f"${{{name}}}", said)
                return str(text)
            case {"Ref": name}:
                return longest.get(name, f"https://sqs.ap-southeast-1.amazonaws.com/123456789012/{'n' * 80}.fifo")
            case {"Fn::GetAtt": _}:
                return f"arn:aws-us-gov:iam::123456789012:role/{'n' * 64}"
        return str(value)

    for function in template.of("AWS::Lambda::Function").values():
        variables = function.get("Environment", {}).get("Variables", {})
        assert sum(len(name) + len(resolved(value)) for name, value in variables.items()) < 4_096


def test_the_workers_fit_sizes_that_emr_serverless_has():
    from infra.sizing import WORKERS

    def total(process: str) -> int:
        return sum(int(WORKERS[f"spark.{process}.{part}"].removesuffix("g")) for part in ("memory", "memoryOverhead"))

    # https://docs.aws.amazon.com/emr/latest/EMR-Serverless-UserGuide/app-behavior.html
    sizes = {"1": range(2, 9), "4": range(8, 31)}
    for process in ("driver", "executor"):
        assert total(process) in sizes[WORKERS[f"spark.{process}.cores"]]
