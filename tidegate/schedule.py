"""The schedules: how often settling looks at every route, and how often the audit looks whether it is due."""

SCHEDULE = 60
"""Seconds; EventBridge has nothing finer. Batches are sealed this much early, and alarms count in looks."""

AUDIT_SCHEDULE = 60 * 60
"""Seconds. A run that one invocation could not finish goes on at the next."""
