"""Redis and a relational database, as far as the schemes ask them: atomic commands on a connection that may break.

Their clients do not repeat a command by themselves. A broken connection says nothing about whether it was carried out.
"""

from collections.abc import Callable
from typing import TypeVar

from simulation.world.network import Network

T = TypeVar("T")


class ConnectionBroken(Exception):
    """No answer: the command may have been carried out."""


class Unavailable(Exception):
    """The command was refused: it was not carried out."""


class Redis:
    """`SET key value NX EX seconds` and `DEL key`."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._expires: dict[str, float] = {}

    def set_nx_ex(self, key: str, seconds: float) -> bool:
        """False if the key is there."""

        def command() -> bool:
            now = self._network.kernel.now
            if self._expires.get(key, now) > now:
                return False
            self._expires[key] = now + seconds
            return True

        return _ask(self._network, "redis.set", command)

    def delete(self, key: str) -> None:
        _ask(self._network, "redis.del", lambda: self._expires.pop(key, None))


class Relational:
    """One table, `key` and `state`; every method is one transaction under an exclusive lock on the key."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._states: dict[str, str] = {}

    def begin(self, key: str) -> bool:
        """Make the row PROCESSING; False if it is there in any state but FAILED."""

        def transaction() -> bool:
            if self._states.get(key, "FAILED") != "FAILED":
                return False
            self._states[key] = "PROCESSING"
            return True

        return _ask(self._network, "sql.begin", transaction)

    def mark(self, key: str, state: str) -> None:
        _ask(self._network, "sql.mark", lambda: self._states.update({key: state}))

    def states(self) -> dict[str, str]:
        return _ask(self._network, "sql.states", lambda: dict(self._states))


def _ask(network: Network, site: str, command: Callable[[], T]) -> T:
    return network.call(site, command, lost=lambda: ConnectionBroken(site), failed=lambda: Unavailable(site))
