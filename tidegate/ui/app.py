"""Which address is which page, for whom, and what is said if it cannot be shown. A WSGI application."""

import logging
import time
from collections.abc import Callable, Iterable
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from werkzeug.exceptions import HTTPException
from werkzeug.routing import Map, Rule
from werkzeug.wrappers import Request, Response

from tidegate.cli.terminal import counted, duration, size
from tidegate.ui import pages
from tidegate.ui.failures import Trouble, trouble
from tidegate.ui.guard import HEADERS, Asked, Door, Secrets, door
from tidegate.ui.pages import Page
from tidegate.ui.questions import Questions

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

MOST_BYTES = 64_000
"""Of a form."""
STATIC = {"style.css": "text/css; charset=utf-8", "live.js": "text/javascript; charset=utf-8"}
LIVE = "live"
"""The field of an address that asks for the part of a page that changes."""
TOKEN = "token"

ADDRESSES = Map(
    [
        Rule("/", methods=["GET"], endpoint=pages.flow),
        Rule("/route/<name>", methods=["GET"], endpoint=pages.route),
        Rule("/batches", methods=["GET"], endpoint=pages.batches),
        Rule("/quarantine", methods=["GET"], endpoint=pages.quarantine),
        Rule("/quarantine/release", methods=["GET"], endpoint=pages.confirm),
        Rule("/quarantine/release", methods=["POST"], endpoint=pages.release),
        Rule("/trace", methods=["GET"], endpoint=pages.trace),
    ]
)

log = logging.getLogger(__name__)


class Ui:
    """`cookie` is the name of the cookie: cookies do not know ports, and two of these may run side by side."""

    def __init__(
        self, questions: Questions, known: Secrets, *, cookie: str, now: Callable[[], float] = time.time
    ) -> None:
        self._questions = questions
        self._known = known
        self._cookie = cookie
        self._now = now
        self._templates = templates()

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        request = Request(environ)
        request.max_content_length = MOST_BYTES
        response = self._answer(request)
        response.headers.update(HEADERS)
        return response(environ, start_response)

    def _answer(self, request: Request) -> Response:
        entered = False
        try:
            found = door(self._asked(request), self._known)
            if found is Door.FOREIGN:
                return self._closed(request, found, 400)
            if request.path.startswith("/static/"):
                return _static(request.path.removeprefix("/static/"))
            if found is Door.ENTER:
                return self._enter(request)
            if found is not Door.OPEN:
                return self._closed(request, found, 403)
            entered = True
            address = ADDRESSES.bind_to_environ(request.environ)
            show, values = address.match()
            given = request.form if _changes(request) else request.args
            page = show(self._questions, given, int(self._now()), **values)
            if page.moved_to:
                return Response(status=page.status, headers={"Location": page.moved_to})
            return self._render(request, page)
        except HTTPException as error:
            return self._told(request, trouble(error), entered)
        except Exception as error:
            told = trouble(error)
            if told.bug:
                log.exception("the page %s could not be made", request.path)
            return self._told(request, told, entered)

    def _asked(self, request: Request) -> Asked:
        changes = _changes(request)
        return Asked(
            host=request.environ.get("HTTP_HOST", ""),
            token=request.args.get(TOKEN, ""),
            cookie=request.cookies.get(self._cookie, ""),
            changes=changes,
            origin=request.headers.get("Origin", ""),
            site=request.headers.get("Sec-Fetch-Site", ""),
            form=request.form.get("form", "") if changes else "",
        )

    def _enter(self, request: Request) -> Response:
        """The page goes on by itself, and not by a redirect: a browser that came from elsewhere, from a mail or from
        the page of a terminal, would not send the new cookie with that (SameSite=Strict)."""
        response = self._render(request, Page("enter.html"))
        response.set_cookie(self._cookie, self._known.session, httponly=True, samesite="Strict", path="/")
        return response

    def _closed(self, request: Request, found: Door, status: int) -> Response:
        return self._render(request, Page("closed.html", {"door": found.name}, status=status), entered=False)

    def _told(self, request: Request, told: Trouble, entered: bool) -> Response:
        shown = {"trouble": told, "changes": _changes(request)}
        return self._render(request, Page("trouble.html", shown, status=told.status), entered=entered)

    def _render(self, request: Request, page: Page, *, entered: bool = True) -> Response:
        """Who is not let in is not told which deployment this is."""
        part = LIVE in request.args
        values = {
            "layout": "part.html" if part else "page.html",
            "deployment": self._questions.name if entered else "",
            "path": request.path,
            "now": int(self._now()),
            "every": page.every,
            "form_token": self._known.form,
            **page.shown,
        }
        return Response(self._templates.get_template(page.template).render(values), page.status, mimetype="text/html")


def _changes(request: Request) -> bool:
    return request.method not in ("GET", "HEAD")


def _static(name: str) -> Response:
    if name not in STATIC:
        return Response("there is no such file\n", 404, mimetype="text/plain")
    return Response(files("tidegate.ui").joinpath("static", name).read_bytes(), content_type=STATIC[name])


def templates() -> Environment:
    """The templates, which escape what they are given, and refuse a name that they are not given."""
    made = Environment(
        loader=PackageLoader("tidegate.ui"),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "number": "{:,}".format,
        "counted": counted,
        "size": size,
        "duration": duration,
        "clock": _clock,
    }
    return made


def _clock(iso: Any) -> str:
    """A time of a document, shorter: 2026-11-21 10:21:00."""
    return str(iso or "").replace("T", " ").removesuffix("Z")
