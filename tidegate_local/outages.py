"""A switch at the edge of the emulated services: a service answers 503 for some seconds, and does nothing meanwhile.

    PUT /_outages {"services": ["s3", "dynamodb"], "seconds": 5}

No bucket can be called `_outages`. What the emulator does within itself goes on, as it would inside AWS: S3 notifies
SQS, and SNS delivers what it has accepted.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from typing import Any

PATH = "/_outages"

StartResponse = Callable[..., Any]
Environ = dict[str, Any]


class Outages:
    """A WSGI middleware. `service_of` tells which service a request is for."""

    def __init__(
        self,
        application: Callable[[Environ, StartResponse], Iterable[bytes]],
        service_of: Callable[[Environ], str],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.application = application
        self.service_of = service_of
        self.clock = clock
        self._until: dict[str, float] = {}

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        if environ.get("PATH_INFO") == PATH:
            return self._switch(environ, start_response)
        if self.clock() < self._until.get(self.service_of(environ), 0.0):
            # without a body, which every protocol's parser takes for an error of the service
            start_response("503 Service Unavailable", [("Content-Length", "0")])
            return [b""]
        return self.application(environ, start_response)

    def _switch(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        try:
            asked = json.loads(environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0)))
            until = self.clock() + float(asked["seconds"])
            self._until.update({str(service): until for service in asked["services"]})
        except (ValueError, TypeError, KeyError) as error:
            start_response("400 Bad Request", [("Content-Type", "text/plain")])
            return [f'give {{"services": [...], "seconds": ...}}: {error}\n'.encode()]
        start_response("204 No Content", [])
        return [b""]
