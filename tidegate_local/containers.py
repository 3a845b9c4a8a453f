"""How Docker's containers reach the stack, if it is started with `--docker`.

The stack listens on the loopback, where no container gets. There are two ways to it:

- On Linux containers reach the address that this machine has on Docker's bridge. A *door* listens there for each
  endpoint, on the endpoint's port, and hands connections on to the loopback. It looks at who calls, because an address
  of a bridge is no border: "IP addresses are owned by the complete host on Linux, not by particular interfaces"
  (https://docs.kernel.org/networking/ip-sysctl.html, arp_filter), so a neighbour in the network could call it too.
- Elsewhere Docker runs in a virtual machine. It leads `host.docker.internal` to the loopback by itself
  (https://docs.docker.com/desktop/features/networking/), so nothing has to listen anywhere else.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import socketserver
import subprocess
import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network, ip_address, ip_network

import psutil

from tidegate_local.errors import LocalError
from tidegate_local.processes import HOST
from tidegate_local.toolchain import ToolMissing

VIRTUAL_HOST = "host.docker.internal"
_INSPECT = ("network", "inspect", "bridge", "--format", "{{json .IPAM.Config}}")
_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Way:
    """How a container calls this machine: by this name or address. `bridge` is its network, if doors are needed."""

    host: str
    bridge: IPv4Network | None = None

    def admits(self, caller: str) -> bool:
        """Whether the caller is a container of the bridge: this machine's own programs have the loopback."""
        return self.bridge is not None and caller != self.host and ip_address(caller) in self.bridge


def way(networks: Sequence[Mapping[str, str]], own: Collection[str]) -> Way:
    """The way, by what Docker says of the networks of its bridge, and the addresses that this machine has.

    Docker may leave out the gateway until it is started again (https://github.com/moby/moby/issues/26799). Then it is
    this machine's address in the subnet.
    """
    for each in networks:
        network = ip_network(each["Subnet"], strict=False)
        if isinstance(network, IPv4Network):
            for address in own:
                if ip_address(address) in network and each.get("Gateway", address) == address:
                    return Way(address, network)
    return Way(VIRTUAL_HOST)


def find_way() -> Way:
    """The way for the containers of the Docker that the shell's `docker` calls. Raises ToolMissing or LocalError."""
    docker = shutil.which("docker")
    if docker is None:
        raise ToolMissing("`docker` is missing. Install Docker, or leave out --docker.")
    try:
        done = subprocess.run([docker, *_INSPECT], capture_output=True, text=True, timeout=_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LocalError(f"`{docker}` does not answer ({error}): start Docker, or leave out --docker") from error
    if done.returncode != 0:
        raise LocalError(
            f"Docker does not say how its containers reach this machine: {done.stderr.strip()}\n"
            "Start Docker, or leave out --docker"
        )
    own = [each.address for found in psutil.net_if_addrs().values() for each in found if each.family == socket.AF_INET]
    return way(json.loads(done.stdout) or (), own)


class BridgeDoor(socketserver.ThreadingTCPServer):
    """Hands connections from containers on to the same port of the loopback, from its start until `close`.

    Raises LocalError if the port is taken on the bridge's address.
    """

    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, way: Way, port: int) -> None:
        self.way, self.port = way, port
        try:
            super().__init__((way.host, port), _Passage)
        except OSError as error:
            raise LocalError(
                f"port {port} of {way.host}, where containers would call the stack, cannot be used ({error}): choose"
                " another with --port, or leave out --docker"
            ) from error
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True, name=f"door {port}").start()

    def verify_request(self, request: object, client_address: tuple[str, int]) -> bool:
        return self.way.admits(client_address[0])

    def close(self) -> None:
        self.shutdown()
        self.server_close()


class _Passage(socketserver.BaseRequestHandler):
    server: BridgeDoor

    def handle(self) -> None:
        with contextlib.suppress(OSError), socket.create_connection((HOST, self.server.port)) as inside:
            answering = threading.Thread(target=_pass_on, args=(inside, self.request), daemon=True)
            answering.start()
            _pass_on(self.request, inside)
            answering.join()


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    """Pass on what comes, until no more does or nobody takes it."""
    with contextlib.suppress(OSError):
        while data := source.recv(65_536):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)
