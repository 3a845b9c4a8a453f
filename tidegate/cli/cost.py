"""The verb `cost`: what a traffic costs in an account, line by line. It needs no stack and calls nobody."""

import math
from collections.abc import Sequence
from typing import Annotated

import typer
from pydantic import TypeAdapter, ValidationError
from rich import box
from rich.table import Table

from tidegate.cli import deployment, json_output
from tidegate.cli.options import ConfigOption, JsonOption, check_route
from tidegate.cli.render import console
from tidegate.cli.terminal import Text
from tidegate.core.batches import BatchLimits
from tidegate.core.quantities import counted
from tidegate.core.quantities import duration as told
from tidegate.core.workers import ALWAYS, STAY
from tidegate.cost import bill as costs
from tidegate.cost.bill import Bill, DailyTraffic, Gathering, WaitCost
from tidegate.cost.prices import AS_OF, PRICES, REGION
from tidegate.settings import duration, load
from tidegate.settings.values import Size

MOST_A_DAY = 1e12
"""Uploads. Beyond it the arithmetic says nothing of a pipeline."""
LARGEST = 10**15
"""Bytes of an upload. S3 takes less."""
ASSUMED = (
    f"assumed: a call takes {costs.CALL_SECONDS * 1e3:.0f} ms, a job starts after {told(costs.JOB_STARTS_AFTER)} and"
    f" keeps its driver and an executor for {told(costs.JOB_SECONDS)} and the time to read; uploads come at random,"
    " evenly over the day"
)


def cost(
    per_day: Annotated[float, typer.Option("--per-day", metavar="N", help="Uploads a day, 1 at least.")],
    size: Annotated[str, typer.Option("--size", metavar="SIZE", help='Of one upload, such as "47KB".')],
    max_wait: Annotated[
        str | None, typer.Option("--max-wait", metavar="WAIT", help='Such as "5m". Default: the route\'s, else 60s.')
    ] = None,
    route: Annotated[
        str | None, typer.Option("--route", metavar="ROUTE", help="Take max_wait, target_bytes and stay of this route.")
    ] = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print what so many uploads cost in a month, and what a longer wait saves.

    The usual pipelines stand beside it. Requests are counted from the code, times are assumed, prices are list prices.
    """
    traffic = DailyTraffic(_uploads(per_day), _bytes(size))
    limits, stay = BatchLimits(), STAY
    if config is not None and route is None:
        raise typer.BadParameter("--config goes with --route, whose max_wait, target_bytes and stay it has")
    if route is not None:
        settings = load(deployment.config_file(config))
        found = {each.name: each for each in settings.core_routes()}
        check_route(route, found)
        limits, stay = found[route].limits, settings.stay
    wait = _seconds(max_wait) if max_wait is not None else limits.max_wait
    gathering = Gathering(wait, limits.target_objects, limits.target_bytes, stay)
    mine, floor = costs.bill(traffic, gathering), costs.floor(traffic)
    usual = [costs.usual(traffic, 1), costs.usual(traffic, costs.SQS_MESSAGES)]
    waits = costs.waits(traffic, gathering)
    if as_json:
        typer.echo(json_output.dumps(as_document(mine, floor, usual, waits)))
    else:
        show(mine, floor, usual, waits)


def _uploads(given: float) -> float:
    if not 1 <= given <= MOST_A_DAY:
        raise typer.BadParameter(
            f"{given:g} is not a number of uploads a day from 1 to {MOST_A_DAY:,.0f}", param_hint="--per-day"
        )
    return given


def _bytes(given: str) -> int:
    if given.strip().isdigit():
        raise typer.BadParameter(f"{given!r} has no unit: say {given.strip()}KB, for example", param_hint="--size")
    try:
        found = int(TypeAdapter(Size).validate_python(given))
    except (ValidationError, OverflowError):
        found = 0
    if not 1 <= found <= LARGEST:
        raise typer.BadParameter(
            f"{given!r} is not a size such as 2KB, 47KB or 50MB, from 1 byte to 1PB", param_hint="--size"
        )
    return found


def _seconds(given: str) -> int:
    try:
        return duration(given)
    except ValueError:
        raise typer.BadParameter(f"{given!r} is not a time such as 60s, 5m or 1h", param_hint="--max-wait") from None


def _stay(wait: WaitCost) -> str:
    return "always" if wait.stay >= ALWAYS else told(wait.stay)


def as_document(mine: Bill, floor: Bill, usual: Sequence[Bill], waits: Sequence[WaitCost]) -> dict[str, object]:
    return {
        "region": REGION,
        "prices_as_of": AS_OF,
        "tidegate": costs.as_dict(mine),
        "floor": costs.as_dict(floor),
        "usual": [costs.as_dict(each) for each in usual],
        "waits": [
            {
                "stay": _stay(each),
                "max_wait_seconds": each.max_wait,
                "jobs": round(each.jobs),
                "spark_dollars": round(each.spark, 2),
                "dollars": round(each.dollars, 2),
                "usual_wait_seconds": round(each.usual_wait),
                "longest_wait_seconds": round(each.longest_wait),
                "knee": each.knee,
            }
            for each in waits
        ],
    }


def show(mine: Bill, floor: Bill, usual: Sequence[Bill], waits: Sequence[WaitCost]) -> None:
    out = console()
    bills = Table("a month", "used", "price", "dollars", box=box.SIMPLE, title_justify="left")
    for column in bills.columns[1:]:
        column.justify = "right"
    for line in mine.lines:
        bills.add_row(line.name, f"{line.quantity:,.0f}", str(PRICES[line.name]), f"{line.dollars:,.2f}")
    bills.add_row("together", "", "", f"{mine.dollars:,.2f}", style="bold")
    out.print(bills)
    beside = Table(
        f"{counted(round(mine.uploads), 'upload')} a month", "jobs", "dollars", "of a million", box=box.SIMPLE
    )
    for column in beside.columns[1:]:
        column.justify = "right"
    for each in (mine, floor, *usual):
        million = each.dollars * 1e6 / each.uploads
        beside.add_row(each.title, f"{each.jobs:,.0f}", f"{each.dollars:,.2f}", f"{million:,.2f}")
    out.print(beside)
    curve = Table("stay", "max_wait", "jobs", "Spark", "together", "waits usually", "at most", "", box=box.SIMPLE)
    for column in curve.columns[1:]:
        column.justify = "right"
    for wait in waits:
        knee = "longer waits save little" if wait.knee else ""
        dollars = (f"{wait.spark:,.2f}", f"{wait.dollars:,.2f}")
        # a time is told in whole minutes: at most means rounded up
        longest = wait.longest_wait if wait.longest_wait < 120 else 60 * math.ceil(wait.longest_wait / 60)
        seconds = (told(wait.usual_wait), told(longest))
        curve.add_row(_stay(wait), told(wait.max_wait), f"{wait.jobs:,.0f}", *dollars, *seconds, knee)
    out.print(curve)
    unconfirmed = ", ".join(name for name, price in PRICES.items() if not price.confirmed)
    out.print(Text(f"list prices of {REGION}, {AS_OF}, without free tiers; read on no bill", "dim"), soft_wrap=True)
    out.print(Text(f"quoted by no second source: {unconfirmed}", "dim"), soft_wrap=True)
    out.print(Text(ASSUMED, "dim"), soft_wrap=True)
    out.print(
        Text("not in it: what you store, what you put yourself, logs, audits, the job of maintain", "dim"),
        soft_wrap=True,
    )
