"""The plan of the mischief: nothing meets two fates, every count follows from it, and the copies are what S3 sends."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.build import ETAG
from tidegate.core.notifications import Garbage, Notified, parse
from tidegate.core.uploads import Upload
from tidegate_local.demo import mischief

KEYS = [f"flights/{number:04}.json.gz" for number in range(2_000)]


@given(count=st.integers(100, 3_000), seed=st.integers())
def test_no_key_meets_two_fates_and_the_sums_hold(count: int, seed: int):
    keys = [f"k{number}" for number in range(count)]
    plan = mischief.plan(keys, seed)
    repeated = plan.at_once | plan.three_times | plan.late
    fates = [*plan.at_once, *plan.three_times, *plan.late, plan.overwritten, plan.deleted, plan.corrupt]
    assert len(fates) == len(set(fates))
    assert len(repeated) == round(0.03 * count)
    assert all((plan.at_once, plan.three_times, plan.late))
    assert plan.expected.uploads == plan.uploads == count + 1
    # of the key that is overwritten the second version is committed
    assert plan.expected.committed == len(plan.committed_keys) == count - 2
    assert sorted(plan.upload_order) == sorted(keys)
    assert set(plan.upload_order[:2]) == {plan.overwritten, plan.deleted}


def test_the_same_seed_is_the_same_plan_and_another_is_another():
    assert mischief.plan(KEYS, 13) == mischief.plan(KEYS, 13)
    assert mischief.plan(KEYS, 13) != mischief.plan(KEYS, 14)


def test_the_plan_is_told_beforehand():
    plan = mischief.plan(KEYS, 13)
    told = "\n".join(plan.describe())
    assert all(key in told for key in (plan.overwritten, plan.deleted, plan.corrupt))
    assert "20 notifications delivered twice" in told


def test_too_few_objects_are_refused():
    with pytest.raises(ValueError, match="too few"):
        mischief.plan(KEYS[:50], 13)


@pytest.mark.parametrize("key", ["flights/2013/01/01/05/JFK.json.gz", "a b+c/ü%20.json", "flights/=&?"])
def test_a_copy_names_the_same_upload_as_the_original(key: str):
    (record,) = parse(mischief.notification("landing", key, etag=ETAG, size=7))
    assert record == Notified(Upload("landing", key, f"etag:{ETAG}", 7))


def test_the_garbage_is_garbage():
    (record,) = parse(mischief.GARBAGE)
    assert isinstance(record, Garbage)
