"""What the three functions share: a logger, and how their measurements reach CloudWatch."""

import os

from aws_lambda_powertools import Logger
from aws_lambda_powertools.metrics import EphemeralMetrics, MetricUnit

from tidegate.environment import DEPLOYMENT

logger = Logger()


def count(name: str, value: int, route: str = "") -> None:
    """Count how often something happened, by route where there is one; nothing is written for zero."""
    if value:
        measure(name, value, MetricUnit.Count, route)


def measure(name: str, value: int, unit: MetricUnit, route: str = "") -> None:
    """Write one metric in CloudWatch's embedded format, by deployment and route; zero is an answer too.

    Not by function, which Powertools would add as `service` were it not told otherwise: CloudWatch adds nothing up
    over dimensions, and some things are counted by dispatch as well as by settle. By deployment, because an account
    may have several, and their routes the same names.
    """
    metrics = EphemeralMetrics(service="")
    metrics.add_metric(name=name, unit=unit, value=value)
    metrics.add_dimension(name="deployment", value=os.environ[DEPLOYMENT])
    if route:
        metrics.add_dimension(name="route", value=route)
    metrics.flush_metrics()
