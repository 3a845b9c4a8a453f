"""The suspects of a screening as a listing: each is listed once, as the bucket has it, and little else is asked for."""

from hypothesis import given
from hypothesis import strategies as st

from tests.support.fakes import MemoryListing, MemoryWork, play_screening
from tidegate.core.audit import BEGINNING, AuditCounts, Listed
from tidegate.core.uploads import Upload
from tidegate.flows.suspects import SuspectListing, screening_of

texts = st.text(st.sampled_from("ab/\U0010ffffÿ"), min_size=1, max_size=4)
versions = st.sampled_from(["v1", "v2", "v3"])


def up(key: str, version: str = "v1") -> Upload:
    return Upload("landing", key, version, 7)


def listed(listing: MemoryListing, suspects: list[Upload], part_size: int = 2) -> list[Listed]:
    work = MemoryWork()
    play_screening(work, "01R", suspects, part_size=part_size)
    screening = screening_of("01R", work)
    assert screening is not None
    after, found = BEGINNING, []
    while after:
        # another process goes on from the marker
        page = SuspectListing("01R", screening, listing, work).page("landing", "", after, "")
        found += page.listed
        after = page.after
    return found


@given(
    st.sets(st.tuples(texts, versions), max_size=30),
    st.sets(st.tuples(texts, versions), max_size=15),
    st.integers(1, 5),
    st.integers(1, 4),
)
def test_every_suspect_that_is_in_the_bucket_is_listed_once_and_nothing_else(
    there: set[tuple[str, str]], suspected: set[tuple[str, str]], size: int, part_size: int
):
    listing = MemoryListing({up(*each): number for number, each in enumerate(sorted(there))}, size)
    found = listed(listing, [up(*each) for each in sorted(suspected)], part_size)
    assert [(each.upload.key, each.upload.version) for each in found] == sorted(there & suspected)
    assert all(each.modified == listing.there[each.upload] for each in found), "as the bucket has it"


def test_a_few_suspects_in_a_large_bucket_cost_a_request_each():
    listing = MemoryListing({up(f"{number:05}"): 0 for number in range(10_000)}, size=100)
    suspects = [up(f"{number:05}") for number in (7, 4_000, 4_001, 9_999)]
    assert [each.upload for each in listed(listing, suspects)] == suspects
    assert len(listing.asked) == 3, "two of them are on one page"


def test_where_all_are_lost_it_costs_what_a_listing_costs():
    listing = MemoryListing({up(f"{number:05}"): 0 for number in range(1_000)}, size=100)
    suspects = [up(f"{number:05}") for number in range(1_000)]
    assert len(listed(listing, suspects, part_size=300)) == 1_000
    assert len(listing.asked) == 10


def test_a_bucket_that_has_none_of_them_ends_the_run():
    assert listed(MemoryListing(), [up("a"), up("b")]) == []
    work = MemoryWork()
    play_screening(work, "01R", [up("a"), up("b")], counts=AuditCounts(listed=3, committed=3))
    screening = screening_of("01R", work)
    assert screening is not None
    assert screening.rest(AuditCounts()) == AuditCounts(listed=5, committed=3, gone=2)
    assert screening.rest(AuditCounts()).holds


def test_without_suspects_nothing_is_listed():
    listing = MemoryListing({up("a"): 0})
    assert listed(listing, []) == []
    assert listing.asked == []
