"""Jobs on EMR Serverless that a command starts and waits for. They are no attempt, and settling does not know them."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from botocore.exceptions import ClientError

from tidegate.aws.errors import asking, code_of
from tidegate.aws.jobs import ENDED, SparkApplication
from tidegate.core.errors import OutcomeUnknown, Retryable

EVERY = 5.0
"""Seconds between two looks at the job; GetJobRun may be called ten times a second
(https://docs.aws.amazon.com/emr/latest/EMR-Serverless-UserGuide/endpoints-quotas.html)."""
MISSED_LOOKS = 12
"""How many looks in a row may stay without an answer: a minute."""


def _tell_no_one(said: str) -> None:
    pass


@dataclass(frozen=True, slots=True)
class EndedJob:
    """`name` is for people: the job run, and its application. `details` is EMR's text. `log` is a sentence, without its
    full stop, that says where the job's log is."""

    name: str
    state: str
    details: str
    log: str

    def why(self, told: bytes | None) -> str:
        """Why it failed, by what its driver has told in `failure.json`, if it did."""
        return str(json.loads(told)["reason"]) if told else self.details or "EMR Serverless gives no reason"


def log_of(job_run: str, endpoint: str) -> str:
    """Where the log of a job run is, by the address of the service that ran it. The local stack has no EMR Studio."""
    if urlsplit(endpoint).hostname in ("127.0.0.1", "localhost"):
        return f"Its log is in jobs/{job_run}/ of the stack's folder"
    return "Its log is in EMR Studio"


class WaitedJobs:
    """`sleep` waits so many seconds between two looks at the job. `tell` gets a line when the job's state changes."""

    def __init__(
        self,
        application: SparkApplication,
        *,
        sleep: Callable[[float], None],
        tell: Callable[[str], None] = _tell_no_one,
    ) -> None:
        self._application = application
        self._sleep = sleep
        self._tell = tell

    @property
    def account(self) -> str:
        return self._application.account

    def run(self, run: str, arguments: Sequence[str], *, why: str, about: str, tags: Mapping[str, str]) -> EndedJob:
        """Start the job, and wait for its end. `about` completes "... by job run X": it is told when it starts."""
        job_run = self.start(run, arguments, why=why, tags=tags)
        name = f"job run {job_run} of application {self._application.id}"
        self._tell(f"{about} by {name}")
        return EndedJob(name, *self.end_of(job_run), log_of(job_run, self._application.client.meta.endpoint_url))

    def start(self, run: str, arguments: Sequence[str], *, why: str, tags: Mapping[str, str]) -> str:
        """The id of the job run. Who starts the same `run` again in the same way gets the same job. `why` completes
        "could not start the job that ..."."""
        of = self._application
        with asking(f"start the job that {why}"):
            return of.start(run, [*arguments, f"--work={of.work}", f"--account={of.account}"], token=run, tags=tags)

    def end_of(self, job_run: str) -> tuple[str, str]:
        """The state that the job ended in, and EMR's details. A look that stays without an answer is repeated."""
        of, last, missed = self._application, "", 0
        while True:
            try:
                with asking(f"ask for job run {job_run}"):
                    run = of.client.get_job_run(applicationId=of.id, jobRunId=job_run)["jobRun"]
            except (Retryable, OutcomeUnknown) as error:
                if isinstance(error.__cause__, ClientError) and code_of(error.__cause__) == "ResourceNotFoundException":
                    return "not known any more", ""
                missed += 1
                if missed == MISSED_LOOKS:
                    raise
            else:
                missed = 0
                if run["state"] != last:
                    last = run["state"]
                    self._tell(f"job run {job_run} is {last}")
                if last in ENDED:
                    return last, run.get("stateDetails", "")
            self._sleep(EVERY)
