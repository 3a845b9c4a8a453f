"""Settle: once a minute, and when a job ends, settle, seal and hand off for every route."""

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from lambdas.shared import logger, measure
from tidegate import wiring
from tidegate.flows.settle import settle_all


@logger.inject_lambda_context
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, int]:
    deployment = wiring.this_deployment()
    ports = deployment.ports(context.aws_request_id, measure=measure, lambda_context=context)
    troubles = settle_all(deployment.routes, ports)
    for trouble in troubles:
        logger.error("settling met trouble and will try again", extra={"reason": str(trouble)})
    return {"troubles": len(troubles)}
