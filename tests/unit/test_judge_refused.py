"""When an upload that S3 would not hand out ends, by what else could be read in the same attempt."""

import pytest

from tests.support.build import upload
from tidegate.core.errors import Retryable
from tidegate.core.manifests import OwnedUpload
from tidegate.core.outcomes import Outcome, Read
from tidegate.flows.accounting import judge_refused
from tidegate.flows.publish import no_neighbour

REFUSED = Read(Outcome.QUARANTINED, error="AccessDenied", refused=True)


def judge(*, last: bool, **reads: Read) -> None:
    # nothing else near them can be read
    ended = [(OwnedUpload("n" * 40, upload(f"in/{name}.json")), read) for name, read in reads.items()]
    judge_refused("batch", ended, last=last, can_read_near=no_neighbour)


def test_where_nothing_was_refused_nothing_is_judged() -> None:
    judge(last=False, a=Read(Outcome.VANISHED), b=Read(Outcome.COMMITTED, 1))


@pytest.mark.parametrize("neighbour", [Read(Outcome.COMMITTED, 1), Read(Outcome.COMMITTED, 0)], ids=["rows", "empty"])
def test_beside_one_that_could_be_read_it_ends_in_the_last_attempt(neighbour: Read) -> None:
    judge(last=True, a=REFUSED, b=neighbour)
    with pytest.raises(Retryable, match="If the last attempt finds the same"):
        judge(last=False, a=REFUSED, b=neighbour)


@pytest.mark.parametrize(
    "neighbour",
    [Read(Outcome.VANISHED), Read(Outcome.SUPERSEDED), REFUSED],
    ids=["vanished", "superseded", "refused, too"],
)
def test_a_neighbour_that_was_not_read_either_proves_nothing(neighbour: Read) -> None:
    with pytest.raises(Retryable, match="Nothing near it"):
        judge(last=True, a=REFUSED, b=neighbour)
