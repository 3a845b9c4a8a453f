"""Intake: from S3's notifications to notices, for each upload, beside what no intake can do without.

The notifications are as S3 writes them, 1,000 to an invocation as the event source gives them. The topic takes
everything at once and costs nothing, so this is processor time alone. The limit is `json.loads` of the same messages:
whoever reads a notification pays that.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from bench.findings import BarChart, BenchFindings, BenchTable, WrongAnswer
from bench.inputs import BUCKET, ROUTE, SETTINGS, make_uploads, notification
from bench.measure import take_turns
from tests.support.fakes import MemoryTopic
from tests.support.world import memory_ports
from tidegate.core.manifests import make_part
from tidegate.core.notices import Notice, decode, pack
from tidegate.core.notifications import Notified, parse
from tidegate.core.uploads import Upload
from tidegate.flows.intake import intake
from tidegate.flows.ports import Delivery
from tidegate.settings import parse as parse_settings

INVOCATION = 1_000
WHOLE, LEAST = "intake, whole", "json.loads of the messages"


def run(small: bool) -> BenchFindings:
    count, rounds = (1_000, 1) if small else (20_000, 9)
    uploads = make_uploads(count)
    bodies = [notification(each) for each in uploads]
    invocations = [
        [Delivery(str(number), body) for number, body in enumerate(bodies[start : start + INVOCATION])]
        for start in range(0, count, INVOCATION)
    ]
    routes = parse_settings(SETTINGS).core_routes()
    notices = list(pack(ROUTE, BUCKET, uploads))
    encoded = [each.encode() for each in notices]

    def whole() -> int:
        topic = MemoryTopic()
        ports = replace(memory_ports(), topic=topic)
        for deliveries in invocations:
            if intake(deliveries, ports, routes=routes):
                return -1
        return sum(len(notice.entries) for notice in topic.published)

    def packed() -> int:
        return sum(len(each.entries) for start in _starts(uploads) for each in _pack(uploads[start:][:INVOCATION]))

    peers: dict[str, Callable[[], int]] = {
        WHOLE: whole,
        "parse": lambda: sum(isinstance(found, Notified) for body in bodies for found in parse(body)),
        "pack": packed,
        "encode the notices": lambda: sum(len(each.encode()) and len(each.entries) for each in notices),
        "dispatch: decode the notices": lambda: sum(len(decode(body).entries) for body in encoded),
        "dispatch: make the parts": lambda: sum(
            make_part(each.id, BUCKET, [entry.upload for entry in each.entries]).objects for each in notices
        ),
        LEAST: lambda: sum(len(json.loads(body)["Records"]) for body in bodies),
    }

    def check(peer: str, answer: Any) -> None:
        if answer != count:
            raise WrongAnswer(f"intake: {peer} gave {answer} of {count} uploads")

    found = take_turns(peers, rounds, check)
    rows = [
        (peer, f"{1e6 * found.processor(peer) / count:,.1f}", f"{found.processor_ratio(peer, LEAST):.1f}")
        for peer in peers
    ]
    note = f"{count:,} uploads, {INVOCATION:,} to an invocation; medians of {rounds} rounds."
    bars = [(peer, 1e6 * found.processor(peer) / count) for peer in peers]
    return BenchFindings(
        (BenchTable("intake", ("step", "us of processor", "to json.loads"), rows, note),),
        (BarChart("intake", "Processor time of an upload", "us", [("1,000 to an invocation", bars)]),),
    )


def _starts(uploads: Sequence[Upload]) -> range:
    return range(0, len(uploads), INVOCATION)


def _pack(uploads: Sequence[Upload]) -> list[Notice]:
    return list(pack(ROUTE, BUCKET, uploads))
