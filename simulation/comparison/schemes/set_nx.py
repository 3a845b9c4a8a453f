"""`SET key value NX EX ttl` in Redis before the work; whoever finds the key there takes the message for a duplicate.

Parameters: ttl 5 hours. A failure of the work that is handled deletes the key and gives the message back; a failure of
`SET` itself only gives it back, since nobody knows whose key is there. The author accepts that a process which dies
right after `SET` loses its message. In the variant, the number of the delivery is part of the key, so that the next
delivery passes, whatever became of the one before.

Deduplication of queue messages by a key in a fast store: https://redis.io/docs/latest/commands/set/
"""

from simulation.comparison.deployment import SchemeDeployment
from simulation.comparison.schemes.scheme import AnnouncedUpload, Arrival, Scheme
from simulation.comparison.schemes.stores import Redis

TTL = 5 * 3_600.0


class SetNx(Scheme):
    def __init__(self, here: SchemeDeployment, *, count_receives: bool) -> None:
        self._redis = Redis(here.network)
        self._count_receives = count_receives
        super().__init__(here)

    def handle(self, upload: AnnouncedUpload, arrival: Arrival) -> None:
        key = upload.identity + (f"#{arrival.receives}" if self._count_receives else "")
        if not self._redis.set_nx_ex(key, TTL):
            return
        try:
            self.work(upload)
        except Exception:
            self._redis.delete(key)
            raise
