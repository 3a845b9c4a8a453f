"""The lineage of a table, read by a job on EMR Serverless (`tidegate.spark.lineage`).

    step                        if the process dies right after it
    1 look for complete.json    nothing has happened
    2 start the job             the client token is the run's id: who goes on with the run gets the same job
    3 ask until it has ended    nothing: the job goes on
    4 read complete.json        the run can be read again by its id, without another job
    5 read its files, one by    the same
      one

What counts is `complete.json`, not the job's state: a job may write it and fail to end well.
"""

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from tidegate.aws.errors import asking, code_of
from tidegate.aws.jobs import ENDED
from tidegate.core.errors import OutcomeUnknown, Rejected, Retryable
from tidegate.core.lineage import CompleteLineage, Landed, decode_complete, decode_landed, in_order, lineage_folder
from tidegate.flows.ports import Work
from tidegate.flows.store import NewId

if TYPE_CHECKING:
    from types_boto3_emr_serverless import EMRServerlessClient

EVERY = 5.0
"""Seconds between two looks at the job; GetJobRun may be called ten times a second
(https://docs.aws.amazon.com/emr/latest/EMR-Serverless-UserGuide/endpoints-quotas.html)."""
MISSED_LOOKS = 12
"""How many looks in a row may stay without an answer: a minute."""


def _tell_no_one(said: str) -> None:
    pass


class EmrLineage:
    """`flows.ports.Lineage` on an EMR Serverless application. `application` to `timeout_minutes` as in `EmrServerless`.

    `objects`   the work bucket, whose name is `work`
    `new_id`    makes the id of a run
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
        objects: Work,
        new_id: NewId,
        sleep: Callable[[float], None],
        tell: Callable[[str], None] = _tell_no_one,
    ) -> None:
        self._client = client
        self._application = application
        self._role = role
        self._entry_point = entry_point
        self._spark_parameters = spark_parameters
        self._work = work
        self._account = account
        self._timeout_minutes = timeout_minutes
        self._objects = objects
        self._new_id = new_id
        self._sleep = sleep
        self._tell = tell

    def landed(self, table: str, prefix: str = "") -> Iterator[Landed]:
        """Waits for the job, then returns what it wrote. Raises Retryable if the job did not write it."""
        return self.run(f"lineage-{self._new_id()}", table, prefix)

    def run(self, run: str, table: str, prefix: str = "") -> Iterator[Landed]:
        """The same as the run of this id: a new one, one whose job was started already, or one that is complete.

        Raises Rejected if the run of this id is of another table or prefix.
        """
        complete = self._complete(run) or self._wait_for(run, table, prefix)
        if (complete.table, complete.prefix) != (table, prefix):
            raise Rejected(
                f"the lineage run {run} is of table {complete.table} and prefix {complete.prefix!r}, not of {table} and"
                f" {prefix!r}"
            )
        return in_order(self._read(run, complete), complete)

    def _complete(self, run: str) -> CompleteLineage | None:
        body = self._objects.get(lineage_folder(run) + "complete.json")
        return decode_complete(body) if body else None

    def _wait_for(self, run: str, table: str, prefix: str) -> CompleteLineage:
        job_run = self._start(run, table, prefix)
        self._tell(f"the lineage of {table} is read by job run {job_run} of application {self._application}")
        state, details = self._end_of(job_run)
        complete = self._complete(run)
        if complete is None:
            told = self._objects.get(lineage_folder(run) + "failure.json")
            why = str(json.loads(told)["reason"]) if told else details or "EMR Serverless gives no reason"
            raise Retryable(
                f"could not read the lineage of {table}: job run {job_run} of application {self._application} is"
                f" {state}: {why}. Its log is in EMR Studio"
            )
        return complete

    def _start(self, run: str, table: str, prefix: str) -> str:
        with asking(f"start the job that reads the lineage of {table}"):
            answer = self._client.start_job_run(
                applicationId=self._application,
                clientToken=run,
                executionRoleArn=self._role,
                name=run,
                jobDriver={
                    "sparkSubmit": {
                        "entryPoint": self._entry_point,
                        "entryPointArguments": [
                            "lineage",
                            f"--batch={run}",
                            "--attempt=1",
                            f"--work={self._work}",
                            f"--account={self._account}",
                            f"--table={table}",
                            f"--prefix={prefix}",
                        ],
                        "sparkSubmitParameters": self._spark_parameters,
                    }
                },
                executionTimeoutMinutes=self._timeout_minutes,
                tags={"tidegate:lineage": run},
            )
        job_run: str = answer["jobRunId"]
        return job_run

    def _end_of(self, job_run: str) -> tuple[str, str]:
        """The state that the job ended in, and EMR's details. A look that stays without an answer is repeated."""
        last, missed = "", 0
        while True:
            try:
                with asking(f"ask for job run {job_run}"):
                    run = self._client.get_job_run(applicationId=self._application, jobRunId=job_run)["jobRun"]
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

    def _read(self, run: str, complete: CompleteLineage) -> Iterator[Landed]:
        for name in complete.parts:
            path = f"{lineage_folder(run)}{complete.folder}/{name}"
            body = self._objects.get(path)
            if body is None:
                raise Rejected(f"{path} is missing in the work bucket {self._work}: read the lineage anew")
            yield from decode_landed(body)
