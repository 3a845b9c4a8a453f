"""What is asked of EMR Serverless and answered, over HTTP."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Mapping
from typing import Any

from tidegate_local.emr.runs import Application, JobRun
from tidegate_local.emr.service import EmulatedEmr
from tidegate_local.emr.submit import parse_parameters
from tidegate_local.endpoint import HttpRoute, RefusedRequest, Request, Response, answer

TOKEN_PATTERN = r"[A-Za-z0-9._-]{1,64}"


def routes(service: EmulatedEmr) -> list[HttpRoute]:
    """The operations, by method and path as botocore has them."""

    def create_application(request: Request) -> Response:
        made = service.create(asked_application(request.json, now=time.time()))
        return answer({"applicationId": made.id, "name": made.name, "arn": made.arn})

    def list_applications(request: Request) -> Response:
        return answer({"applications": [{"id": each.id, **each.summary()} for each in service.applications.values()]})

    def get_application(request: Request, application: str) -> Response:
        found = service.application(application)
        return answer({"application": {"applicationId": found.id, **found.summary()}})

    def update_application(request: Request, application: str) -> Response:
        present = service.application(application)
        said = request.json
        settings = _spark_defaults(said["runtimeConfiguration"]) if "runtimeConfiguration" in said else present.settings
        updated = service.update(present, said.get("releaseLabel", present.release_label), settings)
        return answer({"application": {"applicationId": updated.id, **updated.summary()}})

    def start_job_run(request: Request, application: str) -> Response:
        run = service.start(asked_run(request.json, service.application(application), now=time.time()))
        return answer({"applicationId": application, "jobRunId": run.id, "arn": run.arn})

    def list_job_runs(request: Request, application: str) -> Response:
        states = request.args.getlist("states")
        found = service.runs_of(service.application(application))
        return answer({"jobRuns": [each.report() for each in found if not states or each.state in states]})

    def get_job_run(request: Request, application: str, run: str) -> Response:
        return answer({"jobRun": service.run(application, run).report()})

    def cancel_job_run(request: Request, application: str, run: str) -> Response:
        service.cancel(service.run(application, run))
        return answer({"applicationId": application, "jobRunId": run})

    return [
        ("POST", "/applications", create_application),
        ("GET", "/applications", list_applications),
        ("GET", "/applications/<application>", get_application),
        ("PATCH", "/applications/<application>", update_application),
        ("POST", "/applications/<application>/jobruns", start_job_run),
        ("GET", "/applications/<application>/jobruns", list_job_runs),
        ("GET", "/applications/<application>/jobruns/<run>", get_job_run),
        ("DELETE", "/applications/<application>/jobruns/<run>", cancel_job_run),
    ]


def asked_application(asked: Mapping[str, Any], *, now: float) -> Application:
    """The application that a request wants. Raises RefusedRequest."""
    for name in ("releaseLabel", "type", "clientToken"):
        _demand(bool(asked.get(name)), f"{name} is missing")
    _demand(asked["type"].lower() == "spark", "only Spark applications run on this machine")
    return Application(
        id=_new_id(),
        name=asked.get("name", ""),
        release_label=asked["releaseLabel"],
        architecture=asked.get("architecture", "X86_64"),
        settings=_spark_defaults(asked.get("runtimeConfiguration", [])),
        token=asked["clientToken"],
        created_at=now,
    )


def asked_run(asked: Mapping[str, Any], application: Application, *, now: float) -> JobRun:
    """The job run that a request wants. Raises RefusedRequest for what would have to be ignored here."""
    token = asked.get("clientToken", "")
    _demand(re.fullmatch(TOKEN_PATTERN, token) is not None, f"clientToken {token!r} is not {TOKEN_PATTERN}")
    _demand(bool(asked.get("executionRoleArn")), "executionRoleArn is missing")
    _demand(asked.get("mode", "BATCH") == "BATCH", "only batch jobs run on this machine")
    _demand(asked.get("retryPolicy", {}).get("maxAttempts", 1) == 1, "jobs are not retried on this machine")
    driver = asked.get("jobDriver", {})
    entry_point = driver.get("sparkSubmit", {}).get("entryPoint", "")
    _demand(re.fullmatch(r"s3://[^/]+/.+", entry_point) is not None, f"entryPoint {entry_point!r} is no S3 URI")
    parse_parameters(driver["sparkSubmit"].get("sparkSubmitParameters", ""))
    overrides = asked.get("configurationOverrides", {}).get("applicationConfiguration", [])
    return JobRun(
        id=_new_id(),
        application=application,
        token=token,
        name=asked.get("name", ""),
        role=asked["executionRoleArn"],
        driver=driver,
        settings=_spark_defaults(overrides),
        tags=asked.get("tags", {}),
        timeout_minutes=int(asked.get("executionTimeoutMinutes", 720)),
        created_at=now,
        updated_at=now,
    )


def _new_id() -> str:
    return "00" + secrets.token_hex(7)


def _demand(condition: bool, message: str) -> None:
    if not condition:
        raise RefusedRequest(400, "ValidationException", message)


def _spark_defaults(configurations: list[Mapping[str, Any]]) -> dict[str, str]:
    settings: dict[str, str] = {}
    for each in configurations:
        _demand(each["classification"] == "spark-defaults", f"{each['classification']} is not known on this machine")
        settings.update(each.get("properties", {}))
    return settings
