"""What no `tidegate.toml` says, because an owner has no fact that decides it: durations in seconds, rates per second.
docs/configuration.md lists it.

Tests, the simulation and the local stack of a test have other values: they replace these names, and all that follows
from them follows.
"""

from tidegate.core import workers
from tidegate.core.batches import BatchLimits
from tidegate.core.maintenance import MaintainLimits
from tidegate.settings.values import DAY, HOUR

# ---- how long things are remembered: each outlives the one before it

MESSAGES = 4 * DAY
"""How long queues keep a message: a long weekend without intake or dispatch loses none."""
DEAD_LETTERS = 14 * DAY
"""How long dead-letter queues keep one: SQS keeps nothing longer
(https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html)."""
TRAVEL = DEAD_LETTERS + MESSAGES + (MESSAGES + DEAD_LETTERS + MESSAGES)
"""For how long after an upload a message may still announce it, if a person moves dead letters back once at each queue.
The age of the buffer's dead letters counts from the upload. Moving a message back, and moving one to a FIFO queue's
dead letters, starts its age anew
(https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-configure-dead-letter-queue-resend.html).
"""
LOOK_BACK = 45 * DAY
"""The horizon: how far back an audit may look. It is longer than `TRAVEL`: else an upload is audited while its message
may still arrive. It is a constant, so that no change of `claims` can take it past what the ledger remembers."""

# ---- jobs

QUEUE_TIMEOUT = 6 * HOUR
"""How long a job may queue for vCPU. Then it ends, which counts as an attempt."""
JOB_TIMEOUT, LONGEST_JOB = 8 * HOUR, 17 * HOUR
"""How long a job may run, and how long the one of a route with very large files may. With `QUEUE_TIMEOUT` it is less
than the day for which hand-off remembers a started job (`tidegate.aws.jobs.REMEMBER_SECONDS`)."""
USUAL_FILE = 100_000_000_000
"""The largest file of a route, in bytes, unless it says otherwise. One task reads a compressed file: a job of a route
with larger ones may run for longer than `JOB_TIMEOUT`, in proportion."""
BATCH = BatchLimits()
"""When a batch is handed off, and how often it is attempted, as far as a route does not say."""

STAY = workers.STAY
"""How long a worker waits for a further batch, unless `limits.stay` says it."""

# ---- functions

CONCURRENCY = 3
"""Invocations of intake, and of dispatch, at a time, if no route has more lanes. With four other functions that is what
a new account has."""

# ---- audits

MIN_AGE = 12 * HOUR
"""How old an upload, or an unregistered claim, must be to count as lost. Notifications were seen 6 hours late."""
MAX_AGE = 30 * DAY
"""How old an upload may be that an audit looks at by itself."""
SENT_RATE = 500
"""Lost uploads sent in a second, at most."""
JOB_ABOVE = 5_000_000
"""If an audit has listed more uploads of a route, a Spark job makes the next one."""
READ_RATE = 5_000
"""Uploads that such a job looks up in a second, at most. Each costs a read unit."""

# ---- maintenance

MAINTAINED_EVERY = DAY
"""A job may queue and run for a day, and the next one begins after it."""
MAINTENANCE = MaintainLimits(
    keep_for=5 * DAY,
    keep_last=100,
    orphans_after=7 * DAY,
    compact_bytes=50_000_000_000,
)
"""What one run does to each table, as far as [maintain] does not say. Orphans are older than a week: no snapshot names
yet what a job is writing."""
