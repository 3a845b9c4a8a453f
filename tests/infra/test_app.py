"""The app as people start it: by the CDK CLI or by hand, without Docker, without an account."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tidegate.settings import parse
from tidegate_local import toolchain

ROOT = Path(__file__).parents[2]


@pytest.fixture
def bare(tmp_path: Path) -> dict[str, str]:
    """An environment with a PATH that holds nothing, so no Docker, and no trace of an account."""
    empty = tmp_path / "bin"
    empty.mkdir()
    return {
        "PATH": str(empty),
        "HOME": str(tmp_path),
        "AWS_EC2_METADATA_DISABLED": "true",
        "CDK_DISABLE_CLI_TELEMETRY": "true",
        **toolchain.cdk_environment(),
    }


def test_a_mistake_in_the_configuration_is_shown_in_its_line_without_a_traceback(tmp_path, bare, simple):
    config = tmp_path / "wrong.toml"
    config.write_text(simple.toml.replace('format = "json"', 'format = "jason"'))
    context = {"tidegate:config": str(config), "tidegate:local": "true"}
    done = subprocess.run(
        [sys.executable, str(ROOT / "app.py")],
        cwd=tmp_path,
        env=bare | {"CDK_OUTDIR": str(tmp_path / "cdk.out"), "CDK_CONTEXT_JSON": json.dumps(context)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith(f"{config}:7:10: route.1.format: ")
    assert len(done.stderr.splitlines()) == 3
    assert not (tmp_path / "cdk.out" / "manifest.json").exists()


def test_that_the_bundle_cannot_be_made_is_one_line_too(simple, monkeypatch, capsys):
    import app
    from infra import bundling

    def fail(*_: object) -> None:
        raise bundling.BundlingError("no index, says uv")

    monkeypatch.setattr(bundling, "_install", fail)
    monkeypatch.setattr(app, "load", lambda _, warn: parse(simple.toml))
    assert app.main() == 1
    error = capsys.readouterr().err
    assert "no index, says uv" in error
    assert len(error.splitlines()) == 1


def test_the_cdk_cli_gives_the_same_template_without_docker_and_without_an_account(tmp_path, bare, simple):
    config = tmp_path / "tidegate.toml"
    config.write_text(simple.toml)
    done = subprocess.run(
        [
            *(*toolchain.cdk(), "synth", "--quiet", "--no-notices", "--output", str(tmp_path / "cdk.out")),
            *("--context", f"tidegate:config={config}", "--context", "tidegate:local=true"),
        ],
        cwd=ROOT,
        env=bare,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    template = json.loads((tmp_path / "cdk.out" / "tidegate.template.json").read_text())
    assert without_hashes(template) == without_hashes(simple.body)
    check_assets(tmp_path / "cdk.out", template, simple.toml)


def test_for_an_import_nothing_is_built_and_only_what_outlives_a_stack_is_there(tmp_path, bare, simple):
    config = tmp_path / "tidegate.toml"
    config.write_text(simple.toml)
    done = subprocess.run(
        [
            *(*toolchain.cdk(), "synth", "--quiet", "--no-notices", "--output", str(tmp_path / "cdk.out")),
            *("--context", f"tidegate:config={config}", "--context", "tidegate:import=true"),
        ],
        cwd=ROOT,
        env=bare,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    template = json.loads((tmp_path / "cdk.out" / "tidegate.template.json").read_text())
    kinds = {each["Type"] for each in template["Resources"].values()}
    assert kinds == {"AWS::DynamoDB::Table", "AWS::S3::Bucket", "AWS::S3::BucketPolicy"}
    assert not list((tmp_path / "cdk.out").glob("asset.*"))


def without_hashes(template: dict[str, Any]) -> dict[str, Any]:
    """The template, whatever the code is: somebody may save a file between two looks at it."""
    text: dict[str, Any] = json.loads(re.sub(r"[0-9a-f]{64}", "<hash>", json.dumps(template)))
    return text


def check_assets(folder: Path, template: dict[str, Any], toml: str) -> None:
    """The functions' code is beside the template, whole, and the Spark script too."""
    functions = [
        each
        for each in template["Resources"].values()
        if each["Type"] == "AWS::Lambda::Function" and each["Properties"]["Handler"].startswith("lambdas.")
    ]
    (asset,) = {each["Metadata"]["aws:asset:path"] for each in functions}
    code = folder / asset
    assert sorted(each.name for each in code.iterdir()) == ["lambdas", "tidegate", "tidegate.toml"]
    assert (code / "tidegate.toml").read_text() == toml
    assert not list(code.rglob("__pycache__"))
    for each in functions:
        module, _, _ = each["Properties"]["Handler"].rpartition(".")
        assert (code / f"{module.replace('.', '/')}.py").is_file()
    (script,) = folder.glob("asset.*.py")
    assert script.read_text() == (ROOT / "tidegate" / "spark" / "entry.py").read_text()


def test_a_finding_of_cdk_nag_that_nobody_answers_for_stops_the_deployment(simple, monkeypatch):
    import app
    from infra import bundling

    monkeypatch.setattr(bundling, "_install", lambda *_: None)
    monkeypatch.setattr(app, "load", lambda _, warn: parse(simple.toml))
    assert app.main() == 0
    monkeypatch.setattr("infra.buckets.accept", lambda *_: None)
    assert app.main() == 1


def test_of_tidegate_the_infrastructure_imports_what_both_need():
    """import-linter knows no "all but": the list must name every other module there is, and nothing may be excepted."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (contract,) = (each for each in contracts if each.get("source_modules") == ["infra"])
    assert contract["name"] == "of tidegate, infra imports only settings, environment, metrics and schedule"
    assert not contract.get("ignore_imports")
    modules = {
        each.stem for each in (ROOT / "tidegate").iterdir() if each.suffix == ".py" or (each / "__init__.py").exists()
    }
    others = {f"tidegate.{each}" for each in modules - {"__init__", "settings", "environment", "metrics", "schedule"}}
    assert {each for each in contract["forbidden_modules"] if each.startswith("tidegate")} == others
