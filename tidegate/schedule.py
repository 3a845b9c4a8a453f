"""The schedule: how often settling looks at every route."""

SCHEDULE = 60
"""Seconds; EventBridge has nothing finer. Batches are sealed this much early, and alarms count in looks."""
