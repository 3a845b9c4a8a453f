"""What Tidegate asks AWS for, counted at the services while the real code ran: `python -m bench.counting
--write` writes this file, and tests/simulation/test_counting.py counts again."""

from tidegate.cost.requests import RequestCounts

PER_UPLOAD = RequestCounts(
    write_units=1.0,
    s3_gets=1.0,
    sqs_standard=1.0,
)
PER_NOTICE = RequestCounts(
    write_units=4.0,
    read_units=8.0,
    s3_puts=1.0,
    s3_gets=1.0,
    sqs_standard=2.0,
    sqs_fifo=2.0,
    sns_fifo=1.0,
    invocations=2.0,
    calls=11.0,
)
PER_BATCH = RequestCounts(
    write_units=29.08,
    read_units=42.42,
    s3_puts=5.0,
    s3_gets=14.0,
    invocations=1.0,
    calls=69.5,
    starts=1.0,
)
OPEN_MINUTE = RequestCounts(
    read_units=5.0,
    calls=5.0,
)
WORKER_MINUTE = RequestCounts(
    write_units=6.0,
    read_units=59.0,
    calls=65.0,
)
IDLE_MINUTE = RequestCounts(
    read_units=4.0,
    invocations=1.0,
    calls=4.0,
)
