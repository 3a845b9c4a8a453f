"""The Spark step: the command line of one driver, as hand-off passes it to StartJobRun."""

import argparse
import logging
import sys
import time
import uuid
from collections.abc import Callable

import boto3
from pyspark.sql import SparkSession

from tidegate.aws.work import S3Work
from tidegate.core.receipts import Receipt
from tidegate.core.routes import Dataset, decode_dataset
from tidegate.core.screening import decode_request
from tidegate.core.seats import seats_folder
from tidegate.flows.publish import Attempt, run, run_verb
from tidegate.flows.take_along import Seats
from tidegate.reading.fetch import a_neighbour_is_readable
from tidegate.sinks.iceberg.sink import IcebergSink
from tidegate.spark.session import prepare

log = logging.getLogger("tidegate")

MakeAttempt = Callable[[str, int, Dataset, str, str, bool], Attempt]
"""The attempt of a batch, by its number, dataset, digest, owner of the landing bucket, and whether it is the last."""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tidegate-ingest")
    parser.add_argument("mode", choices=("ingest", "fence", "fence-again", "selftest", "lineage", "screen", "maintain"))
    parser.add_argument("--batch", required=True, help="or the id of the run, if the job is of no batch")
    parser.add_argument("--attempt", required=True, type=int)
    parser.add_argument("--work", required=True, help="the work bucket's name")
    parser.add_argument("--account", default="", help="the account that the work bucket must belong to")
    parser.add_argument("--landing-owner", default="", help="the account that the uploads' bucket must belong to")
    parser.add_argument("--digest", default="", help="the digest of the parts that the ledger has registered")
    parser.add_argument("--floors", default=0, type=int, help="how often a person decided it is not in the table")
    parser.add_argument("--last", action="store_true", help="no other attempt follows")
    parser.add_argument("--dataset", default="", help="core.routes.Dataset as JSON; not for a lineage")
    parser.add_argument("--linger", default=0, type=int, help="seconds to wait for a further batch; 0: take none")
    parser.add_argument("--shared-for", default=0, type=int, help="seconds from now in which further ones are taken")
    parser.add_argument("--table", default="", help="whose lineage is read; of a self-test: all, with commas")
    parser.add_argument("--screening", default="", help="core.screening.ScreeningRequest as JSON")
    parser.add_argument("--run", default="", help="the name of a run that is no attempt")
    parser.add_argument("--prefix", default="", help="s3://bucket/prefix, which the lineage is limited to")
    return parser


def main(argv: list[str] | None = None) -> None:
    parser = _parser()
    arguments = parser.parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s", stream=sys.stderr)
    if arguments.mode not in ("lineage", "screen", "maintain") and not arguments.dataset:
        parser.error("--dataset is missing")
    if arguments.mode not in ("ingest", "fence", "fence-again"):
        sys.exit(_of_no_batch(arguments))
    dataset = decode_dataset(arguments.dataset)
    batch, number, began = arguments.batch, arguments.attempt, time.time()
    spark = SparkSession.builder.appName(f"tidegate-{batch}-{number}").getOrCreate()
    work = S3Work(boto3.client("s3"), arguments.work, arguments.account)

    def attempt_at(batch: str, attempt: int, dataset: Dataset, digest: str, owner: str, last: bool) -> Attempt:
        return Attempt(
            sink=IcebergSink(spark, dataset, batch, attempt, driver=uuid.uuid4().hex, landing_owner=owner),
            work=work,
            batch=batch,
            attempt=attempt,
            digest=digest,
            last=last,
            can_read_near=lambda upload: a_neighbour_is_readable(upload, owner),
        )

    own = attempt_at(batch, number, dataset, arguments.digest, arguments.landing_owner, arguments.last)
    own.floors, own.run = arguments.floors, arguments.run
    verb: Callable[[Attempt], Receipt] = Attempt.fence if arguments.mode == "fence" else Attempt.ingest
    if arguments.mode == "fence-again":
        from tidegate.flows.fence_again import fence_again  # no other job needs it

        verb = fence_again

    def prepared(attempt: Attempt) -> Receipt:
        # in the attempt, so that what is missing is the reason why it failed
        prepare(spark)
        return verb(attempt)

    code = run_verb(own, prepared)
    if arguments.linger:
        try:
            code = max(code, _take_along(attempt_at, own, arguments, began, healthy=not code))
        except Exception:
            # whoever is in a seat has the next attempt
            log.exception("the work bucket does not answer: this job takes no further batch")
            code = 1
    spark.stop()
    sys.exit(code)


def _of_no_batch(arguments: argparse.Namespace) -> int:
    """What a job of no batch does. A job that ingests needs none of these modules."""
    if arguments.mode == "lineage":
        from tidegate.spark import lineage

        return lineage.run(arguments.batch, arguments.work, arguments.account, arguments.table, arguments.prefix)
    if arguments.mode == "screen":
        from tidegate.spark import screening

        asked = decode_request(arguments.screening)
        return screening.run(arguments.batch, arguments.work, arguments.account, asked)
    if arguments.mode == "maintain":
        from tidegate.spark import maintain

        return maintain.run(arguments.batch, arguments.work, arguments.account)
    from tidegate.spark import selftest

    tables = [name for name in arguments.table.split(",") if name]
    dataset = decode_dataset(arguments.dataset)
    return selftest.run(arguments.batch, arguments.work, arguments.account, dataset, tables)


def _take_along(
    attempt_at: "MakeAttempt", own: Attempt, arguments: argparse.Namespace, began: float, *, healthy: bool
) -> int:
    """Attempt further batches, until none comes for a while. After a failure no new one is taken, because its cause may
    be in this process; those that are in line are attempted."""
    folder = seats_folder(own.batch, own.attempt)
    until = began + arguments.shared_for
    seats = Seats(own.work, folder, arguments.linger, now=time.time, sleep=time.sleep, until=until)
    code = 0
    while seat := seats.next(more=healthy):
        owner = seat.landing_owner or arguments.account
        attempt = attempt_at(seat.batch, 1, decode_dataset(seat.dataset), seat.digest, owner, seat.last)
        failed = run(attempt, "ingest")
        code, healthy = max(code, failed), healthy and not failed
    return code
