"""Where moto differs from AWS in what the product relies on: mended here, so that no line of the product knows of it.

Each mend is a function that is named after what AWS does, with the page that says so.

    notifications    what S3 tells of an upload
    keys             what an object may be called, and where a listing goes on
    queues           order, deduplication and expiry of messages
    statements       inserts into a table
    costs            nothing that AWS does otherwise: what moto does at a price that grows with all that it holds

A test leaves each of them out in turn, and wants to see what it is for go wrong (tests/functional/test_local_mends.py).
"""

from __future__ import annotations

from collections.abc import Callable

from tidegate_local.mends import costs, keys, notifications, queues, statements

MENDS: tuple[Callable[[], None], ...] = (
    notifications.notifications_name_the_version,
    notifications.notifications_of_a_key_are_in_order,
    notifications.notifications_encode_keys,
    notifications.filters_are_compared_with_encoded_keys,
    notifications.a_multipart_upload_is_told_when_it_completes,
    notifications.a_delete_marker_is_told,
    keys.keys_may_hold_line_breaks,
    keys.a_listing_of_versions_goes_on_after_any_text,
    queues.queues_keep_order_and_deduplication,
    statements.inserts_put_what_is_not_there,
    costs.a_listing_copies_no_object,
    costs.a_query_reads_its_partition_only,
    costs.a_transaction_copies_its_items_only,
)


def mend(*, but: str = "") -> None:
    """Every mend, once in a process, except the one that is called `but`."""
    for each in MENDS:
        if each.__name__ != but:
            each()
