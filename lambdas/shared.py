"""The logger of the functions, and their metrics in CloudWatch."""

import os

from aws_lambda_powertools import Logger
from aws_lambda_powertools.metrics import EphemeralMetrics

from tidegate.environment import DEPLOYMENT
from tidegate.metrics import Metric

logger = Logger()


def measure(metric: Metric, value: int, route: str = "") -> None:
    """Write one metric in CloudWatch's embedded format. A counter is written only if it is not zero."""
    measured = metric.value
    if not value and not measured.gauge:
        return
    # an empty service, or Powertools would add the function as a dimension
    metrics = EphemeralMetrics(service="")
    metrics.add_metric(name=measured.name, unit=measured.unit.value, value=value)
    for name, found in measured.dimensions(os.environ[DEPLOYMENT], route).items():
        metrics.add_dimension(name=name, value=found)
    metrics.flush_metrics()
