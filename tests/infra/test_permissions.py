"""Who may do what: only what is needed, on the very resource. No emulator can prove that, so the policies are read."""

import json
import re
from fnmatch import fnmatch
from pathlib import Path

import pytest

from infra.buckets import SAME_BYTES
from infra.roster import ROSTER, Feed, FeedQueue, May
from tidegate.core.records import OUTBOX, WORK
from tidegate.core.same_bytes import same_bytes_name

ROOT = Path(__file__).parents[2]
FUNCTIONS = [row.name for row in ROSTER]
ROLES = {**{row.name: f"{row.construct}Role" for row in ROSTER}, "job": "EmrJobRole"}

JOB = {
    *("s3:GetObject", "s3:GetObjectVersion", "s3:ListBucket", "s3:ListBucketVersions"),
    *("s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"),
    *("glue:GetDatabase", "glue:CreateDatabase", "glue:GetTable", "glue:CreateTable"),
    *("glue:UpdateTable", "dynamodb:BatchGetItem", "dynamodb:GetItem", "dynamodb:Query"),
    *("dynamodb:UpdateItem", "dynamodb:DeleteItem"),
}


def who_may(*any_of: May) -> list[str]:
    """The functions whose rows say one of these."""
    return [row.name for row in ROSTER if set(any_of) & set(row.may)]


def listed(value):
    return value if isinstance(value, list) else [value]


def statements(template, who):
    return template.statements(template.one("AWS::IAM::Role", ROLES[who])[0])


def text(resource) -> str:
    """A resource as people write it, with the logical id for what only CloudFormation knows."""
    match resource:
        case str():
            return resource
        case {"Fn::GetAtt": [logical_id, "Arn"]} | {"Ref": logical_id}:
            return f"<{logical_id}>"
        case {"Fn::Sub": value}:
            return value
        case {"Fn::Join": ["", parts]}:
            return "".join(text(part) for part in parts)
    raise AssertionError(f"unexpected resource {resource}")


def resources(template, who, action):
    """The resources on which `who` may do `action`, without the hashes of logical ids."""
    found = [
        text(resource)
        for statement in statements(template, who)
        if action in listed(statement["Action"])
        for resource in listed(statement["Resource"])
    ]
    return sorted(re.sub(r"[0-9A-F]{8}>", ">", each) for each in found)


def test_the_job_may_do_what_it_must_and_no_more(simple):
    """Of the functions test_calls.py tells what they call."""
    assert {action for each in statements(simple, "job") for action in listed(each["Action"])} == JOB


def test_no_role_may_act_on_everything(simple, many):
    for template in (simple, many):
        for name, policy in template.of("AWS::IAM::Policy").items():
            for statement in policy["PolicyDocument"]["Statement"]:
                assert "NotAction" not in statement
                assert "NotResource" not in statement
                assert not [each for each in listed(statement["Action"]) if "*" in each], name
                for resource in map(text, listed(statement["Resource"])):
                    assert resource != "*", f"{name}: {statement['Action']}"
                    # a wildcard may stand for objects, job runs or log streams of one named resource only
                    assert "*" not in re.split(r"/|:log-stream:", resource)[0], f"{name}: {resource}"


def test_no_function_has_a_managed_policy(simple):
    assert not [each for each in simple.of("AWS::IAM::Role").values() if "ManagedPolicyArns" in each]


def test_each_function_reads_its_queue_and_writes_its_log_only(simple):
    queues = {FeedQueue.BUFFER: "<BufferQueue>", FeedQueue.NOTICES: "<BusNotices>"}
    for row in ROSTER:
        expected = [queues[row.started_by.queue]] if isinstance(row.started_by, Feed) else []
        assert resources(simple, row.name, "sqs:ReceiveMessage") == expected
        assert resources(simple, row.name, "logs:PutLogEvents") == [f"<{row.construct}Log>"]


def test_what_cannot_be_handled_is_set_aside_among_the_dead_letters_of_its_queue(simple):
    assert resources(simple, "intake", "sqs:SendMessage") == ["<BufferDeadLetters>"]
    assert resources(simple, "dispatch", "sqs:SendMessage") == ["<BusDeadLetters>"]


