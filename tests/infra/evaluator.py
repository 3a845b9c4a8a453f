"""What IAM would answer: `@cloud-copilot/iam-simulate` decides, by policies, conditions and the kinds of resources.

It is no AWS, but it is written to be one where policies are concerned (https://github.com/cloud-copilot/iam-simulate),
and shares no code with what it is asked about. It is pinned in package-lock.json, beside the CDK CLI.
"""

import json
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.infra.account import ACCOUNT, Policy
from tests.support.patience import HANGING
from tidegate_local import toolchain

ALLOWED = "Allowed"
DENIED = "ImplicitlyDenied"
"""Nothing allows it."""
FORBIDDEN = "ExplicitlyDenied"
"""A statement denies it."""

_SCRIPT = Path(__file__).with_suffix(".mjs")


@dataclass(frozen=True)
class Request:
    """Who asks for what. `context` has what the services tell IAM of the request, `identity` the policies of who asks,
    `resource_policy` that of what is asked for."""

    principal: str
    action: str
    resource: str
    context: Mapping[str, str | Sequence[str]] = field(default_factory=dict)
    identity: Sequence[Policy] = ()
    resource_policy: Policy | None = None

    def __str__(self) -> str:
        return f"{self.principal} {self.action} {self.resource} {dict(self.context)}"

    @property
    def simulation(self) -> dict[str, Any]:
        return {
            "request": {
                "principal": self.principal,
                "action": self.action,
                "resource": {"resource": self.resource, "accountId": ACCOUNT},
                "contextVariables": dict(self.context),
            },
            "identityPolicies": [{"name": str(at), "policy": each} for at, each in enumerate(self.identity)],
            "resourcePolicy": self.resource_policy,
            "serviceControlPolicies": [],
            "resourceControlPolicies": [],
        }


def evaluate(requests: Sequence[Request]) -> list[str]:
    """What each is answered. Raises AssertionError for a request that nobody could make (the action takes no such
    resource, or IAM is never told what is in the context), or that the evaluator would take for several: a star in the
    resource, unless it takes none."""
    assert not [each for each in requests if "*" in each.resource and each.resource != "*"]
    cli = Path(toolchain.cdk()[1])
    modules = cli.parents[2]
    assert modules.name == "node_modules", f"{cli} is not where npm puts it"
    with tempfile.TemporaryDirectory(prefix="tidegate-iam-") as folder:
        # Node looks for modules beside the script only
        script = shutil.copy(_SCRIPT, folder)
        Path(folder, "node_modules").symlink_to(modules)
        done = subprocess.run(
            [str(toolchain.node()), str(script)],
            input=json.dumps([each.simulation for each in requests]),
            capture_output=True,
            text=True,
            timeout=HANGING,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    outcomes = json.loads(done.stdout)
    assert len(outcomes) == len(requests)
    for request, outcome in zip(requests, outcomes, strict=True):
        assert "errors" not in outcome, f"{request}: {outcome['errors']}"
        assert not outcome["ignored"], f"{request}: IAM is not told {', '.join(outcome['ignored'])}"
    return [outcome["result"] for outcome in outcomes]
