"""Half a minute of real `kill -9`, and the judge's own trial: it must see each way in which the promise can break.

`make chaos` kills for as many minutes as one likes.
"""

import os
import random
import subprocess
import sys
from itertools import islice

import pytest

from tests.chaos.fates import JOB_FATES, SPARED, Kind, Manner, function_fates, job_fates
from tests.chaos.oracle import judge
from tests.chaos.processes import descendants, kill, with_variable
from tests.chaos.run import chaos
from tests.chaos.traffic import BUCKETS, UNVERSIONED, VERSIONED, Put
from tests.support.patience import HANGING
from tidegate.core.uploads import Upload


@pytest.mark.e2e
@pytest.mark.timeout(6_000)
def test_half_a_minute_of_killed_functions_drivers_and_workers_loses_and_repeats_nothing(tmp_path):
    findings = chaos(tmp_path, minutes=0.5, seed=random.SystemRandom().randrange(1_000_000), tell=print)
    assert [f"{finding.what}: {finding.seen}" for finding in findings if not finding.holds] == []


# --- the judge ---


def put(route, name, *ids):
    return Put(route, Upload(BUCKETS[route], name, f"version of {name}", 1), "e", ids)


def row(of, number):
    return {"_source_uri": of.upload.uri, "_source_version": of.upload.version, "id": number}


def status(**counts):
    zeros = dict.fromkeys(("superseded", "dropped", "quarantined", "vanished", "pending"), 0)
    uploads = {"notified": 2, "committed": 2, **zeros}
    counted = counts.pop("counted", 3)
    return {"uploads": {**uploads, "holds": True, **counts}, "rows": counted}


A, B = put(VERSIONED, "a", 1, 2), put(VERSIONED, "b", 3)
ROWS = [row(A, 1), row(A, 2), row(B, 3)]


def broken(rows=ROWS, route=VERSIONED, puts=(A, B), overwritten=frozenset(), **counts):
    return [each for each in judge(route, puts, overwritten, rows, status(**counts)) if not each.holds]


def test_every_row_once_and_sums_that_say_so_hold():
    assert broken() == []


@pytest.mark.parametrize(
    "rows",
    [
        ROWS[:2],
        ROWS[1:],
        [*ROWS, ROWS[0]],
        [*ROWS, row(put(VERSIONED, "c", 4), 4)],
        [*ROWS[:2], row(put(VERSIONED, "an older b", 3), 3)],
    ],
    ids=["an upload is lost", "a row is lost", "a row is repeated", "a foreign row", "another version's row"],
)
def test_rows_that_are_not_exactly_those_uploaded_are_seen(rows):
    assert broken(rows, counted=len(rows))


@pytest.mark.parametrize(
    "counts",
    [
        {"notified": 3, "holds": False},
        {"notified": 1, "committed": 1},
        {"committed": 1, "pending": 1},
        {"committed": 1, "vanished": 1},
        {"counted": 4},
    ],
)
def test_sums_that_differ_from_the_uploads_are_seen(counts):
    assert broken(**counts)


def test_what_was_overwritten_before_it_was_read_must_be_on_record_as_superseded_or_dropped():
    old, new = put(UNVERSIONED, "old", 1), put(UNVERSIONED, "new", 2)
    gone = {"route": UNVERSIONED, "puts": (old, new), "overwritten": {old.upload.identity}}
    assert broken([row(new, 2)], **gone, committed=1, superseded=1, counted=1) == []
    assert broken([row(new, 2)], **gone, committed=2, superseded=0, counted=1)
    assert broken([row(old, 1), row(new, 2)], **gone, committed=2, counted=2) == []
    assert broken([row(old, 1), row(new, 2)], **gone, committed=1, superseded=1, counted=2)
    assert broken([row(new, 2)], **gone, committed=1, dropped=1, counted=1) == []
    assert broken([row(new, 2)], **gone, committed=1, superseded=1, dropped=1, counted=1)
    assert broken([row(old, 1)], **gone, committed=1, superseded=1, counted=1), "only what was overwritten may be gone"


# --- the killer ---


def test_a_seed_gives_the_same_fates_and_each_turn_has_them_all():
    turn = len(JOB_FATES) + SPARED
    fates = list(islice(job_fates(random.Random("7")), 2 * turn))
    assert fates == list(islice(job_fates(random.Random("7")), 2 * turn))
    for start in (0, turn):
        struck = [(fate.kind, fate.manner) for fate in fates[start : start + turn] if fate.kind]
        assert sorted(struck) == sorted(JOB_FATES)
    assert all(fate.kind for fate in fates[:2]), "the first two are struck, however short the run"
    assert {fate.kind for fate in fates} == {None, Kind.SPARK_SUBMIT, Kind.DRIVER, Kind.WORKER}


def test_functions_are_struck_in_turn_and_in_both_manners():
    fates = list(islice(function_fates(random.Random("7")), 99))
    assert fates == list(islice(function_fates(random.Random("7")), 99))
    for start in range(0, 96, 4):
        assert sorted(fate.function for fate in fates[start : start + 4]) == ["audit", "dispatch", "intake", "settle"]
    assert {fate.manner for fate in fates} == {Manner.ANY_TIME, Manner.AT_WORK}


def test_only_descendants_are_found_and_a_later_process_with_the_same_pid_is_left_alone():
    code = "import subprocess, sys; subprocess.Popen(['sleep', '3600']).wait()"
    parent = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "TIDEGATE_CHAOS_TEST": str(os.getpid())})
    try:
        while not (found := descendants(parent.pid)):
            pass
        assert [each.words[0] for each in descendants(os.getpid()) if each.pid == parent.pid] == [sys.executable]
        assert parent.pid not in [each.pid for each in found]
        assert len(with_variable("TIDEGATE_CHAOS_TEST", str(os.getpid()))) == 2
        (child,) = found
        later = type(child)(child.pid, child.parent, child.born + 1, child.words)
        assert not kill(later)
        assert parent.poll() is None
        assert kill(child)
        assert parent.wait(HANGING) == 0
        assert not kill(child)
    finally:
        parent.kill()
