"""Jobs on EMR Serverless that a command starts and waits for. They are no attempt, and settling does not know them."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from tidegate.aws.errors import asking, code_of
from tidegate.aws.jobs import ENDED
from tidegate.core.errors import OutcomeUnknown, Retryable

if TYPE_CHECKING:
    from types_boto3_emr_serverless import EMRServerlessClient

EVERY = 5.0
"""Seconds between two looks at the job; GetJobRun may be called ten times a second
(https://docs.aws.amazon.com/emr/latest/EMR-Serverless-UserGuide/endpoints-quotas.html)."""
MISSED_LOOKS = 12
"""How many looks in a row may stay without an answer: a minute."""


def _tell_no_one(said: str) -> None:
    pass


class WaitedJobs:
    """`application` to `timeout_minutes` as in `tidegate.aws.jobs.EmrServerless`.

    `sleep`     waits so many seconds between two looks at the job
    `tell`      gets a line when the job's state changes
    """

    def __init__(
        self,
        client: "EMRServerlessClient",
        *,
        application: str,
        role: str,
        entry_point: str,
        spark_parameters: str,
        work: str,
        account: str,
        timeout_minutes: int,
        sleep: Callable[[float], None],
        tell: Callable[[str], None] = _tell_no_one,
    ) -> None:
        self._client = client
        self.application = application
        self._role = role
        self._entry_point = entry_point
        self._spark_parameters = spark_parameters
        self._work = work
        self._account = account
        self._timeout_minutes = timeout_minutes
        self._sleep = sleep
        self.tell = tell

    def start(self, run: str, arguments: Sequence[str], *, why: str, tags: dict[str, str]) -> str:
        """The id of the job run. Who starts the same `run` again gets the same job: it is the client token. `why`
        completes "could not start the job that ..."."""
        with asking(f"start the job that {why}"):
            answer = self._client.start_job_run(
                applicationId=self.application,
                clientToken=run,
                executionRoleArn=self._role,
                name=run,
                jobDriver={
                    "sparkSubmit": {
                        "entryPoint": self._entry_point,
                        "entryPointArguments": [
                            *arguments,
                            f"--work={self._work}",
                            f"--account={self._account}",
                        ],
                        "sparkSubmitParameters": self._spark_parameters,
                    }
                },
                executionTimeoutMinutes=self._timeout_minutes,
                tags=tags,
            )
        job_run: str = answer["jobRunId"]
        return job_run

    def end_of(self, job_run: str) -> tuple[str, str]:
        """The state that the job ended in, and EMR's details. A look that stays without an answer is repeated."""
        last, missed = "", 0
        while True:
            try:
                with asking(f"ask for job run {job_run}"):
                    run = self._client.get_job_run(applicationId=self.application, jobRunId=job_run)["jobRun"]
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
                    self.tell(f"job run {job_run} is {last}")
                if last in ENDED:
                    return last, run.get("stateDetails", "")
            self._sleep(EVERY)
