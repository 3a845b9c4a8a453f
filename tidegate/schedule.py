"""When functions run: how often settling looks at every route, and how often audit and maintenance look whether they
are due."""

SCHEDULE = 60
"""Seconds; EventBridge has nothing finer. Batches are sealed this much early, and alarms count in looks."""

AUDIT_SCHEDULE = 60 * 60
"""Seconds. A run that one invocation could not finish goes on at the next."""

MAINTAIN_SCHEDULE = 60 * 60
"""Seconds. A look starts the job of a period, or asks whether it has ended."""


def intake_window(shortest_wait: float) -> int:
    """Seconds for which notifications gather before intake is invoked, by the shortest `max_wait`: a twelfth of it.
    Each invocation makes a notice for each route, and a notice costs four writes and a file, so a trickle of uploads is
    cheaper in company. Who asks for less than four seconds would notice two."""
    least = LEAST_WINDOW if shortest_wait >= 2 * LEAST_WINDOW else 1
    return min(max(int(shortest_wait) // 12, least), LONGEST_WINDOW)


LEAST_WINDOW = 2
LONGEST_WINDOW = 300
"""https://docs.aws.amazon.com/lambda/latest/api/API_CreateEventSourceMapping.html"""
