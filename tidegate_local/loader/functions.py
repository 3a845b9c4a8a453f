"""Functions and what they are invoked with: described here, and run by the workers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tidegate_local.description import EventSourceMapping, Function
from tidegate_local.environment import ACCOUNT, REGION
from tidegate_local.errors import LocalError
from tidegate_local.loader.loading import Created, Loading, Properties, creates


@creates("AWS::Lambda::Function")
def function(loading: Loading, logical: str, properties: Properties) -> Created:
    handler = properties.pop("Handler")
    variables = properties.pop("Environment", {}).get("Variables", {})
    # what the function calls itself in its log is what a person looks for here
    service = variables.get("POWERTOOLS_SERVICE_NAME")
    name = properties.pop("FunctionName", None) or service or loading.generated_name(logical)
    if name in loading.functions:
        raise LocalError(f"two functions of the template are called {name}: {logical} is the second")
    arn = f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{name}"
    loading.functions[name] = Function(
        name=name,
        arn=arn,
        handler=handler,
        code=str(code_of(loading, logical, handler, properties.pop("Code"))),
        environment={key: str(value) for key, value in variables.items()},
        timeout=int(properties.pop("Timeout", 3)),
        memory=int(properties.pop("MemorySize", 128)),
    )
    return Created(name, {"Arn": arn})


def code_of(loading: Loading, logical: str, handler: str, code: Mapping[str, Any]) -> Path:
    module = Path(*handler.split(".")[:-1]).with_suffix(".py")
    asset = loading.folders.get((code.get("S3Bucket", ""), code.get("S3Key", "")))
    folders = [each for each in (loading.code, asset) if each is not None]
    for folder in folders:
        if (folder / module).is_file():
            return folder.resolve()
    places = " or ".join(str(each / module) for each in folders) or "an asset"
    raise LocalError(f"the code of function {logical} is missing: its handler is {handler}, but there is no {places}")


@creates("AWS::Lambda::EventSourceMapping")
def event_source(loading: Loading, logical: str, properties: Properties) -> Created:
    arn = properties.pop("EventSourceArn")
    name = properties.pop("FunctionName").rpartition(":")[2]
    if ":sqs:" not in arn:
        raise LocalError(f"event source {logical} is {arn}; the local stack polls SQS queues only")
    if properties.pop("FilterCriteria", None):
        raise LocalError(f"event source {logical} filters messages, which the local stack does not")
    if name not in loading.functions:
        raise LocalError(f"event source {logical} invokes {name}, which is no function of the template")
    size = int(properties.pop("BatchSize", 10))
    window = int(properties.pop("MaximumBatchingWindowInSeconds", 0))
    reports = "ReportBatchItemFailures" in properties.pop("FunctionResponseTypes", [])
    if str(properties.pop("Enabled", True)).lower() == "true":
        url = loading.sqs.get_queue_url(QueueName=arn.rpartition(":")[2])["QueueUrl"]
        source = EventSourceMapping(url, arn, size, window, reports)
        function = loading.functions[name]
        loading.functions[name] = replace(function, sources=(*function.sources, source))
    return Created(logical)
