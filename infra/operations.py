"""Operations: the alarms and the dashboard of a deployment."""

from collections.abc import Iterable, Mapping

from aws_cdk import aws_kms as kms
from constructs import Construct

from infra.alarms import Alarms
from infra.dashboard import Dashboard
from infra.measures import Parts


class Operations(Construct):
    """The alarms, the topic they are sent to, and the dashboard. It only reads: nothing in the path depends on it."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        parts: Parts,
        expected: Mapping[str, int],
        announces: bool = True,
        emails: Iterable[str] = (),
        key: kms.IKey | None = None,
    ) -> None:
        """`expected` has the routes of which an alarm sounds if nothing was uploaded for so many seconds. Raises
        ValueError if that is longer than an alarm can cover."""
        super().__init__(scope, id)
        alarms = Alarms(self, "Alarms", parts=parts, expected=expected, announces=announces, emails=emails, key=key)
        self.topic = alarms.topic
        Dashboard(self, "Dashboard", parts=parts, alarms=alarms.all)
