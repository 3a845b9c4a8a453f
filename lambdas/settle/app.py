"""Once a minute, and when a job ends: settle, seal and hand off, for every route."""

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from lambdas.shared import count, logger
from tidegate import wiring
from tidegate.flows.settle import settle


@logger.inject_lambda_context
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, int]:
    app = wiring.application()
    ledger, work, jobs = app.ledger(), app.work(), app.jobs(context)
    troubles: list[Exception] = []
    for route in app.routes.values():
        try:
            troubles += settle(route, ledger=ledger, work=work, jobs=jobs, clock=wiring.clock, count=count)
        except Exception as error:
            # the other routes must not wait for this one
            troubles.append(error)
    for trouble in troubles:
        logger.error("settling met trouble and will try again", extra={"reason": str(trouble)})
    if troubles:
        count("SettlingTroubles", len(troubles))
    return {"troubles": len(troubles)}
