"""The lineage of a table, read by a job on EMR Serverless (`tidegate.spark.lineage`).

    step                        if the process dies right after it
    1 look for complete.json    nothing has happened
    2 start the job             the client token is the run's id: who goes on with the run gets the same job
    3 ask until it has ended    nothing: the job goes on
    4 read complete.json        the run can be read again by its id, without another job
    5 read its history, if it   the same
      is asked for
    6 read its files, one by    the same
      one

What counts is `complete.json`, not the job's state: a job may write it and fail to end well.
"""

from collections.abc import Iterator

from tidegate.aws.waited import WaitedJobs
from tidegate.core.errors import Rejected, Retryable
from tidegate.core.lineage import (
    CompleteLineage,
    Landed,
    decode_complete,
    decode_history,
    decode_landed,
    history_name,
    in_order,
    lineage_folder,
)
from tidegate.core.publication import History
from tidegate.flows.ports import Work
from tidegate.flows.store import NewId


class EmrLineage:
    """`flows.ports.Lineage` on an EMR Serverless application.

    `jobs`      starts a job, and waits for it
    `objects`   the work bucket
    `new_id`    makes the id of a run
    """

    def __init__(self, jobs: WaitedJobs, objects: Work, new_id: NewId) -> None:
        self._jobs = jobs
        self._objects = objects
        self._new_id = new_id

    def landed(self, table: str, prefix: str = "") -> Iterator[Landed]:
        """Waits for the job, then returns what it wrote. Raises Retryable if the job did not write it."""
        return self.run(f"lineage-{self._new_id()}", table, prefix)

    def run(self, run: str, table: str, prefix: str = "") -> Iterator[Landed]:
        """The same as the run of this id: a new one, one whose job was started already, or one that is complete.

        Raises Rejected if the run of this id is of another table or prefix.
        """
        return self._landed(run, self._finished(run, table, prefix))

    def with_history(self, table: str, prefix: str = "") -> tuple[History, Iterator[Landed]]:
        """Waits for the job, as `landed` does."""
        run = f"lineage-{self._new_id()}"
        complete = self._finished(run, table, prefix)
        name = history_name(f"{lineage_folder(run)}{complete.folder}/")
        body = self._objects.get(name)
        if body is None:
            raise Rejected(f"{name} is missing in the work bucket: run this again")
        return decode_history(body), self._landed(run, complete)

    def _finished(self, run: str, table: str, prefix: str) -> CompleteLineage:
        complete = self._complete(run) or self._wait_for(run, table, prefix)
        if (complete.table, complete.prefix) != (table, prefix):
            raise Rejected(
                f"the lineage run {run} is of table {complete.table} and prefix {complete.prefix!r}, not of {table} and"
                f" {prefix!r}"
            )
        return complete

    def _landed(self, run: str, complete: CompleteLineage) -> Iterator[Landed]:
        return in_order(self._read(run, complete), complete)

    def _complete(self, run: str) -> CompleteLineage | None:
        body = self._objects.get(lineage_folder(run) + "complete.json")
        return decode_complete(body) if body else None

    def _wait_for(self, run: str, table: str, prefix: str) -> CompleteLineage:
        arguments = ["lineage", f"--batch={run}", "--attempt=1", f"--table={table}", f"--prefix={prefix}"]
        job = self._jobs.run(
            run,
            arguments,
            why=f"reads the lineage of {table}",
            about=f"the lineage of {table} is read",
            tags={"tidegate:lineage": run},
        )
        complete = self._complete(run)
        if complete is None:
            told = self._objects.get(lineage_folder(run) + "failure.json")
            why = job.why(told)
            raise Retryable(f"could not read the lineage of {table}: {job.name} is {job.state}: {why}. {job.log}")
        return complete

    def _read(self, run: str, complete: CompleteLineage) -> Iterator[Landed]:
        for name in complete.parts:
            path = f"{lineage_folder(run)}{complete.folder}/{name}"
            body = self._objects.get(path)
            if body is None:
                raise Rejected(f"{path} is missing in the work bucket: read the lineage anew")
            yield from decode_landed(body)
