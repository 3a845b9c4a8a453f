"""A lock in DynamoDB with a time to live, deleted when the work fails: Substation's `meta_kv_store_lock`.

The lock is put if it is absent or expired (`attribute_not_exists(pk) OR ttl <= now`). Whoever does not get it passes
the message on untouched. When anything fails between two checkpoints, the locks of that stretch are deleted, an error
of the deletion ignored, and the error raised, so that the source delivers again; here a stretch is one message. It is
not deleted after success: it expires. `ttl_offset` is 1 minute in its author's example, and what it should be is left
to the user, so a day is tried as well.

https://github.com/brexhq/substation (`internal/kv/aws_dynamodb.go`, `transform/meta_kv_store_lock.go`)
"""

import contextlib
import time

from botocore.exceptions import BotoCoreError, ClientError

from simulation.comparison.deployment import SchemeDeployment
from simulation.comparison.schemes.scheme import AnnouncedUpload, Arrival, Scheme, client, put_if

TABLE = "locks"


class Lock(Scheme):
    def __init__(self, here: SchemeDeployment, *, seconds: int) -> None:
        self._seconds = seconds
        super().__init__(here)

    def handle(self, upload: AnnouncedUpload, arrival: Arrival) -> None:
        key = {"pk": {"S": f"upload:{upload.identity}"}, "sk": {"S": "substation:kv_store"}}
        if not self._locked(key):
            return
        try:
            self.work(upload)
        except Exception:
            with contextlib.suppress(ClientError, BotoCoreError):
                client("dynamodb").delete_item(TableName=TABLE, Key=key)
            raise

    def _locked(self, key: dict[str, dict[str, str]]) -> bool:
        now = int(time.time())
        return put_if(
            "attribute_not_exists(#pk) OR #ttl <= :now",
            TABLE,
            {**key, "ttl": {"N": str(now + self._seconds)}},
            ExpressionAttributeNames={"#pk": "pk", "#ttl": "ttl"},
            ExpressionAttributeValues={":now": {"N": str(now)}},
        )
