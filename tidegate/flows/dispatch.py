"""Dispatch: a notice claims its uploads and joins the route's open batch.

    step                      if the process dies right after it
    1 read the notice         nothing has happened
    2 claim its uploads       the message comes again; claims that name this notice are its own (rule 1)
    3 publish a new notice    the message comes again, and the same notice is published again under the same id
      for uploads to take over
    4 write the part, which   no record names the file; the next try writes the same bytes under the same name
      says if it came again
    5 register the notice     the message comes again; step 1 finds it decided and acknowledges
    6 acknowledge

If step 1 or step 5 finds that the notice is void, its uploads go into a new notice, and this one is acknowledged:

    1 claim all it can        claims that name the void notice are its own; it lets go of them
    2 publish a new notice    the message comes again; of the uploads that nobody has taken since, it makes a notice
                              again, perhaps the same

The new notice takes from the void one (rule 4: void is final). Twins publish it twice, or two that share uploads, and
so may whoever voided the notice. Each take-over requires that the claim still names the void notice, so one gets it.
Step 1 is there for slow twins: what they could yet claim for the void notice, it owns by then.

Twins (the same notice in two invocations) share their claims, since these name the same notice. One of the two
registers.

A notice that owns no upload is not registered. It has nothing to lose, and its twins own none either, because an
ordinary notice never takes a claim over. Not even if the owner let go: one twin could read the owner too early to see
that, and register a part without the upload that the other twin took. Hence step 3: a new notice for those uploads, and
each of its deliveries reads the same (docs/adr/0020).
"""

from collections.abc import Mapping
from contextlib import suppress

from tidegate.core.errors import Rejected, Retryable, TidegateError
from tidegate.core.manifests import Part, batch_folder, make_part
from tidegate.core.notices import ORIGIN_AGAIN, ORIGIN_RELOAD, ORIGIN_S3, Notice, decode
from tidegate.core.routes import Route
from tidegate.core.times import iso
from tidegate.flows.ledger import Claimed, Registration
from tidegate.flows.ports import Ports
from tidegate.flows.send import send
from tidegate.metrics import Metric

# A batch can be sealed after dispatch reads it as open and before it registers in it. The next round reads a newer
# batch. After so many rounds some process seals in a loop, and the message waits in the queue instead.
ROUNDS = 5


def dispatch(body: str, ports: Ports, *, routes: Mapping[str, Route]) -> Route:
    """Handle one message completely. Returns its route, whose batch may have become due.

    Raises Rejected for a message that is no notice, or that is older than the ledger's memory. Raises Retryable or
    OutcomeUnknown if a later delivery may succeed, for example if neither the configuration nor the ledger has the
    route.
    """
    notice = decode(body)
    # a removed route still takes the notices under way; a new route may not be in this version's configuration yet
    route = routes.get(notice.route) or ports.ledger.known_route(notice.route)
    if route is None:
        raise Retryable(
            f"notice {notice.id} is of route {notice.route!r}, which neither tidegate.toml nor the ledger has: it is"
            " given back, as the route may be just being deployed. If there is no such route, delete the message"
        )
    decided = ports.ledger.notice(notice.id)
    if decided and not decided.void:
        _refuse(notice.route, len(notice.entries), ports)
        return route
    if ports.ledger.may_have_forgotten(notice.at):
        raise Rejected(
            f"notice {notice.id} is from {iso(notice.at)}, longer ago than the ledger remembers an upload (setting"
            " `claims`): whether its uploads have landed is not known any more, and nothing is done with them. Look for"
            f" them in the table by _source_uri and _source_version: the first is s3://{notice.bucket}/"
            f"{notice.entries[0].upload.key}. What is not there can be uploaded again"
        )
    if decided:
        _send_on(notice, route, ports)
        return route
    claimed = ports.ledger.claim(notice, route.dataset.table)
    if claimed.refused:
        _refuse(notice.route, len(claimed.refused), ports)
    if claimed.again:
        send(notice.route, claimed.again, ports)
    if claimed.owned:
        again, reloads = notice.origin != ORIGIN_S3, notice.reloads
        part = make_part(notice.id, notice.bucket, claimed.owned, again=again, reloads=reloads)
        _join_open_batch(notice, part, claimed, route, ports)
    return route


def receive(body: str, ports: Ports, *, routes: Mapping[str, Route]) -> Route | Rejected:
    """`dispatch`, but a message that can never succeed is set aside for a person, and the reason is returned.

    The message is set aside first and acknowledged second: after a crash between the two it is in both places.
    """
    try:
        return dispatch(body, ports, routes=routes)
    except Rejected as error:
        ports.notices_dead_letters.set_aside(body, str(error))
        return error


def _join_open_batch(notice: Notice, part: Part, claimed: Claimed, route: Route, ports: Ports) -> None:
    for _ in range(ROUNDS):
        batch = ports.ledger.open_batch(notice.route, ports.new_id)
        if not batch.notices:
            # before the batch has notices: settling then finds its route even if the configuration loses it
            ports.ledger.remember_route(route)
        # before the registration: a registered notice always has its part (rule 2)
        ports.work.put(batch_folder(batch.id) + part.name, part.body)
        match ports.ledger.register(notice, batch.id, part, claimed.back):
            case Registration.REGISTERED:
                ports.measure(Metric.UPLOADS_REGISTERED, part.objects, notice.route)
                return
            case Registration.ELSEWHERE:
                _refuse(notice.route, len(notice.entries), ports)
                return
            case Registration.VOID:
                _send_on(notice, route, ports)
                return
            case Registration.BATCH_CLOSED:
                continue
    raise Retryable(
        f"notice {notice.id}: {ROUNDS} batches of route {notice.route} were sealed before it could join one"
    )


def _send_on(notice: Notice, route: Route, ports: Ports) -> None:
    """Send what a void notice leaves in a new one. Other notices own the rest, or it has ended."""
    ports.measure(Metric.NOTICES_VOID, 1, notice.route)
    left = ports.ledger.left_to(notice, route.dataset.table)
    # the origin names the void notice, so that the new one is never the void one over again
    origin = ORIGIN_RELOAD if notice.reloads else ORIGIN_AGAIN
    send(notice.route, left, ports, origin=f"{origin}-{notice.id}")
    if len(left) < len(notice.entries):
        _refuse(notice.route, len(notice.entries) - len(left), ports)


def _refuse(route: str, uploads: int, ports: Ports) -> None:
    ports.measure(Metric.DUPLICATES_REFUSED, uploads, route)
    with suppress(TidegateError):  # a failed statistic must not prevent the registration
        ports.ledger.refuse(route, uploads)
