"""How a process is told which deployment it belongs to: the outputs of the stack, as environment variables."""

import json
from collections.abc import Mapping
from pathlib import Path

DEPLOYMENT = "TIDEGATE_DEPLOYMENT"
"""Holds the deployment's name."""

LEDGER = "TIDEGATE_LEDGER"
"""A variable that the environment of every deployment has."""

CATALOG_URI = "TIDEGATE_CATALOG_URI"
"""Of a stack on this machine: the file of its catalog, `sqlite:///PATH`. A deployment in AWS has no such variable."""

WAREHOUSE = "TIDEGATE_WAREHOUSE"
"""Of a stack on this machine: the folder of its tables, `file:///PATH`."""

STACK_DIR = Path(".tidegate")
"""Where a stack on this machine lives, unless another folder is named."""

ARCHIVES = "TIDEGATE_ARCHIVES"
"""Of a job: where the code that it imports is, `name=s3://BUCKET/KEY.zip` with commas between. The name `package` is
our own code, and `3.13` the packages of others for that Python. A job on this machine has no such variable."""

CREDENTIAL_SECRET = "spark.tidegate.credential-secret."
"""Spark's property that holds the ARN of a secret, the `credential` of the catalog whose name follows."""

LOCAL_STACK = "TIDEGATE_LOCAL_STACK"
"""Holds the folder of the stack, if the deployment is one on this machine."""

LOCAL_CONFIG = "TIDEGATE_LOCAL_CONFIG"
"""Holds the file that this stack was made from. What it said then is `DEPLOYED` in the folder of the stack."""

DEPLOYED = "deployed.toml"


def variable(output: str) -> str:
    """The variable that holds this output: `NoticesDeadLetters` is in TIDEGATE_NOTICES_DEAD_LETTERS."""
    return "TIDEGATE" + "".join(f"_{letter}" if letter.isupper() else letter for letter in output).upper()


def variables(deployment: str, outputs: Mapping[str, str]) -> dict[str, str]:
    """The environment of a deployment whose stack has these outputs."""
    return {DEPLOYMENT: deployment, **{variable(name): value for name, value in outputs.items()}}


def read_outputs(text: str) -> dict[str, str]:
    """The same, from what `cdk deploy --outputs-file` wrote: one stack, called as the deployment, and its outputs.

    Raises ValueError if it is something else.
    """
    stacks = json.loads(text)
    if not isinstance(stacks, dict) or len(stacks) != 1:
        raise ValueError("it does not hold the outputs of one stack")
    ((deployment, outputs),) = stacks.items()
    if not isinstance(outputs, dict) or "Ledger" not in outputs:
        raise ValueError(f"stack {deployment!r} has no output `Ledger`: it is none of Tidegate's")
    return variables(deployment, outputs)
