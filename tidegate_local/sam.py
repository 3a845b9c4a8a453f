"""What `sam local invoke` needs to run the functions of a stack that Docker's containers reach, in DIR/sam.

    template.json     the functions, by the names that they have here, as the loaded template describes them
    variables.json    their variables. `-n` makes SAM prefer them to those of the shell, which may lead to an account
    code/             their bundle, for the processor of this machine

SAM passes only variables that the template names (`samcli/local/lambdafn/env_vars.py` of aws-sam-cli 1.170).
"""

from __future__ import annotations

import json
import os
import platform
import shlex
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from infra import bundling
from tidegate.environment import DEPLOYED
from tidegate_local import description
from tidegate_local.commands import command
from tidegate_local.description import Description, Function
from tidegate_local.errors import LocalError
from tidegate_local.processes import HOST
from tidegate_local.template import project_root

FOLDER = "sam"
TEMPLATE, VARIABLES, CODE = "template.json", "variables.json", "code"
PROCESSORS = {"aarch64": "arm64", "arm64": "arm64", "x86_64": "x86_64", "amd64": "x86_64"}
"""From what Python calls a processor to what Lambda calls it."""


def prepare(folder: Path, on_progress: Callable[[str], None]) -> str:
    """Make the files for the stack that runs in `folder`, and return a command that runs a function of it.

    Raises LocalError, also if containers do not reach that stack.
    """
    stack = description.read(folder.resolve())
    if not stack.containers:
        raise LocalError(
            f"the stack in {folder} was started without --docker, and containers do not reach it: stop it with"
            f" `{command('local', 'down', folder=folder)}`, and start it again"
        )
    made = folder.resolve() / FOLDER
    processor = PROCESSORS.get(platform.machine().lower())
    if processor is None:
        raise LocalError(f"Lambda runs on {' and '.join(bundling.AMAZON_LINUX)}, and this machine is neither")
    on_progress("making what SAM needs")
    variables = {name: variables_of(function, stack) for name, function in stack.functions.items()}
    made.mkdir(exist_ok=True)
    _bundle(made / CODE, folder.resolve() / DEPLOYED, bundling.AMAZON_LINUX[processor])
    _write(made / TEMPLATE, template(stack, variables, processor))
    _write(made / VARIABLES, variables)
    return invocation(folder)


def invocation(folder: Path) -> str:
    """The command that runs intake, from the current folder. Other functions and events have their own names."""
    own = Path(sys.prefix, "sam", "bin", "sam")  # where docs/sam.md installs it
    program = os.path.relpath(own) if own.exists() else "sam"
    event = os.path.relpath(project_root() / "tests" / "events" / "intake_s3.json")
    template, variables = (str(folder / FOLDER / name) for name in (TEMPLATE, VARIABLES))
    return shlex.join([program, "local", "invoke", "intake", "-t", template, "-n", variables, "-e", event])


def template(stack: Description, variables: Mapping[str, Mapping[str, str]], processor: str) -> dict[str, Any]:
    """The functions alone, and nothing in them that is still to be resolved."""
    return {
        "Resources": {
            name: {
                "Type": "AWS::Lambda::Function",
                "Properties": {
                    "Architectures": [processor],
                    "Code": CODE,
                    "Environment": {"Variables": variables[name]},
                    "Handler": function.handler,
                    "MemorySize": function.memory,
                    "Runtime": f"python{bundling.PYTHON}",
                    "Timeout": function.timeout,
                },
            }
            for name, function in stack.functions.items()
        }
    }


def variables_of(function: Function, stack: Description) -> dict[str, str]:
    """What the function has here, with addresses that lead out of a container. Nothing is left for SAM to fill in from
    the shell: no credentials, no region, no session."""
    reaching = {name: value for name, value in stack.environment.items() if name.startswith("AWS_")}
    found = {**reaching, "AWS_SESSION_TOKEN": "", "NO_PROXY": stack.containers, **function.environment}
    return {name: value.replace(f"//{HOST}:", f"//{stack.containers}:") for name, value in found.items()}


def _bundle(code: Path, config: Path, target: bundling.Target) -> None:
    try:
        with bundling.functions(project_root(), config, dependencies=True, target=target) as built:
            shutil.rmtree(code, ignore_errors=True)
            shutil.copytree(built, code)
        code.chmod(0o755)  # a temporary folder is its owner's alone, and a container may run as somebody else
    except bundling.BundlingError as error:
        raise LocalError(f"the bundle of the functions, for SAM, could not be made: {error}") from error


def _write(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=1), encoding="utf-8")
