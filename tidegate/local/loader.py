"""Reads a synthesized template and creates what it says, through the public APIs of whatever endpoints it is given.

What cannot be created on this machine is not skipped in silence: a type of resource is created, or listed in `ABSENT`
with the reason, or an error; a property that is not applied is told in the description's notes, unless `IGNORED` says
why it means nothing here. Loading a second time changes nothing.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from tidegate.local.description import Description, Function, Rule, Source
from tidegate.local.environment import ACCOUNT, REGION, client
from tidegate.local.errors import LocalError
from tidegate.local.intrinsics import NO_VALUE, Resolver

ABSENT = {
    "AWS::CDK::Metadata": "it only tells AWS which constructs are in use",
    "AWS::CloudWatch::Alarm": "no metrics are collected here; `status` reads the ledger itself",
    "AWS::CloudWatch::CompositeAlarm": "no metrics are collected here",
    "AWS::CloudWatch::Dashboard": "no metrics are collected here",
    "AWS::Events::EventBusPolicy": "nobody is refused anything here",
    "AWS::Glue::Database": "the catalog is a SQLite file here, and Spark makes its namespaces",
    "AWS::IAM::ManagedPolicy": "nobody is refused anything here; the policies are tested on the template",
    "AWS::IAM::Policy": "nobody is refused anything here; the policies are tested on the template",
    "AWS::IAM::Role": "nobody is refused anything here; only its ARN is passed on",
    "AWS::KMS::Alias": "nothing is encrypted here",
    "AWS::KMS::Key": "nothing is encrypted here; only its ARN is passed on",
    "AWS::Lambda::EventInvokeConfig": "the worker retries an event twice, which is Lambda's default",
    "AWS::Lambda::Permission": "nobody is refused anything here",
    "AWS::Logs::LogGroup": "logs are files here",
    # moto enforces a Deny and ignores its Condition: `enforce_ssl` would lock everybody out
    "AWS::S3::BucketPolicy": "an emulator that ignores conditions would refuse every request without TLS",
    "AWS::SNS::TopicPolicy": "nobody is refused anything here",
    "AWS::SQS::QueuePolicy": "nobody is refused anything here, and one more condition could only lock us out",
    "Custom::S3AutoDeleteObjects": "the buckets end with the stack here",
    "Custom::TidegateApplication": "the application ends with the stack here",
    "Custom::TidegateArchive": "there is nothing here to replay an archive",
    "Custom::TidegateNames": "the buckets' names are taken by nobody here",
    "Custom::TidegateProtection": "the table ends with the stack here",
}
"""Types of resources that have no counterpart on this machine, and why."""

IGNORED = {
    "AWS::S3::Bucket": {
        "AccessControl": "nobody is refused anything here",
        "BucketEncryption": "nothing is encrypted here",
        "LifecycleConfiguration": "nothing lives long enough here to expire",
        "LoggingConfiguration": "nobody else reads the buckets here",
        "OwnershipControls": "there is one account here",
        "PublicAccessBlockConfiguration": "only this machine reaches the endpoint",
    },
    "AWS::SQS::Queue": {
        "KmsDataKeyReusePeriodSeconds": "nothing is encrypted here",
        "KmsMasterKeyId": "nothing is encrypted here",
        "RedriveAllowPolicy": "nobody is refused anything here",
        "SqsManagedSseEnabled": "nothing is encrypted here",
        "Tags": "nobody looks for them here",
    },
    "AWS::SNS::Topic": {
        "ArchivePolicy": "there is nothing here to replay an archive",
        "FifoThroughputScope": "throughput is not limited here",
        "KmsMasterKeyId": "nothing is encrypted here",
        "MaximumMessageSize": "the emulator knows SNS's default only",
        "Tags": "nobody looks for them here",
        "TracingConfig": "nothing is traced here",
    },
    "AWS::DynamoDB::Table": {
        "ContributorInsightsSpecification": "no metrics are collected here",
        "DeletionProtectionEnabled": "the table ends with the stack here",
        "PointInTimeRecoverySpecification": "the table ends with the stack here",
        "SSESpecification": "nothing is encrypted here",
        "Tags": "nobody looks for them here",
    },
    "AWS::EMRServerless::Application": {
        "AutoStartConfiguration": "the application is always started here",
        "AutoStopConfiguration": "the application is always started here",
        "InitialCapacity": "jobs run on this machine",
        "MaximumCapacity": "jobs run on this machine",
        "MonitoringConfiguration": "logs are files here",
        "NetworkConfiguration": "jobs run on this machine",
        "SchedulerConfiguration": "how many jobs run at once is the endpoint's own setting here",
        "Tags": "nobody looks for them here",
    },
    "AWS::Lambda::Function": {
        "Architectures": "the handlers run in this Python",
        "Description": "nobody looks for it here",
        "EphemeralStorage": "the handlers see this machine's disk",
        "LoggingConfig": "logs are files here",
        "ReservedConcurrentExecutions": "one worker runs each function here",
        "Role": "nobody is refused anything here",
        "Runtime": "the handlers run in this Python",
        "RuntimeManagementConfig": "the handlers run in this Python",
        "Tags": "nobody looks for them here",
        "TracingConfig": "nothing is traced here",
    },
    "AWS::Lambda::EventSourceMapping": {
        "ScalingConfig": "one worker runs each function here",
        "Tags": "nobody looks for them here",
    },
    "AWS::Events::Rule": {
        "Description": "nobody looks for it here",
        "Tags": "nobody looks for them here",
    },
}
"""Properties that mean nothing on this machine, and why; any other that is not applied is told in the notes."""

_NOTIFICATIONS = "Custom::S3BucketNotifications"
_SPAN = {"minute": 60, "hour": 3600, "day": 86400}


@dataclass(frozen=True, slots=True)
class Created:
    """What `Ref` and `Fn::GetAtt` answer for a resource."""

    ref: str
    attributes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Assembly:
    """One stack of a CDK assembly: its template, and the files it needs, by (bucket, key) before substitution."""

    name: str
    folder: Path
    template: Mapping[str, Any]
    files: tuple[Mapping[str, Any], ...]


def read_assembly(folder: Path) -> Assembly:
    """The one stack in the folder that `cdk synth` wrote. Raises LocalError."""
    try:
        artifacts = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))["artifacts"]
        stacks = {name: each for name, each in artifacts.items() if each["type"] == "aws:cloudformation:stack"}
        if len(stacks) != 1:
            raise LocalError(f"{folder} holds {len(stacks)} stacks ({', '.join(stacks)}); the local stack runs one")
        ((identifier, stack),) = stacks.items()
        template_file = stack["properties"]["templateFile"]
        template = json.loads((folder / template_file).read_text(encoding="utf-8"))
        files = [
            file
            for each in artifacts.values()
            if each["type"] == "cdk:asset-manifest"
            for file in json.loads((folder / each["properties"]["file"]).read_text(encoding="utf-8"))["files"].values()
            if file["source"].get("path") != template_file
        ]
    except (OSError, ValueError, KeyError) as error:
        raise LocalError(f"{folder} is not what `cdk synth` writes ({type(error).__name__}: {error})") from error
    name = stack["properties"].get("stackName", identifier)
    return Assembly(name, folder, template, tuple(files))


def load(
    assembly: Assembly, environment: Mapping[str, str], *, code: Path | None = None, patience: int | None = None
) -> Description:
    """Create the stack at the endpoints that `environment` names.

    `code` is a source tree to import handlers from instead of from the assets. `patience` bounds the queues'
    visibility timeouts, in seconds: how long a message is hidden after a worker failed with it. Raises LocalError.
    """
    return _Loader(assembly, environment, code, patience).load()


class _Loader:
    def __init__(
        self, assembly: Assembly, environment: Mapping[str, str], code: Path | None, patience: int | None
    ) -> None:
        self.assembly = assembly
        self.environment = environment
        self.code = code
        self.patience = patience
        self.resources: Mapping[str, Any] = assembly.template.get("Resources", {})
        self.created: dict[str, Created] = {}
        self.in_progress: list[str] = []
        self.functions: dict[str, Function] = {}
        self.rules: list[Rule] = []
        self.notes: list[str] = []
        self.folders: dict[tuple[str, str], Path] = {}
        self.clients: dict[str, Any] = {}
        self.resolver = Resolver(self.ref, self.attribute)
        self.creators: dict[str, Callable[[str, dict[str, Any]], Created]] = {
            "AWS::S3::Bucket": self.bucket,
            "AWS::SQS::Queue": self.queue,
            "AWS::SNS::Topic": self.topic,
            "AWS::SNS::Subscription": self.subscription,
            "AWS::DynamoDB::Table": self.table,
            "AWS::EMRServerless::Application": self.application,
            "AWS::Lambda::Function": self.function,
            "AWS::Lambda::EventSourceMapping": self.event_source,
            "AWS::Events::Rule": self.rule,
            _NOTIFICATIONS: self.notifications_of_existing_bucket,
        }

    def load(self) -> Description:
        self.refuse_unknown_types()
        self.place_files()
        for logical in self.resources:
            self.create(logical)
        outputs = {
            name: str(self.resolver.resolve(output["Value"]))
            for name, output in self.assembly.template.get("Outputs", {}).items()
        }
        return Description(
            self.assembly.name, self.functions, tuple(self.rules), outputs, tuple(dict.fromkeys(self.notes))
        )

    def refuse_unknown_types(self) -> None:
        unknown = sorted({each["Type"] for each in self.resources.values()} - self.creators.keys() - ABSENT.keys())
        if unknown:
            raise LocalError(
                f"the template has resources that the local stack cannot create: {', '.join(unknown)}."
                " Teach tidegate/local/loader.py to, or list them in its ABSENT with the reason"
            )

    # --- names ---

    def ref(self, name: str) -> Any:
        pseudo = {
            "AWS::AccountId": ACCOUNT,
            "AWS::NoValue": NO_VALUE,
            "AWS::Partition": "aws",
            "AWS::Region": REGION,
            "AWS::StackId": f"arn:aws:cloudformation:{REGION}:{ACCOUNT}:stack/{self.assembly.name}/local",
            "AWS::StackName": self.assembly.name,
            "AWS::URLSuffix": "amazonaws.com",
        }
        if name in pseudo:
            return pseudo[name]
        if name in self.resources:
            return self.create(name).ref
        raise LocalError(f"the template refers to {name!r}, which is no resource; parameters have no value here")

    def attribute(self, logical: str, name: str) -> str:
        attributes = self.create(logical).attributes
        if name not in attributes:
            raise LocalError(
                f"the template asks for {name} of {logical} ({self.resources[logical]['Type']}), which the local stack"
                " does not know"
            )
        return attributes[name]

    def create(self, logical: str) -> Created:
        if logical in self.created:
            return self.created[logical]
        if logical not in self.resources:
            raise LocalError(f"the template refers to a resource {logical!r} that it does not have")
        if logical in self.in_progress:
            raise LocalError(f"resources of the template need each other: {' -> '.join([*self.in_progress, logical])}")
        resource = self.resources[logical]
        kind = resource["Type"]
        self.in_progress.append(logical)
        try:
            if kind in ABSENT:
                self.created[logical] = self.absent(logical, resource)
            elif logical in self.handlers_of_custom_resources():
                self.created[logical] = Created(
                    logical, {"Arn": f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{logical}"}
                )
            else:
                properties = self.resolver.resolve(resource.get("Properties", {}))
                self.created[logical] = self.creators[kind](logical, dict(properties))
        except ClientError as error:
            raise LocalError(f"{kind} {logical} could not be created: {error}") from error
        finally:
            self.in_progress.pop()
        return self.created[logical]

    def absent(self, logical: str, resource: Mapping[str, Any]) -> Created:
        """Only a role, a log group and a key are referred to; the name of the first two may be given."""
        kind = resource["Type"]
        properties = resource.get("Properties", {})
        if kind == "AWS::IAM::Role":
            name = self.resolver.resolve(properties.get("RoleName", self.generated_name(logical)))
            return Created(name, {"Arn": f"arn:aws:iam::{ACCOUNT}:role/{name}"})
        if kind == "AWS::Logs::LogGroup":
            name = self.resolver.resolve(properties.get("LogGroupName", self.generated_name(logical)))
            return Created(name, {"Arn": f"arn:aws:logs:{REGION}:{ACCOUNT}:log-group:{name}:*"})
        if kind == "AWS::KMS::Key":
            return Created(logical, {"Arn": f"arn:aws:kms:{REGION}:{ACCOUNT}:key/{logical}", "KeyId": logical})
        return Created(logical)

    def handlers_of_custom_resources(self) -> set[str]:
        """The functions that CloudFormation would call; the loader does their work itself."""
        tokens = [
            each["Properties"].get("ServiceToken", {})
            for each in self.resources.values()
            if each["Type"].startswith("Custom::")
        ]
        return {token["Fn::GetAtt"][0] for token in tokens if isinstance(token, dict) and "Fn::GetAtt" in token}

    def generated_name(self, logical: str, *, suffix: str = "", limit: int = 64) -> str:
        """A name for a resource that was given none: the same each time, as nothing else tells that it exists."""
        name = f"{self.assembly.name}-{logical}"
        if len(name) + len(suffix) > limit:
            digest = hashlib.sha256(name.encode()).hexdigest()[:8]
            name = f"{name[: limit - len(suffix) - 9]}-{digest}"
        return name + suffix

    def client(self, service: str) -> Any:
        if service not in self.clients:
            self.clients[service] = client(service, self.environment)
        return self.clients[service]

    def report(self, kind: str, logical: str, left_over: Mapping[str, Any]) -> None:
        for name in left_over.keys() - IGNORED.get(kind, {}).keys():
            self.notes.append(f"{kind} {logical}: {name} is not applied on this machine")

    # --- assets ---

    def place_files(self) -> None:
        """Upload the files that something other than a function needs; remember where functions' code lies."""
        code = {json.dumps(each["Properties"]["Code"], sort_keys=True) for each in self.functions_of_template()}
        for file in self.assembly.files:
            if "path" not in file["source"]:
                raise LocalError(
                    f"an asset is made by a program, not a file: {file['source']}; the local stack runs none"
                )
            path = self.assembly.folder / file["source"]["path"]
            for destination in file["destinations"].values():
                bucket = self.resolver.resolve({"Fn::Sub": destination["bucketName"]})
                key = self.resolver.resolve({"Fn::Sub": destination["objectKey"]})
                self.folders[bucket, key] = path
                if not any(key in each for each in code):
                    self.upload(path, bucket, key)

    def functions_of_template(self) -> list[Mapping[str, Any]]:
        return [each for each in self.resources.values() if each["Type"] == "AWS::Lambda::Function"]

    def upload(self, path: Path, bucket: str, key: str) -> None:
        self.make_bucket(bucket)
        if path.is_file():
            self.client("s3").upload_file(str(path), bucket, key)
            return
        with tempfile.TemporaryDirectory() as folder:
            archive = shutil.make_archive(str(Path(folder, "asset")), "zip", path)
            self.client("s3").upload_file(archive, bucket, key)

    # --- resources ---

    def make_bucket(self, name: str) -> None:
        try:
            self.client("s3").create_bucket(Bucket=name)
        except ClientError as error:
            if error.response["Error"]["Code"] != "BucketAlreadyOwnedByYou":
                raise

    def bucket(self, logical: str, properties: dict[str, Any]) -> Created:
        s3 = self.client("s3")
        name = properties.pop("BucketName", None) or self.generated_name(logical, limit=63).lower()
        self.make_bucket(name)
        if versioning := properties.pop("VersioningConfiguration", None):
            s3.put_bucket_versioning(Bucket=name, VersioningConfiguration=versioning)
        if tags := properties.pop("Tags", None):
            s3.put_bucket_tagging(Bucket=name, Tagging={"TagSet": tags})
        if notifications := properties.pop("NotificationConfiguration", None):
            self.notify(name, _as_api(logical, notifications))
        self.report("AWS::S3::Bucket", logical, properties)
        return Created(name, {"Arn": f"arn:aws:s3:::{name}"})

    def notifications_of_existing_bucket(self, logical: str, properties: dict[str, Any]) -> Created:
        """What CDK's custom resource does: add to what is configured already, unless the bucket is managed."""
        s3 = self.client("s3")
        name = properties["BucketName"]
        ours = properties["NotificationConfiguration"]
        if str(properties.get("Managed", True)).lower() != "true":
            if name not in {each["Name"] for each in s3.list_buckets()["Buckets"]}:
                self.make_bucket(name)
                self.notes.append(f"bucket {name} is to exist already; an empty one was made in its place")
            theirs = s3.get_bucket_notification_configuration(Bucket=name)
            theirs.pop("ResponseMetadata", None)
            self.identify(ours)
            for kind in ours:
                if isinstance(ours[kind], list):
                    known = {each["Id"] for each in ours[kind]}
                    theirs[kind] = [each for each in theirs.get(kind, []) if each["Id"] not in known] + ours[kind]
                else:
                    theirs[kind] = ours[kind]
            ours = theirs
        self.notify(name, ours)
        return Created(logical)

    def identify(self, configuration: Mapping[str, Any]) -> None:
        """Give each notification an id made from what it says, to know it again."""
        for each in configuration.get("QueueConfigurations", []):
            said = json.dumps(each, sort_keys=True)
            each.setdefault("Id", f"{self.assembly.name}-{hashlib.sha256(said.encode()).hexdigest()[:16]}")

    def notify(self, bucket: str, configuration: Mapping[str, Any]) -> None:
        self.identify(configuration)
        self.client("s3").put_bucket_notification_configuration(Bucket=bucket, NotificationConfiguration=configuration)

    def queue(self, logical: str, properties: dict[str, Any]) -> Created:
        sqs = self.client("sqs")
        fifo = properties.get("FifoQueue", False)
        suffix = ".fifo" if fifo else ""
        name = properties.pop("QueueName", None) or self.generated_name(logical, suffix=suffix, limit=80)
        applied = (
            *("FifoQueue", "ContentBasedDeduplication", "DeduplicationScope", "FifoThroughputLimit"),
            *("VisibilityTimeout", "MessageRetentionPeriod", "ReceiveMessageWaitTimeSeconds", "DelaySeconds"),
            *("MaximumMessageSize", "RedrivePolicy"),
        )
        attributes = {key: _as_attribute(properties.pop(key)) for key in applied if key in properties}
        if self.patience is not None and int(attributes.get("VisibilityTimeout", 30)) > self.patience:
            attributes["VisibilityTimeout"] = str(self.patience)
            self.notes.append(
                f"queue {name}: a message is hidden for {self.patience} s after a failure here, not as long as on AWS"
            )
        try:
            url = sqs.get_queue_url(QueueName=name)["QueueUrl"]
        except ClientError as error:
            if "NonExistentQueue" not in error.response["Error"]["Code"]:
                raise
            url = sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
        else:
            changeable = {key: value for key, value in attributes.items() if key != "FifoQueue"}
            sqs.set_queue_attributes(QueueUrl=url, Attributes=changeable)
        self.report("AWS::SQS::Queue", logical, properties)
        arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        return Created(url, {"Arn": arn, "QueueName": name, "QueueUrl": url})

    def topic(self, logical: str, properties: dict[str, Any]) -> Created:
        suffix = ".fifo" if properties.get("FifoTopic") else ""
        name = properties.pop("TopicName", None) or self.generated_name(logical, suffix=suffix, limit=256)
        applied = ("FifoTopic", "ContentBasedDeduplication", "DisplayName")
        attributes = {key: _as_attribute(properties.pop(key)) for key in applied if key in properties}
        arn = self.client("sns").create_topic(Name=name, Attributes=attributes)["TopicArn"]
        self.report("AWS::SNS::Topic", logical, properties)
        return Created(arn, {"TopicArn": arn, "TopicName": name})

    def subscription(self, logical: str, properties: dict[str, Any]) -> Created:
        applied = ("RawMessageDelivery", "RedrivePolicy", "FilterPolicy", "FilterPolicyScope")
        attributes = {key: _as_attribute(properties.pop(key)) for key in applied if key in properties}
        sns = self.client("sns")
        arn = sns.subscribe(
            TopicArn=properties.pop("TopicArn"),
            Protocol=properties.pop("Protocol"),
            Endpoint=properties.pop("Endpoint"),
            Attributes=attributes,
            ReturnSubscriptionArn=True,
        )["SubscriptionArn"]
        self.report("AWS::SNS::Subscription", logical, properties)
        return Created(arn, {"Arn": arn})

    def table(self, logical: str, properties: dict[str, Any]) -> Created:
        dynamodb = self.client("dynamodb")
        name = properties.pop("TableName", None) or self.generated_name(logical, limit=255)
        time_to_live = properties.pop("TimeToLiveSpecification", None)
        applied = (
            *("AttributeDefinitions", "KeySchema", "BillingMode", "ProvisionedThroughput"),
            *("GlobalSecondaryIndexes", "LocalSecondaryIndexes", "StreamSpecification"),
        )
        definition = {key: properties.pop(key) for key in applied if key in properties}
        try:
            dynamodb.create_table(TableName=name, **definition)
        except ClientError as error:
            if error.response["Error"]["Code"] != "ResourceInUseException":
                raise
        dynamodb.get_waiter("table_exists").wait(TableName=name, WaiterConfig={"Delay": 1, "MaxAttempts": 30})
        if time_to_live:
            self.expire(name, time_to_live)
        self.report("AWS::DynamoDB::Table", logical, properties)
        return Created(name, {"Arn": f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/{name}"})

    def expire(self, table: str, specification: Mapping[str, Any]) -> None:
        """Nothing depends on it: the product compares `expires_at` itself, so an emulator may refuse."""
        dynamodb = self.client("dynamodb")
        try:
            present = dynamodb.describe_time_to_live(TableName=table)["TimeToLiveDescription"]
            if present.get("TimeToLiveStatus") != "ENABLED":
                dynamodb.update_time_to_live(TableName=table, TimeToLiveSpecification=specification)
        except ClientError as error:
            self.notes.append(f"table {table}: the emulator refused to expire items ({error}); they stay")

    def application(self, logical: str, properties: dict[str, Any]) -> Created:
        jobs = self.client("emr-serverless")
        name = properties.pop("Name", None) or self.generated_name(logical)
        present = {each["name"]: each for each in jobs.list_applications()["applications"]}
        if name in present:
            identifier, arn = present[name]["id"], present[name]["arn"]
        else:
            answer = jobs.create_application(
                name=name,
                releaseLabel=properties["ReleaseLabel"],
                type=properties["Type"],
                architecture=properties.get("Architecture", "X86_64"),
                clientToken=hashlib.sha256(name.encode()).hexdigest(),
                runtimeConfiguration=[_lower(each) for each in properties.get("RuntimeConfiguration", [])],
            )
            identifier, arn = answer["applicationId"], answer["arn"]
        for applied in ("ReleaseLabel", "Type", "Architecture", "RuntimeConfiguration"):
            properties.pop(applied, None)
        self.report("AWS::EMRServerless::Application", logical, properties)
        return Created(identifier, {"ApplicationId": identifier, "Arn": arn})

    # --- descriptions: what runs is described, and run by the workers ---

    def function(self, logical: str, properties: dict[str, Any]) -> Created:
        handler = properties.pop("Handler")
        variables = properties.pop("Environment", {}).get("Variables", {})
        # what the function calls itself in its log is what a person looks for here
        service = variables.get("POWERTOOLS_SERVICE_NAME")
        name = properties.pop("FunctionName", None) or service or self.generated_name(logical)
        if name in self.functions:
            raise LocalError(f"two functions of the template are called {name}: {logical} is the second")
        arn = f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{name}"
        self.functions[name] = Function(
            name=name,
            arn=arn,
            handler=handler,
            code=str(self.code_of(logical, handler, properties.pop("Code"))),
            environment={key: str(value) for key, value in variables.items()},
            timeout=int(properties.pop("Timeout", 3)),
            memory=int(properties.pop("MemorySize", 128)),
        )
        self.report("AWS::Lambda::Function", logical, properties)
        return Created(name, {"Arn": arn})

    def code_of(self, logical: str, handler: str, code: Mapping[str, Any]) -> Path:
        module = Path(*handler.split(".")[:-1]).with_suffix(".py")
        asset = self.folders.get((code.get("S3Bucket", ""), code.get("S3Key", "")))
        folders = [each for each in (self.code, asset) if each is not None]
        for folder in folders:
            if (folder / module).is_file():
                return folder.resolve()
        places = " or ".join(str(each / module) for each in folders) or "an asset"
        raise LocalError(
            f"the code of function {logical} is missing: its handler is {handler}, but there is no {places}"
        )

    def event_source(self, logical: str, properties: dict[str, Any]) -> Created:
        arn = properties.pop("EventSourceArn")
        name = properties.pop("FunctionName").rpartition(":")[2]
        if ":sqs:" not in arn:
            raise LocalError(f"event source {logical} is {arn}; the local stack polls SQS queues only")
        if properties.pop("FilterCriteria", None):
            raise LocalError(f"event source {logical} filters messages, which the local stack does not")
        if name not in self.functions:
            raise LocalError(f"event source {logical} invokes {name}, which is no function of the template")
        size = int(properties.pop("BatchSize", 10))
        window = int(properties.pop("MaximumBatchingWindowInSeconds", 0))
        reports = "ReportBatchItemFailures" in properties.pop("FunctionResponseTypes", [])
        if str(properties.pop("Enabled", True)).lower() == "true":
            url = self.client("sqs").get_queue_url(QueueName=arn.rpartition(":")[2])["QueueUrl"]
            source = Source(url, arn, size, window, reports)
            function = self.functions[name]
            self.functions[name] = replace(function, sources=(*function.sources, source))
        self.report("AWS::Lambda::EventSourceMapping", logical, properties)
        return Created(logical)

    def rule(self, logical: str, properties: dict[str, Any]) -> Created:
        name = properties.pop("Name", None) or self.generated_name(logical)
        pattern = properties.pop("EventPattern", None)
        schedule = properties.pop("ScheduleExpression", None)
        targets = properties.pop("Targets", [])
        if pattern is not None and pattern.get("source") == ["aws.s3"]:
            if properties.pop("State", "ENABLED") == "ENABLED":
                self.uploads(logical, pattern, targets)
            self.report("AWS::Events::Rule", logical, properties)
            return Created(name, {"Arn": f"arn:aws:events:{REGION}:{ACCOUNT}:rule/{name}"})
        names = tuple(each["Arn"].rpartition(":")[2] for each in targets)
        if unknown := [each for each in names if each not in self.functions]:
            raise LocalError(f"rule {logical} has targets that are no functions of the template: {', '.join(unknown)}")
        inputs = {each["Arn"].rpartition(":")[2]: json.loads(each["Input"]) for each in targets if "Input" in each}
        if pattern is not None:
            _refuse_operators(logical, pattern)
        if properties.pop("State", "ENABLED") == "ENABLED":
            self.rules.append(Rule(name, names, pattern, _period(logical, schedule) if schedule else 0, inputs))
        self.report("AWS::Events::Rule", logical, properties)
        return Created(name, {"Arn": f"arn:aws:events:{REGION}:{ACCOUNT}:rule/{name}"})

    def uploads(self, logical: str, pattern: Mapping[str, Any], targets: list[Mapping[str, Any]]) -> None:
        """A rule for S3's events: here the bucket notifies the queue itself, of the same keys, in S3's other words."""
        arns = [each["Arn"] for each in targets]
        if not all(":sqs:" in arn for arn in arns):
            raise LocalError(f"rule {logical} sends S3's events to {', '.join(arns)}; here they reach queues only")
        detail = pattern["detail"]
        keys = detail.get("object", {}).get("key", [{"prefix": ""}])
        for bucket in detail["bucket"]["name"]:
            for other, resource in self.resources.items():
                if resource.get("Properties", {}).get("BucketName") == bucket:
                    self.create(other)
            present = self.client("s3").get_bucket_notification_configuration(Bucket=bucket)
            present.pop("ResponseMetadata", None)
            ours = [
                {
                    "QueueArn": arn,
                    "Events": ["s3:ObjectCreated:*"],
                    **({"Filter": {"Key": {"FilterRules": rules}}} if (rules := _filter_rules(logical, key)) else {}),
                }
                for arn in arns
                for key in keys
                # a key written out is one that the pattern with a wildcard is too long for; a filter takes it
                if not isinstance(key, str)
            ]
            self.notify(bucket, {**present, "QueueConfigurations": [*present.get("QueueConfigurations", []), *ours]})


def _filter_rules(logical: str, matcher: Mapping[str, str]) -> list[dict[str, str]]:
    """EventBridge's content filter for a key, as S3's: prefix, suffix, or a wildcard between the two."""
    ((operator, value),) = matcher.items()
    if operator in ("prefix", "suffix"):
        return [{"Name": operator, "Value": value}] if value else []
    # a backslash before `*`, or before another one, makes it a character like any other
    tokens = re.findall(r"\\.|\*|[^\\*]+", value, re.DOTALL)
    if operator != "wildcard" or tokens.count("*") != 1:
        raise LocalError(f"rule {logical} matches keys with {dict(matcher)!r}, which the local stack does not")
    at = tokens.index("*")
    prefix, suffix = ("".join(each.removeprefix("\\") for each in part) for part in (tokens[:at], tokens[at + 1 :]))
    return [{"Name": "prefix", "Value": prefix}, {"Name": "suffix", "Value": suffix}]


def _as_attribute(value: Any) -> str:
    """SQS and SNS take every attribute as text."""
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, str) else json.dumps(value) if isinstance(value, dict) else str(value)


def _as_api(logical: str, configuration: Mapping[str, Any]) -> dict[str, Any]:
    """A template's notification configuration as the API takes it."""
    answer: dict[str, Any] = {}
    for kind, value in configuration.items():
        if kind == "QueueConfigurations":
            answer[kind] = [
                {
                    "QueueArn": each["Queue"],
                    "Events": [each["Event"]],
                    **(
                        {"Filter": {"Key": {"FilterRules": each["Filter"]["S3Key"]["Rules"]}}}
                        if "Filter" in each
                        else {}
                    ),
                }
                for each in value
            ]
        elif kind == "EventBridgeConfiguration":
            answer[kind] = {}
        else:
            raise LocalError(f"bucket {logical} notifies by {kind}; the local stack sends to queues only")
    return answer


def _lower(configuration: Mapping[str, Any]) -> dict[str, Any]:
    """A `ConfigurationObject` with the API's names; the names of the settings in it stay as they are."""
    answer: dict[str, Any] = {"classification": configuration["Classification"]}
    if "Properties" in configuration:
        answer["properties"] = configuration["Properties"]
    if "Configurations" in configuration:
        answer["configurations"] = [_lower(each) for each in configuration["Configurations"]]
    return answer


def _period(logical: str, expression: str) -> int:
    """The seconds of `rate(1 minute)`."""
    match = re.fullmatch(r"rate\((\d+) (minute|hour|day)s?\)", expression)
    if not match:
        raise LocalError(f"rule {logical} runs at {expression!r}; the local stack knows rate(...) only")
    return int(match[1]) * _SPAN[match[2]]


def _refuse_operators(logical: str, pattern: Mapping[str, Any]) -> None:
    for name, expected in pattern.items():
        if isinstance(expected, Mapping):
            _refuse_operators(logical, expected)
        elif not isinstance(expected, list) or any(isinstance(each, dict) for each in expected):
            raise LocalError(f"rule {logical} matches {name} with {expected!r}; the local stack compares values only")
