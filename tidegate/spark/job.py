"""The Spark step: the command line of one driver, as hand-off passes it to StartJobRun. Such a job is a worker
(`tidegate.flows.worker`), or makes one attempt."""

import argparse
import logging
import sys
import time
import uuid
from collections.abc import Callable

import boto3
from pyspark.sql import SparkSession

from tidegate.aws.work import S3Work
from tidegate.core.batches import Batch
from tidegate.core.receipts import Receipt
from tidegate.core.routes import Dataset, decode_dataset
from tidegate.core.screening import decode_request
from tidegate.flows.publish import Attempt, run_verb
from tidegate.reading.fetch import a_neighbour_is_readable, newest_first
from tidegate.sinks.iceberg.sink import IcebergSink
from tidegate.spark.session import prepare, warm_up

log = logging.getLogger("tidegate")

Mode = Callable[[Attempt], Receipt]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tidegate-ingest")
    parser.add_argument(
        "mode", choices=("work", "ingest", "fence", "fence-again", "selftest", "lineage", "screen", "maintain")
    )
    parser.add_argument("--batch", required=True, help="or the id of the run, if the job is of no batch")
    parser.add_argument("--attempt", required=True, type=int)
    parser.add_argument("--work", required=True, help="the work bucket's name")
    parser.add_argument("--account", default="", help="the account that the work bucket must belong to")
    parser.add_argument("--landing-owner", default="", help="the account that the uploads' bucket must belong to")
    parser.add_argument("--digest", default="", help="the digest of the parts that the ledger has registered")
    parser.add_argument("--floors", default=0, type=int, help="how often a person decided it is not in the table")
    parser.add_argument("--last", action="store_true", help="no other attempt follows")
    parser.add_argument("--dataset", default="", help="core.routes.Dataset as JSON; not for a lineage")
    parser.add_argument("--worker", default="", help="a worker's id")
    parser.add_argument("--code", default="", help="what this worker runs, as an offer names it")
    parser.add_argument("--ledger", default="", help="the ledger's table, in which a worker finds what to take")
    parser.add_argument("--stay", default=0, type=int, help="seconds for which a worker waits for a batch")
    parser.add_argument("--takes-for", default=0, type=int, help="seconds from now in which a worker takes batches")
    parser.add_argument("--table", default="", help="whose lineage is read; of a self-test: all, with commas")
    parser.add_argument("--screening", default="", help="core.screening.ScreeningRequest as JSON")
    parser.add_argument("--run", default="", help="the name of a run that is no attempt")
    parser.add_argument("--prefix", default="", help="s3://bucket/prefix, which the lineage is limited to")
    return parser


def main(argv: list[str] | None = None) -> None:
    parser = _parser()
    arguments = parser.parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s", stream=sys.stderr)
    if arguments.mode not in ("work", "lineage", "screen", "maintain") and not arguments.dataset:
        parser.error("--dataset is missing")
    if arguments.mode not in ("work", "ingest", "fence", "fence-again"):
        sys.exit(_of_no_batch(arguments))
    batch, number = arguments.batch, arguments.attempt
    spark = SparkSession.builder.appName(f"tidegate-{batch}-{number}").getOrCreate()
    work = S3Work(boto3.client("s3"), arguments.work, arguments.account)

    def attempt_at(batch: str, attempt: int, dataset: Dataset, digest: str, owner: str, *, last: bool) -> Attempt:
        return Attempt(
            sink=IcebergSink(
                spark,
                dataset,
                batch,
                attempt,
                driver=uuid.uuid4().hex,
                landing_owner=owner,
                # of a batch whose file kills it the next attempt is made by tasks
                reads=arguments.mode == "work",
            ),
            work=work,
            batch=batch,
            attempt=attempt,
            digest=digest,
            last=last,
            can_read_near=lambda upload: a_neighbour_is_readable(upload, owner),
            newest_first=lambda upload, versions: newest_first(upload, versions, owner),
        )

    def make(attempt: Attempt, verb: Mode = Attempt.ingest) -> int:
        def prepared(attempt: Attempt) -> Receipt:
            # in the attempt, so that what is missing is the reason why it failed
            prepare(spark)
            return verb(attempt)

        return run_verb(attempt, prepared)

    if arguments.mode == "work":

        def take(batch: Batch, owner: str) -> int:
            dataset = decode_dataset(batch.dataset)
            owner = owner or arguments.account
            return make(attempt_at(batch.id, batch.attempt, dataset, batch.manifest, owner, last=False))

        if batch == arguments.worker:
            warm_up(spark)  # it was started for no batch, so nobody waits for it
        code = _work(arguments, take)
    else:
        dataset, owner = decode_dataset(arguments.dataset), arguments.landing_owner
        own = attempt_at(batch, number, dataset, arguments.digest, owner, last=arguments.last)
        own.floors, own.run = arguments.floors, arguments.run
        verb: Mode = Attempt.fence if arguments.mode == "fence" else Attempt.ingest
        if arguments.mode == "fence-again":
            from tidegate.flows.fence_again import fence_again  # no other job needs it

            verb = fence_again
        code = make(own, verb)
    spark.stop()
    sys.exit(code)


def _work(arguments: argparse.Namespace, make: Callable[[Batch, str], int]) -> int:
    """Take attempts until none comes for a while. Returns 0 if all of them were decided."""
    # no other job needs these
    from tidegate.flows import worker
    from tidegate.flows.ledger import Ledger
    from tidegate.stores.dynamodb import DynamoDbStore

    # it claims nothing, so for how long claims are remembered is nothing to it
    store = DynamoDbStore(boto3.client("dynamodb"), arguments.ledger)
    ledger = Ledger(store, lambda: int(time.time()), claim_retention=0)
    until = ledger.clock() + arguments.takes_for
    taking = worker.Taking(
        arguments.worker, arguments.code, ledger, make, arguments.stay, until, time.sleep, worker.beating
    )
    try:
        return taking.run()
    except Exception:
        # whoever it has taken has the next attempt
        log.exception("the ledger does not answer: this worker takes no further batch")
        return 1


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
