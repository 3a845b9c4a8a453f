"""What real accounts ask of the stack: events by EventBridge, subnets, other catalogs, trials, neighbours, quotas."""

import json
import re
from typing import Any

import boto3
import pytest

from tests.infra.conftest import SIMPLE, VARIANTS
from tests.infra.test_permissions import FUNCTIONS, listed, resources, statements
from tests.infra.test_template import ACCOUNT, arn
from tests.support.patience import eventually
from tidegate.core.uploads import object_hash
from tidegate.settings import parse
from tidegate.settings.scale import event_matchers
from tidegate_local import stack
from tidegate_local.loader.rules import filter_rules

# --- EventBridge ---


def rules(template) -> dict[str, tuple[str, dict[str, Any]]]:
    """The rules for uploads, by bucket."""
    return {
        each["EventPattern"]["detail"]["bucket"]["name"][0]: (name, each)
        for name, each in template.of("AWS::Events::Rule").items()
        if each.get("EventPattern", {}).get("source") == ["aws.s3"] and "account" in each["EventPattern"]
    }


def test_eventbridge_tells_the_buffer_of_the_uploads_of_the_routes(variant):
    template = variant("eventbridge")
    found = {bucket: rule["EventPattern"] for bucket, (_, rule) in rules(template).items()}
    assert set(found) == {"example-archive", "example-landing", "example-theirs"}
    assert found["example-landing"] == {
        "source": ["aws.s3"],
        "detail-type": ["Object Created"],
        "account": [ACCOUNT],
        "detail": {
            "bucket": {"name": ["example-landing"]},
            "object": {"key": [{"wildcard": "shop/items/*.json"}, {"prefix": "shop/day=1 a/"}]},
        },
    }
    assert "object" not in found["example-archive"]["detail"], "the whole bucket is the route's"
    buffer, dead_letters = (template.one("AWS::SQS::Queue", each)[0] for each in ("BufferQueue", "BufferDead"))
    for _, rule in rules(template).values():
        (target,) = rule["Targets"]
        assert target["Arn"] == arn(buffer)
        assert target["DeadLetterConfig"] == {"Arn": arn(dead_letters)}


def test_created_buckets_send_events_and_existing_ones_are_made_to_without_losing_what_they_had(variant):
    template = variant("eventbridge")
    for name, bucket in template.of("AWS::S3::Bucket").items():
        sends = name.startswith(("Landing", "Work"))  # settling hears of receipts
        wanted = {"EventBridgeConfiguration": {"EventBridgeEnabled": True}} if sends else None
        assert bucket.get("NotificationConfiguration") == wanted
    _, custom = template.one("Custom::S3BucketNotifications")
    assert (custom["BucketName"], custom["Managed"]) == ("example-theirs", False)
    assert custom["NotificationConfiguration"] == {"EventBridgeConfiguration": {}}


def eventbridge_matches(matcher: Any, key: str) -> bool:
    """As EventBridge compares (https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-create-pattern-operators.html)."""
    if isinstance(matcher, str):
        return key == matcher
    ((operator, value),) = matcher.items()
    if operator == "wildcard":
        tokens = re.findall(r"\\.|\*|[^\\*]+", value, re.DOTALL)
        pattern = "".join(".*" if each == "*" else re.escape(each.removeprefix("\\")) for each in tokens)
        return re.fullmatch(pattern, key, re.DOTALL) is not None
    return key.startswith(value) if operator == "prefix" else key.endswith(value)


@pytest.mark.parametrize(
    ("prefix", "suffix"),
    [
        ("", ""),
        ("in/", ""),
        ("", ".json"),
        ("in/", ".json"),
        ("a.", ".b"),
        ("aaa", "aa"),
        ("x*y/", "*z"),
        ("q\\", "\\r"),
    ],
)
def test_a_rule_matches_exactly_the_keys_of_its_route(prefix: str, suffix: str):
    route = parse(SIMPLE.replace('"flights/"', json.dumps(prefix)).replace('".json.gz"', json.dumps(suffix))).routes[0]
    keys = [prefix + between + suffix for between in ("", "m", "m/n*")]
    keys += [prefix + suffix[cut:] for cut in range(len(suffix) + 1)]
    keys += [prefix, suffix, "other", prefix + "other", "other" + suffix, "xxy/zz", "a", "aa", "aaa", "aaaa", "q\\r"]
    matchers = event_matchers(route)
    for key in keys:
        of_route = key.startswith(prefix) and key.endswith(suffix)
        assert any(eventbridge_matches(each, key) for each in matchers) == of_route, (key, matchers)


