"""The bundles stay within their budgets, and a budget that is exceeded is seen."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from infra import budgets, bundling
from tests.infra.bundles import packed

# the bundles are built once for all tests that look at them
pytestmark = pytest.mark.xdist_group("bundles")

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def here() -> Iterator[Path]:
    """The functions as AWS gets them, but for this machine, so that they can be imported."""
    bundle = bundling.functions(ROOT, ROOT / "tidegate.toml", dependencies=True, target=bundling.THIS_MACHINE)
    yield from packed(bundle)


@pytest.fixture(scope="module")
def imports(here) -> list[budgets.Reading]:
    return list(budgets.imports(here))


def write(path: Path, size: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"#" * size)


def test_the_functions_bring_little_that_lambda_does_not_have(functions):
    reading = budgets.functions_size(functions)
    assert reading.holds, reading
    assert reading.measured > 1, "something is missing"


def test_the_spark_archive_is_quickly_unpacked(spark):
    reading = budgets.spark_size(spark)
    assert reading.holds, reading
    assert reading.measured > 100, "something is missing"


def test_what_lambda_has_is_in_the_bundle_at_the_tested_version(functions):
    for package in budgets.PROVIDED - {"python_dateutil"}:
        assert (functions / package).is_dir() or (functions / f"{package}.py").is_file(), package


def test_a_cold_start_spends_little_on_what_we_import(imports):
    assert len(imports) == 2 * len(budgets.HANDLERS)
    assert not [str(reading) for reading in imports if not reading.holds]


def test_imports_are_measured_without_bytecode_of_the_bundle(here, imports):
    """The two kinds differ by what compiling costs, and measuring leaves nothing behind."""
    compiled, source = imports[: len(budgets.HANDLERS)], imports[len(budgets.HANDLERS) :]
    for fast, slow in zip(compiled, source, strict=True):
        assert slow.measured > 1.5 * fast.measured > 0
    assert not list(here.rglob("*.pyc"))


def test_one_more_heavy_import_is_seen(tmp_path, monkeypatch):
    """A handler that computes for as long as the budget, and is the only one."""
    monkeypatch.setattr(budgets, "HANDLERS", ("idle", "heavy"))
    monkeypatch.setattr(budgets, "IMPORT_MS", 40)
    heavy = "import time\nend = time.process_time() + 0.2\nwhile time.process_time() < end:\n    pass\n"
    for name, code in {"idle": "", "heavy": heavy}.items():
        (tmp_path / "lambdas" / name).mkdir(parents=True)
        (tmp_path / "lambdas" / name / "app.py").write_text(code)
    idle, heavy = list(budgets.imports(tmp_path))[:2]
    assert idle.holds
    assert not heavy.holds
    assert "TOO MUCH" in str(heavy)


def test_only_what_the_runtime_lacks_counts(tmp_path):
    write(tmp_path / "boto3" / "session.py", 5_000_000)
    write(tmp_path / "boto3-1.44.5.dist-info" / "METADATA", 1_000_000)
    write(tmp_path / "python_dateutil-2.9.0.dist-info" / "METADATA", 1_000_000)
    write(tmp_path / "six.py", 1_000_000)
    write(tmp_path / "sixty" / "app.py", 15_000_000)
    assert budgets.functions_size(tmp_path).measured == 15
    assert budgets.functions_size(tmp_path).holds
    write(tmp_path / "boto3_stubs" / "one.py", 1)
    assert not budgets.functions_size(tmp_path).holds


def test_bundles_are_left_in_build_and_replaced_whole(tmp_path, monkeypatch):
    def install(root: Path, sources: Path, target: bundling.Target, *extras: str) -> None:
        (root / ("for_spark.py" if extras else "for_lambda.py")).touch()

    monkeypatch.setattr(bundling, "_install", install)
    monkeypatch.setattr(budgets, "imports", lambda folder: [budgets.Reading("import", 401, 400, "ms")])
    write(tmp_path / "functions" / "left_over.py", 1)
    readings = list(budgets.build(ROOT, tmp_path))
    assert [reading.holds for reading in readings] == [True, True, False]
    assert (tmp_path / "functions" / "for_lambda.py").is_file()
    assert (tmp_path / "spark" / "for_spark.py").is_file()
    assert not (tmp_path / "functions" / "left_over.py").exists()


@pytest.mark.parametrize(("measured", "code"), [(400, 0), (400.1, 1)])
def test_exceeding_a_budget_fails_the_command(monkeypatch, capsys, measured, code):
    monkeypatch.setattr(budgets, "build", lambda *_: iter([budgets.Reading("import", measured, 400, "ms")]))
    assert budgets.main() == code
    assert f"{measured:.1f} of   400.0 ms" in capsys.readouterr().out


def test_a_bundle_that_cannot_be_built_fails_the_command_with_the_reason(monkeypatch, capsys):
    def fail(*_):
        raise bundling.BundlingError("no wheel for that machine")

    monkeypatch.setattr(budgets, "build", fail)
    assert budgets.main() == 1
    assert capsys.readouterr().err == "no wheel for that machine\n"
