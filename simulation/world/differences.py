"""The known differences from AWS, of the simulated services and of the emulators in tests/conformance.

`python -m simulation evidence --sections differences` writes the table into docs/simulation.md.
"""

from dataclasses import dataclass

from simulation.world.expressions import Unsupported

SIMULATED = "simulated"
MOTO = "moto"
LOCAL = "dynamodb-local"


@dataclass(frozen=True)
class Difference:
    """`tests` fail on `backend`. `does` is its behaviour, `aws` that of AWS, `effect` why that does no harm."""

    backend: str
    tests: tuple[str, ...]
    does: str
    aws: str
    effect: str
    raises: tuple[type[Exception], ...] = (AssertionError,)


CHECKED_ELSEWHERE = "the ledger's contract runs on DynamoDB Local"
NOT_USED = "the product does not do this"
REPAIRED = "the local stack repairs it"

DIFFERENCES: tuple[Difference, ...] = (
    Difference(
        SIMULATED,
        (
            "test_parentheses_may_not_be_doubled",
            "test_an_attribute_is_not_compared_with_itself",
            "test_an_expression_may_not_leave_values_unused",
            "test_an_expression_may_not_leave_names_unused",
            "test_an_expression_may_not_name_a_reserved_word",
            "test_an_update_may_not_write_a_key",
        ),
        "evaluates expressions that break DynamoDB's syntax",
        "refuses them (`ValidationException`)",
        CHECKED_ELSEWHERE,
    ),
    Difference(
        SIMULATED,
        (
            "test_adding_text_is_refused",
            "test_adding_a_number_to_a_text_is_refused",
            "test_setting_from_what_is_not_there_is_refused",
        ),
        "stops at an update whose operand has the wrong type",
        "refuses it (`ValidationException`)",
        "the run fails loudly",
        raises=(TypeError, Unsupported),
    ),
    Difference(
        SIMULATED,
        ("test_a_token_stands_for_one_content",),
        "answers a transaction with a known token as done",
        "refuses other content (`IdempotentParameterMismatchException`)",
        "only the SDK's retries repeat a token",
    ),
    Difference(
        MOTO,
        ("test_a_transaction_with_the_same_token_is_done_once", "test_a_token_stands_for_one_content"),
        "ignores a transaction's token",
        "applies it once for each token, for 10 minutes",
        "the ledger does not rely on the token (`tests/contract/test_dynamo_ledger.py`)",
    ),
    Difference(
        MOTO,
        ("test_what_is_not_there_has_no_size",),
        "fails at the size of a missing attribute",
        "lets the comparison fail",
        "the ledger checks first that the attribute exists",
    ),
    Difference(
        MOTO,
        ("test_a_number_is_neither_before_nor_after_a_text",),
        "fails at an order comparison of two types",
        "lets the comparison fail",
        NOT_USED,
    ),
    Difference(MOTO, ("test_true_is_not_one",), "treats true and 1 as equal", "distinguishes them by type", NOT_USED),
    Difference(
        MOTO,
        ("test_an_attribute_is_not_compared_with_itself",),
        "compares an attribute with itself",
        "refuses that (`ValidationException`)",
        NOT_USED,
    ),
    Difference(
        MOTO,
        (
            "test_an_insert_puts_the_item",
            "test_an_insert_changes_nothing_that_is_there",
            "test_an_item_may_be_inserted_once_in_a_request",
            "test_a_request_has_25_inserts_at_most",
        ),
        "fails at one of several inserts with parameters",
        "carries it out, or answers with `DuplicateItem`",
        REPAIRED,
        raises=(TypeError,),
    ),
    Difference(
        SIMULATED,
        ("test_a_put_tells_its_version",),
        "does not return the version of a put",
        "returns it",
        "the product reads no version from the answer",
    ),
    Difference(
        SIMULATED,
        ("test_the_bucket_of_another_account_is_refused",),
        "accepts any expected owner",
        "refuses a bucket of another owner (403 `AccessDenied`)",
        "not tried: no bucket changes its owner",
    ),
    Difference(
        MOTO,
        ("test_the_bucket_of_another_account_is_refused",),
        "ignores the expected owner",
        "refuses a bucket of another owner (403 `AccessDenied`)",
        "tests check that the request has the owner",
    ),
    Difference(
        MOTO,
        ("test_what_is_too_old_is_lost",),
        "delivers nothing behind an expired message",
        "deletes it and delivers the others",
        REPAIRED,
    ),
    Difference(
        MOTO,
        ("test_a_batch_that_was_not_deleted_comes_again_whole_and_in_order",),
        "redelivers only the last message of a FIFO batch",
        "redelivers the batch, in order",
        REPAIRED,
    ),
    Difference(
        MOTO,
        ("test_an_expired_receipt_deletes_nothing_of_a_fifo_queue",),
        "accepts a FIFO message's receipt handle after its visibility timeout",
        "refuses it",
        "the local stack does so, too; only the simulation shows a late acknowledgement",
    ),
    Difference(
        MOTO,
        (
            "test_a_repeat_of_what_was_received_and_deleted_is_dropped",
            "test_a_repeat_of_what_was_consumed_is_not_delivered",
        ),
        "forgets a deduplication id when its message is deleted",
        "remembers it for 5 minutes",
        REPAIRED,
    ),
    Difference(
        MOTO,
        ("test_too_many_bytes_at_once_are_refused",),
        "publishes any size to a topic",
        "refuses more than 256 KiB (`BatchRequestTooLong`)",
        "tests check the sizes of packed notices",
    ),
    Difference(
        MOTO,
        ("test_a_run_is_known_by_its_token",),
        "ignores the token of a job run",
        "returns the earlier run",
        "decision 3 allows two drivers; the local stack has its own endpoint",
    ),
    Difference(
        MOTO,
        ("test_a_run_that_has_just_been_started_has_not_ended",),
        "ends a job run at once",
        "runs it",
        "the local stack's own endpoint runs the real `spark-submit`",
    ),
)


def table_of_differences() -> str:
    """A Markdown table for docs/simulation.md."""
    rows = ["| where | what it does | what AWS does | what follows |", "|---|---|---|---|"]
    rows += [f"| {each.backend} | {each.does} | {each.aws} | {each.effect} |" for each in DIFFERENCES]
    return "\n".join(rows)
