"""Each part of the path is there, and wired as the architecture says."""

from typing import Any

import pytest

from infra.roster import ROSTER, Schedule

ACCOUNT = {"Ref": "AWS::AccountId"}
FUNCTIONS = [row.name for row in ROSTER]


def arn(logical_id: str) -> dict[str, Any]:
    return {"Fn::GetAtt": [logical_id, "Arn"]}


def bucket_arn(name: str) -> dict[str, Any]:
    return {"Fn::Join": ["", ["arn:", {"Ref": "AWS::Partition"}, f":s3:::{name}"]]}


def allowed(template, queue: str) -> list[dict[str, Any]]:
    """What the policy of a queue allows."""
    (policy,) = (each for each in template.of("AWS::SQS::QueuePolicy").values() if each["Queues"] == [{"Ref": queue}])
    return [each for each in policy["PolicyDocument"]["Statement"] if each["Effect"] == "Allow"]


# --- landing and buffer ---


def test_s3_notifies_the_buffer_of_every_kind_of_creation(simple):
    bucket = simple.one("AWS::S3::Bucket", "Landing")[1]
    queue = simple.one("AWS::SQS::Queue", "BufferQueue")[0]
    assert bucket["BucketName"] == "example-landing"
    assert bucket["NotificationConfiguration"] == {
        "QueueConfigurations": [
            {
                "Event": "s3:ObjectCreated:*",
                "Queue": arn(queue),
                "Filter": {
                    "S3Key": {
                        "Rules": [
                            {"Name": "prefix", "Value": "flights/"},
                            {"Name": "suffix", "Value": ".json.gz"},
                        ]
                    }
                },
            }
        ]
    }


def test_the_bucket_waits_for_the_permission_to_notify(simple):
    bucket = simple.one("AWS::S3::Bucket", "Landing")[0]
    policy = simple.one("AWS::SQS::QueuePolicy", "BufferQueue")[0]
    assert policy in simple.resources[bucket]["DependsOn"]


def is_of_uploads(pattern) -> bool:
    receipts = {"key": [{"suffix": "/receipt.json"}]}
    return pattern.get("source") == ["aws.s3"] and pattern["detail"].get("object") != receipts


def test_nothing_new_is_announced_before_intake_knows_the_route(simple, many, variant):
    """Else the old code would drop the first uploads of a route that is just being added."""
    for template in (simple, many, variant("eventbridge")):
        notifying = [
            each
            for each in template.resources.values()
            if "QueueConfigurations" in each.get("Properties", {}).get("NotificationConfiguration", {})
            or is_of_uploads(each.get("Properties", {}).get("EventPattern", {}))
        ]
        assert notifying
        for each in notifying:
            assert any(name.startswith("IntakeFunction") for name in each["DependsOn"])


def test_overwritten_uploads_stay_readable_while_the_ledger_knows_them(simple, many):
    for template, days in ((simple, 60), (many, 47)):
        for name, bucket in template.of("AWS::S3::Bucket").items():
            if name.startswith("Landing"):
                assert bucket["VersioningConfiguration"] == {"Status": "Enabled"}
                rules = bucket["LifecycleConfiguration"]["Rules"]
                assert {"Status": "Enabled", "NoncurrentVersionExpiration": {"NoncurrentDays": days}} in rules


def test_a_deleted_file_of_the_work_bucket_can_be_brought_back(simple, many):
    """docs/operations.md, "A file of the work bucket is missing"."""
    for template in (simple, many):
        _, work = template.one("AWS::S3::Bucket", "WorkBucket")
        assert work["VersioningConfiguration"] == {"Status": "Enabled"}
        rules = work["LifecycleConfiguration"]["Rules"]
        assert {"Status": "Enabled", "NoncurrentVersionExpiration": {"NoncurrentDays": 14}} in rules
        assert not any("ExpirationInDays" in rule for rule in rules), "a batch may wait for a person without limit"


def test_routes_share_a_bucket_or_have_their_own(many):
    buckets = {each.get("BucketName"): each for each in many.of("AWS::S3::Bucket").values()}
    shared = buckets["example-landing"]["NotificationConfiguration"]["QueueConfigurations"]
    assert [each["Filter"]["S3Key"]["Rules"] for each in shared] == [
        [{"Name": "prefix", "Value": "shop/items/"}, {"Name": "suffix", "Value": ".json"}],
        [{"Name": "prefix", "Value": "shop/day%3D1+a/"}],
    ]
    (alone,) = buckets["example-archive"]["NotificationConfiguration"]["QueueConfigurations"]
    assert "Filter" not in alone


