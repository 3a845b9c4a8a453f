"""Powertools for AWS Lambda: the real idempotency decorator around the whole work.

It puts INPROGRESS if there is no record, or an expired one, or one in progress whose invocation must have been cut off;
after the work it completes the record, on an exception it deletes it, both without a condition. A repetition gets the
stored result; one that meets a record in progress is given back. Records expire after an hour by default; a day is
tried as well.

https://docs.aws.amazon.com/powertools/python/latest/utilities/idempotency/
"""

from functools import cache
from typing import Any

from aws_lambda_powertools.utilities.idempotency import DynamoDBPersistenceLayer, IdempotencyConfig, idempotent_function

from simulation.comparison.deployment import SchemeDeployment
from simulation.comparison.schemes.scheme import AnnouncedUpload, Arrival, Scheme, client


class Powertools(Scheme):
    def __init__(self, here: SchemeDeployment, *, remembers: int) -> None:
        self._remembers = remembers
        super().__init__(here)

    def handle(self, upload: AnnouncedUpload, arrival: Arrival) -> None:
        config = IdempotencyConfig(expires_after_seconds=self._remembers, hash_function="sha256")
        # without it, a killed invocation would block its key until the record expires
        config.register_lambda_context(arrival.context)
        once = idempotent_function(
            self._work_on,
            data_keyword_argument="identity",
            key_prefix="work",
            config=config,
            persistence_store=_records(client("dynamodb"), self._remembers),
        )
        once(identity=upload.identity, upload=upload)

    def _work_on(self, *, identity: str, upload: AnnouncedUpload) -> str:
        self.work(upload)
        return identity


@cache
def _records(dynamodb: Any, remembers: int) -> DynamoDBPersistenceLayer:
    """One for a process, as in a function: each that is made leaves a handler in the client, which is run with every
    request for good. And one for each expiry: a layer keeps the first configuration that it is given."""
    return DynamoDBPersistenceLayer(
        table_name="idempotency", key_attr="pk", sort_key_attr="sk", static_pk_value="i#uploads", boto3_client=dynamodb
    )
