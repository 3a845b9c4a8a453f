"""The parts of the local stack that need no process: descriptions, environments, patterns, locks."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from werkzeug.test import Client

from tests.support.patience import HANGING
from tidegate_local import description, template
from tidegate_local.callers import CALLED_AS, Programs
from tidegate_local.description import Description, EventSourceMapping, Function, Rule
from tidegate_local.endpoint import Endpoint, answer
from tidegate_local.environment import local_environment, process_environment
from tidegate_local.errors import LocalError
from tidegate_local.events import Bus, matches
from tidegate_local.lock import FolderLock
from tidegate_local.processes import listen
from tidegate_local.stack import describe, down

# --- stack.json ---


def test_a_description_is_read_as_it_was_written(tmp_path):
    source = EventSourceMapping("http://q", "arn:q", 10, 2, True)
    function = Function("f", "arn:f", "m.h", "/c", {"A": "1"}, 3, 128, (source,))
    rules = (Rule("r", ("f",), {"source": ["x"]}), Rule("s", ("f",), None, 60))
    written = Description("stack", {"f": function}, rules, {"Ledger": "t"}, ("note",), {"E": "1"}, {"f": "http://f"})
    written.write(tmp_path)
    assert description.read(tmp_path) == written


def test_a_folder_without_a_stack_says_so(tmp_path):
    with pytest.raises(LocalError, match="no stack"):
        description.read(tmp_path)
    with pytest.raises(LocalError, match="no stack runs"):
        describe(tmp_path)
    assert down(tmp_path) is False


# --- the environment ---


def test_nothing_of_a_real_account_gets_through(tmp_path):
    ambient = {
        "AWS_PROFILE": "production",
        "AWS_SESSION_TOKEN": "secret",
        "AWS_ENDPOINT_URL_SQS": "http://127.0.0.1:1",
        "AWS_ENDPOINT_URL_GLUE": "http://glue",
        "AWS_ENDPOINT_URL_EMR_SERVERLESS": "http://stale",
        "TIDEGATE_LEDGER": "another stack's",
        "NO_PROXY": "intranet",
        "HOME": "/home/me",
    }
    local = local_environment(tmp_path, services="http://s", jobs="http://j", events="http://e", ambient=ambient)
    environment = process_environment(ambient, local)
    assert environment["AWS_ENDPOINT_URL"] == "http://s"
    assert environment["AWS_ENDPOINT_URL_EMR_SERVERLESS"] == "http://j"
    assert environment["AWS_ENDPOINT_URL_SQS"] == "http://127.0.0.1:1"  # a service may be replaced
    assert environment["AWS_ACCESS_KEY_ID"] == "testing"
    assert environment["NO_PROXY"] == "intranet,127.0.0.1,localhost"
    assert environment["HOME"] == "/home/me"
    gone = {"AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL_GLUE", "TIDEGATE_LEDGER"}
    assert not gone & environment.keys()


# --- rules ---

ENDED = {
    "source": ["aws.emr-serverless"],
    "detail-type": ["EMR Serverless Job Run State Change"],
    "detail": {"applicationId": ["app"], "state": ["SUCCESS", "FAILED"]},
}


def event(**changes):
    detail = {"applicationId": "app", "state": "FAILED", **changes}
    return {"source": "aws.emr-serverless", "detail-type": "EMR Serverless Job Run State Change", "detail": detail}


def test_patterns_compare_values_at_every_depth():
    assert matches(ENDED, event())
    assert matches(ENDED, event(state="SUCCESS"))
    assert not matches(ENDED, event(state="RUNNING"))
    assert not matches(ENDED, event(applicationId="other"))
    assert not matches(ENDED, {**event(), "source": "aws.s3"})
    assert not matches(ENDED, {"source": "aws.emr-serverless"})
    assert matches({"resources": ["b"]}, {"resources": ["a", "b"]})


class Recorded(Bus):
    def __init__(self, *rules):
        super().__init__(rules, {})
        self.delivered = []
        self.ticked = threading.Event()

    def deliver(self, rule, event):
        self.delivered.append((rule.name, event))
        self.ticked.set()


def test_an_event_goes_to_the_rules_that_match():
    bus = Recorded(Rule("ended", ("f",), ENDED), Rule("every", ("f",), None, 60))
    assert bus.publish(event()) == 1
    assert bus.publish(event(state="RUNNING")) == 0
    assert [name for name, _ in bus.delivered] == ["ended"]


def test_a_schedule_ticks_once_a_period():
    bus = Recorded(Rule("every", ("f",), None, 1), Rule("ended", ("f",), ENDED))
    stop = threading.Event()
    thread = threading.Thread(target=bus.run_schedules, args=(stop,))
    thread.start()
    assert bus.ticked.wait(HANGING), "the schedule never ticked"
    stop.set()
    thread.join(HANGING)
    name, tick = bus.delivered[0]
    assert name == "every"
    assert tick["detail-type"] == "Scheduled Event"
    assert tick["resources"] == ["arn:aws:events:us-east-1:123456789012:rule/every"]


# --- the endpoint ---


@pytest.fixture
def endpoint():
    with listen() as listener:
        routes = [("GET", "/a/<name>/b", lambda request, name: answer([name, request.args["q"], request.json]))]
        yield Client(Endpoint(listener, routes))


def test_routes_have_placeholders_and_queries(endpoint):
    for path in ("/a/x%2Fy/b", "/a/x%2Fy/b/"):
        assert endpoint.get(f"{path}?q=1%262").json == ["x/y", "1&2", {}]


def test_a_body_that_is_no_json_and_a_bug_are_told_as_aws_tells_them(endpoint, capsys):
    garbage = endpoint.get("/a/x/b?q=1", data=b"{")
    assert (garbage.status_code, garbage.headers["x-amzn-ErrorType"]) == (400, "SerializationException")
    bug = endpoint.get("/a/x/b")
    assert (bug.status_code, bug.headers["x-amzn-ErrorType"]) == (500, "InternalServerException")
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/a/x/b"), ("GET", "/a/x"), ("GET", "/a/x/b/c"), ("GET", "/a//b")]
)
def test_what_is_not_imitated_is_refused(endpoint, method, path):
    refused = endpoint.open(path, method=method)
    assert refused.status_code == 404
    assert refused.headers["x-amzn-ErrorType"] == "UnknownOperationException"
    assert refused.json == {"message": f"{method} {path} is not imitated on this machine"}


def test_web_pages_are_refused(endpoint):
    assert endpoint.get("/a/x/b?q=1", headers={"Origin": "http://evil"}).status_code == 403


OURS = ("127.0.0.1", "127.0.0.1:4566", "localhost:1", "LOCALHOST", "[::1]", "[::1]:4566", "landing.localhost:4566")
"""Names of this machine, as a client of it says them."""
FOREIGN = (
    *("", "evil.example", "evil.example:4566", "landing.evil.example:4566", "127.0.0.1.evil.example"),
    *("localhost.evil.example", "evillocalhost", "127.0.0.1@evil.example", "evil.example@127.0.0.1", "0.0.0.0:1"),
    *("127.0.0.1,evil.example", "evil.example,127.0.0.1", "[::1].evil.example", "127.0.0.1\n", "172.17.0.1:4566"),
)


@pytest.mark.parametrize("host", OURS)
def test_programs_of_this_machine_are_let_through(host):
    assert asked_of(host) == "200 OK"


@pytest.mark.parametrize("host", FOREIGN)
def test_a_page_whose_name_was_made_to_lead_here_is_refused(host):
    assert asked_of(host) == "403 Forbidden"


def test_a_further_name_is_let_through_when_somebody_wants_it_and_only_that():
    wanted = {CALLED_AS: "172.17.0.1,Host.docker.internal"}
    assert {asked_of(host, wanted) for host in ("172.17.0.1:4566", "host.docker.internal:1", *OURS)} == {"200 OK"}
    assert {asked_of(host, wanted) for host in ("172.17.0.2", "evil.example", "", ",")} == {"403 Forbidden"}


def asked_of(host, environment=None):
    said = []

    def application(environ, start_response):
        start_response("200 OK", [])
        return []

    Programs(application, environment or {})({"HTTP_HOST": host}, lambda status, headers: said.append(status))
    return said[0]


def test_every_server_of_this_machine_asks_who_calls():
    """A server is made by werkzeug, of an application that lets only programs through. The page of `tidegate ui` has a
    door of its own."""
    folder = Path(template.__file__).parent
    servers = {file.name: file.read_text() for file in folder.rglob("*.py") if "make_server(" in file.read_text()}
    assert servers.keys() == {"endpoint.py", "services.py"}
    assert all("Programs(" in text for text in servers.values())


def test_a_taken_port_is_told():
    with listen() as taken, pytest.raises(LocalError, match="cannot be used"):
        listen(taken.getsockname()[1])


# --- one stack a folder ---


def test_a_second_stack_in_a_folder_is_refused_with_the_first_ones_pid(tmp_path):
    first = FolderLock(tmp_path)
    first.acquire()
    assert FolderLock(tmp_path).holder() == os.getpid()
    with pytest.raises(LocalError, match=f"process {os.getpid()}.*`.*tidegate local down --dir {tmp_path}`"):
        FolderLock(tmp_path).acquire()
    first.release()
    assert FolderLock(tmp_path).holder() is None
    FolderLock(tmp_path).acquire()


def test_the_lock_of_a_killed_process_is_free(tmp_path):
    hold = (
        "import os, signal, sys; from pathlib import Path; from tidegate_local.lock import FolderLock;"
        f"FolderLock(Path({str(tmp_path)!r})).acquire(); os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", hold], check=False)
    assert (tmp_path / "stack.pid").read_text()  # stale
    assert FolderLock(tmp_path).holder() is None
    FolderLock(tmp_path).acquire()


# --- the template ---


def test_the_digest_changes_with_what_the_template_is_made_of(tmp_path):
    config = tmp_path / "tidegate.toml"
    config.write_text("a = 1")
    first = template._digest(template.project_root(), config)
    assert template._digest(template.project_root(), config) == first
    config.write_text("a = 2")
    assert template._digest(template.project_root(), config) != first


def test_an_app_that_fails_is_quoted(tmp_path):
    config = tmp_path / "tidegate.toml"
    config.write_text("[deployment]\nname = 'x'\n")
    with pytest.raises(LocalError, match="there is no"):
        template.synthesize(config, tmp_path)
