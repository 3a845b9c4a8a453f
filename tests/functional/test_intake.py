"""Intake: notifications become notices; what is garbage is set aside; what was not accepted is given back."""

import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.build import eventbridge_event, route, s3_message, s3_record
from tests.support.fakes import Counts, MemoryDeadLetters, MemoryTopic
from tests.support.world import memory_ports
from tidegate.core.notices import Notice
from tidegate.core.routes import Route
from tidegate.core.uploads import Upload
from tidegate.flows.intake import intake
from tidegate.flows.ports import Delivery
from tidegate.metrics import Metric

ROUTES = [route("flights"), route("weather")]
TEST_EVENT = json.dumps({"Service": "Amazon S3", "Event": "s3:TestEvent", "Bucket": "landing"})


class Intake:
    """An intake whose surroundings can be looked at."""

    def __init__(self) -> None:
        self.topic = MemoryTopic()
        self.dead_letters = MemoryDeadLetters()
        self.count = Counts()

        self.told: list[Upload] = []

    def __call__(self, *bodies: str, routes: list[Route] = ROUTES, ignore: Sequence[tuple[str, str]] = ()) -> set[str]:
        """The numbers, as text, of the messages that were given back."""
        deliveries = [Delivery(str(number), body) for number, body in enumerate(bodies)]
        ports = memory_ports(topic=self.topic, dead_letters=self.dead_letters, measure=self.count)
        return set(intake(deliveries, ports, routes=routes, ignore=ignore, tell=self.told.append))


@pytest.fixture
def run() -> Intake:
    return Intake()


def put(*keys: str, bucket: str = "landing") -> str:
    return s3_message(*(s3_record(key, bucket=bucket) for key in keys))


def test_uploads_become_one_notice_a_route(run: Intake):
    assert run(put("flights/a.json", "weather/a.json"), put("flights/b.json")) == set()
    assert [(notice.route, len(notice.entries), notice.origin) for notice in run.topic.published] == [
        ("flights", 2, "s3"),
        ("weather", 1, "s3"),
    ]
    assert run.count.of(Metric.UPLOADS_NOTIFIED, "flights") == 2
    assert run.count.of(Metric.UPLOADS_NOTIFIED, "weather") == 1


def test_what_many_messages_bring_is_counted_and_published_once(run: Intake):
    measured: list[tuple[Metric, int, str]] = []
    calls: list[int] = []

    class CountedTopic(MemoryTopic):
        def publish(self, notices: Sequence[Notice]) -> frozenset[str]:
            calls.append(len(notices))
            return super().publish(notices)

    ports = memory_ports(
        topic=CountedTopic(),
        dead_letters=run.dead_letters,
        measure=lambda metric, value, route="": measured.append((metric, value, route)),
    )
    bodies = [put("flights/a.json", "weather/a.json", "trains/a.json", "logs/a.json", "flights/")] * 3
    bodies += [put(f"flights/{number}.json") for number in range(20)] + [TEST_EVENT] * 3 + ["garbage"] * 2
    deliveries = [Delivery(str(number), body) for number, body in enumerate(bodies)]
    assert intake(deliveries, ports, routes=ROUTES, ignore=[("landing", "logs/")]) == frozenset()
    assert calls == [2]
    assert sorted(measured, key=str) == sorted(
        [
            (Metric.UPLOADS_OF_NO_ROUTE, 6, ""),
            (Metric.UPLOADS_IGNORED, 3, ""),
            (Metric.RECORDS_NOT_UPLOADS, 3, ""),
            (Metric.RECORDS_SET_ASIDE, 2, ""),
            (Metric.UPLOADS_NOTIFIED, 21, "flights"),
            (Metric.UPLOADS_NOTIFIED, 1, "weather"),
        ],
        key=str,
    )


def test_both_shapes_of_s3s_notifications_are_taken(run: Intake):
    run(put("flights/a b.json"), json.dumps(eventbridge_event("flights/a+b.json")))
    assert run.topic.keys == ["flights/a b.json", "flights/a+b.json"]


