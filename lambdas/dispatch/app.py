"""Notices, from the FIFO queue, claim their uploads and join a batch; a batch that is due is handed off."""

from typing import Any

from aws_lambda_powertools.utilities.batch import SqsFifoPartialProcessor, process_partial_response
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.typing import LambdaContext

from lambdas.shared import count, logger
from tidegate import wiring
from tidegate.core.errors import FenceLost, Rejected
from tidegate.core.routes import Route
from tidegate.flows.dispatch import dispatch
from tidegate.flows.settle import advance


@logger.inject_lambda_context
def handler(event: dict[str, Any], context: LambdaContext) -> Any:
    app = wiring.application()
    ledger, work, jobs = app.ledger(), app.work(), app.jobs(context)
    touched: dict[str, Route] = {}

    def handle(record: SQSRecord) -> None:
        try:
            route = dispatch(
                record.body,
                routes=app.routes,
                ledger=ledger,
                work=work,
                topic=app.topic(context.aws_request_id),
                new_id=wiring.new_id,
                count=count,
            )
            touched[route.name] = route
        except Rejected as error:
            logger.error("a message was set aside", extra={"reason": str(error), "message_id": record.message_id})
            app.notices_dead_letters().set_aside(record.body, str(error))
        except FenceLost as error:
            logger.warning(str(error))

    # one route's trouble gives back that route's messages only
    processor = SqsFifoPartialProcessor(skip_group_on_error=True)
    processor.raise_on_entire_batch_failure = False
    answer = process_partial_response(event=event, record_handler=handle, processor=processor, context=context)
    for route in touched.values():
        try:
            advance(route, ledger=ledger, work=work, jobs=jobs, clock=wiring.clock, next_look=0, count=count)
        except Exception as error:
            # the notices are registered and safe: the schedule hands them off, so none of them is given back
            logger.error("the hand-off failed and will be tried again", extra={"reason": str(error)})
            count("HandOffsFailed", 1, route.name)
    return answer
