"""The job on EMR Serverless that maintains tables (`tidegate.spark.maintain`)."""

from tidegate.aws.errors import asking
from tidegate.aws.jobs import SparkApplication
from tidegate.aws.waited import WaitedJobs


class EmrMaintenance:
    """`flows.ports.Maintenance` on an EMR Serverless application."""

    def __init__(self, application: SparkApplication) -> None:
        self._application = application

    def start(self, run: str) -> str:
        of = self._application
        arguments = [*arguments_of(run), f"--work={of.work}", f"--account={of.account}"]
        with asking("start the job that maintains the tables"):
            return of.start(f"maintain-{run}", arguments, token=f"maintain-{run}", tags=tags_of(run))


class WaitedMaintenance:
    """The same, for a command: it waits for the job's end. `log` then says where the log of the job is."""

    def __init__(self, jobs: WaitedJobs) -> None:
        self._jobs = jobs
        self.log = ""

    def start(self, run: str) -> str:
        job = self._jobs.run(
            f"maintain-{run}",
            arguments_of(run),
            why="maintains the tables",
            about="the tables are maintained",
            tags=tags_of(run),
        )
        self.log = job.log
        return job.name


def arguments_of(run: str) -> list[str]:
    """The job's arguments, without those of each job."""
    return ["maintain", f"--batch={run}", "--attempt=1"]


def tags_of(run: str) -> dict[str, str]:
    return {"tidegate:maintain": run}
