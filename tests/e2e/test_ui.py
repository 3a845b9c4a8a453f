"""`tidegate ui` on the local stack: it shows what status prints, and what is released through it is read again."""

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from http.cookiejar import CookieJar
from typing import Any
from urllib.parse import urlencode, urljoin

import pytest

from tests.e2e.conftest import LocalStack
from tests.e2e.test_path import put, settled
from tests.support.patience import HANGING
from tests.support.ui import Element, fields, tree

pytestmark = pytest.mark.e2e
RUN = "from tidegate.cli.main import app; app()"


@dataclass
class Visitor:
    """As much of a browser as the forms need: it follows, and keeps cookies."""

    address: str

    def __post_init__(self) -> None:
        self._opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))

    def page(self, path: str = "", form: dict[str, str] | None = None) -> Element:
        sent = urlencode(form).encode() if form is not None else None
        with self._opener.open(urljoin(self.address, path), sent, timeout=HANGING) as answer:
            return tree(answer.read().decode())


@pytest.fixture
def visitor(stack: LocalStack) -> Iterator[Visitor]:
    environment = {**os.environ, **stack.environment, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen([sys.executable, "-c", RUN, "ui"], env=environment, text=True, stdout=subprocess.PIPE) as ui:
        try:
            assert ui.stdout
            found = Visitor(ui.stdout.readline().strip())
            found.page(found.address)
            yield found
        finally:
            ui.terminate()


def test_the_page_shows_the_stack_and_releases_what_is_in_quarantine(stack: LocalStack, visitor: Visitor):
    before = stack.status("plain")
    put(stack, "landing-plain", "for-the-page.csv", b"id\nnine\n")
    status: Any = settled(stack, "plain", before["uploads"]["notified"] + 1)
    uploads = status["uploads"]

    shown = visitor.page("/route/plain").words
    assert f"{uploads['notified']:,} uploads notified: " in shown
    assert f"{uploads['quarantined']} quarantined" in shown
    assert "s3://landing-plain/for-the-page.csv" in visitor.page("/quarantine").words
    assert visitor.page("/trace?uri=for-the-page").all("table")
    assert visitor.page("/trace?uri=s3://landing-plain/for-the-page.csv").all("h2")[0].words.startswith("quarantined:")
    newest = json.loads(stack.cli("files", "--batches", "--limit", "1", "--json").stdout)["batches"][0]["id"]
    assert newest in visitor.page("/batches").words

    question = visitor.page("/quarantine/release?key=for-the-page.csv")
    assert question.all("h1")[0].words == "Release 1 upload?"
    assert "1 upload is released" in visitor.page("/quarantine/release", fields(question)).words
    # it is read again by a new batch, and still cannot be decoded; it counts once
    again = stack.once(
        lambda: stack.status("plain"),
        lambda now: now["jobs"] > status["jobs"] and now["uploads"]["pending"] == 0,
        waiting_for="what was released to end again",
    )
    assert again["uploads"] == uploads
