"""Operations: the alarms and the dashboard of a deployment."""

from collections.abc import Iterable

from aws_cdk import aws_kms as kms
from constructs import Construct

from infra.alarms import Alarms
from infra.dashboard import Dashboard
from infra.measures import Parts, WatchedRoute


class Operations(Construct):
    """The alarms, the topic they are sent to, and the dashboard. It only reads: nothing in the path depends on it."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        parts: Parts,
        routes: Iterable[WatchedRoute],
        announces: bool = True,
        emails: Iterable[str] = (),
        key: kms.IKey | None = None,
    ) -> None:
        """Raises SizingError if a route's `expect_every` is longer than an alarm can cover."""
        super().__init__(scope, id)
        watched = tuple(routes)
        alarms = Alarms(self, "Alarms", parts=parts, routes=watched, announces=announces, emails=emails, key=key)
        self.topic = alarms.topic
        Dashboard(self, "Dashboard", parts=parts, routes=watched, alarms=alarms.all)
