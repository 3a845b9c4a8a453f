"""Serves the pages on 127.0.0.1, and on nothing else."""

import socket
from typing import TYPE_CHECKING, Any

from werkzeug.serving import WSGIRequestHandler, make_server

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

HOST = "127.0.0.1"


class QuietConnection(WSGIRequestHandler):
    """Prints no line for a request: the first address has the token in it."""

    def log(self, type: str, message: str, *args: Any) -> None:
        pass

    def version_string(self) -> str:
        return "tidegate"


def listen(port: int) -> socket.socket:
    """A socket on this port, or on any free one if that is 0. Raises OSError if the port is taken."""
    return socket.create_server((HOST, port))


def serve(listener: socket.socket, app: "WSGIApplication") -> None:
    """Until Ctrl-C."""
    host, port = listener.getsockname()
    fd = listener.detach()  # the server closes it
    make_server(host, port, app, threaded=True, request_handler=QuietConnection, fd=fd).serve_forever()
