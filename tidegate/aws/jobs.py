"""EMR Serverless: start the Spark step, and read its state.

`start` is guarded twice, and correctness needs neither guard: Powertools' idempotency records the run of (batch,
attempt), and EMR's client token does the same in EMR. If both fail, two drivers run one batch, and the table lets only
one of them publish (decision 3).
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from tidegate.aws.errors import asking, code_of
from tidegate.core.batches import Batch, JobState, job_name
from tidegate.core.routes import Dataset, encode_dataset
from tidegate.core.workers import ALWAYS, STAY, code_of_job, is_offered, takes_for, worker_id
from tidegate.flows.ports import JobReport

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.idempotency import BasePersistenceLayer
    from aws_lambda_powertools.utilities.typing import LambdaContext
    from types_boto3_emr_serverless import EMRServerlessClient

ENDED = frozenset({"SUCCESS", "FAILED", "CANCELLED"})
REMEMBER_SECONDS = 24 * 60 * 60


@dataclass(frozen=True, slots=True)
class SparkApplication:
    """An EMR Serverless application, and what every job of it is started with.

    `entry_point`       the S3 URI of the Spark script
    `spark_parameters`  further arguments for spark-submit (the locations of the dependencies)
    `work`, `account`   the name of the work bucket, and the account that owns it
    `timeout_minutes`   a job is cancelled after this time
    `stay`              seconds that a worker waits for a batch; 0 if there are none, and each job makes one attempt;
                        `core.workers.ALWAYS` if one has always to be there
    `ledger`            the ledger's table, in which a worker finds what there is to take
    """

    client: "EMRServerlessClient"
    id: str
    role: str
    entry_point: str
    spark_parameters: str
    work: str
    account: str
    timeout_minutes: int
    stay: int = 0
    ledger: str = ""

    def start(self, name: str, arguments: Sequence[str], *, token: str, tags: Mapping[str, str]) -> str:
        """The id of the job run. Who starts it again under this `token`, in the same way, gets the same run.

        In another way, as after a deployment of other code, it is another job. EMR may refuse that under one client
        token (ConflictException), and an attempt whose start was not recorded would wait until EMR forgets the token.
        So the client token says how the job is started, too. Two such drivers are twins: decision 3 lets one publish.
        """
        asked: dict[str, Any] = {
            "applicationId": self.id,
            "executionRoleArn": self.role,
            "name": name,
            "jobDriver": {
                "sparkSubmit": {
                    "entryPoint": self.entry_point,
                    "entryPointArguments": [*arguments],
                    "sparkSubmitParameters": self.spark_parameters,
                }
            },
            "executionTimeoutMinutes": self.timeout_minutes,
            "tags": {**tags},
        }
        way = hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:16]
        answer = self.client.start_job_run(clientToken=f"{token}-{way}", **asked)
        return answer["jobRunId"]


class EmrServerless:
    """`flows.ports.Jobs` on an EMR Serverless application.

    `records`           returns Powertools' records of started jobs (see `tidegate.aws.hand_offs.records_in`)
    `lambda_context`    gives Powertools the time limit of this invocation, so that a killed one does not block its key;
                        only functions have one
    """

    def __init__(
        self,
        application: SparkApplication,
        *,
        records: "Callable[[], BasePersistenceLayer]",
        lambda_context: "LambdaContext | None",
    ) -> None:
        self._application = application
        self._records = records
        self._lambda_context = lambda_context

    @cached_property
    def _start_once(self) -> Callable[..., str | None]:
        """`_start`, remembered by Powertools. Made with the first job: most invocations start none, and the records
        bring a client of DynamoDB along."""
        # most commands start no job either, and Powertools takes a while to import
        from tidegate.aws.hand_offs import once

        return once(self._start, self._records(), REMEMBER_SECONDS, self._lambda_context)

    @property
    def code(self) -> str:
        if not self._application.stay:
            return ""
        deployed = self._application
        return code_of_job(deployed.id, deployed.entry_point, deployed.spark_parameters)

    @property
    def takes_for(self) -> int:
        return takes_for(self._application.timeout_minutes * 60)

    @property
    def stay(self) -> int:
        return self._application.stay

    def start_worker(self, worker: str) -> str:
        with asking(f"start worker {worker}"):
            return self._application.start(
                f"tidegate-{worker}", self._work(worker, 1, worker, self.stay), token=worker, tags={}
            )

    def _work(self, batch: str, attempt: int, worker: str, stay: int) -> list[str]:
        """The arguments of a worker that is started for this batch, or for none."""
        return [
            "work",
            *self._of(batch, attempt),
            f"--worker={worker}",
            f"--code={self.code}",
            f"--ledger={self._application.ledger}",
            f"--stay={stay}",
            f"--takes-for={self.takes_for}",
        ]

    def _of(self, batch: str, attempt: int) -> list[str]:
        return [
            f"--batch={batch}",
            f"--attempt={attempt}",
            f"--work={self._application.work}",
            f"--account={self._application.account}",
        ]

    def start(self, batch: Batch, dataset: Dataset, *, owner: str, last: bool) -> str | None:
        hand_off = {"batch": batch.id, "attempt": batch.attempt}
        return self._start_once(hand_off=hand_off, batch=batch, dataset=dataset, owner=owner, last=last)

    def _start(self, *, hand_off: dict[str, Any], batch: Batch, dataset: Dataset, owner: str, last: bool) -> str:
        asked = self._application
        if asked.stay and is_offered(batch, last=last):
            # beside the one that is always there, another stays no longer than it would without that one
            stay = STAY if asked.stay == ALWAYS else asked.stay
            arguments = self._work(batch.id, batch.attempt, worker_id(batch), stay)
        else:
            arguments = [
                "fence" if batch.fencing else "ingest",
                *self._of(batch.id, batch.attempt),
                f"--landing-owner={owner or asked.account}",
                f"--digest={batch.manifest}",
                f"--floors={batch.floors}",
                *(["--last"] if last else []),
                f"--dataset={encode_dataset(dataset)}",
            ]
        with asking(f"start the job of batch {batch.id}, attempt {batch.attempt}"):
            return asked.start(
                job_name(batch.route, batch.id, batch.attempt),
                arguments,
                # a rebuilt ledger may fence in an attempt whose number EMR knows with a job that was to publish
                token=f"{batch.id}-{batch.attempt}{'-fence' if batch.fencing else ''}",
                tags={"tidegate:route": batch.route, "tidegate:batch": batch.id},
            )

    def report(self, job_run: str) -> JobReport:
        with asking(f"ask for job run {job_run}"):
            try:
                answer = self._application.client.get_job_run(applicationId=self._application.id, jobRunId=job_run)
            except ClientError as error:
                if code_of(error) == "ResourceNotFoundException":
                    return JobReport(JobState.ENDED, f"EMR Serverless does not know job run {job_run} any more")
                raise
        run = answer["jobRun"]
        state = JobState.ENDED if run["state"] in ENDED else JobState.ACTIVE
        return JobReport(state, run.get("stateDetails", ""), running=run["state"] == "RUNNING")
