"""Dispatch: a notice claims its uploads and joins the route's open batch.

    step                      if the process dies right after it
    1 read the notice         nothing has happened
    2 claim its uploads       the message comes again; claims that name this notice are its own (rule 1)
    3 publish what it may     the message comes again, and the same notice is published again under the same id
      not take itself
    4 write the part          a file nobody names; the next try writes the same bytes under the same name
    5 register the notice     the message comes again; step 1 finds it decided and acknowledges
    6 acknowledge

A twin (the same notice in two invocations) meets the claims of the other as its own, since they name the same
notice, and one of the two registers. A notice that owns nothing is not registered: it has nothing to lose, and no
twin of it can own anything either, because an ordinary notice never takes a claim over. Not even when the owner let
go: of two twins, one would come too early to see that, and could register a part without the upload that the other
took. Hence step 3: a notice made for those uploads, whose every delivery sees the same (docs/adr/0020).
"""

from collections.abc import Mapping
from contextlib import suppress

from tidegate.core.errors import Retryable, TidegateError
from tidegate.core.manifests import Part, batch_folder, make_part
from tidegate.core.notices import Notice, decode
from tidegate.core.routes import Route
from tidegate.flows.ports import Counter, Ledger, NewId, Registration, Topic, Work
from tidegate.flows.send_again import send_again

# A batch can be sealed between finding it open and registering in it. Each round then meets a newer one; that
# many in a row mean that something seals in a loop, and the queue is the better place to wait.
ROUNDS = 5


def dispatch(
    body: str,
    *,
    routes: Mapping[str, Route],
    ledger: Ledger,
    work: Work,
    topic: Topic,
    new_id: NewId,
    count: Counter,
) -> Route:
    """Handle one message to its end; returns its route, whose batch may have become due.

    Raises Rejected for a message that is no notice, Retryable and OutcomeUnknown for what a later delivery may cure, a
    route that nobody knows among it.
    """
    notice = decode(body)
    # a route that was removed takes what was under way; one that is being added may not be known to this version yet
    route = routes.get(notice.route) or ledger.known_route(notice.route)
    if route is None:
        raise Retryable(
            f"notice {notice.id} is of route {notice.route!r}, which neither tidegate.toml nor the ledger has: it is"
            " given back, as the route may be just being deployed. If there is no such route, delete the message"
        )
    if decided := ledger.notice(notice.id):
        if decided.void:
            count("NoticesVoid", 1, notice.route)
        else:
            _refuse(notice.route, len(notice.entries), ledger, count)
        return route
    claimed = ledger.claim(notice)
    if claimed.refused:
        _refuse(notice.route, len(claimed.refused), ledger, count)
    if claimed.again:
        send_again(notice.route, claimed.again, topic=topic, count=count)
    if claimed.owned:
        part = make_part(notice.id, notice.bucket, claimed.owned)
        _join_open_batch(notice, part, route, ledger=ledger, work=work, new_id=new_id, count=count)
    return route


def _join_open_batch(
    notice: Notice, part: Part, route: Route, *, ledger: Ledger, work: Work, new_id: NewId, count: Counter
) -> None:
    for _ in range(ROUNDS):
        batch = ledger.open_batch(notice.route, new_id)
        if not batch.notices:
            # before anything is in it: whatever becomes of the configuration, settling finds the batch and its route
            ledger.remember_route(route)
        # before the registration that names it: a registered notice always has its part (rule 2)
        work.put(batch_folder(batch.id) + part.name, part.body)
        match ledger.register(notice, batch.id, part):
            case Registration.REGISTERED:
                count("UploadsRegistered", part.objects, notice.route)
                return
            case Registration.ELSEWHERE:
                _refuse(notice.route, len(notice.entries), ledger, count)
                return
            case Registration.VOID:
                # an audit found these claims without a registration and gave the uploads to a notice of its own
                count("NoticesVoid", 1, notice.route)
                return
            case Registration.BATCH_CLOSED:
                continue
    raise Retryable(
        f"notice {notice.id}: {ROUNDS} batches of route {notice.route} were sealed before it could join one"
    )


def _refuse(route: str, uploads: int, ledger: Ledger, count: Counter) -> None:
    count("DuplicatesRefused", uploads, route)
    with suppress(TidegateError):  # a statistic must not keep a notice from being registered
        ledger.refuse(route, uploads)
