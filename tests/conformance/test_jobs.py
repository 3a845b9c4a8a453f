"""EMR Serverless and Lambda, as simulated. No emulator is right about them: what is held here is the model's contract.

Documented, and so in the model: a client token makes a repeated StartJobRun one request
(https://docs.aws.amazon.com/emr-serverless/latest/APIReference/API_StartJobRun.html); an event source deletes what an
invocation does not give back, gives everything back after an error, and never has two batches of one FIFO group under
way (https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-errorhandling.html); an asynchronous invocation is tried
three times (https://docs.aws.amazon.com/lambda/latest/dg/invocation-async-error-handling.html).

Beyond that, because nothing is promised about it: the token may be forgotten, one run may have two drivers, and a
function that was given up may wake up and go on. The model may do what AWS may; it need not do all that AWS does.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from simulation.world.differences import MOTO, SIMULATED
from simulation.world.emr import Emr, SimulatedJobRun
from simulation.world.faults import At, Kind
from simulation.world.kernel import START, Kernel
from simulation.world.lambdas import EventSource, SimulatedFunction
from simulation.world.network import Network
from simulation.world.sqs import Queue
from tests.conformance.backends import code_of, expect_differences, moto, simulated

# ---- EMR Serverless


@dataclass
class Jobs:
    """What was driven, and what was told of it. A driver takes `takes` seconds and ends with `code`."""

    kernel: Kernel = field(default_factory=lambda: Kernel(0))
    driven: list[list[str]] = field(default_factory=list)
    ended: list[tuple[str, str]] = field(default_factory=list)
    takes: float = 60.0
    code: int = 0
    emr: Emr = field(init=False)

    def __post_init__(self) -> None:
        self.emr = Emr(self.kernel, self.drive, lambda run: self.ended.append((run.id, run.state)))

    def drive(self, arguments: list[str]) -> int:
        self.driven.append(arguments)
        self.kernel.sleep(self.takes)
        return self.code

    def run_out(self) -> None:
        self.kernel.run(lambda: False, float("inf"))

    @property
    def only(self) -> SimulatedJobRun:
        (run,) = self.emr.runs.values()
        return run


@pytest.fixture
def jobs() -> Jobs:
    return Jobs()


@dataclass(frozen=True)
class Service:
    client: Any
    application: str

    def start(self, token: str, *arguments: str) -> str:
        submit = {"entryPoint": "s3://assets/entry.py", "entryPointArguments": list(arguments)}
        answer = self.client.start_job_run(
            applicationId=self.application,
            clientToken=token,
            executionRoleArn="arn:aws:iam::123456789012:role/job",
            jobDriver={"sparkSubmit": submit},
        )
        return str(answer["jobRunId"])

    def state(self, job_run: str) -> str:
        answer = self.client.get_job_run(applicationId=self.application, jobRunId=job_run)
        return str(answer["jobRun"]["state"])


@contextmanager
def asked(jobs: Jobs) -> Iterator[Service]:
    with simulated("emr-serverless", jobs.emr.answer) as client:
        yield Service(client, "app")


@pytest.fixture(params=[SIMULATED, MOTO])
def service(request: pytest.FixtureRequest, jobs: Jobs) -> Iterator[Service]:
    expect_differences(request, request.param)
    if request.param == SIMULATED:
        with asked(jobs) as service:
            yield service
        return
    with moto("emr-serverless") as client:
        made = client.create_application(name="app", type="SPARK", releaseLabel="emr-6.6.0", clientToken="app")
        yield Service(client, made["applicationId"])


def test_a_run_is_known_by_its_token(service: Service) -> None:
    first = service.start("batch-1")
    assert service.start("batch-1") == first
    assert service.start("batch-2") != first


def test_a_run_that_has_just_been_started_has_not_ended(service: Service) -> None:
    assert service.state(service.start("batch-1")) not in ("SUCCESS", "FAILED", "CANCELLED")


def test_a_run_that_never_was_is_not_found(service: Service) -> None:
    # as long as moto's ids: it looks at the shape first
    assert code_of(lambda: service.state("00fabcdefghijk09")) == "ResourceNotFoundException"


@pytest.mark.parametrize(("code", "state"), [(0, "SUCCESS"), (1, "FAILED")])
def test_a_run_ends_as_its_driver_does_and_tells_once(jobs: Jobs, code: int, state: str) -> None:
    jobs.code = code
    with asked(jobs) as service:
        job_run = service.start("batch-1", "ingest", "--batch=b")
        jobs.run_out()
        assert service.state(job_run) == state
    assert (jobs.driven, jobs.ended) == ([["ingest", "--batch=b"]], [(job_run, state)])


def test_a_run_whose_driver_dies_has_failed(jobs: Jobs) -> None:
    with asked(jobs) as service:
        job_run = service.start("batch-1")
        jobs.kernel.run(lambda: bool(jobs.driven), float("inf"))
        jobs.only.drivers[0].kill()
        jobs.run_out()
        assert (service.state(job_run), jobs.ended) == ("FAILED", [(job_run, "FAILED")])


def test_a_known_token_drives_once(jobs: Jobs) -> None:
    with asked(jobs) as service:
        assert {service.start("batch-1") for _ in range(3)} == {jobs.only.id}
    jobs.run_out()
    assert len(jobs.driven) == 1


def test_a_token_may_be_forgotten(jobs: Jobs) -> None:
    jobs.emr.forgets_tokens = lambda: True
    with asked(jobs) as service:
        assert len({service.start("batch-1") for _ in range(2)}) == 2
    jobs.run_out()
    assert len(jobs.driven) == 2


def test_a_run_may_have_two_drivers_and_ends_with_the_first(jobs: Jobs) -> None:
    jobs.emr.twin_after = lambda: 30.0
    with asked(jobs) as service:
        job_run = service.start("batch-1")
        jobs.kernel.run(lambda: bool(jobs.ended), float("inf"))
        assert (jobs.ended, len(jobs.only.drivers)) == ([(job_run, "SUCCESS")], 2)
        assert not jobs.only.drivers[1].ended
        jobs.run_out()
    assert jobs.only.drivers[1].ended
    assert jobs.ended == [(job_run, "SUCCESS")]


# ---- Lambda

VISIBILITY, TIMEOUT, MINUTE = 100.0, 20.0, 60.0
Handler = Callable[[Any, Any], Any]


@dataclass
class Fed:
    """A function behind a queue, what it was invoked with, and what happens in it."""

    handler: Handler
    name: str = "queue"
    plan: At = field(default_factory=At)
    batch_size: int = 10
    window: float = 0.0
    concurrency: int = 2
    invoked: list[tuple[float, str]] = field(default_factory=list)
    """When (seconds since the start), and the bodies, joined."""

    def __post_init__(self) -> None:
        self.kernel = Kernel(0)
        network = Network(self.kernel, {}, self.plan)
        self.dead = Queue(self.kernel, f"dead-{self.name}")
        self.queue = Queue(self.kernel, self.name, visibility=VISIBILITY, receives=3, dead_letters=self.dead)
        self.function = SimulatedFunction(self.kernel, "function", self._handle, TIMEOUT)
        self.source = EventSource(
            network,
            self.queue,
            self.function,
            batch_size=self.batch_size,
            window=self.window,
            concurrency=self.concurrency,
        )

    def _handle(self, event: Any, context: Any) -> Any:
        self.invoked.append((self.kernel.now - START, "".join(record["body"] for record in event["Records"])))
        return self.handler(event, context)

    def send(self, bodies: str, group: str = "g") -> None:
        for body in bodies:
            self.queue.send(body, group=group, deduplication=body)
        self.source.wake()

    def run_out(self) -> None:
        self.kernel.run(lambda: not self.kernel.busy, float("inf"))

    @property
    def left(self) -> str:
        return "".join(message.body for message in self.queue.messages.values())

    @property
    def dead_letters(self) -> str:
        return "".join(message.body for message in self.dead.messages.values())


def failing(*bodies: str) -> Handler:
    """Gives back the messages with these bodies."""

    def handle(event: Any, context: Any) -> Any:
        failed = [record["messageId"] for record in event["Records"] if record["body"] in bodies]
        return {"batchItemFailures": [{"itemIdentifier": each} for each in failed]}

    return handle


def raising(event: Any, context: Any) -> Any:
    raise ValueError("no")


@pytest.mark.parametrize("answer", [None, {}, {"batchItemFailures": []}])
def test_what_is_not_given_back_is_deleted(answer: Any) -> None:
    fed = Fed(lambda event, context: answer)
    fed.send("abc")
    fed.run_out()
    assert (fed.invoked, fed.left, fed.dead_letters) == ([(0.0, "abc")], "", "")


def test_what_is_given_back_comes_again_until_it_is_a_dead_letter() -> None:
    fed = Fed(failing("b"))
    fed.send("abc")
    fed.run_out()
    assert fed.invoked == [(0.0, "abc"), (VISIBILITY, "b"), (2 * VISIBILITY, "b")]
    assert (fed.left, fed.dead_letters) == ("", "b")


def test_after_an_error_everything_comes_again() -> None:
    fed = Fed(raising)
    fed.send("ab")
    fed.run_out()
    assert fed.invoked == [(0.0, "ab"), (VISIBILITY, "ab"), (2 * VISIBILITY, "ab")]
    assert (fed.dead_letters, len(fed.function.errors)) == ("ab", 3)


def test_a_function_that_does_not_answer_in_time_has_failed_and_may_yet_go_on() -> None:
    woke: list[float] = []

    def slow(event: Any, context: Any) -> Any:
        assert context.get_remaining_time_in_millis() == TIMEOUT * 1000
        fed.kernel.sleep(TIMEOUT + 1)
        assert context.get_remaining_time_in_millis() == 0
        woke.append(fed.kernel.now - START)

    fed = Fed(slow)
    fed.send("a")
    fed.run_out()
    assert fed.invoked == [(number * VISIBILITY, "a") for number in range(3)]
    assert woke == [number * VISIBILITY + TIMEOUT + 1 for number in range(3)]
    assert fed.dead_letters == "a"


def test_a_batch_is_no_larger_than_it_may_be() -> None:
    fed = Fed(failing(), batch_size=2)
    fed.send("abcde")
    fed.run_out()
    assert [bodies for _, bodies in fed.invoked] == ["ab", "cd", "e"]


def test_a_window_gathers() -> None:
    fed = Fed(failing(), window=2.0)
    fed.send("a")
    fed.kernel.after(1.5, lambda: fed.send("b"))
    fed.run_out()
    assert fed.invoked == [(2.0, "ab")]


def test_one_batch_of_a_group_at_a_time_and_groups_side_by_side() -> None:
    def slow(event: Any, context: Any) -> Any:
        fed.kernel.sleep(5.0)

    fed = Fed(slow, name="queue.fifo", batch_size=2)
    fed.send("abc", "g")
    fed.send("xy", "h")
    fed.run_out()
    # ab and x are not one batch only because two are the most
    assert fed.invoked == [(0.0, "ab"), (0.0, "xy"), (5.0, "c")]


def test_a_group_waits_for_what_was_given_back() -> None:
    once: list[str] = []

    def refuse_once(event: Any, context: Any) -> Any:
        refused = not once
        once.append("refused")
        return failing("b", "c")(event, context) if refused else None

    fed = Fed(refuse_once, name="queue.fifo", batch_size=3)
    fed.send("abcd")
    fed.run_out()
    assert [bodies for _, bodies in fed.invoked] == ["abc", "bcd"]
    assert fed.invoked[1][0] == VISIBILITY


def test_an_answer_about_a_message_that_was_not_given_is_a_mistake() -> None:
    """Stricter than Lambda, which would fail the whole batch, again and again."""
    fed = Fed(lambda event, context: {"batchItemFailures": [{"itemIdentifier": "another"}]})
    fed.send("a")
    with pytest.raises(AssertionError, match="another"):
        fed.run_out()


def test_an_acknowledgement_may_get_lost() -> None:
    sites = Fed(failing())
    sites.send("a")
    sites.run_out()
    (number,) = [number for number, (site, _) in enumerate(sites.source.network.calls) if "delete" in site]
    fed = Fed(failing(), plan=At({number: Kind.DROP}))
    fed.send("a")
    fed.run_out()
    assert (fed.invoked, fed.left) == ([(0.0, "a"), (VISIBILITY, "a")], "")


def test_a_standard_queue_may_deliver_twice() -> None:
    fed = Fed(lambda event, context: fed.kernel.sleep(1.0), plan=At({0: Kind.TWICE}))
    fed.send("a")
    fed.run_out()
    assert (fed.invoked, fed.left) == ([(0.0, "a"), (0.0, "a")], "")


@pytest.mark.parametrize("failures", [0, 1, 2, 3, 4])
def test_an_asynchronous_invocation_is_tried_three_times(failures: int) -> None:
    kernel, tried = Kernel(0), []

    def handle(event: Any, context: Any) -> None:
        tried.append((kernel.now - START, event))
        if len(tried) <= failures:
            raise ValueError("no")

    SimulatedFunction(kernel, "function", handle, TIMEOUT).invoke_asynchronously({"n": 1})
    kernel.run(lambda: not kernel.busy, float("inf"))
    assert tried == [(at, {"n": 1}) for at in (0.0, MINUTE, 3 * MINUTE)[: failures + 1]]
