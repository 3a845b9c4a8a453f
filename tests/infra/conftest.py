"""The template, synthesized once for all tests that look at it."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import pytest

from infra import bundling
from tests.infra.bundles import packed
from tidegate_local import toolchain

ROOT = Path(__file__).parents[2]

SIMPLE = """
[[route]]
name = "flights"
bucket = "example-landing"
prefix = "flights/"
suffix = ".json.gz"
format = "json"
table = "lake.flights.departures"
schema = "id bigint"
"""

MANY = """
[deployment]
name = "many"

[retention]
claims = "1118h"

[[route]]
name = "orders"
bucket = "example-landing"
prefix = "shop/day=1 a/"
format = "csv"
table = "house.shop.orders"
schema = "id bigint"

[[route]]
name = "events"
bucket = "example-archive"
format = "parquet"
table = "house.web.events"
schema = "id bigint"

[[route]]
name = "items"
bucket = "example-landing"
prefix = "shop/items/"
suffix = ".json"
format = "json"
table = "house.shop.items"
schema = "id bigint"

[[route]]
name = "prices"
bucket = "example-theirs"
existing = true
prefix = "prices/*$/"
format = "json"
table = "house.shop.prices"
schema = "id bigint"

[[route]]
name = "stock"
bucket = "example-theirs"
existing = true
prefix = "stock/"
suffix = ".csv"
format = "csv"
table = "house.shop.stock"
schema = "id bigint"
"""

CUSTOMER = '[security]\nencryption = "customer"\naccess_logs = "example-logs"\n' + MANY
"""A key that the stack creates, for all that MANY has."""
KEY_ARN = "arn:aws:kms:us-east-1:123456789012:key/11111111-2222-3333-4444-555555555555"
IMPORTED = f'[security]\nencryption = "{KEY_ARN}"\n' + SIMPLE
EVENTBRIDGE = MANY.replace("format =", 'source = "eventbridge"\nformat =')
DEV = MANY.replace("[deployment]", "[deployment]\ndev = true")
S3TABLES = (
    """
[catalog]
warehouse = "arn:aws:s3tables:us-east-1:123456789012:bucket/example-tables"
"""
    + SIMPLE
)
REST = (
    """
[network]
subnets = ["subnet-01234567", "subnet-89abcdef"]
security_groups = ["sg-01234567"]

[catalog]
uri = "https://catalog.example.com/api"
warehouse = "s3://example-lake/house"
credential_secret = "arn:aws:secretsmanager:us-east-1:123456789012:secret:catalog-AbCdEf"
"""
    + SIMPLE
)
VARIANTS = {
    "simple": SIMPLE,
    "many": MANY,
    "customer": CUSTOMER,
    "imported": IMPORTED,
    "eventbridge": EVENTBRIDGE,
    "dev": DEV,
    "s3tables": S3TABLES,
    "rest": REST,
}
"""Every way to build the stack that differs in its resources."""


@dataclass(frozen=True)
class Template:
    """A synthesized template, the tidegate.toml it was made from, and the ways tests look into it."""

    toml: str
    body: dict[str, Any]
    violations: list[dict[str, Any]]
    """What cdk-nag finds, with what was accepted left out."""
    accepted: dict[str, list[dict[str, str]]]
    """What was accepted, rule and reason, by the path of the construct."""

    @property
    def resources(self) -> dict[str, dict[str, Any]]:
        return self.body["Resources"]

    @property
    def parameters(self) -> dict[str, str]:
        """Spark's properties that each job is started with, and what only a deployment knows as `<name>`."""
        value = self.body["Outputs"]["SparkParameters"]["Value"]
        parts = value["Fn::Join"][1] if isinstance(value, dict) else [value]
        text = "".join(part if isinstance(part, str) else f"<{next(iter(part.values()))}>" for part in parts)
        return dict(each.split("=", 1) for each in text.removeprefix("--conf ").split(" --conf "))

    def of(self, kind: str) -> dict[str, dict[str, Any]]:
        """The properties of all resources of a type, by logical id."""
        return {name: each.get("Properties", {}) for name, each in self.resources.items() if each["Type"] == kind}

    def one(self, kind: str, part: str = "") -> tuple[str, dict[str, Any]]:
        """The only resource of a type whose logical id begins with `part`."""
        ((name, properties),) = ((name, each) for name, each in self.of(kind).items() if name.startswith(part))
        return name, properties

    def statements(self, role: str) -> list[dict[str, Any]]:
        """What the policies attached to the role with this logical id say."""
        return [
            statement
            for policy in self.of("AWS::IAM::Policy").values()
            if {"Ref": role} in policy["Roles"]
            for statement in policy["PolicyDocument"]["Statement"]
        ]


class Synthesize(Protocol):
    """Turns the text of a tidegate.toml into the template of its stack."""

    def __call__(self, toml: str, *, local: bool = True, importing: bool = False) -> Template: ...


@pytest.fixture(scope="session")
def synthesize(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Synthesize]:
    """Node is started once, and every template comes from it."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in toolchain.cdk_environment().items():
            patch.setenv(name, value)
        import aws_cdk as cdk  # starts Node, so only here
        from cdk_nag import AwsSolutionsChecks

        from app import CONTEXT
        from infra.stack import TidegateStack
        from tidegate.settings import parse

        key = cdk.Validations.ACKNOWLEDGED_RULES_METADATA_KEY

        def build(toml: str, *, local: bool = True, importing: bool = False) -> Template:
            folder = tmp_path_factory.mktemp("synth")
            config = folder / "tidegate.toml"
            config.write_text(toml)
            settings = parse(toml)
            app = cdk.App(analytics_reporting=False, context=CONTEXT, outdir=str(folder / "cdk.out"))
            stack = TidegateStack(app, settings, sources=ROOT, config=config, local=local, importing=importing)
            cdk.Validations.of(app).add_plugins(AwsSolutionsChecks(app))
            accepted = {
                each.node.path: [entry.data for entry in each.node.metadata if entry.type == key]
                for each in stack.node.find_all()
                if any(entry.type == key for entry in each.node.metadata)
            }
            try:
                app.synth()
            except RuntimeError as error:
                if "ValidationFailed" not in str(error):
                    raise
            out = folder / "cdk.out"
            return Template(
                toml,
                json.loads((out / f"{settings.deployment.name}.template.json").read_text()),
                [
                    each
                    for plugin in json.loads((out / "validation-report.json").read_text())["pluginReports"]
                    for each in plugin["violations"]
                ],
                accepted,
            )

        yield build


@pytest.fixture(scope="session")
def variant(synthesize: Synthesize) -> Callable[[str], Template]:
    """The template of one of `VARIANTS`."""
    return cache(lambda name: synthesize(VARIANTS[name]))


@pytest.fixture(scope="session")
def simple(variant: Callable[[str], Template]) -> Template:
    """One route; everything else as it comes."""
    return variant("simple")


@pytest.fixture(scope="session")
def many(variant: Callable[[str], Template]) -> Template:
    """Several routes: two on one bucket, one alone on another, two on a bucket that exists already."""
    return variant("many")


@pytest.fixture(scope="session")
def functions() -> Iterator[Path]:
    """What Lambda gets, unpacked."""
    yield from packed(bundling.functions(ROOT, ROOT / "tidegate.example.toml", dependencies=True))


@pytest.fixture(scope="session")
def spark() -> Iterator[dict[str, Path]]:
    """What the archives of a job hold, by their names."""
    yield from packed(bundling.spark(ROOT))
