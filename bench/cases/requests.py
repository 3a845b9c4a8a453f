"""The AWS requests of three traffics, counted while the real code ran in the simulated AWS, and what they cost.

The functions, the ledger's transitions, hand-off, settling and the driver are the product's; the services around them
are simulated, and count. Beside each stand what the model of `tidegate cost` says of it, and the bills of the usual
pipelines and of the floor. Rows are checked: every upload is in the table once, and all sums hold.
"""

from dataclasses import fields
from random import Random

from bench.counting import asked_by, plain
from bench.findings import BarChart, BenchFindings, BenchTable, WrongAnswer
from simulation.comparison.traffic import NOTIFIED_AFTER, Replayed, Traffic, generate, replay, simulation
from tidegate.cost import bill
from tidegate.cost.bill import DAY, DAYS, DailyTraffic, Gathering
from tidegate.cost.requests import RequestCounts
from tidegate.schedule import intake_window

SIZE = 47_000
WAIT = 60
NAMES = {
    "write_units": "DynamoDB, write units",
    "read_units": "DynamoDB, read units",
    "s3_puts": "S3, puts and listings",
    "s3_gets": "S3, gets",
    "sqs_standard": "SQS, requests of the buffer",
    "sqs_fifo": "SQS, requests of the notices' queue",
    "sns_fifo": "SNS, messages",
    "invocations": "Lambda, invocations",
    "calls": "calls that functions and drivers wait for",
    "starts": "EMR, job starts",
}


def run(small: bool) -> BenchFindings:
    played = {title: _played(traffic) for title, traffic in traffics(small).items()}
    return BenchFindings((_counts(played), _bills()), (_chart(),))


def traffics(small: bool) -> dict[str, Traffic]:
    random = Random(5)
    slow, part, bursts = (60, 500, 1) if small else (600, 150, 5)
    return {
        "one every 10 s": plain([10.0 * number for number in range(slow)]),
        "1.36 a second": generate(part),
        "bursts of 1,000": plain([600.0 * burst + random.random() for burst in range(bursts) for _ in range(1_000)]),
    }


def _played(traffic: Traffic) -> Replayed:
    with simulation(f"{WAIT}s"):
        run = replay(traffic, window=intake_window(WAIT))
    if run.problems:
        raise WrongAnswer(f"requests: {run.problems}")
    return run


def _counts(played: dict[str, Replayed]) -> BenchTable:
    head = ["for an upload", *(f"{title}" for title in played), "1.36 a second, the model"]
    found = {title: asked_by(run) * (1 / run.told) for title, run in played.items()}
    (measured,) = [run for title, run in played.items() if title.startswith("1.36")]
    per_day = measured.told * DAY / (measured.traffic.at[-1] + NOTIFIED_AFTER)
    modelled = bill.requests(DailyTraffic(per_day, 10), Gathering(WAIT)) * (1 / per_day)
    rows = [
        (NAMES[each.name], *(f"{getattr(one, each.name):.3f}" for one in (*found.values(), modelled)))
        for each in fields(RequestCounts)
    ]
    uploads = ", ".join(f"{run.told:,} ({title})" for title, run in played.items())
    note = (
        f'Uploads: {uploads}. One route, `max_wait = "{WAIT}s"`. Lambda invokes intake after'
        f" {intake_window(WAIT)} s or {bill.MOST_IN_A_WINDOW:,} messages."
    )
    return BenchTable("requests", head, rows, note)


PER_DAY = {"one every 10 s": 8_640.0, "1.36 a second": 117_123.0, "1,000 a second": 86_400_000.0}


def _bills() -> BenchTable:
    rows = []
    for title, per_day in PER_DAY.items():
        traffic = DailyTraffic(per_day, SIZE)
        for each in (
            bill.bill(traffic, Gathering(WAIT)),
            bill.bill(traffic, Gathering(900)),
            bill.usual(traffic, 10),
            bill.usual(traffic, 1),
            bill.floor(traffic),
        ):
            name = f'Tidegate, `max_wait = "{"60s" if not rows or len(rows) % 5 == 0 else "15m"}"`'
            million = 1e6 * each.dollars / each.uploads
            rows.append(
                (
                    title,
                    name if each.title == "Tidegate" else each.title,
                    f"{each.uploads:,.0f}",
                    f"{each.jobs:,.0f}",
                    f"{each.dollars:,.2f}",
                    f"{million:,.2f}",
                )
            )
    head = ("traffic", "pipeline", "uploads a month", "jobs", "dollars a month", "of a million uploads")
    note = f"Bills of {DAYS} days, files of {SIZE / 1e3:.0f} KB, by the model of `tidegate cost`."
    return BenchTable("bills", head, rows, note)


def _chart() -> BarChart:
    traffic = DailyTraffic(PER_DAY["1.36 a second"], SIZE)
    bars = [
        (f"{wait.max_wait / 60:,.0f} min" + (" (knee)" if wait.knee else ""), wait.dollars)
        for wait in bill.waits(traffic, Gathering(WAIT))
    ]
    return BarChart("waits", "A month's bill over max_wait, 1.36 uploads a second", "dollars", [("max_wait", bars)])
