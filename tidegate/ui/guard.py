"""Who may see a page, and who may change something. Only decisions: nothing here sends or stores anything.

The page is served over HTTP on 127.0.0.1. Whoever may call that address is not the one who started the verb: another
user of the machine, or a script of any page that is open in the browser. So:

    who asks                               what stops it
    another user, another program          the token in the printed address, then the secret of the cookie
    a page of another site (by its name    the name in `Host`: a name that was made to lead to 127.0.0.1 is not ours
      that leads here: DNS rebinding)
    a page of another site, by a form      the cookie is SameSite=Strict; `Origin` and `Sec-Fetch-Site` are compared; a
                                           form carries a token of its own
    a page of another port of this         `Origin`, and the form's token: browsers take all ports of a host for one
      machine                              site, so the cookie alone would not do
    a script in what a page shows          templates escape; the policy allows no inline script

Sources: https://cheatsheetseries.owasp.org/cheatsheets/Cross-Site_Request_Forgery_Prevention_Cheat_Sheet.html,
RFC 6265 8.5 (cookies do not know ports), https://www.w3.org/TR/fetch-metadata/, https://www.w3.org/TR/CSP3/.
"""

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto

from werkzeug.sansio.utils import host_is_trusted

HOSTS = ("127.0.0.1", "localhost")
"""The names that a browser may have called us by. The port is not compared: it may be forwarded by SSH."""

HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self';"
        " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    # not no-referrer: with it, browsers send "null" as the Origin of our own forms
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Of every answer."""


class Door(Enum):
    """What becomes of a request."""

    FOREIGN = auto()  # it was sent to a name that is not this machine's
    ENTER = auto()  # it has the token of the printed address: it gets the cookie
    LOCKED = auto()  # it has neither token nor cookie
    FORGED = auto()  # it would change something, and does not come from one of our pages
    OPEN = auto()


@dataclass(frozen=True, slots=True)
class Asked:
    """What of a request decides. `origin` and `site` are its `Origin` and `Sec-Fetch-Site`, "" if it has none. `form`
    is the token of its form."""

    host: str
    token: str = ""
    cookie: str = ""
    changes: bool = False
    origin: str = ""
    site: str = ""
    form: str = ""


@dataclass(frozen=True, slots=True)
class Secrets:
    """Made anew for each run. `token` is printed, `session` is in the cookie: whoever reads an old address in a history
    does not have what is in the cookie."""

    token: str
    session: str

    @staticmethod
    def new() -> "Secrets":
        return Secrets(secrets.token_urlsafe(24), secrets.token_urlsafe(32))

    @property
    def form(self) -> str:
        """What every form of ours carries. A page of another site cannot read it."""
        return hmac.new(self.session.encode(), b"form", hashlib.sha256).hexdigest()


def door(asked: Asked, known: Secrets) -> Door:
    """Secrets are compared in constant time."""
    if not host_is_trusted(asked.host, HOSTS):
        return Door.FOREIGN
    if asked.token:
        return Door.ENTER if _same(asked.token, known.token) and not asked.changes else Door.LOCKED
    if not _same(asked.cookie, known.session):
        return Door.LOCKED
    if asked.changes and not _is_ours(asked, known):
        return Door.FORGED
    return Door.OPEN


def _is_ours(asked: Asked, known: Secrets) -> bool:
    return (
        asked.origin in ("", f"http://{asked.host}")
        and asked.site in ("", "same-origin")
        and _same(asked.form, known.form)
    )


def _same(given: str, known: str) -> bool:
    return hmac.compare_digest(given.encode(), known.encode())
