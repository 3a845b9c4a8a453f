"""What a backfill finds of each upload, in what order it reads, and what it says that it costs."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.build import BUCKET, route, upload
from tidegate.core import backfill
from tidegate.core.audit import AuditFinding, Listed
from tidegate.core.backfill import BackfillFinding, BackfillScope, Survey, Surveyed, compare, routes_under
from tidegate.core.batches import BatchLimits
from tidegate.core.errors import Rejected
from tidegate.core.lineage import Landed
from tidegate.core.uploads import Upload
from tidegate.cost import bill
from tidegate.cost.prices import OF_REQUESTS, PRICES
from tidegate.cost.requests import RequestCounts

KEYS = st.sampled_from(["a", "a/", "a/b", "aa", "b", "ö", "￿", "\U0001f30a"])
VERSIONS = st.sampled_from(["v1", "v2", "v3"])
IDENTITIES = st.sets(st.tuples(KEYS, VERSIONS), max_size=12)
CLAIMS = [None, *AuditFinding]


def surveyed(key: str, version: str = "v1", claimed: AuditFinding | None = None) -> Surveyed:
    return Surveyed(Listed(Upload("b", key, version, 7), 1_000), claimed)


def landed(key: str, version: str = "v1", bucket: str = "b", batch: str = "B") -> Landed:
    return Landed(bucket, key, version, batch, 1)


@given(there=IDENTITIES, rows=IDENTITIES, unfinished=IDENTITIES, seed=st.randoms(use_true_random=False))
def test_the_merge_finds_what_sets_find(there, rows, unfinished, seed):
    """S3 lists the versions of a key newest first, so in any order of their ids."""
    listed = [surveyed(*each, seed.choice(CLAIMS)) for each in there]
    seed.shuffle(listed)
    listed.sort(key=lambda each: each.listed.upload.key)
    lineage = sorted((landed(*each, batch=batch) for each in rows for batch in "BC"), key=lambda each: each.place)
    found = dict(compare(listed, lineage, {("b", *each) for each in unfinished}))
    assert list(found) == listed, "each upload once, in the order of the listing"
    for each, finding in found.items():
        name = (each.listed.upload.key, each.listed.upload.version)
        assert (finding is BackfillFinding.LANDED) == (name in rows)
        assert (finding is BackfillFinding.UNFINISHED) == (name in unfinished - rows)
        missing = name not in rows | unfinished and each.claimed is None
        assert (finding is BackfillFinding.MISSING) == missing


@pytest.mark.parametrize("claimed", list(AuditFinding))
def test_what_has_a_claim_is_never_missing(claimed: AuditFinding):
    ((_, finding),) = compare([surveyed("k", claimed=claimed)], [], set())
    sent_by_others = {AuditFinding.LOST, AuditFinding.STALE}
    assert finding.value == ("let_go" if claimed in sent_by_others else claimed.value)


def test_a_reload_has_each_version_with_rows_and_of_the_others_the_latest():
    there = [surveyed("k", "v2"), surveyed("k", "v1"), surveyed("l", "v2"), surveyed("l", "v1"), surveyed("m", "v1")]
    for at in (1, 3):
        there[at] = replace(there[at], listed=replace(there[at].listed, latest=False))
    rows = [landed("k", "v1"), landed("k", "v2"), landed("l", "v1"), landed("m", "")]
    found = [each.value for _, each in compare(there, rows, set(), reloads=True)]
    assert found == ["reloaded", "reloaded", "missing", "reloaded", "landed"], "m's rows may be of any version"
    under_way = {there[0].listed.upload.identity}
    assert [each.value for _, each in compare(there[:1], rows[:2], under_way, reloads=True)] == ["unfinished"]


def older(key: str, version: str) -> Surveyed:
    return replace(each := surveyed(key, version), listed=replace(each.listed, latest=False))


ROWS = [landed("a", "v1"), landed("b", "v1"), landed("b", "v2"), landed("c", "v0"), landed("c", ""), landed("d", "v1")]


@pytest.mark.parametrize(
    ("replaces", "gone"),
    [(False, [("a", "v1"), ("b", "v1"), ("c", "v0"), ("d", "v1")]), (True, [("a", "v1"), ("c", "v0"), ("d", "v1")])],
)
def test_a_reload_says_which_rows_are_of_files_that_are_not_listed(replaces: bool, gone: list[tuple[str, str]]):
    """They would stay as they are, beside those under today's settings."""
    there = [surveyed("aa"), surveyed("b", "v2"), surveyed("c", "v2"), older("c", "v1")]
    found = list(compare(there, ROWS, set(), replaces=replaces, reloads=True, tells_gone=True))
    told = [each.listed.upload for each, finding in found if finding is BackfillFinding.GONE]
    assert [(each.key, each.version) for each in told] == gone
    assert [each for each, finding in found if finding is not BackfillFinding.GONE] == there
    without = compare(there, ROWS, set(), replaces=replaces, reloads=True)
    assert [each for each in found if each[1] is not BackfillFinding.GONE] == list(without)


