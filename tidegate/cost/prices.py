"""List prices of us-east-1, on demand, in dollars, without free tiers. They change: check them on the pages named here.

`confirmed` says whether another page than AWS's own was found to quote the same figure in 2026. No price was read from
a bill.
"""

from collections.abc import Mapping
from dataclasses import dataclass

AS_OF = "2026-11"
REGION = "us-east-1"
MILLION = 1e6


@dataclass(frozen=True)
class Price:
    """`dollars` for `per` units."""

    dollars: float
    per: float
    unit: str
    source: str
    confirmed: bool = False

    def of(self, units: float) -> float:
        return units * self.dollars / self.per

    def __str__(self) -> str:
        per = {1e6: "a million ", 1e3: "1,000 ", 1.0: ""}[self.per]
        exact = f"{self.dollars:.10f}".rstrip("0")
        one = "an " if self.unit[0] in "aeiou" else "a "
        return f"${exact if len(exact.split('.')[1]) > 1 else f'{self.dollars:.2f}'} for {per or one}{self.unit}"


DYNAMODB = "https://aws.amazon.com/dynamodb/pricing/on-demand/"
EMR = "https://aws.amazon.com/emr/pricing/"
CLOUDWATCH = "https://aws.amazon.com/cloudwatch/pricing/"
GRAVITON = 0.8
"""Arm costs a fifth less than x86
(https://aws.amazon.com/blogs/big-data/achieve-up-to-27-better-price-performance-for-spark-workloads-with-aws-graviton2-on-amazon-emr-serverless/)."""

PRICES: Mapping[str, Price] = {
    "SQS, standard": Price(0.40, MILLION, "requests", "https://aws.amazon.com/sqs/pricing/", confirmed=True),
    "SQS, FIFO": Price(0.50, MILLION, "requests", "https://aws.amazon.com/sqs/pricing/", confirmed=True),
    "SNS, FIFO": Price(0.30, MILLION, "messages", "https://aws.amazon.com/sns/pricing/"),
    "Lambda, invocations": Price(0.20, MILLION, "invocations", "https://aws.amazon.com/lambda/pricing/"),
    "Lambda, time": Price(0.0000133334, 1, "GB-second", "https://aws.amazon.com/lambda/pricing/"),
    "DynamoDB, writes": Price(0.625, MILLION, "write units", DYNAMODB, confirmed=True),
    "DynamoDB, reads": Price(0.125, MILLION, "read units", DYNAMODB, confirmed=True),
    "S3, puts and listings": Price(0.005, 1e3, "requests", "https://aws.amazon.com/s3/pricing/"),
    "S3, gets": Price(0.0004, 1e3, "requests", "https://aws.amazon.com/s3/pricing/"),
    "EMR Serverless, vCPU": Price(round(0.052624 * GRAVITON, 6), 1, "vCPU-hour", EMR),
    "EMR Serverless, memory": Price(round(0.0057785 * GRAVITON, 6), 1, "GB-hour", EMR),
    "DynamoDB, storage": Price(0.45, 1, "GB-month", DYNAMODB),
    "CloudWatch, metrics": Price(0.30, 1, "metric", CLOUDWATCH),
    "CloudWatch, alarms": Price(0.10, 1, "alarm", CLOUDWATCH),
}
"""In the order of a bill. Storage of DynamoDB is with its point-in-time recovery: $0.25 and $0.20."""

OF_REQUESTS = tuple(PRICES)[:11]
"""The lines that traffic causes, request by request."""
