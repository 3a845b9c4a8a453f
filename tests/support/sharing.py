"""Which tests share a worker of pytest-xdist, because they share a slow fixture, and in which order tests begin.

xdist has a mark for this, `xdist_group`. With pytest 9.2 it does nothing, in silence
(https://github.com/pytest-dev/pytest-xdist/issues/1386): every worker then makes everything for itself. So the files
are named here, and tests/conftest.py hands them to xdist by its hook `pytest_xdist_make_scheduler`
(https://pytest-xdist.readthedocs.io/en/stable/how-to.html).
"""

from collections.abc import Mapping
from typing import Any

from xdist.scheduler import LoadScopeScheduling

SHARES: Mapping[str, tuple[str, ...]] = {
    # what takes longest begins first, so that no worker is left with it alone at the end
    "Spark": ("tests/spark/",),
    "chaos": ("tests/chaos/",),
    "stack": ("tests/e2e/",),
    "simulation": ("tests/simulation/test_simulation.py",),
    "deployments": (
        "tests/infra/test_deploy.py",
        "tests/infra/test_ledger_page.py",
    ),
    "schemes": ("tests/simulation/test_schemes.py",),
    "SAM": ("tests/rie/test_sam.py",),
    "emulators": ("tests/rie/",),
    "bundles": ("tests/infra/test_budgets.py", "tests/infra/test_bundling.py"),
    "templates": ("tests/infra/",),
    "DynamoDB Local": ("tests/contract/", "tests/conformance/test_dynamodb.py"),
    "traffic": ("tests/simulation/test_traffic.py",),
    "small stack": ("tests/functional/test_local_stack.py",),
    "services": ("tests/functional/test_local_services.py",),
    "runbook": ("tests/functional/test_runbook.py",),
    "EMR": ("tests/functional/test_local_emr.py",),
    "browser": ("tests/browser/",),
}
"""Folders and files, by what their tests share. The first that fits a test counts. Any other test runs by itself."""


def share_of(test: str, shares: Mapping[str, tuple[str, ...]] = SHARES) -> str:
    """The share that a test is in, by its id, which begins with its path; its own id if it is in none."""
    path = test.partition("::")[0]
    for name, paths in shares.items():
        if any(path == each or (each.endswith("/") and path.startswith(each)) for each in paths):
            return name
    return test


def rank_of(test: str, shares: Mapping[str, tuple[str, ...]] = SHARES) -> int:
    """The lower it is, the earlier the test begins."""
    order = list(shares)
    share = share_of(test, shares)
    return order.index(share) if share in shares else len(order)


class Shares(LoadScopeScheduling):
    """Hands out a share at a time, in the order of collection, to whichever worker is free."""

    def __init__(self, config: Any, log: Any = None) -> None:
        config.option.loadscopereorder = False  # xdist would begin with the share of most tests
        super().__init__(config, log)

    def _split_scope(self, nodeid: str) -> str:
        return share_of(nodeid)
