"""Who may call an endpoint of this machine: programs, by a name of this machine. A page in a browser may not.

A page of another site sends `Origin` as soon as it does more than look. And a page whose own name was made to lead to
127.0.0.1 (DNS rebinding) may look, too: for the browser the endpoint is that page's own site. What it cannot choose is
`Host`, which has the page's name.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

HOSTS = ("127.0.0.1", "[::1]", "localhost")
"""With any port, which may be forwarded. Names below `localhost` are of this machine, too: no DNS may have one (RFC
6761, 6.3), and clients of S3 put the bucket there."""
CALLED_AS = "TIDEGATE_CALLED_AS"
"""A variable with further names and addresses, with commas between them: those by which somebody wants the endpoints to
be called from elsewhere, for example from containers."""

_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::[0-9]+)?", re.IGNORECASE)

WsgiApplication = Callable[..., Iterable[bytes]]


class Programs:
    """A WSGI middleware that lets programs through, and no pages."""

    def __init__(self, application: WsgiApplication, environment: Mapping[str, str] = os.environ) -> None:
        self.application = application
        self.hosts = frozenset((*HOSTS, *filter(None, environment.get(CALLED_AS, "").lower().split(","))))

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if why := self._refusal(environ.get("HTTP_ORIGIN", ""), environ.get("HTTP_HOST", "")):
            # JSON's clients among AWS's SDKs take a text for the message
            start_response("403 Forbidden", [("Content-Type", "text/plain"), ("x-amzn-ErrorType", "AccessDenied")])
            return [why.encode()]
        return self.application(environ, start_response)

    def _refusal(self, origin: str, host: str) -> str:
        if origin:
            return "requests from web pages are refused"
        named = _HOST.fullmatch(host)
        name = named[1].lower() if named else ""
        if name not in self.hosts and not name.endswith(".localhost"):
            return f"this endpoint is not called {host!a}: call it {HOSTS[0]}"
        return ""
