"""Maintain: once an hour, start the job that maintains the tables, or look how it has ended."""

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from lambdas.shared import logger, measure
from tidegate import wiring
from tidegate.flows.maintain import MaintenanceLook, maintain_on_schedule
from tidegate.settings.fixed import MAINTAINED_EVERY


@logger.inject_lambda_context
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, int]:
    deployment = wiring.this_deployment()
    settings = deployment.settings
    looks = maintain_on_schedule(
        settings.maintained_tables(),
        settings.maintain_limits(),
        MAINTAINED_EVERY,
        deployment.ports(context.aws_request_id, measure=measure),
        deployment.maintenance(),
        routes=deployment.routes,
        asked_for=settings.tables_asked_for(),
    )
    for look in looks:
        _tell(look)
    return {"looked_at": len(looks)}


def _tell(look: MaintenanceLook) -> None:
    if look.failure:
        logger.error("the tables were not maintained", extra={"run": look.run, "job": look.job, "reason": look.failure})
    elif look.done is None:
        logger.info("a job maintains the tables", extra={"run": look.run, "job": look.job})
    for table in look.done.tables if look.done else ():
        about = {"run": look.run, "table": table.table, "remarks": table.remarks}
        if table.trouble:
            logger.error("a table was not maintained", extra={**about, "reason": table.trouble})
        else:
            logger.info("maintained", extra={**about, "compacted": table.compacted, "expired": table.expired})
        if table.table in look.behind and not table.trouble:
            logger.error("a table was not maintained for three runs in a row: the remarks say why", extra=about)
