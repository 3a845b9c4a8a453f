"""A page that is served as `tidegate ui` serves it, from a deployment in memory, and a browser that opens it."""

import hashlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from ulid import ULID

from tests.support.browser import Chromium, chromium, why_not
from tests.support.build import route
from tests.support.past import DatedWorld
from tests.support.ui import deployment_of
from tests.support.world import World
from tidegate.ui.app import Ui
from tidegate.ui.guard import Secrets
from tidegate.ui.questions import Questions
from tidegate.ui.server import listen, server_on

NOON = 1_795_262_400
"""2026-11-21T12:00:00Z."""


class PicturedWorld(DatedWorld):
    """Its batches have ids that look like those of a deployment, and are the same in each run."""

    def new_id(self) -> str:
        chance = hashlib.sha256(super().new_id().encode()).digest()[:10]
        return str(ULID.from_bytes((self.clock() * 1_000).to_bytes(6, "big") + chance))


@dataclass
class Served:
    """A world, and the page of it."""

    world: World
    secrets: Secrets
    port: int

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def address(self) -> str:
        """As the verb prints it."""
        return f"{self.base}/?token={self.secrets.token}"


@pytest.fixture(scope="session")
def browser() -> Iterator[Chromium]:
    if why := why_not():
        pytest.skip(why)
    with chromium() as found:
        yield found


@pytest.fixture
def served() -> Iterator[Served]:
    world = PicturedWorld(route("flights", max_wait=300, in_flight=2))
    world.clock.now = NOON
    known, listener = Secrets.new(), listen(0)
    port = listener.getsockname()[1]
    app = Ui(Questions(deployment_of(world)), known, cookie=f"tidegate-{port}", now=world.clock)
    server = server_on(listener, app)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield Served(world, known, port)
    server.shutdown()
    thread.join()
