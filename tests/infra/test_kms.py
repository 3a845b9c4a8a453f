"""A key of the account's own encrypts all that is stored, and lets in only who must use it."""

import json
from typing import Any

import pytest

from docs.render_configuration import KEY_POLICY
from infra.roster import May
from tests.infra.conftest import KEY_ARN, S3TABLES
from tests.infra.test_permissions import FUNCTIONS, listed, statements, text, who_may

SERVICES = ("s3", "sns", "events", "cloudwatch")


def key_of(template) -> Any:
    """What refers to the key."""
    return {"Fn::GetAtt": [template.one("AWS::KMS::Key")[0], "Arn"]}


@pytest.mark.parametrize("name", ["customer", "imported"])
def test_everything_that_is_stored_is_under_the_key(variant, name):
    template = variant(name)
    key = key_of(template) if name == "customer" else KEY_ARN
    for bucket in template.of("AWS::S3::Bucket").values():
        (rule,) = bucket["BucketEncryption"]["ServerSideEncryptionConfiguration"]
        assert rule == {
            "BucketKeyEnabled": True,
            "ServerSideEncryptionByDefault": {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": key},
        }
    for queue in template.of("AWS::SQS::Queue").values():
        assert queue["KmsMasterKeyId"] == key
        assert "SqsManagedSseEnabled" not in queue
    for topic in template.of("AWS::SNS::Topic").values():
        assert topic["KmsMasterKeyId"] == key
    assert template.one("AWS::DynamoDB::Table")[1]["SSESpecification"] == {
        "KMSMasterKeyId": key,
        "SSEEnabled": True,
        "SSEType": "KMS",
    }
    for group in template.of("AWS::Logs::LogGroup").values():
        assert group["KmsKeyId"] == key
    monitoring = template.one("AWS::EMRServerless::Application")[1]["MonitoringConfiguration"]
    assert monitoring == {"ManagedPersistenceMonitoringConfiguration": {"Enabled": True, "EncryptionKeyArn": key}}


def test_a_created_key_is_rotated_and_outlives_the_stack(variant):
    template = variant("customer")
    name, key = template.one("AWS::KMS::Key")
    assert key["EnableKeyRotation"] is True
    assert template.resources[name]["DeletionPolicy"] == "RetainExceptOnCreate"
    assert template.resources[name]["UpdateReplacePolicy"] == "Retain"


def test_a_key_that_exists_is_used_and_none_is_made(variant):
    assert not variant("imported").of("AWS::KMS::Key")


def key_policy(template) -> list[dict[str, Any]]:
    return template.one("AWS::KMS::Key")[1]["KeyPolicy"]["Statement"]


def test_services_may_use_the_key_for_this_account_only(variant):
    _, *others = key_policy(variant("customer"))
    by_service = {text(each["Principal"]["Service"]).partition(".")[0]: each for each in others}
    assert set(by_service) == {*SERVICES, "logs", "emr-serverless"}
    for service, statement in by_service.items():
        if service == "logs":
            assert list(statement["Condition"]) == ["ArnLike"]
            (context,) = statement["Condition"]["ArnLike"].values()
            assert ":<AWS::AccountId>:" in text(context)
        else:
            assert statement["Action"] == ["kms:Decrypt", "kms:GenerateDataKey"]
            # EventBridge does not always say whose rule it is
            operator = "StringEqualsIfExists" if service == "events" else "StringEquals"
            assert statement["Condition"][operator] == {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}


def test_s3_tables_may_maintain_tables_under_the_key(synthesize, variant):
    """Without it they make no table under the key."""
    principal = {"Service": "maintenance.s3tables.amazonaws.com"}
    tables = synthesize('[security]\nencryption = "customer"\n' + S3TABLES)
    (statement,) = (each for each in key_policy(tables) if each["Principal"] == principal)
    assert statement["Action"] == ["kms:Decrypt", "kms:GenerateDataKey"]
    bucket = "arn:aws:s3tables:us-east-1:123456789012:bucket/example-tables"
    assert statement["Condition"] == {"StringLike": {"kms:EncryptionContext:aws:s3:arn": f"{bucket}/*"}}
    assert not [each for each in key_policy(variant("customer")) if each["Principal"] == principal]


def test_the_account_decides_on_its_own_roles(variant):
    first, *others = key_policy(variant("customer"))
    assert first["Principal"]["AWS"]["Fn::Join"][1][-1] == ":root"
    assert first["Action"] == "kms:*"
    assert not [each for each in others if "AWS" in each["Principal"]]


def test_another_accounts_bucket_may_notify_under_the_key(synthesize, variant):
    toml = variant("customer").toml.replace("existing = true", 'existing = true\nbucket_owner = "999999999999"')
    found = {each.get("Sid"): each for each in key_policy(synthesize(toml))}
    mine = {"Ref": "AWS::AccountId"}
    assert found["SendS3"]["Condition"]["StringEquals"]["aws:SourceAccount"] == [mine, "999999999999"]
    assert found["SendSns"]["Condition"]["StringEquals"]["aws:SourceAccount"] == mine


def plain(value: Any) -> Any:
    """A statement as people write it: references as the documentation calls them."""
    match value:
        case {"Fn::Join": _} | {"Ref": _}:
            names = {"<AWS::AccountId>": "ACCOUNT", "<AWS::Region>": "REGION", "<AWS::Partition>": "aws"}
            written = text(value)
            for name, word in names.items():
                written = written.replace(name, word)
            return written
        case dict():
            return {name: plain(each) for name, each in value.items()}
        case list():
            return [plain(each) for each in value]
    return value


def test_the_documentation_says_what_the_policy_of_an_imported_key_must(variant):
    assert json.loads(KEY_POLICY) == [plain(each) for each in key_policy(variant("customer"))[1:]]


USE = {"kms:Decrypt", "kms:GenerateDataKey"}
USE_TABLE = {*USE, "kms:DescribeKey", "kms:Encrypt", "kms:ReEncryptFrom", "kms:ReEncryptTo"}
OF_THE_LEDGER = who_may(May.USE_LEDGER, May.QUERY_LEDGER, May.CHANGE_LEDGER)


@pytest.mark.parametrize(
    ("who", "actions"),
    [
        *((who, USE_TABLE if who in OF_THE_LEDGER else USE) for who in FUNCTIONS),
        # an audit's job reads the ledger
        ("job", USE_TABLE),
    ],
)
@pytest.mark.parametrize("name", ["customer", "imported"])
def test_roles_may_use_this_key_and_no_other(variant, name, who, actions):
    template = variant(name)
    key = key_of(template) if name == "customer" else KEY_ARN
    found = [
        each
        for each in statements(template, who)
        if any(action.startswith("kms:") for action in listed(each["Action"]))
    ]
    assert {action for each in found for action in listed(each["Action"])} == actions
    assert all(each["Resource"] == key for each in found)


def test_without_a_key_of_our_own_there_is_no_word_of_kms(simple):
    assert "kms" not in json.dumps(simple.body).lower()