def test_what_has_the_bytes_of_an_expired_version_takes_the_place_of_its_rows():
    same = replace(surveyed("k", "v2", AuditFinding.COMMITTED), same_as="v1")
    found = compare([same], [landed("k", "v1")], set(), reloads=True, tells_gone=True)
    assert [each.value for _, each in found] == ["landed"]


def test_rows_of_a_replacing_route_stay_if_nothing_that_is_listed_takes_their_place():
    """A version `null`, whose marker took its place in the list."""
    (first,) = [replace(older("k", "v1"), claimed=AuditFinding.COMMITTED)]
    found = compare([first], [landed("k", "etag:B")], set(), replaces=True, reloads=True, tells_gone=True)
    assert [(each.listed.upload.version, finding.value) for each, finding in found] == [
        ("v1", "landed"),
        ("etag:B", "gone"),
    ]


def test_what_had_the_bytes_of_another_version_is_there_as_long_as_that_has_rows():
    same = replace(surveyed("k", "v2", AuditFinding.COMMITTED), same_as="v1")
    assert Surveyed.decode(same.encode()) == same
    for version, found in (("v1", "landed"), ("", "landed"), ("v3", "committed")):
        assert [each.value for _, each in compare([same], [landed("k", version)], set())] == [found]


def test_what_had_the_bytes_of_another_version_does_not_stand_for_its_rows_in_a_reload():
    """Its route skipped them, and replaces by now."""
    same = replace(surveyed("k", "v2", AuditFinding.COMMITTED), same_as="v1")
    first = surveyed("k", "v1", AuditFinding.COMMITTED)
    there = [same, replace(first, listed=replace(first.listed, latest=False))]
    found = compare(there, [landed("k", "v1")], set(), replaces=True, reloads=True)
    assert [each.value for _, each in found] == ["landed", "reloaded"]


@pytest.mark.parametrize("claimed", AuditFinding)
def test_what_is_under_way_is_not_reloaded(claimed: AuditFinding):
    there = replace(surveyed("k", "v1"), claimed=claimed)
    ((_, found),) = compare([there], [landed("k", "v1")], set(), reloads=True)
    waits = claimed in (AuditFinding.PENDING, AuditFinding.LOST, AuditFinding.STALE, AuditFinding.FORGOTTEN)
    assert (found.value == "reloaded") is not waits


def test_rows_without_a_version_are_those_of_any():
    found = compare([surveyed("k", "v1"), surveyed("k", "v2"), surveyed("l")], [landed("k", "")], set())
    assert [finding.value for _, finding in found] == ["landed", "landed", "missing"]


def test_rows_of_other_buckets_are_of_other_uploads():
    rows = [landed("k", bucket="a"), landed("k", bucket="c")]
    assert [finding.value for _, finding in compare([surveyed("k")], rows, set())] == ["missing"]


def test_a_listing_out_of_order_is_refused():
    with pytest.raises(Rejected, match="S3 listed s3://b/a after s3://b/k: out of order"):
        list(compare([surveyed("k"), surveyed("a")], [], set()))


def test_the_lineage_is_read_no_further_than_the_listing():
    def rows():
        yield landed("a")
        yield landed("b")
        pytest.fail("it was read on")

    found = compare([surveyed("a")], rows(), set())
    assert [finding.value for _, finding in found] == ["landed"]


@given(KEYS, VERSIONS, st.sampled_from(CLAIMS))
def test_what_is_kept_on_the_disk_comes_back(key: str, version: str, claimed: AuditFinding | None):
    each = surveyed(key, version, claimed)
    assert Surveyed.decode(each.encode()) == each


