"""Intake: S3's notifications from the buffer queue become notices on the topic."""

from typing import Any

from aws_lambda_powertools.utilities.data_classes import SQSEvent, event_source
from aws_lambda_powertools.utilities.typing import LambdaContext

from lambdas.shared import logger, measure
from tidegate import wiring
from tidegate.core.uploads import Upload
from tidegate.flows.intake import intake
from tidegate.flows.ports import Delivery


@logger.inject_lambda_context
@event_source(data_class=SQSEvent)
def handler(event: SQSEvent, context: LambdaContext) -> dict[str, Any]:
    deployment = wiring.this_deployment()
    strays: list[Upload] = []
    troubles: list[str] = []
    give_back = intake(
        [Delivery(record.message_id, record.body) for record in event.records],
        deployment.ports(context.aws_request_id, measure=measure),
        routes=list(deployment.routes.values()),
        ignore=deployment.settings.operations.ignored,
        tell=strays.append,
        tell_trouble=troubles.append,
    )
    if strays:
        # one log line for all of them: the alarm has the count, the log an example
        logger.warning(
            "uploads were announced that no route takes", extra={"uploads": len(strays), "for_example": strays[0].uri}
        )
    if give_back:
        logger.error(
            "messages were given back and will be delivered again",
            extra={"messages": len(give_back), "reason": "; ".join(dict.fromkeys(troubles))},
        )
    return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in sorted(give_back)]}