def test_of_an_existing_bucket_only_the_notifications_are_added_to(many):
    assert "example-theirs" not in {each.get("BucketName") for each in many.of("AWS::S3::Bucket").values()}
    name, properties = many.one("Custom::S3BucketNotifications")
    queue = many.one("AWS::SQS::Queue", "BufferQueue")[0]
    assert properties["BucketName"] == "example-theirs"
    assert properties["Managed"] is False, "CDK's handler would replace what others set up"
    found = properties["NotificationConfiguration"]["QueueConfigurations"]
    assert [(each["Events"], each["QueueArn"]) for each in found] == [(["s3:ObjectCreated:*"], arn(queue))] * 2
    assert [each["Filter"]["Key"]["FilterRules"] for each in found] == [
        [{"Name": "prefix", "Value": "prices/*%24/"}],
        [{"Name": "suffix", "Value": ".csv"}, {"Name": "prefix", "Value": "stock/"}],
    ]
    assert many.one("AWS::SQS::QueuePolicy", "BufferQueue")[0] in many.resources[name]["DependsOn"]


# --- routes that have retired ---


def retire(toml: str, *names: str) -> str:
    """The same configuration, with these routes retired, and something expected of them still."""
    for name in names:
        assert f'name = "{name}"\nbucket' in toml
        toml = toml.replace(f'name = "{name}"\nbucket', f'name = "{name}"\nretired = true\nexpect_every = "1h"\nbucket')
    return toml


@pytest.fixture(scope="module", params=["s3", "eventbridge"])
def retired(request, many, synthesize):
    """All routes of two buckets have retired: one that is ours, one that existed; and one route of a third."""
    toml = retire(many.toml, "events", "items", "prices", "stock")
    return synthesize(toml.replace("format =", f'source = "{request.param}"\nformat ='))


def notifying(template) -> dict[str, list[Any]]:
    """By bucket, the prefixes and suffixes that S3 or EventBridge announces."""
    found = {
        each["BucketName"]: [
            {rule["Name"]: rule["Value"] for rule in one["Filter"]["S3Key"]["Rules"]}
            for one in each["NotificationConfiguration"].get("QueueConfigurations", [])
        ]
        for each in template.of("AWS::S3::Bucket").values()
        if "NotificationConfiguration" in each and "BucketName" in each
    }
    for rule in template.of("AWS::Events::Rule").values():
        if is_of_uploads(rule.get("EventPattern", {})):
            found[rule["EventPattern"]["detail"]["bucket"]["name"][0]] = rule["EventPattern"]["detail"]["object"]["key"]
    return found


def test_nothing_announces_uploads_of_retired_routes(retired):
    (prefix,) = {each["prefix"] for each in notifying(retired)["example-landing"]}
    assert prefix in ("shop/day%3D1+a/", "shop/day=1 a/")
    assert set(notifying(retired)) == {"example-landing"}
    assert not retired.of("Custom::S3BucketNotifications")
    senders = str(allowed(retired, retired.one("AWS::SQS::Queue", "BufferQueue")[0]))
    assert "example-archive" not in senders
    assert "example-theirs" not in senders


def test_what_retired_routes_have_gathered_can_be_finished(many, retired):
    """Their buckets stay, and the job may do all that it could before."""
    names = {each.get("BucketName") for each in retired.of("AWS::S3::Bucket").values()}
    assert {"example-landing", "example-archive"} <= names
    assert many.statements(many.one("AWS::IAM::Role", "EmrJobRole")[0]) == retired.statements(
        retired.one("AWS::IAM::Role", "EmrJobRole")[0]
    )


def test_a_retired_route_keeps_its_alarms_but_need_not_receive_anything(many, retired):
    alarms = [{each["AlarmName"] for each in body.of("AWS::CloudWatch::Alarm").values()} for body in (many, retired)]
    assert alarms[0] == alarms[1]
    assert not [name for name in alarms[1] if "nothing-received" in name]


# --- queues and topic ---


@pytest.mark.parametrize(("queue", "dead_letters"), [("BufferQueue", "BufferDead"), ("BusNotices", "BusDead")])
def test_a_message_that_keeps_failing_becomes_a_dead_letter(simple, queue, dead_letters):
    policy = simple.one("AWS::SQS::Queue", queue)[1]["RedrivePolicy"]
    assert policy == {
        "deadLetterTargetArn": arn(simple.one("AWS::SQS::Queue", dead_letters)[0]),
        "maxReceiveCount": 5,
    }


def test_queues_keep_messages_for_four_days_and_dead_letters_for_as_long_as_sqs_does(simple):
    for name, queue in simple.of("AWS::SQS::Queue").items():
        assert queue["MessageRetentionPeriod"] == (14 if "DeadLetters" in name else 4) * 86400, name


