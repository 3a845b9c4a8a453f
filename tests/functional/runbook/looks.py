"""Where to look when no alarm sounds."""

from tests.functional.runbook import scenario
from tests.functional.runbook.stage import ROUTE, Stage


@scenario("Where to look")
def somebody_asks_for_a_file(stage: Stage) -> None:
    batch = stage.submitted("flights/a.json")
    assert batch.id in stage.types("tidegate trace", BUCKET="landing", KEY="flights/a.json")
    stage.published(batch.id)
    assert "nothing needs a person" in stage.types("tidegate status --check")
    assert "s3://landing/flights/a.json" in stage.types("tidegate files")
    assert batch.id in stage.types("tidegate files --batches")
    told = stage.types("tidegate trace", BUCKET="landing", KEY="flights/a.json")
    assert "\nlanded: 1 row at " in told
    assert str(stage.batch(batch.id).snapshot) in told
    stage.types("tidegate trace", ends=1, BUCKET="landing", KEY="flights/nobody-knows.json")


@scenario("Alarms")
def somebody_asks_which_route_it_is(stage: Stage) -> None:
    stage.halted("the table has no such column")
    stage.types("describe-alarm-contributors", ALARM="batch-halted", moto_lacks=True)
    told = stage.shell.type("tidegate status")
    assert (told.code, ROUTE in told.stdout) == (1, True)