def test_on_this_machine_the_bucket_notifies_of_the_same_keys():
    for prefix, suffix in (("in/", ".json"), ("x*y/", "*z"), ("q\\", "\\r"), ("in/", ""), ("", ".gz")):
        route = parse(
            SIMPLE.replace('"flights/"', json.dumps(prefix)).replace('".json.gz"', json.dumps(suffix))
        ).routes[0]
        (matcher,) = (each for each in event_matchers(route) if not isinstance(each, str))
        assert filter_rules("Rule", matcher) == [
            {"Name": name, "Value": value} for name, value in (("prefix", prefix), ("suffix", suffix)) if value
        ]


def test_on_this_machine_uploads_to_each_bucket_arrive_though_eventbridge_and_a_key_are_asked_for(
    tmp_path, monkeypatch
):
    config = tmp_path / "tidegate.toml"
    config.write_text('[security]\nencryption = "customer"\n' + VARIANTS["eventbridge"])
    folder = tmp_path / "stack"
    started = stack.detach(config, folder, on_progress=lambda step: None)
    try:
        assert started.notes == ("bucket example-theirs is to exist already; an empty one was made in its place",)
        for name, value in started.environment.items():
            monkeypatch.setenv(name, value)
        uploads = {"example-landing": "shop/items/a.json", "example-archive": "x", "example-theirs": "stock/1.csv"}
        for bucket, key in uploads.items():
            boto3.client("s3").put_object(Bucket=bucket, Key=key, Body=b"{}")
        boto3.client("s3").put_object(Bucket="example-landing", Key="shop/items/a.csv", Body=b"{}")
        table = boto3.resource("dynamodb").Table(started.environment["TIDEGATE_LEDGER"])
        claims = eventually(
            lambda: [each for each in table.scan()["Items"] if each["pk"].startswith("o#")],
            lambda found: len(found) >= len(uploads),
            waiting_for=f"{len(uploads)} claims",
        )
        assert {each["pk"] for each in claims} == {f"o#{object_hash(*each)}" for each in uploads.items()}
    finally:
        stack.down(folder)


# --- network, catalogs ---


def test_workers_run_in_the_subnets_that_are_named(synthesize, simple):
    network = '[network]\nsubnets = ["subnet-01234567", "subnet-89abcdef"]\nsecurity_groups = ["sg-01234567"]\n'
    application = synthesize(network + SIMPLE).one("AWS::EMRServerless::Application")[1]
    assert application["NetworkConfiguration"] == {
        "SubnetIds": ["subnet-01234567", "subnet-89abcdef"],
        "SecurityGroupIds": ["sg-01234567"],
    }
    assert "NetworkConfiguration" not in simple.one("AWS::EMRServerless::Application")[1]


def spark(template) -> dict[str, str]:
    return {
        name.removeprefix("spark.sql.catalog.lake."): value
        for name, value in template.parameters.items()
        if name.startswith("spark.sql.catalog.lake.")
    }


def test_a_table_bucket_is_reached_by_way_of_glue(variant):
    """A job without subnets has no way to the endpoint of S3 Tables."""
    template = variant("s3tables")
    bucket = "arn:aws:s3tables:us-east-1:123456789012:bucket/example-tables"
    assert spark(template) == {
        "catalog-impl": "org.apache.iceberg.aws.glue.GlueCatalog",
        "glue.id": "123456789012:s3tablescatalog/example-tables",
        "client.region": "us-east-1",
        "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        "warehouse": f"s3://<{template.one('AWS::S3::Bucket', 'Work')[0]}>/warehouse",
    }
    glue = "arn:<AWS::Partition>:glue:us-east-1:123456789012:"
    catalogs = [f"{glue}catalog", f"{glue}catalog/s3tablescatalog", f"{glue}catalog/s3tablescatalog/example-tables"]
    within = "s3tablescatalog/example-tables/flights"
    tables = [f"{glue}database/{within}", f"{glue}table/{within}/departures"]
    assert resources(template, "job", "glue:GetCatalog") == catalogs
    for action in ("glue:CreateTable", "glue:GetTable", "glue:UpdateTable"):
        assert resources(template, "job", action) == [*catalogs, *tables]
    assert resources(template, "job", "lakeformation:GetDataAccess") == ["*"]
    assert resources(template, "job", "s3tables:CreateNamespace") == [bucket]
    assert resources(template, "job", "s3tables:CreateTable") == [bucket]
    assert resources(template, "job", "s3tables:UpdateTableMetadataLocation") == [f"{bucket}/table/*"]
    actions = {action for each in statements(template, "job") for action in listed(each["Action"])}
    assert {each for each in actions if "Delete" in each} == {"dynamodb:DeleteItem"}, "of what workers take"