@pytest.mark.parametrize(("queue", "function"), [("BufferQueue", "Intake"), ("BusNotices", "Dispatch")])
def test_a_message_stays_hidden_for_six_timeouts_and_the_window(simple, queue, function):
    timeout = simple.one("AWS::Lambda::Function", function)[1]["Timeout"]
    window = simple.one("AWS::Lambda::EventSourceMapping", function)[1].get("MaximumBatchingWindowInSeconds", 0)
    assert simple.one("AWS::SQS::Queue", queue)[1]["VisibilityTimeout"] >= 6 * timeout + window


def test_the_topic_is_fifo_and_keeps_an_archive(simple):
    topic = simple.one("AWS::SNS::Topic", "Bus")[1]
    assert topic["FifoTopic"] is True
    assert topic["ContentBasedDeduplication"] is False
    assert topic["TopicName"].endswith(".fifo")
    assert "ArchivePolicy" not in topic, "SNS would not delete it when a creation is rolled back"
    archive = simple.one("Custom::TidegateArchive")[1]
    assert archive["Of"] == {"Ref": simple.one("AWS::SNS::Topic", "Bus")[0]}
    assert archive["Days"] == "14"


def test_the_archive_ends_before_the_ledger_forgets(many):
    # 1,118 h of claims, and a replayed notice may travel 40 days more: 6 days are left
    assert many.one("Custom::TidegateArchive")[1]["Days"] == "6"


def test_notices_arrive_raw_and_what_sns_cannot_deliver_is_a_dead_letter(simple):
    topic = simple.one("AWS::SNS::Topic", "Bus")[0]
    queue, dead_letters = (simple.one("AWS::SQS::Queue", name)[0] for name in ("BusNotices", "BusDead"))
    name, subscription = simple.one("AWS::SNS::Subscription", "Bus")
    assert subscription == {
        "TopicArn": {"Ref": topic},
        "Protocol": "sqs",
        "Endpoint": arn(queue),
        "RawMessageDelivery": True,
        "RedrivePolicy": {"deadLetterTargetArn": arn(dead_letters)},
    }
    assert simple.one("AWS::SQS::QueuePolicy", "BusNotices")[0] in simple.resources[name]["DependsOn"]
    for each in (queue, dead_letters):
        properties = simple.resources[each]["Properties"]
        assert properties["FifoQueue"] is True
        assert not properties.get("ContentBasedDeduplication")


# --- ledger, buckets, what survives ---


def test_the_ledger(simple):
    table = simple.one("AWS::DynamoDB::Table")[1]
    assert table == {
        "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
        "AttributeDefinitions": [
            {"AttributeName": "pk", "AttributeType": "S"},
            {"AttributeName": "sk", "AttributeType": "S"},
        ],
        "BillingMode": "PAY_PER_REQUEST",
        "TimeToLiveSpecification": {"AttributeName": "expires_at", "Enabled": True},
        "PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": True},
    }


def test_what_a_person_has_warmed_no_deployment_changes(simple):
    """CloudFormation leaves alone what no template ever said."""
    assert "WarmThroughput" not in simple.one("AWS::DynamoDB::Table")[1]


def test_the_ledger_is_protected_from_deletion_once_it_is_made(simple):
    assert simple.one("Custom::TidegateProtection")[1]["Of"] == {"Ref": simple.one("AWS::DynamoDB::Table")[0]}


def test_what_holds_data_outlives_the_stack_and_nothing_else_does(many):
    """But not the rollback of its creation: it would be in the way of the next try."""
    kept = {name for name, each in many.resources.items() if each.get("DeletionPolicy") == "RetainExceptOnCreate"}
    assert not [name for name, each in many.resources.items() if each.get("DeletionPolicy") == "Retain"]
    assert kept == {*many.of("AWS::DynamoDB::Table"), *many.of("AWS::S3::Bucket")}
    assert all(many.resources[name]["UpdateReplacePolicy"] == "Retain" for name in kept)
    assert len(many.of("AWS::S3::Bucket")) == 4, "two landing buckets, work and warehouse"


def test_no_object_that_is_not_superseded_ever_expires(many):
    for bucket in many.of("AWS::S3::Bucket").values():
        rules = bucket["LifecycleConfiguration"]["Rules"]
        assert {"AbortIncompleteMultipartUpload", "NoncurrentVersionExpiration", "Status"} >= {
            key for rule in rules for key in rule
        }


