"""Dispatch: notices from the FIFO queue claim their uploads and join a batch. A batch that is due is handed off."""

from typing import Any

from aws_lambda_powertools.utilities.batch import SqsFifoPartialProcessor, process_partial_response
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.typing import LambdaContext

from lambdas.shared import logger, measure
from tidegate import wiring
from tidegate.core.errors import Rejected, Retryable, TidegateError
from tidegate.core.routes import Route
from tidegate.flows.dispatch import receive
from tidegate.flows.settle import advance_each


@logger.inject_lambda_context
def handler(event: dict[str, Any], context: LambdaContext) -> Any:
    deployment = wiring.this_deployment()
    ports = deployment.ports(context.aws_request_id, measure=measure, lambda_context=context)
    touched: dict[str, Route] = {}
    time = context.get_remaining_time_in_millis()

    def handle(record: SQSRecord) -> None:
        try:
            take(record)
        except Exception as error:
            # nothing else says why: Powertools gives the message back in silence
            said = str(error) if isinstance(error, TidegateError) else f"{type(error).__name__}: {error}"
            logger.error("a notice was given back", extra={"reason": said, "message_id": record.message_id})
            raise

    def take(record: SQSRecord) -> None:
        # An invocation that does not end acknowledges nothing, and its messages would meet the same end again. So in
        # the second half of its time none is begun: those before it are acknowledged, and it is given back.
        if context.get_remaining_time_in_millis() < time / 2:
            raise Retryable("the ledger is slow: half of the time was over before this notice; it will be tried again")
        match receive(record.body, ports, routes=deployment.routes):
            case Rejected() as error:
                logger.error("a message was set aside", extra={"reason": str(error), "message_id": record.message_id})
            case route:
                touched[route.name] = route

    # an error gives back the messages of its lane only
    processor = SqsFifoPartialProcessor(skip_group_on_error=True)
    processor.raise_on_entire_batch_failure = False
    answer = process_partial_response(event=event, record_handler=handle, processor=processor, context=context)
    for trouble in advance_each(touched.values(), ports):
        logger.error("the hand-off failed and will be tried again", extra={"reason": str(trouble)})
    return answer
