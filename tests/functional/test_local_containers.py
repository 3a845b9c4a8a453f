"""How containers reach the stack, and who else does not. tests/rie/test_sam.py does it with a real Docker."""

import json
import socket
import sys
import threading
from ipaddress import ip_network
from pathlib import Path

import pytest

from infra import bundling
from tests.support.patience import HANGING
from tidegate_local import description, sam, stack, supervisor
from tidegate_local.containers import VIRTUAL_HOST, BridgeDoor, Way, find_way, way
from tidegate_local.environment import client
from tidegate_local.errors import LocalError
from tidegate_local.processes import listen
from tidegate_local.toolchain import ToolMissing

CONFIG = Path(__file__).parents[2] / "tidegate.example.toml"
BRIDGE = ip_network("172.17.0.0/16")
HERE = ["127.0.0.1", "192.0.2.7", "172.17.0.1"]
OTHER_LOOPBACKS = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has more addresses on the loopback")


# ---- the way


@pytest.mark.parametrize(
    ("networks", "expected"),
    [
        ([{"Subnet": "172.17.0.0/16", "Gateway": "172.17.0.1"}], Way("172.17.0.1", BRIDGE)),
        # the first time that a daemon runs
        ([{"Subnet": "172.17.0.0/16"}], Way("172.17.0.1", BRIDGE)),
        ([{"Subnet": "fd00::/80", "Gateway": "fd00::1"}, {"Subnet": "172.17.0.0/16"}], Way("172.17.0.1", BRIDGE)),
        # the bridge is in a virtual machine, whatever of this one looks like it
        ([{"Subnet": "172.17.0.0/16", "Gateway": "172.17.0.254"}], Way(VIRTUAL_HOST)),
        ([{"Subnet": "172.18.0.0/16", "Gateway": "172.18.0.1"}], Way(VIRTUAL_HOST)),
        ([], Way(VIRTUAL_HOST)),
    ],
)
def test_containers_take_the_bridge_if_it_is_on_this_machine(networks, expected):
    assert way(networks, HERE) == expected


@pytest.mark.parametrize(
    ("caller", "expected"),
    [
        ("172.17.0.2", True),
        ("172.17.255.254", True),
        ("172.17.0.1", False),
        ("172.18.0.2", False),
        ("192.0.2.9", False),
    ],
)
def test_only_containers_of_the_bridge_are_let_in(caller, expected):
    assert Way("172.17.0.1", BRIDGE).admits(caller) is expected


def docker(folder: Path, script: str) -> str:
    """A PATH with a `docker` that runs this script."""
    program = folder / "docker"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return f"{folder}:/usr/bin:/bin"


def test_docker_is_asked_for_its_bridge(tmp_path, monkeypatch):
    answer = json.dumps([{"Subnet": "127.0.0.0/8", "Gateway": "127.0.0.1"}])
    monkeypatch.setenv("PATH", docker(tmp_path, f"echo \"$*\" > {tmp_path}/asked; echo '{answer}'"))
    assert find_way() == Way("127.0.0.1", ip_network("127.0.0.0/8"))
    assert (tmp_path / "asked").read_text() == "network inspect bridge --format {{json .IPAM.Config}}\n"


def test_a_docker_that_does_not_run_is_told_in_its_own_words(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", docker(tmp_path, "echo Cannot connect to the Docker daemon >&2; exit 1"))
    with pytest.raises(LocalError, match=r"Cannot connect to the Docker daemon\nStart Docker, or leave out --docker"):
        find_way()
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ToolMissing, match="`docker` is missing"):
        find_way()


# ---- the doors


