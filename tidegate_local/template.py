"""The synthesized template of the stack: CDK's output for a configuration, made anew only when something changed."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tidegate_local import toolchain
from tidegate_local.errors import LocalError, log_tail

FOLDER = "cdk.out"
_STAMP = "tidegate.sha256"


def project_root() -> Path:
    """The checkout that holds this package. Raises LocalError if it is an installed copy without the CDK app."""
    root = Path(__file__).resolve().parents[1]
    if not (root / "infra").is_dir() or not (root / "app.py").is_file():
        raise LocalError(
            f"the local stack is made from the CDK app, but {root} has no app.py and infra/: run it from a checkout of"
            " the project (pip install --editable .)"
        )
    return root


def synthesize(config: Path, folder: Path) -> Path:
    """The assembly for `config` in `folder`/cdk.out; the folder is made if need be. Raises LocalError."""
    root = project_root()
    assembly = folder / FOLDER
    stamp = assembly / _STAMP
    digest = _digest(root, config)
    if stamp.exists() and stamp.read_text() == digest:
        return assembly
    shutil.rmtree(assembly, ignore_errors=True)
    log = folder / "logs" / "synth.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    context = {"tidegate:local": "true", "tidegate:config": str(config)}
    with log.open("wb") as output:
        done = subprocess.run(
            [sys.executable, str(root / "app.py")],
            cwd=root,
            env={
                **os.environ,
                **toolchain.cdk_environment(),
                "CDK_OUTDIR": str(assembly),
                "CDK_CONTEXT_JSON": json.dumps(context),
            },
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
        )
    if done.returncode != 0:
        raise LocalError(f"the template of {config} could not be made; app.py said:\n{log_tail(log, 30)}")
    stamp.write_text(digest)  # last, so that an interrupted synthesis is done again
    return assembly


def _digest(root: Path, config: Path) -> str:
    """Of everything that the template is made from."""
    digest = hashlib.sha256(f"{sys.version} {importlib.metadata.version('aws-cdk-lib')} {config}".encode())
    for path in [*_sources(root), config]:
        digest.update(f"\0{path}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _sources(root: Path) -> Iterator[Path]:
    yield root / "app.py"
    yield root / "cdk.json"
    yield root / "tidegate" / "spark" / "entry.py"  # an asset of the template
    for folder in (root / "infra", *(root / "tidegate" / name for name in ("core", "schemas", "settings"))):
        yield from sorted(folder.rglob("*.py"))
