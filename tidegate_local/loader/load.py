"""Creates a stack."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tidegate_local.description import Description
from tidegate_local.errors import LocalError

# each registers what it creates
from tidegate_local.loader import buckets, functions, jobs, messages, rules, tables  # noqa: F401
from tidegate_local.loader.absent import ABSENT
from tidegate_local.loader.assembly import Assembly
from tidegate_local.loader.loading import KINDS, Loading


def load(
    assembly: Assembly, environment: Mapping[str, str], *, code: Path | None = None, patience: int | None = None
) -> Description:
    """Create the stack at the endpoints that `environment` names.

    `code` is a source tree to import handlers from instead of from the assets. `patience` bounds the queues'
    visibility timeouts, in seconds: how long a message is hidden after a worker failed with it. Raises LocalError.
    """
    loading = Loading(assembly, environment, code, patience)
    refuse_unknown_types(loading)
    place_files(loading)
    for logical in loading.resources:
        loading.create(logical)
    buckets.put_notifications(loading)
    outputs = {
        name: str(loading.resolver.resolve(output["Value"]))
        for name, output in assembly.template.get("Outputs", {}).items()
    }
    notes = tuple(dict.fromkeys(loading.notes))
    return Description(assembly.name, loading.functions, tuple(loading.rules), outputs, notes)


def refuse_unknown_types(loading: Loading) -> None:
    unknown = sorted({each["Type"] for each in loading.resources.values()} - KINDS.keys() - ABSENT.keys())
    if unknown:
        raise LocalError(
            f"the template has resources that the local stack cannot create: {', '.join(unknown)}."
            " Register who creates them in tidegate_local/loader/, or list them in its absent.py with the reason"
        )


def place_files(loading: Loading) -> None:
    """Upload the files that something other than a function needs; remember where functions' code lies."""
    runs = [each for each in loading.resources.values() if each["Type"] == "AWS::Lambda::Function"]
    code = {json.dumps(each["Properties"]["Code"], sort_keys=True) for each in runs}
    for file in loading.assembly.files:
        if "path" not in file["source"]:
            raise LocalError(f"an asset is made by a program, not a file: {file['source']}; the local stack runs none")
        path = loading.assembly.folder / file["source"]["path"]
        for destination in file["destinations"].values():
            bucket = loading.resolver.resolve({"Fn::Sub": destination["bucketName"]})
            key = loading.resolver.resolve({"Fn::Sub": destination["objectKey"]})
            loading.folders[bucket, key] = path
            if not any(key in each for each in code):
                upload(loading, path, bucket, key)


def upload(loading: Loading, path: Path, bucket: str, key: str) -> None:
    buckets.make_bucket(loading, bucket)
    if path.is_file():
        loading.s3.upload_file(str(path), bucket, key)
        return
    with tempfile.TemporaryDirectory() as folder:
        archive = shutil.make_archive(str(Path(folder, "asset")), "zip", path)
        loading.s3.upload_file(archive, bucket, key)
