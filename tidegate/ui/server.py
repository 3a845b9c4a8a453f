"""Serves the pages on 127.0.0.1, and on nothing else."""

import socket
from typing import TYPE_CHECKING, Any

from werkzeug.serving import WSGIRequestHandler, make_server

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication
    from werkzeug.serving import BaseWSGIServer

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


def server_on(listener: socket.socket, app: "WSGIApplication") -> "BaseWSGIServer":
    """A server that answers once it is told to serve. It closes the socket at the end."""
    host, port = listener.getsockname()
    return make_server(host, port, app, threaded=True, request_handler=QuietConnection, fd=listener.detach())
