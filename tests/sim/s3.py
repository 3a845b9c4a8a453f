"""S3: versions, conditional reads and writes, listings that are never behind."""

import hashlib
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

from botocore.awsrequest import AWSPreparedRequest

from tests.sim.kernel import Kernel
from tests.sim.shelves import Shelved
from tests.sim.wire import Answer, Refusal, body_of


@dataclass(frozen=True)
class Version:
    """One version of one object, as it was put. `number` counts the puts of the world."""

    number: int
    bucket: str
    key: str
    version_id: str
    etag: str
    body: bytes
    at: float

    @property
    def sequencer(self) -> str:
        return f"{self.number:016X}"


def _folder(key: str) -> str:
    return key[: key.rfind("/") + 1]


@dataclass
class Bucket:
    versioned: bool
    current: Shelved[str, Version] = field(default_factory=lambda: Shelved(_folder))
    versions: dict[tuple[str, str], Version] = field(default_factory=dict)


class S3:
    """`on_put` is told of every version put from outside into a bucket that has notifications."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.buckets: dict[str, Bucket] = {}
        self.on_put: Callable[[Version], None] = lambda version: None
        self._numbers = itertools.count(1)

    # ---- what people do

    def put(self, bucket: str, key: str, body: bytes) -> Version:
        number = next(self._numbers)
        version = Version(
            number=number,
            bucket=bucket,
            key=key,
            version_id=f"v{number:04}" if self.buckets[bucket].versioned else "",
            etag=hashlib.md5(body).hexdigest(),
            body=body,
            at=self.kernel.now,
        )
        self.buckets[bucket].current[key] = version
        if version.version_id:
            self.buckets[bucket].versions[key, version.version_id] = version
        self.on_put(version)
        return version

    def delete(self, bucket: str, key: str) -> None:
        """In a versioned bucket the versions stay: a marker hides them."""
        self.buckets[bucket].current.pop(key, None)

    # ---- what the SDK asks

    def answer(self, operation: str, request: AWSPreparedRequest) -> Answer:
        parts = urlsplit(request.url)
        query = {name: values[0] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
        host, path = parts.netloc, unquote(parts.path.lstrip("/"))
        name = host.split(".s3.")[0] if ".s3." in host else ""
        if not name:
            name, _, path = path.partition("/")
        if name not in self.buckets:
            raise Refusal(404, "NoSuchBucket", f"bucket {name} does not exist")
        bucket = self.buckets[name]
        if operation == "GetObject":
            return self._get(bucket, path, query.get("versionId", ""), _header(request, "If-Match"))
        if operation == "PutObject":
            return self._put(name, path, body_of(request), _header(request, "If-None-Match"))
        if operation == "HeadBucket":
            return Answer()
        assert operation == "ListObjectsV2", f"S3 {operation} is not simulated"
        return self._list(bucket, query.get("prefix", ""))

    def _get(self, bucket: Bucket, key: str, version_id: str, if_match: str) -> Answer:
        found = bucket.versions.get((key, version_id)) if version_id else bucket.current.get(key)
        if found is None:
            raise Refusal(404, "NoSuchVersion" if version_id else "NoSuchKey", f"{key} is not there")
        if if_match and if_match.strip('"') != found.etag:
            raise Refusal(412, "PreconditionFailed", "At least one of the preconditions you specified did not hold")
        headers = {"ETag": f'"{found.etag}"', "Content-Type": "binary/octet-stream"}
        if found.version_id:
            headers["x-amz-version-id"] = found.version_id
        return Answer(200, found.body, headers)

    def _put(self, name: str, key: str, body: bytes, if_none_match: str) -> Answer:
        if if_none_match == "*" and key in self.buckets[name].current:
            raise Refusal(412, "PreconditionFailed", "At least one of the preconditions you specified did not hold")
        version = self.put(name, key, body)
        return Answer(200, b"", {"ETag": f'"{version.etag}"'})

    def _list(self, bucket: Bucket, prefix: str) -> Answer:
        found = sorted(
            key
            for folder, keys in bucket.current.shelves.items()
            if folder.startswith(prefix) or prefix.startswith(folder)
            for key in keys
            if key.startswith(prefix)
        )
        contents = "".join(
            f"<Contents><Key>{escape(key)}</Key><ETag>&quot;{bucket.current[key].etag}&quot;</ETag>"
            f"<Size>{len(bucket.current[key].body)}</Size></Contents>"
            for key in found
        )
        text = f"<ListBucketResult><KeyCount>{len(found)}</KeyCount><IsTruncated>false</IsTruncated>{contents}"
        return Answer(200, f"{text}</ListBucketResult>".encode(), {"Content-Type": "application/xml"})


def _header(request: AWSPreparedRequest, name: str) -> str:
    value = request.headers.get(name, "")
    return value.decode() if isinstance(value, bytes) else value
