"""Once a minute, and when a job ends: settle, seal and hand off, for every route."""

from typing import Any

from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.typing import LambdaContext

from lambdas.shared import count, logger, measure
from tidegate import wiring
from tidegate.flows.settle import routes_to_settle, settle, standing


@logger.inject_lambda_context
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, int]:
    app = wiring.application()
    ledger, work, jobs, topic = app.ledger(), app.work(), app.jobs(context), app.topic(context.aws_request_id)
    troubles: list[Exception] = []
    configured = app.routes
    unconfigured = 0
    try:
        routes = routes_to_settle(configured, ledger=ledger)
    except Exception as error:
        # what the ledger remembers of routes must not keep the configured ones from settling
        troubles.append(error)
        routes = list(configured.values())
    for route in routes:
        try:
            troubles += settle(route, ledger=ledger, work=work, jobs=jobs, topic=topic, clock=wiring.clock, count=count)
            now = standing(route, ledger=ledger, clock=wiring.clock)
            if route.name not in configured:
                unconfigured += now.unfinished
                if not now.unfinished:
                    continue  # a metric costs by the month, and the ledger forgets no route
            measure("OldestPendingSeconds", now.oldest_pending, MetricUnit.Seconds, route.name)
            measure("HaltedNow", now.halted, MetricUnit.Count, route.name)
        except Exception as error:
            # the other routes must not wait for this one
            troubles.append(error)
    measure("UnconfiguredNow", unconfigured, MetricUnit.Count)
    for trouble in troubles:
        logger.error("settling met trouble and will try again", extra={"reason": str(trouble)})
    if troubles:
        count("SettlingTroubles", len(troubles))
    return {"troubles": len(troubles)}
