"""What the three functions share: a logger, metrics, and the counter that flows write to."""

from aws_lambda_powertools import Logger, Metrics, single_metric
from aws_lambda_powertools.metrics import MetricUnit

logger = Logger()
metrics = Metrics()


def count(name: str, value: int, route: str = "") -> None:
    """Count in CloudWatch's embedded format, by route where there is one."""
    if not value:
        return
    if route:
        with single_metric(name=name, unit=MetricUnit.Count, value=value) as metric:
            metric.add_dimension(name="route", value=route)
    else:
        metrics.add_metric(name=name, unit=MetricUnit.Count, value=value)