def test_a_rest_catalog_gets_its_credential_from_a_secret_that_only_the_job_reads(variant):
    template = variant("rest")
    secret = "arn:aws:secretsmanager:us-east-1:123456789012:secret:catalog-AbCdEf"
    assert spark(template) == {
        "catalog-impl": "org.apache.iceberg.rest.RESTCatalog",
        "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        "uri": "https://catalog.example.com/api",
        "warehouse": "s3://example-lake/house",
    }
    assert template.parameters["spark.tidegate.credential-secret.lake"] == secret
    assert resources(template, "job", "secretsmanager:GetSecretValue") == [secret]
    assert not [who for who in FUNCTIONS if "secretsmanager" in str(statements(template, who))]
    assert "arn:<AWS::Partition>:s3:::example-lake/house/*" in resources(template, "job", "s3:DeleteObject")


def test_only_glue_has_a_warehouse_bucket(variant):
    for name in ("s3tables", "rest"):
        assert not [each for each in variant(name).of("AWS::S3::Bucket") if each.startswith("Warehouse")]
    assert not [each for each in statements(variant("rest"), "job") if "glue" in str(each["Action"])]


# --- trials, neighbours ---


def test_a_trial_leaves_nothing_behind(variant, many):
    template = variant("dev")
    assert not [name for name, each in template.resources.items() if "Retain" in str(each.get("DeletionPolicy"))]
    assert not [name for name, each in template.resources.items() if "Retain" in str(each.get("UpdateReplacePolicy"))]
    assert not template.of("Custom::TidegateProtection")
    assert not template.of("Custom::TidegateArchive")
    emptied = {each["BucketName"]["Ref"] for each in template.of("Custom::S3AutoDeleteObjects").values()}
    assert emptied == set(template.of("AWS::S3::Bucket"))
    assert not many.of("Custom::S3AutoDeleteObjects"), "nothing else deletes objects"


def test_a_trials_key_goes_with_it(synthesize):
    template = synthesize('[deployment]\ndev = true\n[security]\nencryption = "customer"\n' + SIMPLE)
    assert template.resources[template.one("AWS::KMS::Key")[0]]["DeletionPolicy"] == "Delete"


@pytest.mark.parametrize("name", VARIANTS)
def test_two_deployments_in_one_account_never_collide(variant, name):
    """CloudFormation makes a name up that holds the stack's, or the name that is given does, or it is a landing
    bucket's, which nobody else can have."""
    template = variant(name)
    deployment = parse(template.toml).deployment.name
    landing = {route.bucket for route in parse(template.toml).routes}
    for logical, resource in template.resources.items():
        given = {
            key: value
            for key, value in resource.get("Properties", {}).items()
            if key in {"Name", "AlarmName", "DashboardName", "LogGroupName", "RoleName", "RuleName", "TableName"}
            or (key == "TopicName" and resource["Type"] == "AWS::SNS::Topic")
            or (key == "QueueName" and resource["Type"] == "AWS::SQS::Queue")
            or (key == "BucketName" and resource["Type"] == "AWS::S3::Bucket")
            or (key == "FunctionName" and resource["Type"] == "AWS::Lambda::Function")
        }
        for value in given.values():
            ours = isinstance(value, str) and (value in landing or value.startswith(deployment))
            assert ours, f"{logical}: {value}"
    assert not [each for each in template.body["Outputs"].values() if "Export" in each]


# --- quotas ---


def test_a_job_finds_no_more_than_a_new_account_has_and_queues_for_it(simple, many):
    for template in (simple, many):
        application = template.one("AWS::EMRServerless::Application")[1]
        assert application["MaximumCapacity"] == {"Cpu": "16 vCPU", "Memory": "64 GB", "Disk": "320 GB"}
        assert application["SchedulerConfiguration"] == {"MaxConcurrentRuns": 2, "QueueTimeoutMinutes": 360}


def test_the_queues_use_as_many_invocations_as_lanes(synthesize):
    template = synthesize(SIMPLE.replace("[[route]]", "[[route]]\nlanes = 7"))
    for function in ("Intake", "Dispatch"):
        scaling = template.one("AWS::Lambda::EventSourceMapping", function)[1]["ScalingConfig"]
        assert scaling == {"MaximumConcurrency": 7}


def test_the_custom_resources_functions_keep_logs_as_long_as_ours(many, variant):
    for template in (many, variant("dev")):
        for function in template.of("AWS::Lambda::Function").values():
            group = template.of("AWS::Logs::LogGroup")[function["LoggingConfig"]["LogGroup"]["Ref"]]
            assert group["RetentionInDays"] == 30
