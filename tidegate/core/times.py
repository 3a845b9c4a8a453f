"""Times as people read them."""

import datetime


def iso(seconds: int) -> str:
    """Epoch seconds as "2026-11-21T10:21:00Z"."""
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
