"""Jobs that screen buckets, through EMR Serverless: which job is started, and what is said if it fails."""

import json
from dataclasses import replace

import boto3
import pytest

from tests.functional.test_emr_lineage import Emr
from tests.support.build import route, uploads
from tests.support.emr import APPLICATION
from tests.support.fakes import play_screening
from tidegate.aws.screening import EmrScreens, WaitedScreening
from tidegate.core.audit import METADATA_JOURNAL, Window
from tidegate.core.errors import Retryable
from tidegate.core.screening import ScreeningRequest, decode_request, screening_failure

FLIGHTS = route("flights")
WINDOW = Window(10, 20, 3, 40)
REQUEST = ScreeningRequest(
    "landing", "flights/", ".json", "", METADATA_JOURNAL, WINDOW, ledger="ledger-1", claims=60, rate=500
)


def screening(emr: Emr) -> tuple[EmrScreens, WaitedScreening]:
    jobs = emr.lineage()._jobs
    screens = EmrScreens(jobs._application, ledger="ledger-1", claims=60, rate=500)
    return screens, WaitedScreening(jobs, screens, emr.work)


def test_a_run_has_one_job_that_is_told_what_to_compare():
    emr = Emr()
    screens, _ = screening(emr)
    first = screens.start("01R", FLIGHTS, METADATA_JOURNAL, WINDOW)
    assert screens.start("01R", FLIGHTS, METADATA_JOURNAL, WINDOW) == first
    assert screens.start("01S", FLIGHTS, METADATA_JOURNAL, WINDOW) != first
    asked = emr.service.asked[0]
    assert asked["clientToken"].startswith("audit-01R-")
    assert asked["name"] == "audit-flights-01R"
    assert asked["tags"] == {"tidegate:route": "flights", "tidegate:audit": "01R"}
    mode, batch, attempt, told, *rest = asked["jobDriver"]["sparkSubmit"]["entryPointArguments"]
    assert (mode, batch, attempt) == ("screen", "--batch=01R", "--attempt=1")
    assert rest == ["--work=work-bucket", "--account=123456789012"]
    assert decode_request(told.removeprefix("--screening=")) == REQUEST


def test_the_log_of_a_job_is_where_its_service_puts_it():
    """The local stack has no EMR Studio."""
    emr = Emr()
    screens, _ = screening(emr)
    assert screens.log_of("00f1") == "Its log is in EMR Studio"
    application = replace(
        screens._application, client=boto3.client("emr-serverless", endpoint_url="http://127.0.0.1:1")
    )
    local = EmrScreens(application, ledger="ledger-1", claims=60, rate=500)
    assert local.log_of("00f1") == "Its log is in jobs/00f1/ of the stack's folder"


def test_a_command_waits_for_the_job_and_gets_what_it_found():
    emr = Emr()
    _, waited = screening(emr)

    def succeed(job_run: str) -> None:
        play_screening(emr.work, "by-hand-1", uploads(3))
        emr.service.end(job_run)

    emr.end = succeed
    assert waited.screen("by-hand-1", FLIGHTS, METADATA_JOURNAL, WINDOW).suspects == 3
    assert emr.said[0] == f"s3://landing/flights/ is screened by job run run-1 of application {APPLICATION}"


@pytest.mark.parametrize("told", [True, False])
def test_a_job_that_found_nothing_out_is_said_with_its_reason(told: bool):
    emr = Emr()
    _, waited = screening(emr)

    def fail(job_run: str) -> None:
        if told:
            emr.work.put(screening_failure("01R"), json.dumps({"reason": "no list is there"}).encode())
        emr.service.end(job_run, "FAILED")

    emr.end = fail
    why = r"no list is there\. Its log is in EMR Studio$" if told else ".*"
    with pytest.raises(Retryable, match=f"could not screen s3://landing/flights/: job run run-1 .* is FAILED: {why}"):
        waited.screen("01R", FLIGHTS, METADATA_JOURNAL, WINDOW)
