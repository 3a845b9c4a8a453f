"""A small JSON endpoint on 127.0.0.1, for the parts of AWS that this machine imitates itself."""

from __future__ import annotations

import json
import socket
import traceback
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from werkzeug.exceptions import HTTPException
from werkzeug.routing import Map, Rule
from werkzeug.serving import WSGIRequestHandler, make_server
from werkzeug.wrappers import Request as WerkzeugRequest
from werkzeug.wrappers import Response

from tidegate_local.callers import Programs

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment


class RefusedRequest(Exception):
    """An error as AWS answers it: the SDKs read `code` from a header and the text from the body."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class Request(WerkzeugRequest):
    @property
    def json(self) -> Any:
        """The body, `{}` if there is none. Raises RefusedRequest."""
        try:
            return json.loads(self.get_data() or b"{}")
        except ValueError as error:
            raise RefusedRequest(400, "SerializationException", f"the body is not JSON: {error}") from error


Handler = Callable[..., Response]
"""It is given the request and the values of the placeholders, by name."""
HttpRoute = tuple[str, str, Handler]
"""Method, path, handler: `("GET", "/applications/<application>", get_application)`."""


def answer(body: Any = None, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    text = b"" if body is None else json.dumps(body)
    return Response(text, status, headers, content_type="application/json")


class Endpoint:
    def __init__(self, listener: socket.socket, routes: Iterable[HttpRoute]) -> None:
        rules = [Rule(path, methods=[method], endpoint=handler) for method, path, handler in routes]
        # a path is matched as it came, so that an encoded slash is part of a value
        self.routes = Map(rules, strict_slashes=False, merge_slashes=False).bind("")
        host, port = listener.getsockname()
        self._application = Programs(self._answer)
        self.server = make_server(host, port, self, threaded=True, request_handler=_Connection, fd=listener.fileno())

    def serve_forever(self) -> None:
        self.server.serve_forever(poll_interval=0.2)

    def shutdown(self) -> None:
        self.server.shutdown()

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        return self._application(environ, start_response)

    def _answer(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        request = Request(environ)
        try:
            response = self._handle(request)
        except RefusedRequest as refusal:
            response = _refused(refusal)
        except Exception as error:
            traceback.print_exc()
            response = _refused(RefusedRequest(500, "InternalServerException", f"{type(error).__name__}: {error}"))
        return response(environ, start_response)

    def _handle(self, request: Request) -> Response:
        """Raises RefusedRequest."""
        path = request.environ["REQUEST_URI"].partition("?")[0]
        try:
            handler, values = self.routes.match(path, request.method)
        except HTTPException:
            raise RefusedRequest(
                404, "UnknownOperationException", f"{request.method} {path} is not imitated on this machine"
            ) from None
        return handler(request, **{name: unquote(value) for name, value in values.items()})


def _refused(refusal: RefusedRequest) -> Response:
    return answer({"message": str(refusal)}, refusal.status, {"x-amzn-ErrorType": refusal.code})


class _Connection(WSGIRequestHandler):
    disable_nagle_algorithm = True

    def log_request(self, *args: Any) -> None:
        """Requests are not logged: what matters is logged by whoever handles them."""
