"""Rebuild the ledger of a stack that starts over tables of an earlier run (`tidegate ledger rebuild`).

    python -m tidegate_local.rebuilding --dir .tidegate

The tables are there, and what the services held is not, or cannot be read. So the ledger starts empty. In a bucket
without versions an upload is named by its ETag, so a file that is uploaded again is the same upload: without its claim
it would land a second time. In a bucket with versions it gets a new version id, and is another upload. So if all
buckets have versions, and S3 starts empty too, there is nothing that could come again, and no job reads the tables.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

from tidegate.settings import Settings
from tidegate_local.processes import follow_lifeline

ANOTHER_S3 = "AWS_ENDPOINT_URL_S3"
"""Set, if another emulator stands in for S3. It may still have what was uploaded to it."""


def may_come_again(settings: Settings, environment: Mapping[str, str]) -> bool:
    """Whether an upload that a table holds could come to a new stack once more."""
    return ANOTHER_S3 in environment or any(not route.versioned for route in settings.routes)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tidegate_local.rebuilding")
    parser.add_argument("--dir", type=Path, required=True)
    folder = parser.parse_args().dir
    follow_lifeline()
    from tidegate.cli.main import app  # after the lifeline: it takes a second

    app(["ledger", "rebuild", "--dir", str(folder)])
    return 0


if __name__ == "__main__":
    sys.exit(main())
