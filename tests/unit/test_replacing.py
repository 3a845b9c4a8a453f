"""Which version of an object has its rows in the table: S3's order decides, whichever comes first."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.fakes import MemoryWork
from tests.unit.test_backfill import landed, surveyed
from tidegate.core.audit import AuditFinding
from tidegate.core.backfill import compare
from tidegate.core.claims import Claim
from tidegate.core.manifests import OwnedUpload, batch_folder, outcomes_name
from tidegate.core.outcomes import NO_TALLY, Outcome, Read
from tidegate.core.publication import Floor, History, Snapshot
from tidegate.core.receipts import Outcomes
from tidegate.core.replacing import HeldRows, RowsPlace, contest, contested, in_order, is_marker, listed_version
from tidegate.core.uploads import Upload
from tidegate.flows.replacing import look_at_versions, not_asked
from tidegate.flows.sink import Hopeless, SeenVersion, Staged, StagedIsGone, TableMoved, require_seen
from tidegate.sinks.iceberg.marks import IcebergSnapshot


def version(name: str, key: str = "k") -> Upload:
    return Upload("b", key, name, 1)


def held(name: str, key: str = "k", batch: str = "B0") -> HeldRows:
    return HeldRows(f"s3://b/{key}", name, batch, 2)


def listing(*names: str) -> dict[str, Sequence[str]]:
    return {"s3://b/k": names, "s3://b/l": names}


def test_an_object_with_one_version_costs_no_request():
    assert contested([version("v1"), version("v1", "l")], [held("v1")]) == {}
    found = contest([version("v1"), version("v1", "l")], [], {})
    assert (found.outdated, found.losers([version("v1")]), found.gives_way([version("v1")])) == (set(), {}, [])


def test_of_an_object_with_several_versions_all_are_asked_for():
    found = contested([version("v2"), version("v3"), version("v1", "l")], [held("v1"), held("v1", "l")])
    assert found == {"s3://b/k": (version("v3"), {"v1", "v2", "v3"})}


def test_more_rows_of_the_same_version_are_others():
    assert held("v1") != HeldRows("s3://b/k", "v1", "B0", 3)


@given(st.permutations(["v1", "v2", "v3"]), st.integers(0, 3), st.sets(st.sampled_from(["v1", "v2", "v3"])))
def test_the_latest_that_can_be_read_stays_in_whatever_order_they_come(order, first, broken):
    """The first so many come in one batch, each other one in a batch of its own."""
    in_table: list[HeldRows] = []
    for names in filter(None, [order[:first], *([each] for each in order[first:])]):
        mine = [version(each) for each in names]
        found = contest(mine, in_table, listing("v3", "v2", "v1"))
        read = [each for each in mine if each.identity not in found.outdated and each.version not in broken]
        losers = found.losers(read)
        winners = [each for each in read if each.identity not in losers]
        gone = found.gives_way(winners)
        in_table = [each for each in in_table if each not in gone] + [held(each.version) for each in winners]
        assert len(in_table) <= 1
    good = sorted({"v1", "v2", "v3"} - broken)
    assert [each.version for each in in_table] == good[-1:]


def test_each_object_is_judged_alone():
    found = contest([version("v2"), version("v1", "l")], [held("v1"), held("v2", "l")], listing("v2", "v1"))
    assert found.outdated == {("b", "l", "v1")}
    assert found.gives_way([version("v2")]) == [held("v1")]


def test_what_the_table_holds_and_the_bucket_has_no_more_is_older():
    found = contest([version("v1")], [held("gone")], listing("v1"))
    assert not found.outdated
    assert found.gives_way([version("v1")]) == [held("gone")]


def test_an_upload_that_is_not_listed_is_read_and_is_the_latest_if_that_succeeds():
    back = version("etag:1")
    found = contest([back, version("v2")], [held("v1")], listing("v2", "v1"))
    assert not found.outdated
    assert found.losers([back, version("v2")]) == {("b", "k", "v2"): back}
    assert found.losers([version("v2")]) == {}


def test_rows_of_the_same_version_do_not_give_way():
    assert contest([version("v1")], [held("v1")], {}).gives_way([version("v1")]) == []


def test_all_that_the_table_holds_of_an_object_gives_way():
    there = [held("v1"), held("v2", batch="B1")]
    assert contest([version("v3")], there, listing("v3", "v2", "v1")).gives_way([version("v3")]) == there


def test_what_was_doubled_leaves_once():
    both = [held("v1"), held("v2", batch="B1")]
    again = [version("v1"), version("v2")]
    found = contest(again, both, listing("v2", "v1"), {each.identity for each in again})
    assert found.doubled == both[:1]
    assert found.gives_way([version("v2")]) == both


LINE = [Snapshot(4, 3), Snapshot(3, 2, adds=True), Snapshot(2, 1, removes=True), Snapshot(1, None, adds=True)]


@pytest.mark.parametrize(
    ("seen", "raised"),
    [
        (None, None),
        (SeenVersion(4, unmoved=True), None),
        (SeenVersion(3, unmoved=True), None),
        (SeenVersion(2, unmoved=True), TableMoved),
        (SeenVersion(1, unmoved=True), TableMoved),
        (SeenVersion(1), None),
        (SeenVersion(9), StagedIsGone),
        (SeenVersion(9, unmoved=True), TableMoved),
    ],
)
def test_a_version_that_was_seen_is_in_the_history_and_nothing_has_moved_since(
    seen: SeenVersion | None, raised: type[Exception] | None
):
    if raised is None:
        require_seen(seen, LINE, "t")
    else:
        with pytest.raises(raised):
            require_seen(seen, LINE, "t")


def test_a_history_without_moves_that_lacks_the_version_is_another_one():
    with pytest.raises(StagedIsGone):
        require_seen(SeenVersion(9, unmoved=True), itertools.islice(LINE, 1), "t")


def test_what_is_between_two_versions_that_are_both_there_is_outdated():
    there = [held("v1"), held("v3", batch="B1")]
    assert contest([version("v2")], there, listing("v3", "v2", "v1")).outdated == {("b", "k", "v2")}


@dataclass
class Looked:
    """As much of a sink as a replacement asks for."""

    line: list[Snapshot]
    rows: list[HeldRows] = field(default_factory=list)
    table: str = "t"
    gone: list[RowsPlace] = field(default_factory=list)
    stays: bool = False
    replaces: bool = True
    skips: bool = False
    after: list[HeldRows] = field(default_factory=list)
    """What has come, once something was staged."""

    def position(self):
        return Floor("u", self.line[0].id)

    def history(self, floor):
        ids = [each.id for each in self.line]
        return History("u", tuple(self.line[: ids.index(floor.head) + 1] if floor.head in ids else self.line))

    def rows_of_objects(self, uris, at):
        left = self.rows if self.stays else [each for each in self.rows if each.place not in self.gone]
        return [*left, *self.after] if at > 100 else self.rows

    def may_have_gained(self, uris, since, now):
        return True

    def let_rows_go(self): ...

    def stage_removal(self, staged, gone):
        self.gone = sorted(gone)
        return staged + 1, None


def replacement(*uploads, rows=(), reloads=False, replaces=True):
    sink = Looked([Snapshot(1, None, adds=True)], list(rows), replaces=replaces)
    items = [OwnedUpload("n", each, again=reloads, reloads=reloads) for each in uploads]
    newest_first = (lambda upload, versions: dict.fromkeys(("v3", "v2", "v1"), "")) if replaces else not_asked
    return sink, look_at_versions("01B", items, sink, newest_first, None, MemoryWork())


@pytest.mark.parametrize("replaces", [True, False])
def test_what_is_reloaded_takes_the_place_of_its_own_rows(replaces: bool):
    upload = version("v2")
    old = HeldRows(upload.uri, "v2", "01A", 2)
    sink, mine = replacement(upload, rows=[old], reloads=True, replaces=replaces)
    sink.after = [HeldRows(upload.uri, "v2", "01B", 3)]
    _, staged, leaves = mine.stage([(OwnedUpload("n", upload), Read(Outcome.COMMITTED, 3))], Staged(107, 3, {}))
    assert (staged.id, staged.rows, leaves) == (108, 3, (old,))
    assert sink.gone == [old.place]


def test_a_reload_leaves_other_versions_where_the_route_appends():
    upload = version("v2")
    other, old = HeldRows(upload.uri, "v1", "01A", 1), HeldRows(upload.uri, "v2", "01A", 2)
    sink, mine = replacement(upload, rows=[other, old], reloads=True, replaces=False)
    sink.after = [HeldRows(upload.uri, "v2", "01B", 1)]
    _, _, leaves = mine.stage([(OwnedUpload("n", upload), Read(Outcome.COMMITTED, 1))], Staged(107, 1, {}))
    assert leaves == (old,)
    sink.rows = [old]
    with pytest.raises(Hopeless, match=r"without those of s3://b/k"):
        mine.stage([(OwnedUpload("n", upload), Read(Outcome.COMMITTED, 1))], Staged(107, 1, {}))


def test_a_reload_that_cannot_be_read_leaves_the_rows():
    upload = version("v2")
    sink, mine = replacement(upload, rows=[HeldRows(upload.uri, "v2", "01A", 2)], reloads=True, replaces=False)
    item = OwnedUpload("n", upload, again=True, reloads=True)
    bad = Read(Outcome.QUARANTINED, error="line 1: no", where="line 1: x")
    ((_, ended),), staged, leaves = mine.stage([(item, bad)], Staged(107, 0, {}))
    assert (staged.id, leaves, sink.gone) == (107, (), [])
    assert (ended.outcome, ended.error, ended.where) == (Outcome.PRESENT, "rows of batch 01A: line 1: no", "line 1: x")
    claim = Claim("v2", "n", 0, 1, str(ended.outcome), ended.error)
    assert (claim.rows_of, claim.why_present) == ("01A", "line 1: no")
    other = OwnedUpload("n", version("v1"), again=True, reloads=True)
    ((_, ended),), *_ = mine.stage([(other, bad)], Staged(107, 0, {}))
    assert ended.outcome is Outcome.QUARANTINED, "it has no rows"


def test_an_older_version_is_reloaded_in_vain_where_the_route_replaces():
    upload = version("v1")
    _, mine = replacement(upload, rows=[HeldRows(upload.uri, "v2", "01A", 2)], reloads=True)
    assert mine.taken([OwnedUpload("n", upload)]) == []
    _, mine = replacement(upload, reloads=True)
    assert mine.taken([OwnedUpload("n", upload)]) == [], "the later one may have been empty"
    _, mine = replacement(upload, rows=[HeldRows(upload.uri, "v1", "01A", 2)], reloads=True)
    assert mine.taken([OwnedUpload("n", upload)]), "the later one may be in quarantine"
    _, mine = replacement(upload, reloads=True, replaces=False)
    assert mine.taken([OwnedUpload("n", upload)])


def test_an_older_version_that_is_reloaded_beside_a_later_one_leaves_the_table():
    """The route appended before: rows of both were there, and the reload is what takes the doubles away."""
    upload = version("v1")
    old, later = HeldRows(upload.uri, "v1", "01A", 2), HeldRows(upload.uri, "v2", "01A", 3)
    sink, mine = replacement(upload, rows=[old, later], reloads=True)
    assert mine.taken([OwnedUpload("n", upload, again=True, reloads=True)]) == []
    assert mine.not_taken(upload).outcome is Outcome.SUPERSEDED
    _, staged, leaves = mine.stage([], Staged(107, 0, {}))
    assert (staged.id, staged.rows, leaves, sink.gone) == (108, 0, (old,), [old.place])
    _, mine = replacement(upload, rows=[old, later])
    assert mine.stage([], Staged(107, 0, {}))[2] == (), "it came late, and is not reloaded"


def test_rows_that_a_later_version_of_the_batch_takes_are_not_counted():
    first, later = version("v1"), version("v2")
    sink, mine = replacement(first, later)
    read = [(OwnedUpload("n", each), Read(Outcome.COMMITTED, rows)) for each, rows in ((first, 2), (later, 3))]
    sink.after = [HeldRows(later.uri, "v2", "01B", 3)]
    ended, staged, leaves = mine.stage(read, Staged(107, 5, {}))
    assert (staged.id, staged.rows, leaves) == (108, 3, ())
    assert sink.gone == [(first.uri, "v1", "01B")]
    assert [each.outcome for _, each in ended] == [Outcome.SUPERSEDED, Outcome.COMMITTED]


def test_a_rewriting_stages_anew_and_a_removal_of_other_rows_does_not():
    sink, mine = replacement(version("v2"), rows=[held("v1")])
    sink.line.insert(0, Snapshot(2, 1, adds=True, removes=True))
    assert mine.follow() == SeenVersion(2, unmoved=True)
    sink.line.insert(0, Snapshot(3, 2, adds=True, removes=True, rewrites=True))
    with pytest.raises(StagedIsGone, match="were rewritten"):
        mine.follow()


def test_who_has_followed_the_table_demands_again_that_nothing_moves():
    sink, mine = replacement(version("v2"), rows=[held("v1")])
    sink.line.insert(0, Snapshot(2, 1, adds=True))
    assert mine.follow() == SeenVersion(2, unmoved=True)
    sink.rows = [held("v1"), held("v3", batch="B3")]
    with pytest.raises(StagedIsGone, match="same objects"):
        mine.follow()


@pytest.mark.parametrize("deleted", [version("v9", "k").uri, version("v9", "other").uri])
def test_a_deletion_that_moved_no_row_counts_for_its_object(deleted: str):
    sink, mine = replacement(version("v2"))
    deletion = Snapshot(2, 1, frozenset({"B2"}), source=7)
    sink.line.insert(0, deletion)
    with pytest.raises(TableMoved):
        require_seen(mine.seen, sink.line, "t")
    with pytest.raises(StagedIsGone, match="a deletion of the same objects"):
        mine.follow()  # nobody knows what the batch had
    outcomes = Outcomes(7, fence=False, tally=NO_TALLY, deleted=(deleted,))
    mine.work.put(outcomes_name(batch_folder("B2"), 7), outcomes.encode())
    if deleted == version("v2").uri:
        with pytest.raises(StagedIsGone, match="a deletion of the same objects"):
            mine.follow()
    else:
        assert mine.follow() == SeenVersion(2, unmoved=True)


@given(
    st.lists(st.tuples(st.sampled_from("kl"), st.booleans(), st.integers(0, 3)), max_size=9),
    st.integers(1, 9),
)
def test_versions_and_markers_are_in_the_order_in_which_s3_stored_them(puts, size: int):
    """S3 lists both in one order, and cuts it into pages; SDKs give two lists of each page."""
    stored: dict[str, list[dict]] = {}
    now = 0
    for number, (key, deletes, after) in enumerate(puts):
        there = stored.setdefault(key, [])
        # within one second what is no marker counts as the later one
        now += after + (deletes or bool(there and is_marker(there[0])))
        made = {"Key": key, "VersionId": f"v{number}", "LastModified": datetime.fromtimestamp(now, UTC)}
        there.insert(0, made if deletes else {**made, "ETag": '"e"', "Size": 1})
    listed = [{**each, "IsLatest": each is versions[0]} for _, versions in sorted(stored.items()) for each in versions]
    found: list[dict] = []
    for start in range(0, len(listed), size):
        page = listed[start : start + size]
        versions = [each for each in page if not is_marker(each)]
        found += in_order({"Versions": versions, "DeleteMarkers": [each for each in page if is_marker(each)]})
    assert found == listed


def test_the_marker_of_a_bucket_with_suspended_versions_has_no_version():
    assert listed_version({"VersionId": "null"}) == ""


def test_a_deletion_is_sent_as_long_as_the_table_has_rows_of_its_object():
    there = [surveyed("k", "m2"), surveyed("k", "v1"), surveyed("l", "m1"), surveyed("l", "v0")]
    there = [
        replace(each, listed=replace(each.listed, deletion=each.listed.upload.version[0] == "m")) for each in there
    ]
    found = [each.value for _, each in compare(there, [landed("k", "v1")], set(), replaces=True)]
    assert found == ["deleted", "landed", "landed", "landed"]


def test_only_what_is_listed_after_a_version_that_is_there_has_given_way():
    listed = [surveyed("k", each) for each in ("v4", "v3", "v2", "v1")] + [surveyed("l", "v1")]
    found = [each.value for _, each in compare(listed, [landed("k", "v2")], set(), replaces=True)]
    assert found == ["missing", "missing", "landed", "landed", "missing"]


@pytest.mark.parametrize(
    ("counted", "adds", "removes", "rewrites"),
    [
        ({}, False, False, False),
        ({"added-data-files": "2"}, True, False, False),
        ({"deleted-data-files": "1"}, False, True, True),
        ({"added-delete-files": "1"}, False, True, False),
        ({"added-delete-files": "1", "added-dvs": "1"}, False, True, True),
        ({"removed-delete-files": "1"}, False, True, True),
        ({"added-data-files": "1", "added-delete-files": "0"}, True, False, False),
    ],
)
def test_what_a_snapshot_has_moved(counted, adds, removes, rewrites):
    plain = IcebergSnapshot(2, 1, counted).plain
    assert (plain.adds, plain.removes, plain.rewrites) == (adds, removes, rewrites)


def test_rows_that_stay_although_they_were_to_go_stop_the_batch():
    """A lineage column was dropped and added again, or the session stages elsewhere."""
    sink, mine = replacement(version("v2"), rows=[held("v1")])
    sink.stays = True
    read = [(OwnedUpload("n", version("v2")), Read(Outcome.COMMITTED, 1))]
    with pytest.raises(Hopeless, match="cannot let go of rows"):
        mine.stage(read, Staged(107, 1, {}))


def test_a_batch_with_nothing_left_to_look_for_follows_the_table():
    sink, mine = replacement()
    sink.line.insert(0, Snapshot(2, 1, adds=True))
    assert mine.follow() == SeenVersion(2, unmoved=True)


def test_a_writer_that_counts_nothing_may_have_moved_everything():
    assert IcebergSnapshot(2, 1, {"operation": "append"}).plain.adds
    assert not IcebergSnapshot(2, 1, {"operation": "append", "total-records": "3"}).plain.adds


def test_nothing_remembers_that_the_latest_version_was_empty():
    """docs/guarantee.md says so."""
    assert not contest([version("v1")], [], {}).outdated


def test_a_backfill_of_all_versions_sends_none_that_an_empty_file_has_replaced():
    """The table has no rows of the object: the claim of the empty file tells."""
    listed = [replace(surveyed("k", "v2"), claimed=AuditFinding.COMMITTED), surveyed("k", "v1")]
    assert [found.value for _, found in compare(listed, [], set(), replaces=True)] == ["committed", "landed"]


@pytest.mark.parametrize(
    ("there", "why"),
    [
        (["v1", "v2"], r"cannot let go of rows that are replaced, e.g. those of .* \(v1\)"),
        ([], "cannot let go of rows that are replaced without those of "),
        (["v2"], ""),
    ],
)
def test_where_the_table_does_not_say_how_many_rows_left_they_are_looked_for(there: list[str], why: str):
    upload = version("v2")
    sink, mine = replacement(upload, rows=[HeldRows(upload.uri, "v1", "01A", 3)])
    sink.stays = "v1" in there
    sink.after = [HeldRows(upload.uri, "v2", "01B", 1)] if "v2" in there else []
    read = [(OwnedUpload("n", upload), Read(Outcome.COMMITTED, 1))]
    if not why:
        mine.stage(read, Staged(107, 1, {}))
        return
    with pytest.raises(Hopeless, match=why):
        mine.stage(read, Staged(107, 1, {}))


def test_a_reload_is_outdated_by_a_later_version_without_rows_beside_an_older_one_with_rows():
    upload = version("v2")
    _, mine = replacement(upload, rows=[HeldRows(upload.uri, "v1", "01A", 2)], reloads=True)
    assert mine.taken([OwnedUpload("n", upload)]) == [], "v3 may have been empty"


def test_a_removal_that_takes_some_of_the_rows_that_come_stops_the_batch():
    upload = version("v2")
    sink, mine = replacement(upload, rows=[HeldRows(upload.uri, "v1", "01A", 3)])
    sink.after = [HeldRows(upload.uri, "v2", "01B", 1)]
    with pytest.raises(Hopeless, match="without those of s3://b/k"):
        mine.stage([(OwnedUpload("n", upload), Read(Outcome.COMMITTED, 2))], Staged(107, 2, {}))
