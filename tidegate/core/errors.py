"""The four errors. Everything else a flow expects is a return value.

Which one is raised decides what happens to the message being handled, so the choice is part of
the protocol (rule 9): acknowledge on `Rejected` and `FenceLost`, give back on `Retryable`, ask the
source of truth on `OutcomeUnknown`.
"""


class TidegateError(Exception):
    """Base of the four errors; its text is fit for a user: what happened, to which object, what to do."""


class Rejected(TidegateError):
    """It can never succeed as it is: set it aside where a person finds it, and acknowledge."""


class Retryable(TidegateError):
    """It may succeed later: give it back to whoever delivered it."""


class OutcomeUnknown(TidegateError):
    """It may have happened: keep every claim, delete nothing, and ask the source of truth."""


class FenceLost(TidegateError):
    """Somebody else decided otherwise, for good: stop and acknowledge."""
