"""Decision 1 for many uploads: the product's Ledger.claim beside a bare loop of conditional puts on the same endpoint.

The endpoint answers after 5 ms. The bare loop does the least that any ledger on DynamoDB with this SDK can do: one
conditional PutItem for each upload, from as many threads, with the items made before the time counts.
"""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import boto3
from botocore.config import Config

from bench.findings import BarChart, BenchFindings, BenchTable, WrongAnswer
from bench.inputs import BUCKET, ROUTE, SETTINGS, make_uploads
from bench.measure import Rounds, take_turns
from bench.servers import LedgerServer, serving
from tidegate.core import transitions
from tidegate.core.notices import Notice, pack
from tidegate.core.uploads import Upload
from tidegate.flows.ledger import Ledger
from tidegate.settings import parse
from tidegate.stores.dynamodb import THREADS, compiled
from tidegate.wiring import Deployment, Resources

LATENCY = 0.005
RETENTION = 60 * 24 * 60 * 60
TABLE = "ledger"
PRODUCT, BARE = "Ledger.claim", "bare puts"


def run(small: bool) -> BenchFindings:
    count, rounds = (200, 1) if small else (3_000, 7)
    with serving(LedgerServer(), LATENCY) as endpoint:
        ledger = opened(endpoint)
        bare = client(endpoint)
        turns = range(rounds + 1)
        packed = [notices(count, turn) for turn in turns]
        requests = [items(count, rounds + 1 + turn) for turn in turns]

        def claim() -> int:
            return sum(len(ledger.claim(notice).owned) for notice in packed.pop())

        with ThreadPoolExecutor(THREADS) as pool:

            def put() -> int:
                return sum(pool.map(lambda request: put_one(bare, request), requests.pop()))

            def check(peer: str, claimed: int) -> None:
                if claimed != count:
                    raise WrongAnswer(f"claims: {peer} claimed {claimed} of {count} uploads")

            claim(), put()  # connections and threads are made
            found = take_turns({PRODUCT: claim, BARE: put}, rounds, check)
            repeated = refused_again(ledger, count)
    if repeated != count:
        raise WrongAnswer(f"claims: another notice was refused {repeated} of {count} uploads")
    return BenchFindings((table(found, count),), (chart(found, count),))


def opened(endpoint: str) -> Ledger:
    """The ledger as a function opens it."""
    os.environ |= {
        "AWS_ENDPOINT_URL_DYNAMODB": endpoint,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
    }
    named = {name: "unused" for name in Resources.__slots__} | {"ledger": TABLE}
    return Deployment(parse(SETTINGS), Resources(**named)).ports(guarded=False).ledger


def client(endpoint: str) -> Any:
    """A plain client with as many connections as there are threads."""
    config = Config(max_pool_connections=THREADS)
    return boto3.client(
        "dynamodb",
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id="testing",
        aws_secret_access_key="testing",
        config=config,
    )


def uploads(count: int, turn: int) -> list[Upload]:
    return make_uploads(count, seed=turn)


def notices(count: int, turn: int) -> Sequence[Notice]:
    return list(pack(ROUTE, BUCKET, uploads(count, turn)))


def items(count: int, turn: int) -> list[dict[str, Any]]:
    """The same requests as the product's, made by it before the time counts."""
    wanted = [transitions.claim("n" * 40, each, now=1, retention=RETENTION) for each in uploads(count, turn)]
    return [compiled(each.writes[0], TABLE)["Put"] for each in wanted]


def put_one(bare: Any, request: dict[str, Any]) -> bool:
    bare.put_item(**request)
    return True


def refused_again(ledger: Ledger, count: int) -> int:
    """How many uploads a second notice is refused: the endpoint holds conditions."""
    first, second = (list(pack(ROUTE, BUCKET, uploads(count, -1), origin=origin)) for origin in ("s3", "again"))
    for each in first:
        ledger.claim(each)
    return sum(len(ledger.claim(each).refused) for each in second)


def table(found: Rounds, count: int) -> BenchTable:
    rows = [
        (
            peer,
            f"{count / found.seconds(peer):,.0f}",
            f"{1e6 * found.processor(peer) / count:,.0f}",
            f"{found.ratio(peer, BARE):.2f}",
            f"{found.processor_ratio(peer, BARE):.2f}",
        )
        for peer in (PRODUCT, BARE)
    ]
    most = THREADS / LATENCY
    rows.append((f"limit: {THREADS} threads that wait for one put each", f"{most:,.0f}", "0", "", ""))
    return BenchTable(
        "claims",
        ("", "claims a second", "us of processor each", "time, to bare puts", "processor, to bare puts"),
        rows,
        f"{count:,} uploads, {THREADS} threads, an endpoint that answers after {LATENCY * 1e3:.0f} ms; medians of"
        f" {len(found.runs[PRODUCT])} rounds.",
    )


def chart(found: Rounds, count: int) -> BarChart:
    bars = [(peer, 1e6 * found.processor(peer) / count) for peer in (PRODUCT, BARE)]
    return BarChart("claims", "Processor time of a claim", "us", [("a claim", bars)])
