"""`SET key value NX EX ttl` in Redis before the work; whoever finds the key there takes the message for a duplicate.

Parameters: ttl 5 hours. A failure of the work that is handled deletes the key and gives the message back; a failure of
`SET` itself only gives it back, since nobody knows whose key is there. The author accepts that a process which dies
right after `SET` loses its message. In the variant, the number of the delivery is part of the key, so that the next
delivery passes, whatever became of the one before.

Deduplication of queue messages by a key in a fast store: https://redis.io/docs/latest/commands/set/
"""

from tests.sim.schemes.deployment import Deployment
from tests.sim.schemes.scheme import Delivery, Scheme, Upload
from tests.sim.schemes.stores import Redis

TTL = 5 * 3_600.0


class SetNx(Scheme):
    def __init__(self, here: Deployment, *, count_receives: bool) -> None:
        self._redis = Redis(here.network)
        self._count_receives = count_receives
        super().__init__(here)

    def handle(self, upload: Upload, delivery: Delivery) -> None:
        key = upload.identity + (f"#{delivery.receives}" if self._count_receives else "")
        if not self._redis.set_nx_ex(key, TTL):
            return
        try:
            self.work(upload)
        except Exception:
            self._redis.delete(key)
            raise
