"""Operations: whoever runs a deployment sees how it does, and is told when it needs them."""

from collections.abc import Iterable

from aws_cdk import aws_kms as kms
from constructs import Construct

from infra.alarms import Alarms
from infra.dashboard import Dashboard
from infra.measures import Parts, Watched


class Operations(Construct):
    """The alarms, the topic they go to, and the dashboard. It only looks: nothing in the path depends on it."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        parts: Parts,
        routes: Iterable[Watched],
        emails: Iterable[str] = (),
        key: kms.IKey | None = None,
    ) -> None:
        """Raises LimitsError if a route expects uploads more seldom than an alarm can tell."""
        super().__init__(scope, id)
        watched = tuple(routes)
        alarms = Alarms(self, "Alarms", parts=parts, routes=watched, emails=emails, key=key)
        self.topic = alarms.topic
        Dashboard(self, "Dashboard", parts=parts, routes=watched, alarms=alarms.all)
