"""The Spark step: the command line of one driver, as hand-off passes it to StartJobRun."""

import argparse
import logging
import sys
import uuid

import boto3
from pyspark.sql import SparkSession

from tidegate.aws.work import S3Work
from tidegate.core.routes import decode_dataset
from tidegate.core.screening import decode_request
from tidegate.flows.publish import Attempt, run, run_verb
from tidegate.reading.fetch import a_neighbour_is_readable
from tidegate.sinks.iceberg.sink import IcebergSink


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="tidegate-ingest")
    parser.add_argument("mode", choices=("ingest", "fence", "publish-again", "selftest", "lineage", "screen"))
    parser.add_argument("--batch", required=True, help="or the id of the run, if the job is of no batch")
    parser.add_argument("--attempt", required=True, type=int)
    parser.add_argument("--work", required=True, help="the work bucket's name")
    parser.add_argument("--account", default="", help="the account that the work bucket must belong to")
    parser.add_argument("--landing-owner", default="", help="the account that the uploads' bucket must belong to")
    parser.add_argument("--digest", default="", help="the digest of the parts that the ledger has registered")
    parser.add_argument("--floors", default=0, type=int, help="how often a person decided it is not in the table")
    parser.add_argument("--last", action="store_true", help="no other attempt follows")
    parser.add_argument("--dataset", default="", help="core.routes.Dataset as JSON; not for a lineage")
    parser.add_argument("--table", default="", help="the table whose lineage is read")
    parser.add_argument("--screening", default="", help="core.screening.ScreeningRequest as JSON")
    parser.add_argument("--run", default="", help="the name of a run that is no attempt")
    parser.add_argument("--prefix", default="", help="s3://bucket/prefix, which the lineage is limited to")
    arguments = parser.parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s", stream=sys.stderr)
    if arguments.mode == "lineage":
        from tidegate.spark import lineage

        sys.exit(lineage.run(arguments.batch, arguments.work, arguments.account, arguments.table, arguments.prefix))
    if arguments.mode == "screen":
        from tidegate.spark import screening

        asked = decode_request(arguments.screening)
        sys.exit(screening.run(arguments.batch, arguments.work, arguments.account, asked))
    if not arguments.dataset:
        parser.error("--dataset is missing")
    dataset = decode_dataset(arguments.dataset)
    if arguments.mode == "selftest":
        from tidegate.spark import selftest  # a job that ingests needs none of it

        sys.exit(selftest.run(arguments.batch, arguments.work, arguments.account, dataset))
    batch, number, owner = arguments.batch, arguments.attempt, arguments.landing_owner
    spark = SparkSession.builder.appName(f"tidegate-{batch}-{number}").getOrCreate()
    attempt = Attempt(
        sink=IcebergSink(spark, dataset, batch, number, driver=uuid.uuid4().hex, landing_owner=owner),
        work=S3Work(boto3.client("s3"), arguments.work, arguments.account),
        batch=batch,
        attempt=number,
        digest=arguments.digest,
        floors=arguments.floors,
        last=arguments.last,
        can_read_near=lambda upload: a_neighbour_is_readable(upload, owner),
        run=arguments.run,
    )
    if arguments.mode == "publish-again":
        from tidegate.flows.publish_again import publish_again  # no other job needs it

        code = run_verb(attempt, publish_again)
    else:
        code = run(attempt, arguments.mode)
    spark.stop()
    sys.exit(code)
