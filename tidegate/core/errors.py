"""The three errors. Everything else that a flow expects is a return value.

The error decides what happens to the message being handled (rule 9):

    Rejected         acknowledge it
    Retryable        give it back
    OutcomeUnknown   read the source of truth
"""


class TidegateError(Exception):
    """Base of the three errors. Its text is for users: what happened, to which object, what to do."""


class Rejected(TidegateError):
    """It can never succeed as it is: set it aside for a person, and acknowledge."""


class Retryable(TidegateError):
    """It may succeed later: give it back to the queue or the caller."""


class OutcomeUnknown(TidegateError):
    """It may have happened: keep every claim, delete nothing, and read the source of truth."""