def test_buckets_are_private_and_encrypted_and_queues_too(many):
    assert all(each["SqsManagedSseEnabled"] is True for each in many.of("AWS::SQS::Queue").values())
    for bucket in many.of("AWS::S3::Bucket").values():
        assert set(bucket["PublicAccessBlockConfiguration"].values()) == {True}
        assert len(bucket["PublicAccessBlockConfiguration"]) == 4
        (rule,) = bucket["BucketEncryption"]["ServerSideEncryptionConfiguration"]
        assert rule == {"ServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}
        assert bucket["OwnershipControls"] == {"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]}


def test_nothing_is_reached_without_tls(many):
    held = {
        "AWS::S3::Bucket": ("AWS::S3::BucketPolicy", lambda policy: [policy["Bucket"]]),
        "AWS::SQS::Queue": ("AWS::SQS::QueuePolicy", lambda policy: policy["Queues"]),
        "AWS::SNS::Topic": ("AWS::SNS::TopicPolicy", lambda policy: policy["Topics"]),
    }
    for kind, (policies, targets) in held.items():
        refused = [
            target["Ref"]
            for policy in many.of(policies).values()
            for target in targets(policy)
            for statement in policy["PolicyDocument"]["Statement"]
            if statement["Effect"] == "Deny" and statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
        ]
        assert sorted(refused) == sorted(many.of(kind)), kind


# --- functions ---


def test_every_row_is_a_function_and_nothing_else_is_one_of_ours(simple):
    ours = [each for each in simple.of("AWS::Lambda::Function").values() if each["Handler"].startswith("lambdas.")]
    made = {each["Handler"]: (each["Timeout"], each["MemorySize"]) for each in ours}
    assert made == {f"lambdas.{row.name}.app.handler": (row.started_by.timeout, row.memory) for row in ROSTER}
    assert {(each["Runtime"], *each["Architectures"]) for each in ours} == {("python3.13", "arm64")}
    assert all(each["Code"] == ours[0]["Code"] for each in ours)


def test_events_may_invoke_what_has_a_schedule_or_waits_for_an_event_and_nothing_else(simple):
    for row in ROSTER:
        rules = [name for name in simple.of("AWS::Events::Rule") if name.startswith(row.construct)]
        assert len(rules) == isinstance(row.started_by, Schedule) + len(row.also_on)
        sources = [
            each["SourceArn"]
            for each in simple.of("AWS::Lambda::Permission").values()
            if each["FunctionName"] == arn(simple.one("AWS::Lambda::Function", row.construct)[0])
        ]
        assert sorted(map(str, sources)) == sorted(str(arn(rule)) for rule in rules)


def test_logs_are_kept_for_a_month(simple):
    groups = simple.of("AWS::Logs::LogGroup")
    assert [each["RetentionInDays"] for each in groups.values()] == [30] * (len(FUNCTIONS) + 1), (
        "and that of the guards"
    )
    used = [each["LoggingConfig"]["LogGroup"]["Ref"] for each in simple.of("AWS::Lambda::Function").values()]
    assert sorted(used) == sorted(groups)


def test_queues_feed_the_functions(simple):
    mappings = simple.of("AWS::Lambda::EventSourceMapping")
    assert len(mappings) == 2
    for function, queue, settings in (
        (
            "Intake",
            "BufferQueue",
            {"BatchSize": 1000, "MaximumBatchingWindowInSeconds": 5, "ScalingConfig": {"MaximumConcurrency": 3}},
        ),
        ("Dispatch", "BusNotices", {"BatchSize": 10, "ScalingConfig": {"MaximumConcurrency": 3}}),
    ):
        assert simple.one("AWS::Lambda::EventSourceMapping", function)[1] == {
            "EventSourceArn": arn(simple.one("AWS::SQS::Queue", queue)[0]),
            "FunctionName": {"Ref": simple.one("AWS::Lambda::Function", function)[0]},
            "FunctionResponseTypes": ["ReportBatchItemFailures"],
            **settings,
        }


def test_settle_is_called_every_minute_when_a_job_fails_and_when_a_batch_is_decided(simple):
    settle = simple.one("AWS::Lambda::Function", "Settle")[0]
    application = simple.one("AWS::EMRServerless::Application")[0]
    schedule, rule, decided = (
        simple.one("AWS::Events::Rule", f"Settle{name}") for name in ("Schedule", "Events", "BatchDecided")
    )
    assert schedule[1]["ScheduleExpression"] == "rate(1 minute)"
    assert rule[1]["EventPattern"] == {
        "source": ["aws.emr-serverless"],
        "detail-type": ["EMR Serverless Job Run State Change"],
        "detail": {
            "applicationId": [{"Fn::GetAtt": [application, "ApplicationId"]}],
            "state": ["FAILED", "CANCELLED"],
        },
    }
    name, work = simple.one("AWS::S3::Bucket", "Work")
    assert work["NotificationConfiguration"] == {"EventBridgeConfiguration": {"EventBridgeEnabled": True}}
    assert decided[1]["EventPattern"] == {
        "source": ["aws.s3"],
        "detail-type": ["Object Created"],
        "detail": {"bucket": {"name": [{"Ref": name}]}, "object": {"key": [{"suffix": "/receipt.json"}]}},
    }
    for _, properties in (schedule, rule, decided):
        assert properties["State"] == "ENABLED"
        assert [each["Arn"] for each in properties["Targets"]] == [arn(settle)]


def test_functions_and_outputs_name_the_same_things(simple):
    queue = {name: {"Ref": simple.one("AWS::SQS::Queue", name)[0]} for name in ("BufferQ", "BufferD", "BusN", "BusD")}
    application = simple.one("AWS::EMRServerless::Application")[0]
    expected = {
        "Account": ACCOUNT,
        "Ledger": {"Ref": simple.one("AWS::DynamoDB::Table")[0]},
        "Topic": {"Ref": simple.one("AWS::SNS::Topic", "Bus")[0]},
        "Buffer": queue["BufferQ"],
        "DeadLetters": queue["BufferD"],
        "Notices": queue["BusN"],
        "NoticesDeadLetters": queue["BusD"],
        "Work": {"Ref": simple.one("AWS::S3::Bucket", "Work")[0]},
        "Application": {"Fn::GetAtt": [application, "ApplicationId"]},
        "JobRole": arn(simple.one("AWS::IAM::Role", "EmrJobRole")[0]),
    }
    outputs = {name: each["Value"] for name, each in simple.body["Outputs"].items()}
    entry_point = outputs["EntryPoint"]["Fn::Sub"]
    assert entry_point.startswith("s3://")
    assert entry_point.endswith(".py")
    expected |= {"EntryPoint": outputs["EntryPoint"], "SparkParameters": outputs["SparkParameters"]}
    assert outputs == expected

    variables = {
        "TIDEGATE_DEPLOYMENT": "tidegate",
        "TIDEGATE_ACCOUNT": ACCOUNT,
        "TIDEGATE_LEDGER": expected["Ledger"],
        "TIDEGATE_TOPIC": expected["Topic"],
        "TIDEGATE_BUFFER": expected["Buffer"],
        "TIDEGATE_DEAD_LETTERS": expected["DeadLetters"],
        "TIDEGATE_NOTICES": expected["Notices"],
        "TIDEGATE_NOTICES_DEAD_LETTERS": expected["NoticesDeadLetters"],
        "TIDEGATE_WORK": expected["Work"],
        "TIDEGATE_APPLICATION": expected["Application"],
        "TIDEGATE_JOB_ROLE": expected["JobRole"],
        "TIDEGATE_ENTRY_POINT": expected["EntryPoint"],
        "TIDEGATE_SPARK_PARAMETERS": expected["SparkParameters"],
        "POWERTOOLS_METRICS_NAMESPACE": "Tidegate",
        "POWERTOOLS_LOG_LEVEL": "INFO",
    }
    for name in FUNCTIONS:
        function = simple.one("AWS::Lambda::Function", name.capitalize())[1]
        assert function["Environment"]["Variables"] == variables | {"POWERTOOLS_SERVICE_NAME": name}


# --- EMR Serverless ---


def test_the_application_starts_and_stops_by_itself(simple):
    application = simple.one("AWS::EMRServerless::Application")[1]
    assert application["Type"] == "SPARK"
    assert application["ReleaseLabel"] == "emr-spark-8.1.0"
    assert application["Architecture"] == "ARM64"
    assert application["AutoStartConfiguration"] == {"Enabled": True}
    assert application["AutoStopConfiguration"]["Enabled"] is True
    assert "InitialCapacity" not in application


def test_spark_knows_the_catalog_by_its_configured_name(many):
    warehouse = many.one("AWS::S3::Bucket", "Warehouse")[0]
    assert many.parameters == {
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.house": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.house.catalog-impl": "org.apache.iceberg.aws.glue.GlueCatalog",
        "spark.sql.catalog.house.io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        "spark.sql.catalog.house.warehouse": f"s3://<{warehouse}>",
    }


# --- the template as a whole ---


def test_nothing_asks_the_account_while_the_template_is_made(simple):
    assert "Parameters" not in simple.body
    assert "Rules" not in simple.body
    assert "Conditions" not in simple.body


def test_the_same_configuration_gives_the_same_template(many, synthesize):
    assert synthesize(many.toml) == synthesize(many.toml)
