"""What `cdk synth` wrote."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidegate_local.errors import LocalError


@dataclass(frozen=True, slots=True)
class Assembly:
    """One stack of a CDK assembly: its template, and the files it needs, by (bucket, key) before substitution."""

    name: str
    folder: Path
    template: Mapping[str, Any]
    files: tuple[Mapping[str, Any], ...]


def read_assembly(folder: Path) -> Assembly:
    """The one stack in the folder that `cdk synth` wrote. Raises LocalError."""
    try:
        artifacts = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))["artifacts"]
        stacks = {name: each for name, each in artifacts.items() if each["type"] == "aws:cloudformation:stack"}
        if len(stacks) != 1:
            raise LocalError(f"{folder} holds {len(stacks)} stacks ({', '.join(stacks)}); the local stack runs one")
        ((identifier, stack),) = stacks.items()
        template_file = stack["properties"]["templateFile"]
        template = json.loads((folder / template_file).read_text(encoding="utf-8"))
        files = [
            file
            for each in artifacts.values()
            if each["type"] == "cdk:asset-manifest"
            for file in json.loads((folder / each["properties"]["file"]).read_text(encoding="utf-8"))["files"].values()
            if file["source"].get("path") != template_file
        ]
    except (OSError, ValueError, KeyError) as error:
        raise LocalError(f"{folder} is not what `cdk synth` writes ({type(error).__name__}: {error})") from error
    name = stack["properties"].get("stackName", identifier)
    return Assembly(name, folder, template, tuple(files))