def test_an_upload_notified_twice_is_in_the_notice_once(run: Intake):
    run(put("flights/a.json", "flights/a.json"), put("flights/a.json"))
    assert run.topic.keys == ["flights/a.json"]


def test_the_same_messages_in_another_order_make_the_same_notice(run: Intake):
    bodies = [put("flights/a.json"), put("flights/b.json"), put("flights/c.json", "flights/a.json")]
    run(*bodies)
    run(*reversed(bodies))
    assert len({notice.id for notice in run.topic.published}) == 1


def test_garbage_is_set_aside_with_its_reason_while_its_neighbours_pass(run: Intake):
    broken = {"eventName": "ObjectCreated:Put"}
    assert run("garbage", s3_message(s3_record("flights/a.json"), broken), put("flights/b.json")) == set()
    assert run.topic.keys == ["flights/a.json", "flights/b.json"]
    (first, reason), (second, _) = run.dead_letters.letters
    assert first == "garbage"
    assert "not JSON" in reason
    assert json.loads(second) == {"Records": [broken]}
    assert run.count[Metric.RECORDS_SET_ASIDE] == 2


def test_garbage_that_cannot_be_set_aside_is_given_back_and_nothing_else_is(run: Intake):
    run.dead_letters.refuses = lambda body: body == "garbage 1"
    assert run("garbage 0", "garbage 1", put("flights/a.json")) == {"1"}
    assert run.topic.keys == ["flights/a.json"]


@pytest.mark.parametrize(
    "body", [TEST_EVENT, '{"Records": []}', s3_message(s3_record("x", event="ObjectRemoved:Delete"))]
)
def test_what_announces_no_upload_is_acknowledged(run: Intake, body: str):
    assert run(body) == set()
    assert run.topic.published == []
    assert run.dead_letters.letters == []


def test_a_folder_that_somebody_made_is_no_upload_wherever_it_is(run: Intake):
    folders = s3_message(*(s3_record(key, size=0) for key in ("flights/", "flights/2013/", "trains/")))
    assert run(folders) == set()
    assert run.topic.published == []
    assert run.count[Metric.RECORDS_NOT_UPLOADS] == 3
    assert run.count[Metric.UPLOADS_OF_NO_ROUTE] == 0


def test_the_test_event_is_counted(run: Intake):
    run(TEST_EVENT)
    assert run.count[Metric.RECORDS_NOT_UPLOADS] == 1


def test_uploads_of_no_route_are_counted_and_acknowledged(run: Intake):
    elsewhere = put("flights/a.json", bucket="somebody-elses")
    assert run(elsewhere, put("trains/a.json"), put("flights/a.csv"), put("flights/a.json")) == set()
    assert run.topic.keys == ["flights/a.json"]
    assert run.count[Metric.UPLOADS_OF_NO_ROUTE] == 3
    assert [each.uri for each in run.told] == [
        *("s3://somebody-elses/flights/a.json", "s3://landing/trains/a.json", "s3://landing/flights/a.csv"),
    ]
    assert run.dead_letters.letters == []


def test_uploads_that_are_meant_to_have_no_route_are_counted_apart(run: Intake):
    meant = [("landing", "trains/"), ("somebody-elses", "")]
    elsewhere = put("planes/a.json", bucket="somebody-elses")
    assert run(elsewhere, put("trains/a.json", "planes/a.json", "flights/a.json"), ignore=meant) == set()
    assert run.count[Metric.UPLOADS_IGNORED] == 2
    assert run.count[Metric.UPLOADS_OF_NO_ROUTE] == 1
    assert [each.key for each in run.told] == ["planes/a.json"]


def test_what_is_ignored_in_one_bucket_is_told_of_another(run: Intake):
    assert run(put("trains/a.json"), ignore=[("elsewhere", "trains/")]) == set()
    assert [upload.key for upload in run.told] == ["trains/a.json"]
    assert (run.count[Metric.UPLOADS_OF_NO_ROUTE], run.count[Metric.UPLOADS_IGNORED]) == (1, 0)


