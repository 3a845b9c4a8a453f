"""`tidegate doctor --aws` as a whole."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import boto3
from ulid import ULID

from tidegate.cli import deployment
from tidegate.cli.account.ask import Account
from tidegate.cli.account.examine import examine
from tidegate.cli.account.job import LINE, JobClock, SelfTest
from tidegate.cli.checks import Check, CheckState
from tidegate.cli.exits import Exit
from tidegate.settings import Settings
from tidegate.wiring import Resources


def named(outputs: Path | None) -> Resources | None:
    """The deployment that `outputs` or the environment describes; None before there is one. Raises SettingsError."""
    if outputs is not None:
        return deployment.resources(deployment.deployed(outputs))
    return deployment.resources(os.environ) if deployment.is_named() else None


def visit(
    settings: Settings,
    resources: Resources | None,
    *,
    job_minutes: int | None = None,
    tell: Callable[[str], None] = lambda text: None,
    account: Account | None = None,
    clock: JobClock | None = None,
) -> list[Check]:
    """Every line about the account. With `job_minutes` also those of a self-test, with so many minutes to end."""
    account = account or Account(boto3.Session())
    lines = [*examine(settings, resources, account)]
    if job_minutes is None:
        return lines
    if resources is None:
        advice = "deploy, and give the outputs: --outputs cdk.out/outputs.json"
        return [*lines, Check(LINE, CheckState.FAIL, "there is no deployment to test", advice, Exit.USAGE)]
    if any(line.state is CheckState.FAIL and line.exit is not Exit.FINDING for line in lines):
        # no credentials, or another account: nothing may be started there
        advice = "first repair what failed above"
        return [*lines, Check(LINE, CheckState.WARN, "not started: this is not where the deployment is", advice)]
    datasets = [each.route().dataset for each in settings.routes]
    tables = list(dict.fromkeys(each.table for each in datasets))
    test = SelfTest(resources, datasets[0], account, f"selftest-{ULID()}", tables)
    return [*lines, *test.run(job_minutes, clock or JobClock(time.monotonic, time.sleep), tell)]