def test_only_hand_offs_workers_and_what_was_announced_may_be_deleted_from_the_ledger(simple):
    for who in who_may(May.USE_LEDGER, May.ANNOUNCE):
        found = [each for each in statements(simple, who) if "dynamodb:DeleteItem" in each["Action"]]
        assert {each["Action"] for each in found} == {"dynamodb:DeleteItem"}
        expected = {May.USE_LEDGER: ["h#*", "work"], May.ANNOUNCE: ["outbox"]}
        assert [each["Condition"] for each in found] == [
            {"ForAllValues:StringLike": {"dynamodb:LeadingKeys": keys}}
            for may, keys in expected.items()
            if who in who_may(may)
        ]


def test_settle_announces_on_one_bus_and_on_none_if_that_is_off(simple, synthesize):
    assert who_may(May.ANNOUNCE) == ["settle"]
    bus = "arn:<AWS::Partition>:events:<AWS::Region>:<AWS::AccountId>:event-bus/"
    assert resources(simple, "settle", "events:PutEvents") == [f"{bus}default"]
    named = synthesize('[announce]\nbus = "news"\n' + simple.toml)
    assert resources(named, "settle", "events:PutEvents") == [f"{bus}news"]
    off = synthesize('[announce]\nbus = ""\n' + simple.toml)
    assert resources(off, "settle", "events:PutEvents") == []
    assert len(resources(off, "settle", "dynamodb:DeleteItem")) == 1
    import infra.ledger as keys  # starts Node, so only here

    assert (keys.OUTBOX, keys.WORK) == (OUTBOX, WORK)


def test_notes_of_the_same_bytes_are_where_the_policy_says():
    assert fnmatch(same_bytes_name("s3://b/k", "v"), SAME_BYTES)


def test_hand_offs_are_where_the_policy_says():
    source = (ROOT / "tidegate" / "aws" / "hand_offs.py").read_text()
    assert re.findall(r'static_pk_value="([^"]+)"', source) == ["h#hand-off"]


@pytest.mark.parametrize("who", [*who_may(May.USE_WORK), "job"])
def test_batches_are_written_but_never_deleted(simple, who):
    assert "<WorkBucket>/batches/*" in resources(simple, who, "s3:PutObject")
    assert "<WorkBucket>" in resources(simple, who, "s3:ListBucket"), "else a missing receipt looks forbidden"
    assert "<WorkBucket>/batches/*" not in resources(simple, who, "s3:DeleteObject")


@pytest.mark.parametrize("who", who_may(May.START_JOBS))
def test_jobs_are_started_in_this_application_under_its_role(simple, who):
    assert resources(simple, who, "emr-serverless:StartJobRun") == ["<EmrApplication>"]
    assert resources(simple, who, "emr-serverless:TagResource") == ["<EmrApplication>/jobruns/*"]
    assert resources(simple, who, "iam:PassRole") == ["<EmrJobRole>"]
    (statement,) = (each for each in statements(simple, who) if each["Action"] == "iam:PassRole")
    assert statement["Condition"] == {"StringEquals": {"iam:PassedToService": "emr-serverless.amazonaws.com"}}


def test_the_job_reads_the_uploads_of_the_routes_and_nothing_else(many):
    assert resources(many, "job", "s3:GetObjectVersion") == [
        "arn:<AWS::Partition>:s3:::example-archive/*",
        "arn:<AWS::Partition>:s3:::example-landing/shop/day=1 a/*",
        "arn:<AWS::Partition>:s3:::example-landing/shop/items/*.json",
        "arn:<AWS::Partition>:s3:::example-theirs/prices/${*}${$}/*",
        "arn:<AWS::Partition>:s3:::example-theirs/stock/*.csv",
    ]


def test_the_job_may_tell_a_deleted_upload_from_a_forbidden_one(many):
    assert resources(many, "job", "s3:ListBucketVersions") == [
        f"arn:<AWS::Partition>:s3:::example-{name}" for name in ("archive", "landing", "theirs")
    ]