def test_what_a_route_takes_is_not_ignored(run: Intake):
    run(put("flights/a.json"), ignore=[("landing", "")])
    assert run.topic.keys == ["flights/a.json"]
    assert run.count[Metric.UPLOADS_IGNORED] == 0


def test_when_the_topic_is_not_to_be_reached_every_message_with_an_upload_is_given_back(run: Intake):
    run.topic.broken = True
    assert run(put("flights/a.json"), TEST_EVENT, "garbage", put("weather/b.json"), put("trains/c.json")) == {"0", "3"}
    assert run.count[Metric.UPLOADS_NOTIFIED] == 0


def test_when_the_topic_refuses_a_routes_notice_that_routes_messages_are_given_back(run: Intake):
    run.topic.accepts = lambda notice: notice.route != "weather"
    bodies = [
        put("flights/a.json"),
        put("weather/a.json"),
        put("flights/b.json", "weather/b.json"),
        put("flights/c.json"),
    ]
    assert run(*bodies) == {"1", "2"}
    assert run.topic.keys == ["flights/a.json", "flights/b.json", "flights/c.json"]
    assert run.count.of(Metric.UPLOADS_NOTIFIED, "weather") == 0


def test_when_the_topic_refuses_some_notices_of_a_route_exactly_their_messages_are_given_back(run: Intake):
    # keys so long that each notice holds some 230 of them
    keys = [f"flights/{number:04}-{'k' * 1000}.json" for number in range(600)]
    bodies = [put(*keys[start : start + 100]) for start in range(0, 600, 100)]
    refused: list[str] = []

    def all_but_the_second(notice) -> bool:
        refused.append(notice.id)
        return len(refused) != 2

    run.topic.accepts = all_but_the_second
    given_back = run(*bodies)
    assert len(refused) == 3
    missing = set(keys) - set(run.topic.keys)
    assert missing
    assert given_back == {str(number) for number, body in enumerate(bodies) if any(key in body for key in missing)}
    assert run.count[Metric.UPLOADS_NOTIFIED] == 600 - len(missing)


def test_an_upload_that_several_messages_announce_gives_all_of_them_back(run: Intake):
    run.topic.broken = True
    assert run(put("flights/a.json"), put("flights/a.json"), put("trains/a.json")) == {"0", "1"}


def test_an_upload_that_messages_describe_differently_gives_all_of_them_back(run: Intake):
    # S3 leaves the size out in some types of event: it is the same upload all the same
    run.topic.broken = True
    bodies = [s3_message(s3_record("flights/a.json", size=size)) for size in (10, None)]
    assert run(*bodies) == {"0", "1"}


def test_nothing_delivered_publishes_nothing(run: Intake):
    assert run() == set()
    assert run.topic.published == []


BODIES = st.lists(
    st.one_of(
        st.builds(put, st.sampled_from(["flights/a.json", "flights/b.json", "weather/c.json", "trains/d.json"])),
        st.builds(
            lambda one, other: s3_message(s3_record(one), None, s3_record(other)),
            st.sampled_from(["flights/a.json", "weather/e.json"]),
            st.sampled_from(["weather/c.json", "flights/f.json"]),
        ),
        st.just(TEST_EVENT),
        st.just("garbage"),
    ),
    max_size=12,
)


@given(BODIES, st.sets(st.sampled_from(["flights", "weather"])), st.booleans())
def test_every_upload_is_on_the_topic_or_every_message_of_it_is_given_back(
    bodies: list[str], refused: set[str], no_dead_letters: bool
):
    run = Intake()
    run.topic.accepts = lambda notice: notice.route not in refused
    run.dead_letters.refuses = lambda body: no_dead_letters
    given_back = run(*bodies)
    for number, body in enumerate(bodies):
        wanted = {key for name in ("flights", "weather") for key in _keys(body) if key.startswith(name)}
        if str(number) not in given_back:
            assert wanted <= set(run.topic.keys)
            if "garbage" in body or "null" in body:
                assert run.dead_letters.letters


def _keys(body: str) -> list[str]:
    if not body.startswith('{"Records"'):
        return []
    return [record["s3"]["object"]["key"] for record in json.loads(body)["Records"] if record]
