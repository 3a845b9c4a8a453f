"""The HTTP protocol of each service, so that a simulated one answers below the SDK's retries.

A simulated service has operations and parameters as boto3 names them. This module translates between the two.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

from botocore.awsrequest import AWSPreparedRequest

from simulation.world.wire import HttpAnswer, Refusal, body_of, json_answer, refusal_answer

Parameters = Mapping[str, Any]
Service = Callable[[str, Parameters], dict[str, Any]]
"""(operation, parameters) to what the SDK hands out for it. Raises Refusal."""


def parameters(service: str, operation: str, request: AWSPreparedRequest) -> Parameters:
    """The parameters of the SDK's call, as far as the simulated services use them."""
    return _READ[service](operation, request)


def over_http(service: str, answer: Service, operation: str, request: AWSPreparedRequest) -> HttpAnswer:
    """What a service answers to a request."""
    try:
        return written(service, operation, answer(operation, parameters(service, operation, request)))
    except Refusal as refusal:
        return refusal_answer(service, refusal)


def written(service: str, operation: str, answered: dict[str, Any]) -> HttpAnswer:
    return _WRITE[service](operation, answered)


# ---- reading


def _json(operation: str, request: AWSPreparedRequest) -> Parameters:
    found: Parameters = json.loads(body_of(request))
    return found


def _emr(operation: str, request: AWSPreparedRequest) -> Parameters:
    if operation == "StartJobRun":
        return _json(operation, request)
    return {"jobRunId": re.sub(r".*/jobruns/", "", urlsplit(request.url).path)}


def _sns(operation: str, request: AWSPreparedRequest) -> Parameters:
    fields = {name: values[0] for name, values in parse_qs(body_of(request).decode(), keep_blank_values=True).items()}
    entries: list[dict[str, str]] = []
    while (prefix := f"PublishBatchRequestEntries.member.{len(entries) + 1}.") + "Id" in fields:
        entries.append({name.removeprefix(prefix): fields[name] for name in fields if name.startswith(prefix)})
    return {"TopicArn": fields.get("TopicArn", ""), "PublishBatchRequestEntries": entries}


_S3_HEADERS = {"IfMatch": "If-Match", "IfNoneMatch": "If-None-Match"}
_S3_QUERY = {
    "versionId": "VersionId",
    "prefix": "Prefix",
    "delimiter": "Delimiter",
    "start-after": "StartAfter",
    "continuation-token": "ContinuationToken",
    "max-keys": "MaxKeys",
    "key-marker": "KeyMarker",
    "version-id-marker": "VersionIdMarker",
}


def _s3(operation: str, request: AWSPreparedRequest) -> Parameters:
    parts = urlsplit(request.url)
    host, path = parts.netloc, unquote(parts.path.lstrip("/"))
    bucket = host.split(".s3.")[0] if ".s3." in host else ""
    if not bucket:
        bucket, _, path = path.partition("/")
    found: dict[str, Any] = {"Bucket": bucket, "Key": path}
    for name, values in parse_qs(parts.query, keep_blank_values=True).items():
        if name in _S3_QUERY:
            found[_S3_QUERY[name]] = int(values[0]) if name == "max-keys" else values[0]
    for name, header in _S3_HEADERS.items():
        value = request.headers.get(header)
        if value:
            found[name] = value.decode() if isinstance(value, bytes) else value
    if operation == "PutObject":
        found["Body"] = body_of(request)
    return found


_READ: Mapping[str, Callable[[str, AWSPreparedRequest], Parameters]] = {
    "dynamodb": _json,
    "emr-serverless": _emr,
    "events": _json,
    "s3": _s3,
    "sns": _sns,
    "sqs": _json,
}

# ---- writing


def _as_json(operation: str, answered: dict[str, Any]) -> HttpAnswer:
    return json_answer(answered)


def _as_sns(operation: str, answered: dict[str, Any]) -> HttpAnswer:
    taken = "".join(
        f"<member><Id>{each['Id']}</Id><MessageId>{each['MessageId']}</MessageId></member>"
        for each in answered["Successful"]
    )
    failed = "".join(
        f"<member><Id>{each['Id']}</Id><Code>{each['Code']}</Code><SenderFault>false</SenderFault></member>"
        for each in answered["Failed"]
    )
    text = (
        f"<PublishBatchResponse><PublishBatchResult><Successful>{taken}</Successful><Failed>{failed}</Failed>"
        "</PublishBatchResult><ResponseMetadata><RequestId>r</RequestId></ResponseMetadata></PublishBatchResponse>"
    )
    return HttpAnswer(200, text.encode(), {"Content-Type": "text/xml"})


def _as_s3(operation: str, answered: dict[str, Any]) -> HttpAnswer:
    if operation in ("ListObjectsV2", "ListObjectVersions"):
        return HttpAnswer(200, _listing(operation, answered).encode(), {"Content-Type": "application/xml"})
    headers = {"ETag": answered["ETag"]} if "ETag" in answered else {}
    if "VersionId" in answered:
        headers["x-amz-version-id"] = answered["VersionId"]
    return HttpAnswer(200, answered["Body"].read() if "Body" in answered else b"", headers)


def _listing(operation: str, answered: dict[str, Any]) -> str:
    versions = operation == "ListObjectVersions"
    root, each_is = ("ListVersionsResult", "Version") if versions else ("ListBucketResult", "Contents")
    pieces = [f"<IsTruncated>{str(answered['IsTruncated']).lower()}</IsTruncated>"]
    for name in ("NextContinuationToken", "NextKeyMarker", "NextVersionIdMarker"):
        if token := answered.get(name):
            pieces.append(f"<{name}>{escape(token)}</{name}>")
    listed = [(each_is, each) for each in answered.get("Versions" if versions else "Contents", ())]
    listed += [("DeleteMarker", each) for each in answered.get("DeleteMarkers", ())]
    for tag, found in listed:
        fields = "".join(f"<{name}>{escape(_text(value))}</{name}>" for name, value in found.items())
        pieces.append(f"<{tag}>{fields}</{tag}>")
    for found in answered.get("CommonPrefixes", ()):
        pieces.append(f"<CommonPrefixes><Prefix>{escape(found['Prefix'])}</Prefix></CommonPrefixes>")
    return f"<{root}>{''.join(pieces)}</{root}>"


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


_WRITE: Mapping[str, Callable[[str, dict[str, Any]], HttpAnswer]] = {
    "dynamodb": _as_json,
    "emr-serverless": _as_json,
    "events": _as_json,
    "s3": _as_s3,
    "sns": _as_sns,
    "sqs": _as_json,
}
