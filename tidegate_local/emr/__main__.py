"""The process: see `tidegate_local.emr`."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

from tidegate_local import toolchain
from tidegate_local.announcer import Announcer
from tidegate_local.emr.api import routes
from tidegate_local.emr.runs import iso
from tidegate_local.emr.service import EmulatedEmr
from tidegate_local.emr.sharing import installed_archive, sharing_options
from tidegate_local.emr.submit import Machine
from tidegate_local.endpoint import Endpoint
from tidegate_local.environment import client
from tidegate_local.processes import follow_lifeline, inherited_listener, listen, url_of

CONCURRENT_JOBS = 2


def _log(message: str) -> None:
    print(f"{iso(time.time())} {message}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tidegate_local.emr")
    parser.add_argument("--dir", type=Path, required=True)
    parser.add_argument("--catalog", action="append", default=[], help="an Iceberg catalog that jobs may name")
    arguments = parser.parse_args()
    listener = inherited_listener() or listen()
    follow_lifeline()
    environment = dict(os.environ)
    machine = Machine(
        folder=arguments.dir.resolve(),
        catalogs=tuple(arguments.catalog),
        environment=environment,
        spark=toolchain.spark_environment(),
        spark_submit=(str(toolchain.spark_submit()),),
        jars=tuple(toolchain.jars()),
        java_options=sharing_options(installed_archive()),
        scratch_name=f"tmp-{os.getpid()}",
    )
    machine.warehouse.mkdir(parents=True, exist_ok=True)
    announcer = Announcer(client("events", environment), _log)

    def publish(detail: dict[str, Any]) -> None:
        _log(f"job run {detail['jobRunId']} is {detail['state']}")
        announcer.publish("aws.emr-serverless", "EMR Serverless Job Run State Change", detail, detail["arn"])

    service = EmulatedEmr(machine, publish, CONCURRENT_JOBS)
    endpoint = Endpoint(listener, routes(service))
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda number, frame: stop.set())
    threading.Thread(target=endpoint.serve_forever, daemon=True).start()
    _log(f"serving {url_of(listener)}")
    stop.wait()
    service.stop()
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except toolchain.ToolMissing as missing:
        sys.exit(str(missing))
