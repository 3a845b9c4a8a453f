"""Of versions with the same bytes, one after the other, one has rows: whichever comes first, and however they come."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from tests.support.fakes import MemoryWork
from tests.unit.test_replacing import Looked, held, version
from tidegate.core.claims import Claim
from tidegate.core.manifests import OwnedUpload
from tidegate.core.outcomes import Outcome, Read
from tidegate.core.publication import Snapshot
from tidegate.core.replacing import HeldRows
from tidegate.core.same_bytes import (
    decode_same_bytes,
    listed_bytes,
    may_be_noted,
    same_bytes,
    same_bytes_name,
    with_noted,
)
from tidegate.flows.replacing import look_at_versions
from tidegate.flows.sink import Staged

URI = "s3://b/k"


def listed(contents: str) -> dict[str, str]:
    """Versions v0, v1, ... of one object, the latest first: a letter for the bytes, `-` for a delete marker."""
    return {f"v{place}": each.strip("-") for place, each in reversed(list(enumerate(contents)))}


def runs(contents: str) -> list[set[str]]:
    found: list[set[str]] = []
    for place, each in enumerate(contents):
        if place and each == contents[place - 1] != "-":
            found[-1].add(f"v{place}")
        elif each != "-":
            found.append({f"v{place}"})
    return found


@given(st.text("ab-", min_size=1, max_size=6), st.randoms(use_true_random=False), st.sets(st.integers(0, 5)))
def test_one_of_each_run_has_rows_in_whatever_order_they_come(contents, random, broken):
    names = [f"v{place}" for place, each in enumerate(contents) if each != "-"]
    random.shuffle(names)
    in_table: list[HeldRows] = []
    while names:
        batch = [version(names.pop()) for _ in range(random.randint(1, len(names)))]
        found = same_bytes(batch, in_table, {URI: listed(contents)})
        read = [each for each in batch if each.identity not in found.outdated and int(each.version[1]) not in broken]
        losers = found.losers(read)
        assert all(int(kept.version[1]) < int(version[1]) for (_, _, version), kept in losers.items())
        winners = [each for each in read if each.identity not in losers]
        assert not found.gives_way(winners)
        in_table += [held(each.version) for each in winners]
    for run in runs(contents):
        there = [each.version for each in in_table if each.version in run]
        assert len(there) == any(int(each[1]) not in broken for each in run)


@given(st.text("ab", min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_a_version_that_expires_leaves_word_of_its_rows(contents, random):
    """They come one after the other. What is not current may go, the earliest first, once what came after it ended."""
    in_table: list[HeldRows] = []
    files: dict[str, bytes] = {}
    first = 0
    for place in range(len(contents)):
        upload = version(f"v{place}")
        there = {name: each for name, each in listed(contents[: place + 1]).items() if int(name[1]) >= first}
        asked = may_be_noted([upload], in_table, {URI: there})
        noted = {each: decode_same_bytes(files[name]) for each in asked if (name := same_bytes_name(*each)) in files}
        found = same_bytes([upload], in_table, with_noted({URI: there}, noted))
        files |= found.notes({})
        if upload.identity not in found.outdated:
            in_table.append(held(upload.version))
        first = random.randint(first, place)
    for run in runs(contents):
        assert len([each for each in in_table if each.version in run]) == 1


def test_of_many_versions_the_latest_are_asked_for_and_those_that_expire_first():
    contents = listed("b" + 30 * "a")
    del contents["v1"]
    found = may_be_noted([version("v30")], [held("v1"), held("v0")], {URI: contents})
    asked = [30, 29, 28, 27, 26, 25, 6, 5, 4, 3, 2]
    assert found == [(URI, f"v{place}") for place in asked]


def test_nothing_is_asked_for_if_all_that_has_rows_is_listed():
    assert may_be_noted([version("v1")], [held("v0")], {URI: listed("aa")}) == []
    assert may_be_noted([version("v1")], [], {URI: listed("aa")}) == []


def test_a_version_null_is_not_noted():
    """The next upload takes its place in the list. But it may be the one that has the rows."""
    found = same_bytes([version("etag:e")], [held("v0")], {URI: {"etag:e": "a", "v0": "a"}})
    assert found.outdated
    assert found.notes({}) == {}
    found = same_bytes([version("v1")], [held("etag:e")], {URI: {"v1": "a", "etag:e": "a"}})
    noted = {(URI, "v1"): decode_same_bytes(found.notes({})[same_bytes_name(URI, "v1")])}
    listed_now = with_noted({URI: {"v2": "a", "v1": "a"}}, noted)
    assert same_bytes([version("v2")], [held("etag:e")], listed_now).outdated


def test_what_the_list_lacks_is_like_nothing():
    found = same_bytes([version("v1"), version("gone")], [held("older")], {URI: {"v1": "a"}})
    assert (found.outdated, found.losers([version("v1"), version("gone")])) == (set(), {})


def test_bytes_are_told_by_etag_and_size():
    assert listed_bytes({"ETag": '"e"', "Size": 3}) == '"e"/3'
    assert listed_bytes({"Key": "k"}) == ""


def looked(
    *uploads: str,
    rows: list[HeldRows],
    reloads: bool = False,
    contents: str = "aa",
    work: MemoryWork | None = None,
    gone: Sequence[str] = (),
):
    there = {each: content for each, content in listed(contents).items() if each not in gone}
    sink = Looked([Snapshot(1, None, adds=True)], rows, replaces=False, skips=True)
    items = [OwnedUpload("n", version(each), again=reloads, reloads=reloads) for each in uploads]
    return sink, items, look_at_versions("01B", items, sink, lambda *_: there, None, work or MemoryWork())


def test_an_upload_whose_bytes_are_there_says_whose():
    _, items, mine = looked("v1", rows=[held("v0")])
    assert mine.taken(items) == []
    ended = mine.not_taken(items[0].upload)
    assert ended == Read(Outcome.PRESENT, error="rows of batch B0: its bytes are those of version v0")
    claim = Claim("v1", "n", 0, 1, str(ended.outcome), ended.error)
    assert (claim.rows_of, claim.why_present) == ("B0", "its bytes are those of version v0")


def test_it_says_so_once_that_one_has_expired():
    work = MemoryWork()
    _, _, mine = looked("v1", rows=[held("v0")], work=work)
    mine.stage([], Staged(107, 0, {}))
    _, items, again = looked("v1", "v2", rows=[held("v0")], contents="aaa", gone=["v0"], work=work)
    assert again.taken(items) == []
    assert again.not_taken(items[1].upload).error == "rows of batch B0: its bytes are those of version v0"
    _, items, other = looked("v2", rows=[held("v0")], contents="aaa", gone=["v0"])
    assert other.taken(items) == items, "nobody has noted it"


def test_what_is_reloaded_takes_the_place_of_what_has_expired():
    """Nobody can read v0 again, and its rows are of the schema of before."""
    work = MemoryWork()
    _, _, mine = looked("v1", "v2", rows=[held("v0")], contents="aaa", work=work)
    mine.stage([], Staged(107, 0, {}))
    sink, items, again = looked("v1", "v2", rows=[held("v0")], contents="aaa", gone=["v0"], work=work, reloads=True)
    assert again.taken(items) == items
    sink.after = [HeldRows(URI, "v1", "01B", 3)]
    read, staged, leaves = again.stage([(each, Read(Outcome.COMMITTED, 3)) for each in items], Staged(107, 6, {}))
    assert [each.outcome for _, each in read] == [Outcome.COMMITTED, Outcome.PRESENT]
    assert (staged.rows, leaves) == (3, (held("v0"),))
    _, items, listed_still = looked("v1", rows=[held("v0")], contents="aaa", work=work, reloads=True)
    assert listed_still.taken(items) == []


def test_what_took_that_place_is_reloaded_again():
    """What is noted of it counts no more: its own rows are there, and those of no other version."""
    work = MemoryWork()
    _, _, mine = looked("v1", rows=[held("v0")], work=work)
    mine.stage([], Staged(107, 0, {}))
    sink, items, again = looked("v1", rows=[held("v1")], gone=["v0"], work=work, reloads=True)
    assert again.taken(items) == items
    sink.after = [HeldRows(URI, "v1", "01B", 3)]
    _, staged, leaves = again.stage([(each, Read(Outcome.COMMITTED, 3)) for each in items], Staged(107, 3, {}))
    assert (staged.rows, leaves) == (3, (held("v1"),))


def test_of_two_in_one_batch_the_later_one_leaves_no_rows():
    sink, items, mine = looked("v1", "v0", rows=[])
    sink.after = [HeldRows(URI, "v0", "01B", 3)]
    read, staged, leaves = mine.stage([(each, Read(Outcome.COMMITTED, 3)) for each in items], Staged(107, 6, {}))
    assert [each.outcome for _, each in read] == [Outcome.PRESENT, Outcome.COMMITTED]
    assert read[0][1].error == "rows of batch 01B: its bytes are those of version v0"
    assert [decode_same_bytes(each) for each in mine.work.objects.values()] == ["v0"]
    assert (staged.id, staged.rows, leaves, sink.gone) == (108, 3, (), [(URI, "v1", "01B")])


def test_a_reload_takes_what_was_doubled():
    """Both have landed while the route appended, and both are loaded again."""
    rows = [held("v0"), held("v1", batch="B1")]
    sink, items, mine = looked("v0", "v1", rows=rows, reloads=True)
    sink.after = [HeldRows(URI, "v0", "01B", 3)]
    _, staged, leaves = mine.stage([(each, Read(Outcome.COMMITTED, 3)) for each in items], Staged(107, 6, {}))
    assert (staged.rows, sorted(leaves)) == (3, rows)
    assert sink.gone == [(URI, "v0", "B0"), (URI, "v1", "01B"), (URI, "v1", "B1")]


def test_a_reload_of_what_brought_no_rows_brings_none():
    _, items, mine = looked("v1", rows=[held("v0")], reloads=True)
    assert mine.taken(items) == []


def test_other_bytes_land_beside():
    _, items, mine = looked("v1", rows=[held("v0")], contents="ab")
    assert mine.taken(items) == items
    read, staged, leaves = mine.stage([(items[0], Read(Outcome.COMMITTED, 3))], Staged(107, 3, {}))
    assert (read[0][1].outcome, staged.id, leaves) == (Outcome.COMMITTED, 107, ())
