"""A browser without a screen for the page: it keeps cookies, reads what it gets as a tree, and fills in forms."""

from dataclasses import dataclass, field
from html.parser import HTMLParser
from types import SimpleNamespace
from typing import Any

from werkzeug.test import Client, TestResponse

from tests.support.fakes import no_letters
from tests.support.world import World
from tidegate.ui.app import Ui
from tidegate.ui.guard import Secrets
from tidegate.ui.questions import Questions

HOST = "127.0.0.1:8000"
KNOWN = Secrets(token="printed", session="in-the-cookie")
COOKIE = "tidegate-8000"


@dataclass
class Element:
    """An element of a page, with what is in it."""

    tag: str
    attributes: dict[str, str]
    text: str = ""
    within: "list[Element]" = field(default_factory=list)

    def all(self, tag: str) -> "list[Element]":
        return [each for inner in self.within for each in ([inner] if inner.tag == tag else []) + inner.all(tag)]

    @property
    def words(self) -> str:
        return " ".join(self.text.split())


class _Reader(HTMLParser):
    VOID = ("meta", "link", "input", "path", "rect", "circle", "br")

    def __init__(self) -> None:
        super().__init__()
        self.root = Element("", {})
        self.open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {name: value or "" for name, value in attrs})
        self.open[-1].within.append(element)
        if tag not in self.VOID:
            self.open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open[-1].within.append(Element(tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        if tag in self.VOID:
            return
        assert self.open[-1].tag == tag, f"</{tag}> ends <{self.open[-1].tag}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        for each in self.open:
            each.text += data


def tree(html: str) -> Element:
    """What a page has. Fails if an element is not closed, or in another one than it was opened in."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    assert reader.open == [reader.root], f"not closed: {[each.tag for each in reader.open[1:]]}"
    return reader.root


@dataclass
class Browser:
    """It has the cookie unless it is told otherwise."""

    ui: Ui
    entered: bool = True

    def __post_init__(self) -> None:
        self.client = Client(self.ui)
        if self.entered:
            self.client.set_cookie(COOKIE, KNOWN.session, domain="127.0.0.1")

    def get(self, address: str, **headers: str) -> TestResponse:
        return self.client.get(address, base_url=f"http://{HOST}", headers=headers)

    def post(self, address: str, form: dict[str, str], **headers: str) -> TestResponse:
        ours = {"Origin": f"http://{HOST}", "Sec-Fetch-Site": "same-origin"}
        return self.client.post(address, base_url=f"http://{HOST}", data=form, headers=ours | headers)

    def page(self, address: str, status: int = 200) -> Element:
        answer = self.get(address)
        assert answer.status_code == status, answer.get_data(as_text=True)
        return tree(answer.get_data(as_text=True))


def fields(page: Element) -> dict[str, str]:
    """What the form of a page sends that is sent by POST."""
    (form,) = [each for each in page.all("form") if each.attributes["method"] == "post"]
    return {each.attributes["name"]: each.attributes["value"] for each in form.all("input")}


def deployment_of(world: World, settings: Any = None) -> Any:
    """The deployment that a world plays."""
    return SimpleNamespace(
        routes=world.routes,
        settings=settings or SimpleNamespace(core_routes=world.routes.values),
        resources=SimpleNamespace(deployment="tidegate"),
        ports=lambda attempt="": world.ports,
        letters=no_letters,
    )


def ui_of(deployment: Any, now: Any, **given: Any) -> Ui:
    return Ui(Questions(deployment, **given), KNOWN, cookie=COOKIE, now=now)


def browser_of(world: World, **given: Any) -> Browser:
    return Browser(ui_of(deployment_of(world), world.clock, **given))
