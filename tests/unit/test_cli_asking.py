"""The parts of `tidegate sql` that make no call: properties, widths, names."""

import io
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.console import Console

from tidegate.cli.asking.grid import chosen, fitted
from tidegate.cli.asking.lakes import credential_advice, credential_variable, has_credential
from tidegate.cli.asking.properties import Caller, caller, of_pyiceberg
from tidegate.cli.asking.tell import LINEAGE
from tidegate.reading import reader
from tidegate.settings import LakeCatalog, SettingsError, parse
from tidegate_local import toolchain

ARN = "arn:aws:s3tables:eu-central-1:111122223333:bucket/tables"
SECRET = "arn:aws:secretsmanager:eu-central-1:111122223333:secret:lake-AbCdEf"
ROUTE = '[[route]]\nname = "r"\nbucket = "landing"\nformat = "json"\ntable = "lake.a.b"\nschema = "id int"\n'
NETWORK = '[network]\nsubnets = ["subnet-01234567"]\nsecurity_groups = ["sg-01234567"]\n'
REST = 'uri = "https://catalog.example.com"\nwarehouse = "s3://tables/here"\n'
SETTINGS = {
    "glue": parse(ROUTE),
    "s3tables": parse(f'[catalog]\nwarehouse = "{ARN}"\n{ROUTE}'),
    "rest": parse(f'{NETWORK}[catalog]\n{REST}credential_secret = "{SECRET}"\n{ROUTE}'),
}
CATALOGS = {kind: settings.catalog for kind, settings in SETTINGS.items()}
WHO = Caller("eu-central-1", "AKIA", "secret", "token")


def test_the_columns_of_the_lineage_are_those_that_rows_get():
    assert list(LINEAGE) == reader.LINEAGE.names


# --- catalogs ---


@pytest.mark.parametrize("kind", CATALOGS)
def test_a_person_and_the_job_reach_the_same_tables(kind: str, monkeypatch: pytest.MonkeyPatch):
    """What differs is what a person has not: the name of the warehouse bucket, and the secret itself."""
    for name, value in toolchain.cdk_environment().items():
        monkeypatch.setenv(name, value)
    import aws_cdk as cdk  # starts Node, so only here

    from infra.buckets import Buckets, WorkBucket
    from infra.catalogs import make_catalog
    from infra.encryption import Encryption

    catalog, settings = CATALOGS[kind], SETTINGS[kind]
    stack = cdk.Stack(cdk.App(), "s")

    buckets = Buckets(Encryption(stack, "Encryption", security=settings.security, dev=False), None, dev=False)
    work = WorkBucket(stack, "Work", buckets=buckets)
    job = stack.resolve(make_catalog(stack, settings, buckets, work).properties)
    person = of_pyiceberg(catalog, WHO)
    name = "spark.sql.catalog.lake"
    match kind:
        case "glue":
            assert job[f"{name}.catalog-impl"] == "org.apache.iceberg.aws.glue.GlueCatalog"
            assert person["type"] == "glue"
        case "s3tables":
            # a person reaches the endpoint of S3 Tables, and a job may not
            assert job[f"{name}.glue.id"] == "111122223333:s3tablescatalog/tables"
            assert (person["warehouse"], person["rest.signing-region"]) == (ARN, "eu-central-1")
        case "rest":
            assert job["spark.tidegate.credential-secret.lake"] == SECRET
            for each in ("uri", "warehouse"):
                assert person[each] == job[f"{name}.{each}"]
    assert person["client.session-token"] == "token"


def test_a_credential_is_taken_from_the_environment_or_from_pyicebergs_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    catalog = LakeCatalog(name="my_lake", type="rest", uri="https://c.example.com", credential_secret=SECRET)
    assert not has_credential(catalog, {})
    assert SECRET in credential_advice(catalog)
    assert has_credential(catalog, {credential_variable(catalog): "id:secret"})
    (tmp_path / ".pyiceberg.yaml").write_text("catalog:\n  my_lake:\n    token: of-a-file\n")
    assert has_credential(catalog, {})


def test_without_credentials_or_a_region_it_says_what_to_set(monkeypatch: pytest.MonkeyPatch):
    for name in (
        "AWS_SESSION_TOKEN",
        "AWS_ENDPOINT_URL",
        "AWS_PROFILE",
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_DEFAULT_REGION",
        "AWS_REGION",
    ):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, "/dev/null")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(SettingsError, match="no credentials for AWS: log in, or set AWS_PROFILE"):
        caller()
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "A")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "B")
    with pytest.raises(SettingsError, match="set AWS_DEFAULT_REGION"):
        caller()
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:2")
    assert caller() == Caller("eu-central-1", "A", "B", "", "http://127.0.0.1:2")
    monkeypatch.delenv("AWS_ENDPOINT_URL_S3")
    assert caller().s3 == "http://127.0.0.1:1"


# --- what fits ---


def test_the_columns_of_the_lineage_give_way_first_unless_they_were_asked_for_by_name():
    names = ["a", *LINEAGE, "b"]
    needs = [5, 60, 30, 11, 26, 20, 5]
    assert chosen(names, needs, 200, LINEAGE) == [0, 1, 2, 3, 4, 5, 6]
    assert chosen(names, needs, 110, LINEAGE) == [0, 1, 2, 6]
    assert chosen(names, needs, 12, LINEAGE) == [0, 6]
    assert chosen(names, needs, 11, LINEAGE) == [0]
    assert chosen(["_batch_id", "n"], [26, 5], 19, LINEAGE) == [0, 1]
    assert chosen(["_batch_id"], [500], 1, LINEAGE) == [0]
    assert chosen(list(LINEAGE), [60, 30, 11, 26, 20], 40, LINEAGE) == [0, 1, 2]


@pytest.mark.parametrize("width", [20, 40, 72, 80, 200])
def test_no_line_is_wider_than_the_terminal(width: int):
    columns = [("id", "BIGINT"), ("name", "VARCHAR"), ("漢字", "VARCHAR"), ("_source_uri", "VARCHAR")]
    rows = [(1, "x" * 300, "漢" * 30, "s3://" + "k" * 80), (22, None, "", "s3://b/k")]
    table, left_out = fitted(columns, rows, width, LINEAGE)
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(table)
    lines = console.export_text().splitlines()
    assert len(lines) == 2 + len(rows), "a cell is cut, and takes one line"
    assert max(map(cell_len, lines)) <= width
    assert {"1", "22"} <= {line.split()[0] for line in lines}, "the widest columns give way"
    assert "id" not in left_out
    assert left_out == (["漢字", "_source_uri"] if width == 20 else ["_source_uri"] if width == 40 else [])
