"""`tidegate cost` is made of counts: they are counted anew here, and its model is held against a replay."""

from dataclasses import fields

import pytest

from bench import counting
from simulation.comparison.traffic import Replayed, generate, replay, simulation
from tidegate.cost import bill, counted
from tidegate.cost.bill import DAY, DailyTraffic, Gathering
from tidegate.schedule import intake_window

STAY = 20
"""Seconds for which a worker waits in a replay."""
AGAIN = "the product asks AWS for something else now: run `python -m bench.counting --write`"


def test_the_counts_are_those_of_this_code():
    found = counting.count(batches=3)
    for part in fields(found):
        said, there = getattr(counted, part.name), getattr(found, part.name)
        for each in fields(said):
            allowed = pytest.approx(getattr(said, each.name), rel=0.05, abs=0.02)
            assert getattr(there, each.name) == allowed, f"{part.name}.{each.name}: {AGAIN}"


def test_the_module_is_written_as_it_stands():
    parts = counting.CountedParts(*(getattr(counted, part.name) for part in fields(counting.CountedParts)))
    assert counting.module(parts) == counting.MODULE.read_text(), AGAIN


def assert_that_the_model_comes_out(run: Replayed, max_wait: int) -> None:
    assert run.problems == []
    seconds = run.traffic.at[-1]
    modelled = bill.requests(DailyTraffic(run.told * DAY / seconds, 10), Gathering(max_wait, stay=STAY))
    real = counting.asked_by(run) * (DAY / seconds)
    for each in fields(real):
        # the last batches of so short a play come after its last upload; and the simulated poller receives a whole
        # window at once, Lambda's ten messages at a time
        allowed = 0.25 if each.name == "sqs_standard" else 0.12
        assert getattr(modelled, each.name) == pytest.approx(getattr(real, each.name), rel=allowed), each.name


def test_the_model_comes_out_as_the_replay_of_measured_traffic():
    """For a wait of 15 minutes. Where the traffic is played with a wait of one, test_traffic.py asks the same."""
    with simulation("900s", f"{STAY}s"):
        run = replay(generate(50), window=intake_window(900))
    assert_that_the_model_comes_out(run, 900)
