"""What the three functions share: a logger, and the counter that flows write to."""

from aws_lambda_powertools import Logger, single_metric
from aws_lambda_powertools.metrics import MetricUnit

logger = Logger()


def count(name: str, value: int, route: str = "") -> None:
    """Count in CloudWatch's embedded metric format, by route where there is one."""
    if value:
        with single_metric(name=name, unit=MetricUnit.Count, value=value) as metric:
            if route:
                metric.add_dimension(name="route", value=route)
