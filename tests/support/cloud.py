"""An account for the real CDK CLI: moto in its own process, over HTTP.

Seven things are added to moto. Without the first three the stack could not be deployed:
- `AWS::EMRServerless::Application` and `AWS::CloudWatch::Alarm`, which its CloudFormation does not know, though its EMR
  Serverless and CloudWatch do. An application keeps its name, type and release only, an alarm neither its dimensions
  nor its metrics if they are computed;
- the ending `.fifo` of the names that CloudFormation makes up for FIFO queues and topics;
- custom resources without Docker: a function whose code is written into the template runs in this Python. moto asks
  such a function for Create only, never for Update or Delete;
- the policy of a key as text, without which moto cannot describe a key that its CloudFormation made;
- that a topic stays the same if its name does: moto creates it again for any change, and treats one without properties
  as changed. Other changes of a topic are not applied;
- that a bucket notifies EventBridge: moto stores that setting and does not return it;
- the deletion policy RetainExceptOnCreate, which moto ignores. moto does not roll back a failed creation.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

from tests.support.patience import HANGING
from tidegate_local import toolchain
from tidegate_local.errors import log_tail
from tidegate_local.processes import listen, spawn

ROOT = Path(__file__).parents[2]
ACCOUNT = "123456789012"
REGION = "us-east-1"
ENVIRONMENT = f"aws://{ACCOUNT}/{REGION}"
COMMAND_SECONDS = HANGING
LOG = "moto.log"
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_REGION": REGION,
    "AWS_DEFAULT_REGION": REGION,
    "AWS_EC2_METADATA_DISABLED": "true",
}
INVOKE = """
import importlib, json, sys
module, _, name = sys.argv[1].rpartition(".")
event = json.load(sys.stdin)
context = type("Context", (), {"log_stream_name": "here", "aws_request_id": event.get("RequestId", "")})()
json.dump(getattr(importlib.import_module(module), name)(event, context), sys.stdout)
"""


class CommandFailed(Exception):
    """The CDK CLI ended with an error; the text has it."""


@dataclass(frozen=True, slots=True)
class Cloud:
    """A running moto; `home` is where the CLI finds an empty PATH, and leaves what it keeps."""

    endpoint: str
    home: Path

    @property
    def environment(self) -> dict[str, str]:
        """The CLI's whole environment: no Docker, no tools, no other account.

        The name must be `localhost`: only then does the SDK of the CLI keep the bucket's name out of the host's.
        """
        return {
            "PATH": str(self.home / "bin"),
            "HOME": str(self.home),
            "CDK_DISABLE_CLI_TELEMETRY": "true",
            "AWS_ENDPOINT_URL": self.endpoint,
            **CREDENTIALS,
            **toolchain.cdk_environment(),
        }

    def client(self, service: str) -> Any:
        return client(service, self.endpoint)

    @property
    def log(self) -> Path:
        return self.home / LOG

    def cdk(self, *arguments: str, folder: Path = ROOT) -> str:
        """Run the CDK CLI and return its output. Raises CommandFailed."""
        command = f"cdk {' '.join(arguments)}"
        try:
            done = subprocess.run(
                [*toolchain.cdk(), *arguments, "--no-notices", "--no-color"],
                cwd=folder,
                env=self.environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                text=True,
                timeout=COMMAND_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            # a custom resource whose function failed, for instance: moto waits for its success for ever
            raise CommandFailed(
                f"`{command}` did not end; it said:\n{error.stdout!r}\nThe end of moto's log:\n{log_tail(self.log)}"
            ) from error
        if done.returncode:
            raise CommandFailed(f"`{command}` ended with {done.returncode}:\n{done.stdout}")
        return done.stdout


def client(service: str, endpoint: str) -> Any:
    return boto3.client(
        service,
        endpoint_url=endpoint,
        region_name=REGION,
        aws_access_key_id=CREDENTIALS["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
        config=Config(s3={"addressing_style": "path"}, retries={"total_max_attempts": 2}),
    )


@contextlib.contextmanager
def cloud(folder: Path) -> Iterator[Cloud]:
    """An empty account, gone afterwards; its log and the CLI's home are in `folder`."""
    (folder / "bin").mkdir()
    with listen() as listener:
        endpoint = f"http://localhost:{listener.getsockname()[1]}"
        child = spawn(
            "moto",
            [sys.executable, "-c", f"from tests.support.cloud import serve; serve({endpoint!r})"],
            log=folder / LOG,
            environment=os.environ | CREDENTIALS,
            folder=ROOT,
            listener=listener,
        )
    try:
        yield Cloud(endpoint, folder)
    finally:
        child.stop(grace=2)


# --- in moto's process ---


