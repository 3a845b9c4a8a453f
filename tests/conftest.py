"""The set-up of every test: no access to a real AWS account, no deadlines, and which tests share a worker."""

import os
import signal
import threading
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.support.sharing import Shares, rank_of
from tests.support.tiers import is_long
from tidegate.cli import printed

# Before anything imports `lambdas`, whose logger and metrics read them once.
os.environ.update(
    {
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_SESSION_TOKEN": "testing",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "POWERTOOLS_METRICS_NAMESPACE": "Tidegate",
        "POWERTOOLS_SERVICE_NAME": "tests",
        "POWERTOOLS_LOG_LEVEL": "INFO",
    }
)
# COLUMNS: what is printed must not depend on the terminal of whoever runs the tests, which pytest-xdist passes on
for name in ("AWS_PROFILE", "AWS_ENDPOINT_URL", "COLUMNS"):
    os.environ.pop(name, None)

# A shell that runs the tests in the background has them ignore SIGINT, and every process that they start would.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN and threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A slow machine must not fail a property, and a failure must be repeatable.
settings.register_profile(
    "tidegate",
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
)
settings.load_profile("tidegate")


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: rank_of(item.nodeid))  # it keeps the order within a share
    for item in items:
        if is_long(item.nodeid):
            item.add_marker(pytest.mark.long)


def pytest_runtest_setup(item: pytest.Item) -> None:
    printed.begin()  # the stack that a verb in an earlier test was told to work on: it is of the process


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """One more than there are processors: a worker with a stack waits for half of its time."""
    return 1 + (os.cpu_count() or 1)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Shares:
    return Shares(config, log)
