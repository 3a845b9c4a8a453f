"""Whose upload it is, judged from the claim that is already there."""

import pytest

from tests.support.build import upload
from tidegate.core.claims import Claim, Ownership, is_live, judge
from tidegate.core.notices import Entry

ME, OTHER, THIRD = "a" * 40, "b" * 40, "c" * 40


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
    assert judge(existing, ME, Entry(upload(), takes_from)) is ownership


@pytest.mark.parametrize(("expires_at", "live"), [(99, False), (100, False), (101, True)])
def test_what_has_expired_is_absent_to_the_second(expires_at: int, live: bool):
    assert is_live(expires_at, now=100) == live
