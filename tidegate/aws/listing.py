"""The listings of landing buckets on S3."""

from typing import TYPE_CHECKING, Any

from tidegate.aws.work import asking_s3
from tidegate.core.audit import Listed, Marker
from tidegate.core.errors import OutcomeUnknown
from tidegate.core.replacing import in_order, is_marker, listed_version
from tidegate.core.uploads import Upload
from tidegate.flows.ports import ListedPage

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client


class S3Listing:
    """`flows.ports.Listing` on ListObjectVersions, which answers for buckets with versions, without, and with suspended
    ones. A version of the id `null` is the one that is overwritten in place. `account` is the deployment's.

    A page has 1,000 versions and delete markers together, so it may have no upload at all
    (https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListObjectVersions.html).
    """

    def __init__(self, client: "S3Client", account: str = "") -> None:
        self._client = client
        self._account = account

    def page(self, bucket: str, prefix: str, after: Marker, owner: str) -> ListedPage:
        where: dict[str, Any] = {"Bucket": bucket, "Prefix": prefix}
        if expected := owner or self._account:
            where["ExpectedBucketOwner"] = expected
        if after.key:
            where["KeyMarker"] = after.key
        if after.version:
            where["VersionIdMarker"] = after.version
        with asking_s3(f"list s3://{bucket}/{prefix}"):
            answer = self._client.list_object_versions(**where)
        listed = tuple(
            Listed(
                Upload(bucket, each["Key"], version, each.get("Size", 0)),
                int(each["LastModified"].timestamp()),
                each["IsLatest"],
                is_marker(each),
            )
            for each in in_order(answer)
            if (version := listed_version(each))
        )
        if not answer["IsTruncated"]:
            return ListedPage(listed, None)
        follows = Marker(answer.get("NextKeyMarker", ""), answer.get("NextVersionIdMarker", ""))
        if follows in (after, Marker()):
            raise OutcomeUnknown(f"could not list s3://{bucket}/{prefix}: S3 does not say where the next page begins")
        return ListedPage(listed, follows)