@pytest.mark.parametrize(
    ("listed", "has"),
    [
        (Listed(upload("flights/a.json"), 10), True),
        (Listed(upload("flights/a.json"), 9), False),
        (Listed(upload("flights/a.json"), 20), True),
        (Listed(upload("flights/a.json"), 21), False),
        (Listed(upload("weather/a.json"), 15), False),
        (Listed(upload("flights/a.json"), 15, latest=False), False),
    ],
)
def test_a_scope_has_the_routes_current_uploads_of_a_time(listed: Listed, has: bool):
    scope = BackfillScope(route("flights"), "flights/", 10, 20)
    assert scope.has(listed) == has


def test_a_scope_may_have_all_versions():
    scope = BackfillScope(route("flights"), "flights/", 10, 20, versions=True)
    assert scope.has(Listed(upload("flights/a.json"), 15, latest=False))
    # but of those without a version id the current one only: no GET reads another
    overwritten = replace(upload("flights/a.json"), version="etag:abc")
    assert scope.has(Listed(overwritten, 15))
    assert not scope.has(Listed(overwritten, 15, latest=False))


@pytest.mark.parametrize(
    ("prefix", "found"),
    [
        ("", [("flights", "flights/"), ("weather", "weather/")]),
        ("fl", [("flights", "flights/")]),
        ("flights/2026/", [("flights", "flights/2026/")]),
        ("trains/", []),
    ],
)
def test_a_prefix_is_narrowed_to_what_a_route_takes(prefix: str, found: list[tuple[str, str]]):
    routes = [route("flights"), route("weather")]
    assert [(each.name, narrowed) for each, narrowed in routes_under(BUCKET, prefix, routes)] == found
    assert routes_under("elsewhere", prefix, routes) == []


# ---- what it costs


def test_the_prices_are_those_of_the_page():
    assert pytest.approx(PRICES["S3, puts and listings"].of(1)) == backfill.LIST_DOLLARS
    assert pytest.approx(PRICES["DynamoDB, reads"].of(1)) == backfill.READ_DOLLARS
    one = bill.quantities_of(RequestCounts(), bill.job_of_its_own(1, 1, 0))
    assert pytest.approx(sum(PRICES[name].of(each) for name, each in one.items()), abs=0.0005) == backfill.JOB_DOLLARS
    traffic = bill.DailyTraffic(117_123, 47_000)
    lines = bill.bill(traffic, bill.Gathering(stay=0)).lines
    sent = sum(line.dollars for line in lines if line.name in OF_REQUESTS and not line.name.startswith("EMR"))
    assert pytest.approx(sent / (bill.DAYS * traffic.per_day), rel=0.05) == backfill.SENT_DOLLARS
    assert pytest.approx(bill.DAY / bill.spark(traffic, bill.Gathering(stay=0)).starts, rel=0.05) == backfill.JOB_EVERY


LIMITS = BatchLimits(max_wait=60, target_bytes=1_000, target_objects=100)


@pytest.mark.parametrize(
    ("objects", "size", "rate", "jobs"),
    [(0, 0, 500, 0), (1, 1, 500, 1), (250, 1, 500, 3), (1, 4_500, 500, 5), (50, 1, 0.1, 4)],
    ids=["nothing", "one", "by_objects", "by_bytes", "by_time"],
)
def test_the_jobs_follow_from_the_limits_and_the_rate(objects: int, size: int, rate: float, jobs: int):
    assert Survey(1, objects=objects, size=size).jobs(LIMITS, rate) == jobs  # type: ignore[arg-type]


def test_a_million_uploads_cost_what_the_page_says():
    limits = BatchLimits()
    found = Survey(1, listed=1_000_000, objects=1_000_000, size=1_000_000_000)
    jobs = found.jobs(limits, 500)
    assert jobs == 13  # 2,000 s of sending, a job every 164 s
    assert found.dollars(limits, 500) == pytest.approx(0.005 + 0.125 + 3.74 + (jobs + 1) * 0.01)
    assert Survey(1).dollars(limits, 500) == pytest.approx(0.01), "the lineage's job runs in any case"


@pytest.mark.parametrize("claimed", [AuditFinding.COMMITTED, AuditFinding.QUARANTINED])
def test_a_reload_leaves_an_earlier_version_without_rows_whatever_its_claim_says(claimed: AuditFinding):
    there = [surveyed("k", "v2"), replace(surveyed("k", "v1"), claimed=claimed)]
    there[1] = replace(there[1], listed=replace(there[1].listed, latest=False))
    found = [each.value for _, each in compare(there, [landed("k", "v2")], set(), reloads=True)]
    assert found == ["reloaded", "landed"]