def serve(endpoint: str) -> None:
    """Serve on the inherited socket, which `endpoint` leads to, until told to stop."""
    from tidegate_local import services

    _add_applications()
    _add_alarms()
    _end_names()
    _keep_topics()
    _write_key_policies()
    _tell_of_event_bridge()
    _keep_what_stays()
    _run_written_code(endpoint)
    services.main()


Make = Callable[[str, dict[str, Any], str, str, str], tuple[str, dict[str, str]]]
"""Makes a resource of a name, properties, account and region, under the id that it has already, or \"\"; returns its id
and its attributes."""
Remove = Callable[[str, str, str], None]
"""Deletes the resource with this id, of this account and region."""
_ADDED: list[type] = []
"""moto finds its types of resources by weak references."""


def _add(kind: str, name_property: str, known: set[str], make: Make, remove: Remove) -> None:
    """Teach moto's CloudFormation a type of resource, with the attributes `known`."""
    from moto.core.common_models import CloudFormationModel

    class Made(CloudFormationModel):
        def __init__(self, made: tuple[str, dict[str, str]]) -> None:
            self.physical_resource_id, self.attributes = made

        @staticmethod
        def cloudformation_name_type() -> str:
            return name_property

        @staticmethod
        def cloudformation_type() -> str:
            return kind

        @classmethod
        def has_cfn_attr(cls, attr: str) -> bool:
            return attr in known

        def get_cfn_attribute(self, attribute_name: str) -> str:
            return self.attributes[attribute_name]

        @classmethod
        def create_from_cloudformation_json(
            cls, resource_name: str, cloudformation_json: Any, account_id: str, region_name: str, **kwargs: Any
        ) -> Made:
            return cls(make(resource_name, cloudformation_json["Properties"], account_id, region_name, ""))

        @classmethod
        def update_from_cloudformation_json(
            cls,
            original_resource: Made,
            new_resource_name: str,
            cloudformation_json: Any,
            account_id: str,
            region_name: str,
        ) -> Made:
            present = original_resource.physical_resource_id
            return cls(make(new_resource_name, cloudformation_json["Properties"], account_id, region_name, present))

        def delete(self, account_id: str, region_name: str) -> None:
            remove(self.physical_resource_id, account_id, region_name)

    _ADDED.append(Made)


def _add_applications() -> None:
    from moto.emrserverless.models import Application, emrserverless_backends

    unset: Any = None

    def make(
        name: str, properties: dict[str, Any], account: str, region: str, present: str
    ) -> tuple[str, dict[str, str]]:
        made = Application(
            name=name,
            # moto's own check knows no label that begins with emr-spark-
            release_label=properties["ReleaseLabel"],
            application_type=properties["Type"],
            client_token="",
            account_id=account,
            region_name=region,
            initial_capacity=unset,
            maximum_capacity=unset,
            tags={},
            auto_start_configuration=unset,
            auto_stop_configuration=unset,
            network_configuration=None,
        )
        if present:
            made.arn = made.arn.replace(made.id, present)
            made.id = present
        emrserverless_backends[account][region].applications[made.id] = made
        return made.id, {"ApplicationId": made.id, "Arn": made.arn}

    def remove(identifier: str, account: str, region: str) -> None:
        del emrserverless_backends[account][region].applications[identifier]

    _add("AWS::EMRServerless::Application", "Name", {"ApplicationId", "Arn"}, make, remove)


def _add_alarms() -> None:
    from moto.cloudwatch.models import cloudwatch_backends

    def make(
        name: str, properties: dict[str, Any], account: str, region: str, present: str
    ) -> tuple[str, dict[str, str]]:
        made = cloudwatch_backends[account][region].put_metric_alarm(
            name=present or name,
            namespace=properties.get("Namespace", ""),
            metric_name=properties.get("MetricName", ""),
            comparison_operator=properties["ComparisonOperator"],
            evaluation_periods=int(properties["EvaluationPeriods"]),
            datapoints_to_alarm=properties.get("DatapointsToAlarm"),
            period=int(properties.get("Period", 0)),
            threshold=properties["Threshold"],
            statistic=properties.get("Statistic", ""),
            description=properties.get("AlarmDescription", ""),
            dimensions=[],
            alarm_actions=properties.get("AlarmActions", []),
            treat_missing_data=properties.get("TreatMissingData"),
        )
        return made.name, {"Arn": made.alarm_arn}

    def remove(identifier: str, account: str, region: str) -> None:
        cloudwatch_backends[account][region].delete_alarms([identifier])

    _add("AWS::CloudWatch::Alarm", "AlarmName", {"Arn"}, make, remove)


