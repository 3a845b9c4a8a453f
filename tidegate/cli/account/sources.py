"""Judgements about what the configuration names and the stack does not make: an event bus, and the inventories by which
audits find uploads."""

from tidegate.cli.account.ask import Absent, Answer, Found, cannot_tell, fails
from tidegate.cli.checks import Check, CheckState
from tidegate.core.inventories import OLDEST, recent
from tidegate.core.quantities import duration

_TABLES = {
    "s3-metadata-inventory": "InventoryTableConfigurationResult",
    "s3-metadata-journal": "JournalTableConfigurationResult",
}
"""Where GetBucketMetadataConfiguration answers for the tables that `audit_from` can name
(https://docs.aws.amazon.com/AmazonS3/latest/API/API_MetadataConfigurationResult.html)."""


def bus(name: str, answer: Answer) -> Check:
    """The event bus of [announce], other than the default one, which every account has."""
    line = f"event bus {name}"
    match answer:
        case Found():
            return Check(line, CheckState.OK, "exists")
        case Absent():
            return fails(
                line,
                "does not exist: committed batches wait to be announced",
                f"aws events create-event-bus --name {name}, or correct `bus` in [announce]",
            )
    return cannot_tell(line, "whether it exists", answer)


def inventory(route: str, folder: str, answer: Answer, now: int) -> Check:
    """An S3 Inventory. `answer` has the folders in the one that `audit_from` names; `now` is in epoch seconds."""
    line = f"inventory of {route}"
    advice = "correct `audit_from`, or switch S3 Inventory on for the bucket: the first list comes within two days"
    if isinstance(answer, Absent):
        return fails(line, f"the bucket of {folder} does not exist", advice)
    if not isinstance(answer, Found):
        return cannot_tell(line, f"whether there are lists in {folder}", answer)
    names = (each["Prefix"].rstrip("/").rpartition("/")[2] for each in answer.body.get("CommonPrefixes", ()))
    lists = recent(names, now)
    if not lists:
        return fails(line, f"{folder} has no list of the last {duration(OLDEST)}: audits of it fail", advice)
    return Check(line, CheckState.OK, f"the newest list in {folder} was begun at {lists[0]}")


def metadata(route: str, source: str, bucket: str, answer: Answer) -> Check:
    """A table of S3 Metadata; `source` is what `audit_from` says."""
    line = f"inventory of {route}"
    advice = "switch S3 Metadata on for the bucket, or choose another source: docs/operations.md, Large buckets"
    if isinstance(answer, Absent):
        return fails(line, f"S3 Metadata is not switched on for {bucket}: audits of it fail", advice)
    if not isinstance(answer, Found):
        return cannot_tell(line, f"whether S3 Metadata is switched on for {bucket}", answer)
    result = answer.body.get("GetBucketMetadataConfigurationResult", {}).get("MetadataConfigurationResult", {})
    table = result.get(_TABLES[source])
    if table is None or table.get("ConfigurationState") == "DISABLED":
        return fails(line, f"S3 Metadata of {bucket} has no table for {source}: audits of it fail", advice)
    status, error = table.get("TableStatus", "unknown"), table.get("Error", {})
    if status == "ACTIVE":
        return Check(line, CheckState.OK, f"the table of {source} is ACTIVE for {bucket}")
    told = f": {error['ErrorCode']}: {error.get('ErrorMessage', '')}" if error.get("ErrorCode") else ""
    finding = f"the table of {source} is {status} for {bucket}{told}"
    if status == "FAILED":
        return fails(line, finding, advice)
    return Check(line, CheckState.WARN, finding, "wait until it is ACTIVE, and check again")
