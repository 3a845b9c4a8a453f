"""Jobs on EMR Serverless that screen buckets for audits (`tidegate.spark.screening`)."""

from tidegate.aws.errors import asking
from tidegate.aws.jobs import SparkApplication
from tidegate.aws.waited import WaitedJobs, log_of
from tidegate.core.audit import Window
from tidegate.core.errors import Retryable
from tidegate.core.routes import Route
from tidegate.core.screening import CompleteScreening, ScreeningRequest, screening_failure
from tidegate.flows.ports import Work
from tidegate.flows.suspects import screening_of


class EmrScreens:
    """`flows.ports.Screens` on an EMR Serverless application.

    `ledger`   the table's name
    `claims`   how long it keeps a claim, in seconds
    `rate`     how many uploads a job compares in a second, at most
    """

    def __init__(self, application: SparkApplication, *, ledger: str, claims: int, rate: int) -> None:
        self._application = application
        self._ledger = ledger
        self._claims = claims
        self._rate = rate

    def start(self, run: str, route: Route, source: str, window: Window) -> str:
        of = self._application
        arguments = [
            *self.arguments(run, route, source, window),
            f"--work={of.work}",
            f"--account={of.account}",
        ]
        with asking(
            f"start the job that screens s3://{route.bucket}/{route.prefix} for the audit of route {route.name}"
        ):
            return of.start(f"audit-{route.name}-{run}", arguments, token=token_of(run), tags=tags_of(run, route))

    def log_of(self, job_run: str) -> str:
        return log_of(job_run, self._application.client.meta.endpoint_url)

    def arguments(self, run: str, route: Route, source: str, window: Window) -> list[str]:
        """The job's arguments, without those of each job."""
        request = ScreeningRequest(
            bucket=route.bucket,
            prefix=route.prefix,
            suffix=route.suffix,
            owner=route.owner,
            source=source,
            window=window,
            ledger=self._ledger,
            claims=self._claims,
            rate=self._rate,
            removes=route.dataset.removes,
        )
        return ["screen", f"--batch={run}", "--attempt=1", f"--screening={request.encode()}"]


class WaitedScreening:
    """The same, for a command: it waits for the job.

    `jobs`   starts a job, and waits for it
    `work`   the work bucket
    """

    def __init__(self, jobs: WaitedJobs, screens: EmrScreens, work: Work) -> None:
        self._jobs = jobs
        self._screens = screens
        self._work = work

    def screen(self, run: str, route: Route, source: str, window: Window) -> CompleteScreening:
        """What the job has found. Raises Retryable if it found nothing out."""
        place = f"s3://{route.bucket}/{route.prefix}"
        job = self._jobs.run(
            token_of(run),
            self._screens.arguments(run, route, source, window),
            why=f"screens {place}",
            about=f"{place} is screened",
            tags=tags_of(run, route),
        )
        found = screening_of(run, self._work)
        if found is None:
            why = job.why(self._work.get(screening_failure(run)))
            raise Retryable(f"could not screen {place}: {job.name} is {job.state}: {why}. {job.log}")
        return found


def token_of(run: str) -> str:
    return f"audit-{run}"


def tags_of(run: str, route: Route) -> dict[str, str]:
    return {"tidegate:route": route.name, "tidegate:audit": run}