def _end_names() -> None:
    from moto.sns.models import Topic
    from moto.sqs.models import Queue

    for kind, is_fifo in ((Queue, "FifoQueue"), (Topic, "FifoTopic")):
        _end_names_of(kind, is_fifo)


def _end_names_of(kind: Any, is_fifo: str) -> None:
    from tidegate_local.mends.patching import patch

    original = kind.create_from_cloudformation_json

    def create(resource_name: str, cloudformation_json: Any, *arguments: Any, **options: Any) -> Any:
        fifo = str(cloudformation_json["Properties"].get(is_fifo)).lower() == "true"
        name = f"{resource_name.removesuffix('.fifo')}.fifo" if fifo else resource_name
        return original(name, cloudformation_json, *arguments, **options)

    patch(kind, create_from_cloudformation_json=create)


def _keep_topics() -> None:
    from moto.sns.models import Topic

    from tidegate_local.mends.patching import patch

    original = Topic.update_from_cloudformation_json

    def update(
        original_resource: Any, new_resource_name: str, cloudformation_json: Any, *rest: Any, **more: Any
    ) -> Any:
        if cloudformation_json["Properties"].get("TopicName", original_resource.name) == original_resource.name:
            return original_resource
        return original(original_resource, new_resource_name, cloudformation_json, *rest, **more)

    patch(Topic, update_from_cloudformation_json=update)


def _write_key_policies() -> None:
    from moto.kms.models import Key

    from tidegate_local.mends.patching import patch

    original = Key.create_from_cloudformation_json

    def create(*arguments: Any, **options: Any) -> Any:
        made = original(*arguments, **options)
        made.policy = json.dumps(made.policy)
        return made

    patch(Key, create_from_cloudformation_json=create)


def _tell_of_event_bridge() -> None:
    from moto.s3.responses import S3Response

    from tidegate_local.mends.patching import patch

    original = S3Response.get_bucket_notification

    def get_bucket_notification(response: Any) -> Any:
        status, headers, body = original(response)
        kept = response.backend.get_bucket_notification_configuration(response.bucket_name)
        if kept is not None and kept.event_bridge is not None:
            head, end, tail = body.rpartition("</NotificationConfiguration>")
            if not end:
                raise RuntimeError(f"moto answers in another form than expected: {body}")
            body = f"{head}<EventBridgeConfiguration/>{end}{tail}"
        return status, headers, body

    patch(S3Response, get_bucket_notification=get_bucket_notification)


def _keep_what_stays() -> None:
    from moto.cloudformation.parsing import ResourceMap

    from tidegate_local.mends.patching import patch

    original = ResourceMap.delete

    def delete(resources: Any) -> None:
        kept = resources._resource_json_map
        resources._resource_json_map = {
            name: each | {"DeletionPolicy": each.get("DeletionPolicy", "").removesuffix("ExceptOnCreate")}
            for name, each in kept.items()
        }
        original(resources)

    patch(ResourceMap, delete=delete)


def _run_written_code(endpoint: str) -> None:
    from moto import settings
    from moto.awslambda.models import LambdaFunction

    from tidegate_local.mends.patching import patch

    def invoke(function: Any, event: Any = None) -> tuple[str, bool, str]:
        if "ZipFile" not in function.code:
            return "only code that is written into the template runs here", True, ""
        event["ResourceProperties"] = as_text(event["ResourceProperties"])
        done = run_function(function.code_bytes, function.handler, event, endpoint)
        print(done.stdout, done.stderr, file=sys.stderr, flush=True)
        return done.stdout or "null", done.returncode != 0, done.stderr

    patch(LambdaFunction, _invoke_lambda=invoke)
    # where a custom resource's function reports how it went
    host, _, port = endpoint.rpartition(":")
    vars(settings).update(moto_server_host=lambda: host, moto_server_port=lambda: port)


def as_text(value: Any) -> Any:
    """A custom resource's properties as its function gets them: CloudFormation makes text of numbers and booleans."""
    if isinstance(value, dict):
        return {name: as_text(each) for name, each in value.items()}
    if isinstance(value, list):
        return [as_text(each) for each in value]
    return str(value).lower() if isinstance(value, bool) else str(value)


def run_function(archive: bytes, handler: str, event: Any, endpoint: str) -> subprocess.CompletedProcess[str]:
    """Run a function's code, given as a zip, in its own Python process, with `endpoint` as AWS."""
    with tempfile.TemporaryDirectory(prefix="function-") as folder:
        with zipfile.ZipFile(io.BytesIO(archive)) as content:
            content.extractall(folder)
        return subprocess.run(
            [sys.executable, "-c", INVOKE, handler],
            cwd=folder,
            env=os.environ | CREDENTIALS | {"AWS_ENDPOINT_URL": endpoint},
            input=json.dumps(event),
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )
