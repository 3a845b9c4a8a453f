"""Dead letters, judged before they are moved back: what can never succeed stays where it is, with the reason."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tidegate.core.errors import Rejected
from tidegate.core.lanes import group_of
from tidegate.core.notices import decode
from tidegate.core.notifications import Garbage, Notified, parse
from tidegate.core.routes import Route, route_of


@dataclass(frozen=True, slots=True)
class LetterJudgement:
    """Why a dead letter cannot succeed, "" if it may. `group` is its message group in a FIFO queue."""

    why: str
    group: str = ""


TOO_OLD = "its uploads are older than `claims`: look for them in the table, and upload what is missing"


def judge_notification(
    body: str, routes: Sequence[Route], may_have_forgotten: Callable[[int], bool]
) -> LetterJudgement:
    """A message of the buffer: it may succeed if a route takes one of its uploads that is not too old."""
    reasons = []
    for record in parse(body):
        match record:
            case Notified(upload):
                if not route_of(upload, routes):
                    reasons.append(f"no route takes {upload.uri}")
                elif may_have_forgotten(upload.at):
                    reasons.append(TOO_OLD)
                else:
                    return LetterJudgement("")
            case Garbage(_, reason):
                reasons.append(reason)
    return LetterJudgement(reasons[0] if reasons else "it announces no upload")


def judge_notice(body: str, known: Mapping[str, int], may_have_forgotten: Callable[[int], bool]) -> LetterJudgement:
    """A message of the notices' queue. `known` has the routes of the configuration and of the ledger, and their
    lanes."""
    try:
        notice = decode(body)
    except Rejected as error:
        return LetterJudgement(str(error))
    if notice.route not in known:
        return LetterJudgement(f"neither tidegate.toml nor the ledger has route {notice.route!r}")
    if may_have_forgotten(notice.at):
        return LetterJudgement(TOO_OLD)
    return LetterJudgement("", group_of(notice, known[notice.route]))
