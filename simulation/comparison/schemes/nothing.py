"""No scheme at all: every message is processed. The baseline for the others."""

from simulation.comparison.schemes.scheme import AnnouncedUpload, Arrival, Scheme


class Nothing(Scheme):
    def handle(self, upload: AnnouncedUpload, arrival: Arrival) -> None:
        self.work(upload)
