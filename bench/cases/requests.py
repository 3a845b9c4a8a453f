"""The AWS requests of four traffics, counted while the real code ran in the simulated AWS, and what they cost.

The functions, the ledger's transitions, hand-off, settling and the driver are the product's; the services around them
are simulated, and count. Beside each stand what the model of `tidegate cost` says of it, and the bills of the usual
pipelines and of the floor. Rows are checked: every upload is in the table once, and all sums hold.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from random import Random

from bench.counting import asked_by, plain
from bench.findings import BarChart, BenchFindings, BenchLimit, BenchTable, WrongAnswer
from simulation.comparison.traffic import NOTIFIED_AFTER, Replayed, Traffic, generate, replay, simulation
from tidegate.core.workers import ALWAYS, STAY
from tidegate.cost import bill
from tidegate.cost.bill import DAY, DAYS, DailyTraffic, Gathering
from tidegate.cost.prices import PRICES
from tidegate.cost.requests import RequestCounts
from tidegate.schedule import intake_window

SIZE = 47_000
WAIT = 60
PATIENT = 60 * 60
"""Seconds. At a trickle nearly all of the bill is job starts, so who pays for one waits."""
TRICKLE, TRICKLE_PATIENT = "one every 10 s", "one every 10 s, 1h"
MEASURED = "1.36 a second"
LOAD = "1,000 a second"
TRICKLE_WRITES, TRICKLE_PUTS = 1.6, 0.09
LOAD_WRITES, LOAD_TO_FLOOR = 1.02, 1.05
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


@dataclass(frozen=True, slots=True)
class PlayedTraffic:
    """A traffic, and the `max_wait` of its route in seconds."""

    traffic: Traffic
    wait: int


def run(small: bool) -> BenchFindings:
    played = {title: (each, _played(each)) for title, each in traffics(small).items()}
    asked = {title: asked_by(run) * (1 / run.told) for title, (_, run) in played.items()}
    return BenchFindings((_counts(played, asked), _bills()), (_chart(),), _limits(asked))


def traffics(small: bool) -> dict[str, PlayedTraffic]:
    random = Random(5)
    slow, patient, part, seconds = (60, 60, 500, 1) if small else (600, 3_600, 150, 10)
    return {
        TRICKLE: PlayedTraffic(plain([10.0 * number for number in range(slow)]), WAIT),
        TRICKLE_PATIENT: PlayedTraffic(plain([10.0 * number for number in range(patient)]), PATIENT),
        MEASURED: PlayedTraffic(generate(part), WAIT),
        LOAD: PlayedTraffic(plain([second + random.random() for second in range(seconds) for _ in range(1_000)]), WAIT),
    }


def _played(played: PlayedTraffic) -> Replayed:
    with simulation(f"{played.wait}s", f"{STAY}s"):
        run = replay(played.traffic, window=intake_window(played.wait))
    if run.problems:
        raise WrongAnswer(f"requests: {run.problems}")
    return run


def _counts(played: dict[str, tuple[PlayedTraffic, Replayed]], asked: dict[str, RequestCounts]) -> BenchTable:
    head = ["for an upload", *played, f"{MEASURED}, the model"]
    _, measured = played[MEASURED]
    per_day = measured.told * DAY / (measured.traffic.at[-1] + NOTIFIED_AFTER)
    modelled = bill.requests(DailyTraffic(per_day, 10), Gathering(WAIT)) * (1 / per_day)
    rows = [
        (NAMES[each.name], *(f"{getattr(one, each.name):.3f}" for one in (*asked.values(), modelled)))
        for each in fields(RequestCounts)
    ]
    uploads = ", ".join(f"{run.told:,} ({title})" for title, (_, run) in played.items())
    note = (
        f'Uploads: {uploads}. One route, `max_wait = "{WAIT}s"` and once `"1h"`. Lambda invokes intake after'
        f" {intake_window(WAIT)} s, after {intake_window(PATIENT)} s with `1h`, or {bill.MOST_IN_A_WINDOW:,} messages."
    )
    return BenchTable("requests", head, rows, note)


def _limits(asked: dict[str, RequestCounts]) -> list[BenchLimit]:
    """Of the requests for an upload. Spark and the read of the file are not in them."""
    patient, load = asked[TRICKLE_PATIENT], asked[LOAD]
    mine = bill.quantities_of(replace(load, s3_gets=load.s3_gets - 1), bill.Spark())
    floor = {"SQS, standard": 1, "DynamoDB, writes": 1}
    return [
        BenchLimit(f"{TRICKLE_PATIENT}: write units", patient.write_units, TRICKLE_WRITES, ""),
        BenchLimit(f"{TRICKLE_PATIENT}: puts of S3", patient.s3_puts, TRICKLE_PUTS, ""),
        BenchLimit(f"{LOAD}: write units", load.write_units, LOAD_WRITES, ""),
        BenchLimit(
            f"{LOAD}: dollars, to those of the notification and a write",
            _dollars(mine) / _dollars(floor),
            LOAD_TO_FLOOR,
            "",
        ),
    ]


def _dollars(quantities: Mapping[str, float]) -> float:
    return sum(PRICES[name].of(quantity) for name, quantity in quantities.items())


PER_DAY = {TRICKLE: 8_640.0, MEASURED: 117_123.0, LOAD: 86_400_000.0}


def _bills() -> BenchTable:
    rows = []
    for title, per_day in PER_DAY.items():
        traffic = DailyTraffic(per_day, SIZE)
        for each in (
            replace(bill.bill(traffic, Gathering(WAIT, stay=ALWAYS)), title='Tidegate, `stay = "always"`'),
            replace(bill.bill(traffic, Gathering(WAIT)), title='Tidegate, `max_wait = "60s"`'),
            replace(bill.bill(traffic, Gathering(900)), title='Tidegate, `max_wait = "15m"`'),
            bill.usual(traffic, 10),
            bill.usual(traffic, 1),
            bill.floor(traffic),
        ):
            million = 1e6 * each.dollars / each.uploads
            rows.append(
                (
                    title,
                    each.title,
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
        (
            ("always" if wait.stay >= ALWAYS else f"{wait.max_wait / 60:,.0f} min") + (" (knee)" if wait.knee else ""),
            wait.dollars,
        )
        for wait in bill.waits(traffic, Gathering(WAIT))
    ]
    return BarChart("waits", "A month's bill over max_wait, 1.36 uploads a second", "dollars", [("max_wait", bars)])
