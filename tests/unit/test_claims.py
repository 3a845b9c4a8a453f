"""Whose upload it is, judged from the claim that is already there."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.build import upload
from tidegate.core.claims import MARGIN, Claim, Ownership, is_later, is_live, judge
from tidegate.core.notices import ORIGIN_AGAIN, ORIGIN_S3, Entry, Notice
from tidegate.core.uploads import Upload

ME, OTHER, THIRD = "a" * 40, "b" * 40, "c" * 40
CLAIMED, DAY = 1_000_000, 86_400


def judged(existing: Claim, entry: Entry, at: int = CLAIMED) -> Ownership:
    """By a notice whose oldest upload was put then."""
    return judge(existing, Notice(ME, "events", "landing", ORIGIN_S3, (entry,), at), entry)


@pytest.mark.parametrize(
    ("owner", "takes_from", "ownership"),
    [
        (ME, "", Ownership.MINE),
        (ME, OTHER, Ownership.MINE),  # taken over by an earlier try of this notice
        (ME, ME, Ownership.MINE),
        (OTHER, "", Ownership.DUPLICATE),  # an ordinary notice never takes over
        (OTHER, OTHER, Ownership.ASK_OWNER),
        (OTHER, THIRD, Ownership.DUPLICATE),  # it was made to take it from somebody who has it no more
    ],
)
def test_only_the_owner_in_the_claim_decides(owner: str, takes_from: str, ownership: Ownership):
    existing = Claim("v1", owner, claimed_at=0, expires_at=1)
    assert judged(existing, Entry(upload(), takes_from)) is ownership


@pytest.mark.parametrize(("expires_at", "live"), [(99, False), (100, False), (101, True)])
def test_what_has_expired_is_absent_to_the_second(expires_at: int, live: bool):
    assert is_live(expires_at, now=100) == live


@pytest.mark.parametrize(
    ("claimed", "notified", "ownership"),
    [
        ("00A1", "00A2", Ownership.UPLOADED_AGAIN),
        ("00A2", "00A2", Ownership.DUPLICATE),  # the notification came twice
        ("00A2", "00A1", Ownership.DUPLICATE),  # a late one of an earlier upload of the same bytes
        ("00A1", "", Ownership.DUPLICATE),
    ],
)
def test_the_same_bytes_uploaded_later_are_told_from_a_repeated_notification(
    claimed: str, notified: str, ownership: Ownership
):
    existing = Claim("etag:abc", OTHER, CLAIMED, CLAIMED + 1, sequencer=claimed)
    for at in (0, CLAIMED - DAY, CLAIMED + DAY):
        assert judged(existing, Entry(Upload("landing", "k", "etag:abc", 1, notified)), at) is ownership


@pytest.mark.parametrize(
    ("version", "notified", "after", "ownership"),
    [
        ("etag:abc", "00A2", MARGIN + 1, Ownership.UPLOADED_AGAIN),
        ("etag:abc", "00A2", MARGIN, Ownership.DUPLICATE),  # the clocks may differ by so much
        ("etag:abc", "00A2", -DAY, Ownership.DUPLICATE),  # the notification of what was listed, late
        ("etag:abc", "", MARGIN + 1, Ownership.DUPLICATE),  # no notification: another listing
        ("v1", "00A2", MARGIN + 1, Ownership.DUPLICATE),  # a version is put once
    ],
)
def test_time_tells_the_same_bytes_put_again_after_a_listing_had_found_them(
    version: str, notified: str, after: int, ownership: Ownership
):
    existing = Claim(version, OTHER, CLAIMED, CLAIMED + 1)
    assert judged(existing, Entry(Upload("landing", "k", version, 1, notified)), CLAIMED + after) is ownership


def test_the_time_at_which_a_notice_was_made_for_another_is_no_time_of_a_put():
    """It is sent long after the claims were read, if its function was slow, and a listing may have claimed since."""
    existing = Claim("etag:abc", OTHER, CLAIMED, CLAIMED + 1)
    entry = Entry(Upload("landing", "k", "etag:abc", 1, "00A2"), takes_from=THIRD)
    made = Notice(ME, "events", "landing", ORIGIN_AGAIN, (entry,), CLAIMED + DAY)
    assert judge(existing, made, entry) is Ownership.DUPLICATE


def test_a_notice_made_to_take_over_takes_over_whatever_the_sequencers_say():
    existing = Claim("etag:abc", OTHER, claimed_at=0, expires_at=1, sequencer="00A1")
    entry = Entry(Upload("landing", "k", "etag:abc", 1, "00A2"), takes_from=OTHER)
    assert judged(existing, entry) is Ownership.ASK_OWNER


SEQUENCERS = st.text("0123456789ABCDEFabcdef", min_size=1, max_size=20)


@pytest.mark.parametrize(
    ("one", "other", "later"),
    [
        ("0055AED6DCD902A1", "0055AED6DCD90281E5", True),  # shorter, and yet the later one
        ("0055AED6DCD90281E5", "0055AED6DCD902A1", False),
        ("0055aed6dcd902a1", "0055AED6DCD902A1", False),
        ("0055AED6DCD902A1", "0055AED6DCD902A100", False),
    ],
)
def test_the_shorter_sequencer_is_padded_on_its_right(one: str, other: str, later: bool):
    assert is_later(one, other) is later


@given(SEQUENCERS, SEQUENCERS, SEQUENCERS)
def test_sequencers_are_ordered(one: str, other: str, third: str):
    assert not (is_later(one, other) and is_later(other, one))
    if is_later(one, other) and is_later(other, third):
        assert is_later(one, third)
    if not is_later(one, other) and not is_later(other, one):
        assert one.lower().rstrip("0") == other.lower().rstrip("0")
