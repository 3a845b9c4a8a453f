"""The last result of each bench, with where and when it was measured: bench/results/latest.json."""

import importlib.metadata
import json
import os
import platform
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.findings import BenchFindings

LATEST = Path(__file__).with_name("results") / "latest.json"
PACKAGES = ("pyspark", "pyarrow", "boto3", "obstore", "tidegate")


def keep(name: str, findings: BenchFindings, seconds: float, path: Path = LATEST) -> None:
    """Put this result in the place of the bench's last one. The file is replaced at once: it is never half written."""
    there = read(path)
    there[name] = {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "seconds": round(seconds),
        **machine(),
        "text": findings.text,
        **asdict(findings),
    }
    path.parent.mkdir(exist_ok=True)
    beside = path.with_suffix(".new")
    beside.write_text(json.dumps(there, indent=1) + "\n")
    beside.replace(path)


def read(path: Path = LATEST) -> dict[str, Any]:
    """By bench. Empty if there is no result yet."""
    return dict(json.loads(path.read_text())) if path.exists() else {}


def parsed(output: str) -> Mapping[str, Any]:
    """What a bench printed last. Libraries print before it."""
    found: Mapping[str, Any] = json.loads(output.strip().splitlines()[-1])
    return found


def machine() -> dict[str, Any]:
    versions = {name: importlib.metadata.version(name) for name in PACKAGES}
    return {
        "processor": _processor(),
        "processors": os.cpu_count(),
        "versions": {"python": platform.python_version(), **versions},
    }


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return (models or [platform.processor() or platform.machine()])[0]
