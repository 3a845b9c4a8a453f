"""Audit: once an hour, go on with the audit of each place that routes take or took, or begin one that is due."""

from functools import partial
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from lambdas.shared import logger, measure
from tidegate import wiring
from tidegate.core.audit import AuditFinding, Listed
from tidegate.flows.audit import audit_place
from tidegate.flows.watch import watch_places
from tidegate.settings.fixed import SENT_RATE

ENOUGH_FOR_A_PAGE = 30
"""Seconds, without the wait after it."""
LARGEST_PAGE = 1_000


def _warn(place: str, text: str) -> None:
    logger.warning("the source of an audit is not what it should be", extra={"place": place, "remark": text})


@logger.inject_lambda_context
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, int]:
    deployment = wiring.this_deployment()
    ports = deployment.ports(context.aws_request_id, measure=measure)
    needed = 1_000 * (ENOUGH_FOR_A_PAGE + LARGEST_PAGE / SENT_RATE)
    lost: list[Listed] = []
    troubles: list[Exception] = []

    def tell(listed: Listed, finding: AuditFinding) -> None:
        lost.append(listed)
        if len(lost) == 1:
            logger.warning("an upload was lost and is sent", extra={"upload": str(listed.upload), "why": finding.value})

    limits, routes = deployment.settings.audit_limits(), deployment.routes.values()
    for watched in watch_places(routes, limits, ports):
        place = str(watched.place)
        try:
            run = audit_place(
                watched,
                routes,
                limits,
                ports,
                go_on=lambda: context.get_remaining_time_in_millis() > needed,
                pace=wiring.paced(SENT_RATE),
                screens=deployment.screens(),
                remark=partial(_warn, place),
                tell=tell,
            )
        except Exception as error:
            # one place's bucket must not stop the others
            logger.error("the audit of a place failed", extra={"place": place, "reason": str(error)})
            troubles.append(error)
            continue
        if run and run.job and not run.finished_at and not run.page:
            logger.info("a job screens the bucket", extra={"place": place, "run": run.id, "job": run.job})
        if run and run.page:
            logger.info(
                "audited",
                extra={"place": place, "run": run.id, "finished": run.finished_at > 0, **run.counts.as_dict()},
            )
    if troubles:
        # an error of the function sounds its alarm, and Lambda calls it twice more
        raise troubles[0]
    return {"lost": len(lost)}
