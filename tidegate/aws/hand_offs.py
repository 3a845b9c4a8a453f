"""Powertools' records of started jobs: each (batch, attempt) is started once, as long as they are remembered."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from aws_lambda_powertools.utilities.idempotency import (
    BasePersistenceLayer,
    DynamoDBPersistenceLayer,
    IdempotencyConfig,
    idempotent_function,
)
from aws_lambda_powertools.utilities.idempotency.exceptions import BaseError, IdempotencyAlreadyInProgressError

from tidegate.core.batches import Batch
from tidegate.core.errors import OutcomeUnknown

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext
    from types_boto3_dynamodb import DynamoDBClient


def records_in(table: str, client: "DynamoDBClient") -> DynamoDBPersistenceLayer:
    """Powertools' records of hand-offs, in the ledger's table. Create one for each process, not for each invocation:
    each adds a handler to the client that runs with every later request
    (`aws_lambda_powertools.shared.user_agent`)."""
    return DynamoDBPersistenceLayer(
        table_name=table,
        key_attr="pk",
        sort_key_attr="sk",
        static_pk_value="h#hand-off",
        expiry_attr="expires_at",
        in_progress_expiry_attr="in_progress_expires_at",
        boto3_client=client,
    )


def once(
    start: Callable[..., str], records: BasePersistenceLayer, seconds: int, lambda_context: "LambdaContext | None"
) -> Callable[..., str | None]:
    """`start`, which returns the id of a job run, remembered for so many seconds by its argument `hand_off`.

    The result returns None while another process starts the same job. It raises OutcomeUnknown if the records cannot be
    read or written: the job may have been started.
    """
    config = IdempotencyConfig(expires_after_seconds=seconds, hash_function="sha256")
    if lambda_context is not None:
        config.register_lambda_context(lambda_context)
    remembered = idempotent_function(
        start,
        data_keyword_argument="hand_off",
        # else the key contains the function's name, and settle would start again what dispatch started
        key_prefix="hand-off",
        config=config,
        persistence_store=records,
    )

    def start_once(*, batch: Batch, **named: object) -> str | None:
        try:
            job_run: str = remembered(batch=batch, **named)
        except IdempotencyAlreadyInProgressError:
            return None
        except BaseError as error:
            raise OutcomeUnknown(
                f"could not start the job of batch {batch.id}, attempt {batch.attempt}: {error}"
            ) from error
        return job_run

    return start_once