@pytest.fixture
def echo():
    """A server on the loopback that answers each line with the same line. Its port."""
    with listen() as listener:

        def serve():
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection, connection.makefile("rb") as lines:
                    for line in lines:
                        connection.sendall(line)

        threading.Thread(target=serve, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def door(echo):
    opened = BridgeDoor(Way("127.0.0.2", ip_network("127.0.0.0/30")), echo)
    yield opened
    opened.close()


def called(port, caller):
    """What comes back for two lines, of which the second is long."""
    sent = b"first\n" + b"x" * 1_000_000 + b"\n"
    with socket.create_connection(("127.0.0.2", port), HANGING, source_address=(caller, 0)) as connection:
        writing = threading.Thread(target=lambda: (connection.sendall(sent), connection.shutdown(socket.SHUT_WR)))
        writing.start()
        with connection.makefile("rb") as answers:
            came = answers.read()
        writing.join()
    return came == sent


@OTHER_LOOPBACKS
def test_a_container_talks_with_what_listens_on_the_loopback(door):
    assert called(door.port, "127.0.0.3")
    assert called(door.port, "127.0.0.1")


@OTHER_LOOPBACKS
@pytest.mark.parametrize("caller", ["127.0.0.2", "127.0.0.9"])
def test_a_caller_from_elsewhere_is_hung_up_on(door, caller):
    with socket.create_connection(("127.0.0.2", door.port), HANGING, source_address=(caller, 0)) as connection:
        assert connection.recv(1) == b""


@OTHER_LOOPBACKS
def test_a_closed_door_is_closed_and_a_taken_one_is_told(door):
    with pytest.raises(LocalError, match=f"port {door.port} of 127.0.0.2.* leave out --docker"):
        BridgeDoor(door.way, door.port)
    door.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", door.port), HANGING)


# ---- the stack


@OTHER_LOOPBACKS
def test_a_stack_lets_containers_in_if_it_is_told_to_and_says_what_sam_needs(tmp_path, monkeypatch):
    """The whole of it, but for Docker and for the wheels of the bundle, which need a network."""
    monkeypatch.setattr(supervisor, "find_way", lambda: Way("127.0.0.2", ip_network("127.0.0.0/30")))
    monkeypatch.setattr(bundling, "_install", lambda root, *_: (root / "dependency.py").touch())
    said = []
    with stack.up(CONFIG, tmp_path, on_progress=said.append, docker=True) as running:
        described = description.read(tmp_path)
        assert described.containers == "127.0.0.2"
        line = sam.prepare(tmp_path, said.append)
        variables = json.loads((tmp_path / "sam" / "variables.json").read_text())["dispatch"]
        # as from a container: by the variables alone. Linux calls 127.0.0.2 from 127.0.0.1
        found = client("dynamodb", variables).describe_table(TableName=variables["TIDEGATE_LEDGER"])
        assert found["Table"]["TableName"] == described.outputs["Ledger"]
        assert client("emr-serverless", variables).list_job_runs(applicationId=variables["TIDEGATE_APPLICATION"])
        ports = [each.port for each in running._doors]
    assert len(ports) == 3
    made = tmp_path / "sam"
    assert f"sam local invoke intake -t {made / 'template.json'} -n {made / 'variables.json'} -e " in line
    for port in ports:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.2", port), HANGING)


def test_without_it_nothing_is_made_and_nobody_is_let_in(tmp_path):
    description.Description("s", {}, (), {}, ()).write(tmp_path)
    with pytest.raises(LocalError, match=r"without --docker.* local down --dir .*start it again"):
        sam.prepare(tmp_path, pytest.fail)
    assert not (tmp_path / "sam").exists()
    assert not Way(VIRTUAL_HOST).admits("172.17.0.2")


# ---- what SAM reads


FUNCTION = description.Function(
    *("dispatch", "arn:f", "lambdas.dispatch.app.handler", "/code"),
    *({"TIDEGATE_TOPIC": "arn:t", "TIDEGATE_NOTICES": "http://127.0.0.1:1/123456789012/n.fifo"}, 60, 512),
)
STACK = description.Description(
    *("tidegate", {"dispatch": FUNCTION}, (), {}, ()),
    environment={
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_ENDPOINT_URL": "http://127.0.0.1:1",
        "AWS_ENDPOINT_URL_S3": "http://minio:9000",
        "AWS_REGION": "us-east-1",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "TIDEGATE_CATALOG_URI": "sqlite:////w/catalog.db",
    },
    containers="172.17.0.1",
)


def test_a_function_has_all_that_it_needs_and_nothing_of_the_shell():
    assert sam.variables_of(FUNCTION, STACK) == {
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_ENDPOINT_URL": "http://172.17.0.1:1",
        "AWS_ENDPOINT_URL_S3": "http://minio:9000",
        "AWS_REGION": "us-east-1",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_SESSION_TOKEN": "",
        "NO_PROXY": "172.17.0.1",
        "TIDEGATE_NOTICES": "http://172.17.0.1:1/123456789012/n.fifo",
        "TIDEGATE_TOPIC": "arn:t",
    }


def test_the_template_has_the_functions_as_they_are_here():
    made = sam.template(STACK, {"dispatch": {"A": "1"}}, "x86_64")
    assert made["Resources"]["dispatch"]["Properties"] == {
        "Architectures": ["x86_64"],
        "Code": "code",
        "Environment": {"Variables": {"A": "1"}},
        "Handler": "lambdas.dispatch.app.handler",
        "MemorySize": 512,
        "Runtime": "python3.13",
        "Timeout": 60,
    }


def test_a_processor_that_lambda_does_not_have_is_told(tmp_path, monkeypatch):
    STACK.write(tmp_path)
    monkeypatch.setattr(sam.platform, "machine", lambda: "riscv64")
    with pytest.raises(LocalError, match="Lambda runs on arm64 and x86_64, and this machine is neither"):
        sam.prepare(tmp_path, pytest.fail)


def test_every_processor_has_a_bundle():
    assert set(sam.PROCESSORS.values()) == set(bundling.AMAZON_LINUX)
