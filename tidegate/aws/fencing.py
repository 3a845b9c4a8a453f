"""The job that fences a batch again (`tidegate.flows.fence_again`), started and waited for."""

from tidegate.aws.waited import WaitedJobs
from tidegate.core.batches import Batch
from tidegate.core.errors import Rejected, Retryable
from tidegate.core.manifests import batch_folder, failure_name
from tidegate.core.receipts import decode_failure
from tidegate.core.routes import Dataset, encode_dataset
from tidegate.flows.ports import Work
from tidegate.flows.store import NewId


class EmrFencer:
    """`flows.ports.Fencer` on an EMR Serverless application. Each request is a run of its own: an earlier one of
    the same batch may have failed."""

    def __init__(self, jobs: WaitedJobs, objects: Work, new_id: NewId) -> None:
        self._jobs = jobs
        self._objects = objects
        self._new_id = new_id

    def fence(self, batch: Batch, dataset: Dataset, *, owner: str) -> None:
        run = f"fence-{self._new_id()}"
        arguments = [
            "fence-again",
            f"--batch={batch.id}",
            "--attempt=0",
            f"--run={run}",
            f"--landing-owner={owner or self._jobs.account}",
            f"--digest={batch.manifest}",
            f"--dataset={encode_dataset(dataset)}",
        ]
        job = self._jobs.run(
            run,
            arguments,
            why=f"fences batch {batch.id}",
            about=f"batch {batch.id} is fenced",
            tags={"tidegate:route": batch.route, "tidegate:batch": batch.id},
        )
        told = self._objects.get(failure_name(batch_folder(batch.id), run))
        if told or job.state != "SUCCESS":
            failure = decode_failure(told) if told else None
            if failure and failure.hopeless:
                raise Rejected(failure.reason)
            why = failure.reason if failure else job.details or "EMR Serverless gives no reason"
            raise Retryable(f"batch {batch.id} was not fenced: {job.name} is {job.state}: {why}")
