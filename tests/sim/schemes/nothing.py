"""No scheme at all: every message is worked on. What the others are to be measured against."""

from tests.sim.schemes.scheme import Delivery, Scheme, Upload


class Nothing(Scheme):
    def handle(self, upload: Upload, delivery: Delivery) -> None:
        self.work(upload)