def test_the_job_writes_no_uploads_and_deletes_in_the_warehouse_only(many):
    assert resources(many, "job", "s3:PutObject") == [
        "<WarehouseBucket>/*",
        "<WorkBucket>/audits/*",
        "<WorkBucket>/batches/*",
        "<WorkBucket>/lineage/*",
        "<WorkBucket>/maintenance/*",
        "<WorkBucket>/same-bytes/*",
    ]
    assert resources(many, "job", "s3:DeleteObject") == ["<WarehouseBucket>/*"]


def test_no_job_needs_eventbridge(simple, variant):
    """Without subnets it is out of its reach: S3 tells of its receipt."""
    assert resources(simple, "job", "events:PutEvents") == resources(variant("rest"), "job", "events:PutEvents") == []


GLUE = "arn:<AWS::Partition>:glue:<AWS::Region>:<AWS::AccountId>:"


def test_the_job_reads_the_ledger_and_changes_nothing_in_it_but_what_workers_take(simple):
    found = {action for each in statements(simple, "job") for action in listed(each["Action"])}
    reads, changes = {"BatchGetItem", "GetItem", "Query"}, {"UpdateItem", "DeleteItem"}
    assert {each for each in found if each.startswith("dynamodb:")} == {f"dynamodb:{each}" for each in reads | changes}
    for action in (each for each in found if each.startswith("dynamodb:")):
        assert resources(simple, "job", action) == ["<LedgerTable>"]
    (changing,) = (each for each in statements(simple, "job") if "dynamodb:UpdateItem" in listed(each["Action"]))
    assert changing["Condition"] == {"ForAllValues:StringEquals": {"dynamodb:LeadingKeys": ["work"]}}


def test_the_job_reads_the_inventories_that_audits_read(simple, synthesize):
    folder = "s3://example-lists/all/example-landing/daily"
    listed_by_s3 = synthesize(simple.toml.replace("[[route]]", f'[[route]]\naudit_from = "{folder}"', 1))
    found = resources(listed_by_s3, "job", "s3:GetObject")
    assert "arn:<AWS::Partition>:s3:::example-lists/all/example-landing/*" in found
    assert "arn:<AWS::Partition>:s3:::example-lists" in resources(listed_by_s3, "job", "s3:ListBucket")
    assert resources(listed_by_s3, "job", "s3tables:GetTableData") == []
    metadata = synthesize(simple.toml.replace("[[route]]", '[[route]]\naudit_from = "s3-metadata-journal"', 1))
    bucket = "arn:<AWS::Partition>:s3tables:<AWS::Region>:<AWS::AccountId>:bucket/aws-s3"
    assert resources(metadata, "job", "s3tables:GetTableData") == [f"{bucket}/table/*"]
    assert resources(metadata, "job", "s3tables:GetTableBucket") == [bucket]
    found = resources(metadata, "job", "glue:GetTable")
    assert f"{GLUE}table/s3tablescatalog/aws-s3/b_example-landing/*" in found
    assert f"{GLUE}catalog/s3tablescatalog/aws-s3" in resources(metadata, "job", "glue:GetCatalog")
    assert not [each for each in resources(metadata, "job", "glue:UpdateTable") if "s3tablescatalog" in each]


def test_the_job_touches_the_tables_of_the_routes_only(many):
    assert resources(many, "job", "glue:UpdateTable") == sorted(
        GLUE + each
        for each in (
            *("catalog", "database/shop", "database/web"),
            *("table/shop/items", "table/shop/orders", "table/shop/prices", "table/shop/stock", "table/web/events"),
        )
    )


def test_the_job_reads_its_own_script(simple):
    key = simple.body["Outputs"]["EntryPoint"]["Value"]["Fn::Sub"].rpartition("/")[2]
    assert [each for each in resources(simple, "job", "s3:GetObject") if each.endswith(f"/{key}")]


def test_the_handler_of_notifications_touches_the_existing_bucket_only(many):
    (policy,) = (
        each for each in many.of("AWS::IAM::Policy").values() if "s3:PutBucketNotification" in json.dumps(each)
    )
    for statement in policy["PolicyDocument"]["Statement"]:
        assert text(statement["Resource"]) == "arn:<AWS::Partition>:s3:::example-theirs"
