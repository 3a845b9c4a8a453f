"""Take along: a job that has ended one attempt takes the batch in its next seat, or closes.

step                              if the job dies right after it
1 is there a batch in the seat?   its attempt has ended without a receipt; the next one has a job of its own
2 wait, and look again            the same, if a batch comes meanwhile
3 close the seat, if it is free   no batch comes any more
4 a batch was faster: take it     as after step 1

A twin of the driver reads the same seats, and attempts the same batches: decision 3 lets one of the two publish. If one
of them closes, both end.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass

from tidegate.core.seats import CLOSED, Seat, decode_seat, seat_name
from tidegate.flows.ports import Work

log = logging.getLogger("tidegate")

LOOK_EVERY = 1
"""Seconds. A look is one read of S3, which costs a hundredth of a second of the job that makes it."""


@dataclass
class Seats:
    """The seats of one job, as its driver sees them. `now` is a clock in seconds; `until` that time the job waits for
    further batches."""

    work: Work
    folder: str
    linger: int
    now: Callable[[], float]
    sleep: Callable[[float], None]
    until: float
    number: int = 0

    def next(self, *, more: bool) -> Seat | None:
        """The next batch; None if the job is closed. Without `more` it waits for no batch, and takes only one that is
        there already. May raise what reading and writing the work bucket raises."""
        self.number += 1
        name = seat_name(self.folder, self.number)
        closes = self.now() + self.linger if more and self.now() < self.until else 0.0
        while not (body := self.work.get(name)):
            if self.now() < closes:
                self.sleep(LOOK_EVERY)
            elif self.work.put_if_absent(name, CLOSED):
                return None
        return decode_seat(body)
