"""A bucket, as obstore (Rust) opens it, with the credentials, the endpoint and the region that boto3 finds."""

import os
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from obstore.auth.boto3 import Boto3CredentialProvider
from obstore.store import S3Store

CREDENTIALS_LIVE = timedelta(minutes=10)
"""How long obstore may use credentials before it requests them again: boto3 renews them only in their last 15
minutes."""


def s3_store(
    bucket: str, *, endpoint: str = "", region: str = "", hosted: bool = False, headers: Mapping[str, str] | None = None
) -> S3Store:
    """Endpoint and region are those of the environment, if none is given. `hosted`: where there is no endpoint, the
    bucket is in the name of the host, and not in the path. `headers` go with each request."""
    endpoint = endpoint or os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""
    region = region or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or ""
    # boto3's credentials, because boto3 finds them in every place of AWS, and renews them
    config: dict[str, Any] = {"credential_provider": Boto3CredentialProvider(ttl=CREDENTIALS_LIVE)}
    client_options: Any = {"allow_http": endpoint.startswith("http://")}
    if headers:
        # object_store signs default headers along with its own, as S3 demands of every x-amz-* header
        client_options["default_headers"] = dict(headers)
    if region:
        config["region"] = region
    if endpoint:
        config["endpoint"] = endpoint
    config["virtual_hosted_style_request"] = hosted and not endpoint
    return S3Store(bucket, client_options=client_options, **config)
