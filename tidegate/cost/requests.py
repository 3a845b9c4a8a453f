"""How much is asked of AWS: a sum of counts that can be added and multiplied."""

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class RequestCounts:
    """Units of DynamoDB; requests of S3 (puts with listings), SQS and SNS; invocations; the calls to AWS that functions
    and drivers make and wait for, reading uploads apart; job starts."""

    write_units: float = 0.0
    read_units: float = 0.0
    s3_puts: float = 0.0
    s3_gets: float = 0.0
    sqs_standard: float = 0.0
    sqs_fifo: float = 0.0
    sns_fifo: float = 0.0
    invocations: float = 0.0
    calls: float = 0.0
    starts: float = 0.0

    def __add__(self, other: "RequestCounts") -> "RequestCounts":
        return RequestCounts(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(self)))

    def __sub__(self, other: "RequestCounts") -> "RequestCounts":
        return self + other * -1

    def __mul__(self, times: float) -> "RequestCounts":
        return RequestCounts(*(getattr(self, each.name) * times for each in fields(self)))
