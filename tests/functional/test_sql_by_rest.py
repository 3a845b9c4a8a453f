"""`tidegate sql` on a catalog that speaks REST: as much of one as PyIceberg asks, before tables in moto's S3."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto.server import ThreadedMotoServer
from pyiceberg.catalog.sql import SqlCatalog

from tests.support import warehouse
from tidegate.cli.asking import engine, lakes
from tidegate.cli.asking.properties import Caller
from tidegate.settings import LakeCatalog

TABLES = "/v1/namespaces/flights/tables"


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
    boto3.client("s3", region_name="us-east-1").create_bucket(Bucket="tables")
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def answers(s3: str, tmp_path: Path) -> dict[str, Any]:
    """What the catalog answers. It hands out keys with the table."""
    made = SqlCatalog("made", uri=f"sqlite:///{tmp_path}/made.db", warehouse="s3://tables", **{"s3.endpoint": s3})
    warehouse.fill(made)
    table = made.load_table(warehouse.TABLE)
    keys = {"s3.access-key-id": "handed", "s3.secret-access-key": "out", "s3.session-token": "for this table"}
    return {
        "/v1/config": {"defaults": {}, "overrides": {}},
        TABLES: {"identifiers": [{"namespace": ["flights"], "name": "departures"}]},
        f"{TABLES}/departures": {
            "metadata-location": table.metadata_location,
            "metadata": json.loads(table.metadata.model_dump_json()),
            "config": keys,
        },
    }


@pytest.fixture
def catalog(answers: dict[str, Any]) -> Iterator[str]:
    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = answers.get(self.path.partition("?")[0])
            body = json.dumps(
                found or {"error": {"message": "not there", "type": "NoSuchTableException", "code": 404}}
            ).encode()
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_a_table_is_read_with_the_keys_that_the_catalog_hands_out(catalog: str, s3: str):
    # `tidegate.toml` takes https only
    settings = LakeCatalog("lake", "rest", uri=catalog)
    who = Caller("us-east-1", "of the shell", "secret", "", s3)
    locate = lakes._rest(settings, who)
    located = locate("flights", "departures")
    assert located
    assert located.keys == Caller("us-east-1", "handed", "out", "for this table", s3)
    assert locate("flights", "arrivals") is None
    lake = lakes.Lake("here", "lake", lambda: ["lake.flights.departures"], locate, who)
    answered = engine.ask("select origin, count(*) from lake.flights.departures group by origin order by 1", lake)
    assert list(answered.rows) == [("EWR", 3), ("JFK", 2)]
    with pytest.raises(lakes.NoSuchTable, match=r"did you mean lake\.flights\.departures\?"):
        engine.ask("select * from lake.flights.departure", lake)
