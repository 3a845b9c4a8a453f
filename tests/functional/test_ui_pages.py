"""The pages on a deployment in memory: they show what the verbs print, and the form does what the verb does."""

import itertools
import json
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import NoCredentialsError
from typer.testing import CliRunner

from tests.functional.test_resend import KEYS, abandoned, committed_with, deliver
from tests.support.build import BUCKET
from tests.support.past import DatedWorld, asked_of, dated_world
from tests.support.ui import COOKIE, HOST, KNOWN, Browser, Element, browser_of, deployment_of, fields, tree, ui_of
from tests.support.world import World
from tidegate import wiring
from tidegate.aws.errors import asking
from tidegate.cli import deployment, main
from tidegate.core.batches import State
from tidegate.core.errors import Retryable
from tidegate.core.outcomes import DROPPED, Outcome
from tidegate.core.records import route_key
from tidegate.core.unknown import UnknownNames
from tidegate.flows.abort import abort
from tidegate.ui import pages, questions
from tidegate.ui.guard import HEADERS, Secrets
from tidegate.ui.picture import FALLS, GATES

ROOT = Path(__file__).parents[2]
NOON = 1_795_262_400
"""2026-11-21T12:00:00Z."""
URI = f"s3://{BUCKET}/{KEYS[0]}"
PAGES = (
    "/",
    "/batches",
    "/route/flights",
    "/quarantine",
    "/quarantine/release",
    "/trace",
    f"/trace?uri={URI}",
)


@pytest.fixture
def world() -> World:
    found = dated_world(max_wait=0, in_flight=2)
    found.clock.now = NOON
    return found


@pytest.fixture
def browser(world: World) -> Browser:
    return browser_of(world)


@pytest.fixture
def printed(world: World, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What a verb prints of the same deployment, as JSON."""
    monkeypatch.setattr(deployment, "find", lambda folder: deployment_of(world))
    monkeypatch.setattr(wiring, "clock", world.clock)

    def run(*arguments: str) -> Any:
        return json.loads(CliRunner().invoke(main.app, [*arguments, "--json"], catch_exceptions=False).stdout)

    return run


def busy(world: World) -> None:
    """Some uploads in each place."""
    abandoned(world, prefix="flights/given-up/")
    committed_with(world, *KEYS[:2])
    halted = world.submitted(prefix="flights/halted/")
    world.ledger.halt(halted.id, halted.attempt, "no such column: <b>dep_delay</b>")
    world.submitted(prefix="flights/running/")
    world.sealed(prefix="flights/sealed/")
    world.arrive(prefix="flights/gathering/")


def numbers(page: Element) -> dict[str, int]:
    """What stands in the picture, by the word below it."""
    found = {}
    for each in page.all("g"):
        if "place" in each.attributes.get("class", "").split():
            count, name = each.all("text")
            found[name.words] = int(count.words.replace(",", ""))
    return found


def table(page: Element, number: int = 0) -> list[dict[str, str]]:
    found = page.all("table")[number]
    heads = [each.words for each in found.all("thead")[0].all("th")]
    rows = found.all("tbody")[0].all("tr")
    return [dict(zip(heads, (cell.words for cell in row.within), strict=True)) for row in rows]


# ---- what the pages show


def test_the_picture_and_the_table_have_what_status_prints(world: World, browser: Browser, printed: Any):
    busy(world)
    page = browser.page("/")
    (flights, _) = printed("status")["routes"]
    shown = numbers(page)
    assert shown == {
        "notified": 18, "gathering": 3, "sealed": 3, "submitted": 3, "halted": 3, "abandoned": 3, "dropped": 0,
        "vanished": 0, "superseded": 0, "quarantined": 2, "committed": 1,
    }  # fmt: skip
    assert sum(shown.values()) - shown["notified"] == shown["notified"] == flights["uploads"]["notified"]
    row = table(page)[0]
    for name, count in flights["uploads"].items():
        if name != "holds":
            assert row[name] == f"{count}"
    assert (row["the sum"], row["attempts"]) == ("holds", str(flights["jobs"]))
    assert {each["batch"] for each in table(page, 1)} == {each["id"] for each in flights["unfinished"]}


def test_the_picture_says_in_words_what_it_shows(world: World, browser: Browser):
    busy(world)
    page = browser.page("/")
    (image,) = [each for each in page.all("svg") if each.attributes.get("role") == "img"]
    (words,) = image.all("desc")
    assert words.attributes["id"] in image.attributes["aria-labelledby"]
    assert words.words.startswith("18 uploads notified: 3 gathering, 3 sealed, 3 submitted, 3 halted, 3 abandoned,")
    assert words.words in page.all("figcaption")[0].words


def test_what_needs_a_person_is_told_as_status_tells_it_with_the_next_commands(
    world: World, browser: Browser, printed: Any
):
    busy(world)
    (listed,) = [each for each in browser.page("/").all("ul") if each.attributes.get("class") == "needs"]
    needs = printed("status")["needs"]
    assert [each["need"] for each in needs] == ["halted", "quarantined", "abandoned"]
    urgent = [each for each in listed.all("li") if "urgent" in each.attributes["class"].split()]
    for each, shown in zip(needs, urgent, strict=True):
        assert shown.words.startswith(f"{each['need']} {each['what']}")
        assert [code.words for code in shown.all("code")] == [step["command"] for step in each["next"]]


def test_what_is_worth_knowing_is_told_after_it(world: World, browser: Browser):
    committed_with(world)
    fenced = world.submitted(prefix="flights/fenced/")
    world.ledger.pause("flights")
    abort(fenced.id, world.ports)
    told = browser.page("/").words
    for each in (
        "Route flights is paused since 2026-11-21T12:00:00Z",
        f"Batch {fenced.id} of route flights is given up by attempt 2.",
        "1 committed batch wait to be announced",
    ):
        assert each in told
    assert "to be announced" not in browser.page("/route/flights").words


def test_nothing_to_do_is_said(browser: Browser):
    page = browser.page("/")
    assert page.all("h2")[0].words == "Nothing needs you"
    assert "No upload was notified yet." in page.words


def test_sums_that_do_not_hold_are_told(world: World, browser: Browser):
    committed_with(world)
    world.edit(route_key("flights"), notified=99)
    page = browser.page("/")
    assert "The sums do not hold." in page.words
    assert "99 notified, but" in page.words
    assert table(page)[0]["the sum"] == "DOES NOT HOLD"


def test_a_route_has_a_page_and_an_unknown_one_is_named(world: World, browser: Browser):
    busy(world)
    page = browser.page("/route/flights")
    assert numbers(page)["notified"] == 18
    assert "s3://landing/flights/*" in page.words
    assert "there is no route 'nights'" in browser.page("/route/nights", 400).words


def test_batches_are_on_a_line_of_time_and_in_a_table_as_the_verb_lists_them(
    world: World, browser: Browser, printed: Any
):
    busy(world)
    page = browser.page("/batches")
    listed = printed("files", "--batches", "--limit", "30")["batches"]
    rows = [each for each in table_rows(page) if each.attributes.get("class") != "more"]
    assert [each.within[0].words for each in rows] == [each["id"] for each in listed]
    assert {each.within[2].words for each in rows} == {
        "open", "sealed", "submitted", "halted", "committed", "abandoned"
    }  # fmt: skip
    assert len([each for each in page.all("g") if each.attributes.get("class", "").startswith("row ")]) == len(rows)
    assert "no such column: <b>dep_delay</b>" in page.words
    only = browser.page("/batches?route=flights&state=abandoned")
    assert len(table_rows(only)) == 1
    assert "There is no batch" in browser.page("/batches?route=weather").words


def test_a_batch_and_its_route_name_the_columns_that_the_schema_lacks(world: DatedWorld, browser: Browser):
    assert "not in the schema" not in browser.page("/batches").words
    world.land(unknown=UnknownNames(1, {"coupon": 1, "<b>": 2, "...": 1}))
    assert "not in the schema: <b> (2 uploads), coupon (1 upload) and more" in browser.page("/batches").words
    told = "have columns that the schema lacks: <b> (2 uploads), coupon (1 upload) and more"
    assert told in browser.page("/").words
    assert told in browser.page("/route/flights").words


def table_rows(page: Element) -> list[Element]:
    return page.all("table")[0].all("tbody")[0].all("tr")


def test_older_batches_are_on_further_pages(world: World, browser: Browser, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tidegate.ui.questions.BATCHES", 2)
    ids = [committed_with(world, prefix=f"flights/{number}/") for number in range(3)]
    first = browser.page("/batches")
    assert [each.within[0].words for each in table_rows(first)] == ids[:0:-1]
    assert is_live(first)
    (older,) = [each.attributes["href"] for each in first.all("a") if each.words == "Older ones"]
    second = browser.page(older)
    assert [each.within[0].words for each in table_rows(second)] == ids[:1]
    assert not is_live(second), "what is old does not change"


def test_quarantine_has_what_the_verb_lists(world: World, browser: Browser, printed: Any):
    busy(world)
    page = browser.page("/quarantine")
    listed = [each for each in printed("files", "--state", "quarantined")["files"] if each["error"]]
    assert [(each["upload"], each["why"]) for each in table(page)] == [(each["uri"], each["error"]) for each in listed]
    only = browser.page("/quarantine?key=*-00001.json&route=flights&error=IS+NO&since=2h")
    assert [each["upload"] for each in table(only)] == [f"s3://{BUCKET}/{KEYS[1]}"]
    assert "Nothing is in quarantine" in browser.page("/quarantine?key=none").words


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("/quarantine?since=monday", "'monday' is neither an age such as 2h"),
        ("/quarantine?until=2026-11-21T10:21:00", "has no time zone"),
        ("/quarantine?since=1h&until=2h", "must be earlier than"),
        ("/quarantine?route=nights", "there is no route 'nights': there are flights, weather"),
        ("/quarantine/release?since=soon", "'soon' is neither an age"),
        ("/trace?uri=s3://landing", "is not s3://bucket/key"),
        ("/batches?route=nights", "there is no route 'nights': there are flights, weather"),
        ("/batches?state=done", "'done' is no state of a batch"),
        ("/batches?after=x", "'x' is no batch"),
        ("/nowhere", "not found"),
    ],
)
def test_a_mistake_is_named(browser: Browser, asked: str, said: str):
    page = browser.page(asked, 404 if asked == "/nowhere" else 400)
    assert said in page.words
    assert [each.attributes.get("role") for each in page.all("div")].count("alert") == 1


def test_more_than_a_page_is_said(world: World, browser: Browser, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tidegate.ui.questions.LISTED", 1)
    committed_with(world, *KEYS[:2])
    page = browser.page("/quarantine")
    assert len(table(page)) == 1
    assert "The first 1 upload," in page.words


def test_a_trace_has_what_the_verb_prints(world: World, browser: Browser, printed: Any):
    committed_with(world, *KEYS[:2])
    (version,) = printed("trace", URI)["versions"]
    page = browser.page(f"/trace?uri={URI}")
    assert page.all("h2")[0].words == version["answer"]
    for each in (version["notice"]["id"], version["batch"]["id"], *(step["command"] for step in version["next"])):
        assert each in page.words
    assert "No upload of" in browser.page(f"/trace?uri=s3://{BUCKET}/flights/never.json").words
    assert "No route takes" in browser.page("/trace?uri=s3://elsewhere/a.json").words


def test_uploads_are_found_by_a_part_of_their_keys(world: World, browser: Browser, printed: Any):
    busy(world)
    listed = printed("files", "--key", "*running*")["files"]
    page = browser.page("/trace?uri=running")
    assert [each["upload"] for each in table(page)] == [each["uri"] for each in listed]
    assert {each["outcome"] for each in table(page)} == {"pending"}
    assert len(table(browser.page("/trace?uri=flights/0000-0000[01].json"))) == 2
    assert "No upload among those" in browser.page("/trace?uri=never").words


def test_an_object_that_nobody_knows_has_neighbours(world: World, browser: Browser):
    committed_with(world)
    page = browser.page(f"/trace?uri={URI.replace('00000', '00009')}")
    assert "Did you mean" in page.words
    assert "/trace?uri=s3%3A//landing/flights/0000-0000" in page.all("main")[0].all("a")[0].attributes["href"]


def test_a_trace_is_read_again_while_the_upload_is_pending_and_then_no_more(world: World, browser: Browser):
    committed_with(world, *KEYS[:1])
    world.arrive(prefix="flights/new/")
    assert is_live(browser.page(f"/trace?uri=s3://{BUCKET}/flights/new/0000-00000.json"))
    assert not is_live(browser.page(f"/trace?uri={URI}"))


def is_live(page: Element) -> bool:
    return any(each.attributes.get("id") == "live" for each in page.all("div"))


def total(page: Element) -> str:
    found = re.search(r"flights: \$([\d.]+)", page.words)
    assert found
    return found[1]


def test_what_a_file_or_an_error_says_is_no_markup(world: World, browser: Browser):
    busy(world)
    html = browser.get("/").get_data(as_text=True)
    assert "<b>dep_delay" not in html
    assert "&lt;b&gt;dep_delay" in html
    html = browser.get('/trace?uri=s3://b/"><script>alert(1)</script>').get_data(as_text=True)
    assert "<script>alert" not in html


# ---- a page that can be read


@pytest.mark.parametrize("address", PAGES)
def test_every_page_has_landmarks_headings_and_captions(world: World, browser: Browser, address: str):
    busy(world)
    page = browser.page(address)
    assert [len(page.all(tag)) for tag in ("header", "nav", "main", "footer", "h1")] == [1] * 5
    assert page.all("head")[0].all("title")[0].words.endswith("tidegate · Tidegate")
    assert page.all("html")[0].attributes["lang"] == "en"
    levels = [int(each.tag[1]) for each in page.all("h1") + page.all("h2") + page.all("h3")]
    assert levels == sorted(levels)
    for each in page.all("table"):
        assert each.all("caption")[0].words
        assert {cell.attributes.get("scope") for cell in each.all("th")} <= {"col", "row"}
    labelled = {each.attributes["for"] for each in page.all("label")}
    shown = [each for each in page.all("input") + page.all("select") if each.attributes.get("type") != "hidden"]
    assert {each.attributes["id"] for each in shown} == labelled
    for each in page.all("svg"):
        assert each.attributes.get("aria-hidden") == "true" or each.all("title")
    ids = [each.attributes["id"] for each in every(page) if "id" in each.attributes]
    assert len(ids) == len(set(ids))


def every(element: Element) -> list[Element]:
    return [each for inner in element.within for each in (inner, *every(inner))]


@pytest.mark.parametrize("address", PAGES)
def test_no_page_has_a_script_or_a_style_of_its_own_or_anything_from_elsewhere(
    world: World, browser: Browser, address: str
):
    busy(world)
    for each in every(browser.page(address)):
        assert each.tag != "style"
        assert "style" not in each.attributes
        assert not [name for name in each.attributes if name.startswith("on")]
        for name in ("src", "href", "action"):
            assert each.attributes.get(name, "/").startswith(("/", "#")) or each.attributes[name] == ""
        if each.tag == "script":
            assert each.attributes["src"] == "/static/live.js"
            assert not each.words


@pytest.mark.parametrize(
    ("address", "every"),
    [("/", "2"), ("/route/flights", "2"), ("/batches", "10"), ("/quarantine", None)],
)
def test_how_often_a_page_is_read_again(browser: Browser, address: str, every: str | None):
    live = [each for each in browser.page(address).all("div") if each.attributes.get("id") == "live"]
    assert [each.attributes["data-every"] for each in live] == ([every] if every else [])


def test_the_page_of_the_docs_has_the_numbers_of_the_code():
    told = (ROOT / "docs" / "ui.md").read_text()
    for each in (
        f"every {pages.SOON} seconds while they are open, the batches every {pages.LATER}",
        f"{questions.BATCHES} on a page",
        f"releases {questions.RELEASED:,} uploads at most",
        "once a second at most" if questions.FRESH == 1 else "otherwise",
        "192 bits" if len(Secrets.new().token) * 6 == 192 else "another length",
    ):
        assert each in told, each


def test_a_page_without_a_script_has_a_link_that_refreshes_it(browser: Browser):
    page = browser.page("/")
    assert [each.attributes["href"] for each in page.all("a") if each.words == "Refresh"] == [""]
    (button,) = page.all("button")
    assert "hidden" in button.attributes, "the script shows what only works with it"


def test_the_live_part_is_what_the_page_has_in_its_middle(world: World, browser: Browser):
    busy(world)
    whole = browser.get("/").get_data(as_text=True)
    part = browser.get("/?live=1").get_data(as_text=True)
    assert part.strip() in whole
    assert "<header" not in part
    tree(part)


# ---- release


def test_release_asks_first_and_then_does_what_the_verb_does(world: World, browser: Browser):
    committed_with(world, *KEYS[:2])
    page = browser.page("/quarantine/release?key=*-00001.json")
    assert page.all("h1")[0].words == "Release 1 upload?"
    assert f"s3://{BUCKET}/{KEYS[1]}" in page.words
    assert not world.topic.published, "to look releases nothing"
    done = browser.post("/quarantine/release", fields(page))
    assert (done.status_code, done.headers["Location"]) == (303, "/quarantine?released=1")
    assert world.topic.keys == [KEYS[1]]
    assert "1 upload is released" in browser.page("/quarantine?released=1").words
    deliver(world)
    assert dict(world.record.back) == {"quarantined": 1}


def test_a_key_with_brackets_is_released_by_its_own_link(world: World, browser: Browser):
    committed_with(world, "flights/[a]*0000-00000.json", prefix="flights/[a]*")
    page = browser.page("/quarantine")
    (link,) = [each.attributes["href"] for each in page.all("a") if each.words == "Release …"]
    browser.post("/quarantine/release", fields(browser.page(link.replace("&amp;", "&"))))
    assert world.topic.keys == ["flights/[a]*0000-00000.json"]


def test_what_comes_into_quarantine_after_the_question_is_not_released_with_it(world: World, browser: Browser):
    committed_with(world, *KEYS[:1])
    page = browser.page("/quarantine/release")
    world.clock.advance(60)
    committed_with(world, "flights/later/0000-00000.json", prefix="flights/later/")
    browser.post("/quarantine/release", fields(page))
    assert world.topic.keys == KEYS[:1]


def test_a_release_that_is_sent_twice_is_safe(world: World, browser: Browser):
    committed_with(world, *KEYS[:1])
    form = fields(browser.page("/quarantine/release"))
    for _ in range(2):
        browser.post("/quarantine/release", form)
    deliver(world)
    assert dict(world.record.back) == {"quarantined": 1}
    assert browser.post("/quarantine/release", form).headers["Location"] == "/quarantine?released=0"
    assert "nothing is released" in browser.page("/quarantine?released=0").words


def test_who_releases_is_told_if_the_uploads_go_another_way(world: World):
    committed_with(world, *KEYS[:1])
    world.flights = replace(world.flights, prefix="elsewhere/")
    assert "no route takes the keys of 1 of them today" in browser_of(world).page("/quarantine/release").words


def test_more_than_a_page_releases_is_left_to_the_verb(world: World, browser: Browser, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tidegate.ui.questions.RELEASED", 1)
    committed_with(world, *KEYS[:2])
    page = browser.page("/quarantine/release?route=flights")
    assert not [each for each in page.all("form") if each.attributes["method"] == "post"]
    assert "tidegate resend quarantine --route flights" in page.words


@pytest.mark.parametrize(
    ("headers", "form"),
    [
        ({"Origin": "http://evil.example", "Sec-Fetch-Site": "cross-site"}, KNOWN.form),
        ({"Origin": "http://127.0.0.1:9999", "Sec-Fetch-Site": "same-site"}, KNOWN.form),
        ({}, ""),
        ({}, "guessed"),
    ],
)
def test_a_form_of_another_page_releases_nothing(world: World, browser: Browser, headers: dict[str, str], form: str):
    committed_with(world, *KEYS)
    answer = browser.post("/quarantine/release", {"form": form}, **headers)
    assert answer.status_code == 403
    assert "Nothing was changed" in answer.get_data(as_text=True)
    assert not world.topic.published


@pytest.mark.parametrize("address", [each for each in PAGES if "release" not in each])
def test_only_the_release_takes_a_form(browser: Browser, address: str):
    assert browser.post(address, {"form": KNOWN.form}).status_code == 405


# ---- who is let in


def test_the_printed_address_leads_in_and_the_token_goes_no_further(world: World):
    browser = Browser(ui_of(deployment_of(world), world.clock), entered=False)
    assert browser.get("/").status_code == 403
    answer = browser.get(f"/?token={KNOWN.token}")
    cookie = answer.headers["Set-Cookie"]
    assert cookie.startswith(f"{COOKIE}={KNOWN.session};")
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(cookie.split("; "))
    (again,) = [
        each.attributes["content"] for each in tree(answer.get_data(as_text=True)).all("meta")
        if each.attributes.get("http-equiv") == "refresh"
    ]  # fmt: skip
    assert again == "0; url=/"
    assert browser.get("/").status_code == 200
    assert KNOWN.token not in browser.get("/").get_data(as_text=True)


def test_the_token_leads_nowhere_else(world: World):
    browser = Browser(ui_of(deployment_of(world), world.clock), entered=False)
    html = browser.client.get(f"//evil.example/?token={KNOWN.token}", base_url=f"http://{HOST}").get_data(as_text=True)
    assert "url=//" not in html


@pytest.mark.parametrize("address", [*PAGES, "/?token=guessed", "/?live=1"])
def test_who_has_no_cookie_learns_nothing(world: World, address: str):
    busy(world)
    browser = Browser(ui_of(deployment_of(world), world.clock), entered=False)
    answer = browser.get(address)
    assert answer.status_code == 403
    assert "Set-Cookie" not in answer.headers
    text = answer.get_data(as_text=True)
    assert "Open the address that" in text
    assert not [word for word in ("flights", " tidegate ·", KNOWN.session, KNOWN.form) if word in text]


def test_a_form_that_is_too_large_is_refused_before_it_is_read(world: World, browser: Browser):
    for each in (browser, Browser(ui_of(deployment_of(world), world.clock), entered=False)):
        answer = each.post("/quarantine/release", {"form": KNOWN.form, "key": "x" * 100_000})
        assert answer.status_code == 413
        assert " tidegate ·" not in answer.get_data(as_text=True)


def test_a_foreign_host_is_refused_even_with_the_cookie(world: World, browser: Browser):
    for address in ("/", "/static/style.css", f"/?token={KNOWN.token}"):
        answer = browser.client.get(address, base_url="http://127.0.0.1:8000", headers={"Host": "evil.example"})
        assert answer.status_code == 400


@pytest.mark.parametrize("address", [*PAGES, "/static/style.css", "/static/live.js", "/static/../app.py", "/nowhere"])
@pytest.mark.parametrize("entered", [True, False])
def test_every_answer_has_the_headers(world: World, address: str, entered: bool):
    answer = Browser(ui_of(deployment_of(world), world.clock), entered=entered).get(address)
    assert HEADERS.items() <= dict(answer.headers).items()


def test_only_the_two_files_are_served(browser: Browser):
    assert browser.get("/static/style.css").content_type == "text/css; charset=utf-8"
    assert browser.get("/static/live.js").content_type == "text/javascript; charset=utf-8"
    for other in ("/static/", "/static/../app.py", "/static/..%2fapp.py", "/static/page.html"):
        assert browser.get(other).status_code == 404


# ---- what is asked


def asked_by(world: World, address: str) -> Any:
    ports, asked = asked_of(world)
    deployed = deployment_of(world)
    deployed.ports = lambda attempt="": ports
    assert Browser(ui_of(deployed, world.clock)).get(address).status_code == 200
    return asked


def test_a_refresh_asks_for_the_same_however_much_has_happened(world: DatedWorld):
    for number in range(3):
        world.land(f"flights/{number}/")
    # the list of routes, the outbox and the workers; the records of both routes together; nothing of the work bucket
    idle = {"query": 3, "get_many": 1}
    assert asked_by(world, "/?live=1") == idle
    for number in range(3, 9):
        world.land(f"flights/{number}/")
    assert asked_by(world, "/?live=1") == idle
    world.submitted(prefix="flights/a/")
    world.arrive(prefix="flights/b/")
    # and the unfinished batches of the route together
    assert asked_by(world, "/?live=1") == asked_by(world, "/route/flights?live=1") == {"query": 3, "get_many": 2}


def test_a_refresh_of_the_batches_asks_for_the_same_however_many_there_were(world: DatedWorld):
    for number in range(35):
        world.land(f"flights/{number}/")
    before = asked_by(world, "/batches?live=1")
    for number in range(35, 70):
        world.land(f"flights/{number}/")
    assert asked_by(world, "/batches?live=1") == before
    assert before.total() <= 8


def test_pages_that_are_open_side_by_side_ask_once_a_second(world: World):
    ports, asked = asked_of(world)
    deployed = deployment_of(world)
    deployed.ports = lambda attempt="": ports
    clock = itertools.count(step=0.1)
    browser = Browser(ui_of(deployed, world.clock, monotonic=lambda: next(clock)))
    for _ in range(10):
        browser.get("/?live=1")
    assert asked["query"] <= 2 * 3


@pytest.mark.parametrize("slow", ["/quarantine", "/trace?uri=flights", "/batches"])
def test_a_slow_question_does_not_hold_the_other_pages(world: World, slow: str):
    committed_with(world, *KEYS[:1])
    asks, goes_on = threading.Event(), threading.Event()

    class SlowWork:
        """A work bucket that answers nobody until it is told to."""

        def __getattr__(self, verb: str) -> Any:
            asks.set()
            assert goes_on.wait(60)
            return getattr(world.work, verb)

    deployed = deployment_of(world)
    deployed.ports = lambda attempt="": replace(world.ports, work=SlowWork())
    app = ui_of(deployed, world.clock)
    with ThreadPoolExecutor(2) as threads:
        slow_page = threads.submit(Browser(app).get, slow)
        assert asks.wait(60)
        try:
            flow = threads.submit(Browser(app).get, "/")
            assert flow.result(timeout=60).status_code == 200
            assert not slow_page.done()
        finally:
            goes_on.set()
        assert slow_page.result(timeout=60).status_code == 200


def test_after_a_release_the_flow_is_read_anew(world: World):
    browser = browser_of(world, monotonic=lambda: 0.0)
    committed_with(world, *KEYS[:1])
    assert numbers(browser.page("/"))["quarantined"] == 1
    browser.post("/quarantine/release", fields(browser.page("/quarantine/release")))
    deliver(world)
    assert numbers(browser.page("/"))["quarantined"] == 0


# ---- errors


@pytest.mark.parametrize("address", ["/", "/batches", "/quarantine", f"/trace?uri={URI}"])
def test_without_a_deployment_a_page_says_what_to_do(world: World, monkeypatch: pytest.MonkeyPatch, address: str):
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", "http://127.0.0.1:1")
    page = Browser(ui_of(failing(Retryable("could not read the ledger: connection refused")), world.clock)).page(
        address, 503
    )
    assert "could not read the ledger: connection refused" in page.words
    assert "tidegate local up" in page.words
    assert "start it again" in page.words
    assert [each.attributes["href"] for each in page.all("main")[0].all("a")] == [""]


def test_a_release_that_fails_says_how_to_go_on(world: World, browser: Browser):
    committed_with(world, *KEYS[:2])
    form = fields(browser.page("/quarantine/release"))
    world.topic.broken = True
    answer = browser.post("/quarantine/release", form)
    page = tree(answer.get_data(as_text=True))
    assert answer.status_code == 503
    assert "the topic is not to be reached" in page.words
    assert "To release the rest is safe" in page.words
    world.topic.broken = False
    assert browser.post("/quarantine/release", form).headers["Location"] == "/quarantine?released=2"


def test_expired_credentials_are_told(world: World, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(Exception) as raised, asking("read the ledger"):  # noqa: PT011
        raise NoCredentialsError
    page = Browser(ui_of(failing(raised.value), world.clock)).page("/", 503)
    assert "Log in, or set AWS_PROFILE" in page.words
    page = Browser(ui_of(failing(NoCredentialsError()), world.clock)).page("/", 503)
    assert "Check AWS_PROFILE" in page.words


def test_a_mistake_of_ours_is_logged_and_shows_no_trace(world: World, caplog: pytest.LogCaptureFixture):
    browser = Browser(ui_of(failing(ZeroDivisionError("secret detail")), world.clock))
    page = browser.page("/", 500)
    assert "mistake in Tidegate" in page.words
    assert "secret detail" not in page.words
    assert "ZeroDivisionError" in caplog.text


def failing(error: Exception) -> Any:
    deployed = deployment_of(dated_world())

    def ports(attempt: str = "") -> Any:
        raise error

    deployed.ports = ports
    return deployed


def test_the_places_in_the_picture_are_words_of_the_glossary():
    glossary = (ROOT / "docs" / "glossary.md").read_text()
    outcomes = {each.value for each in Outcome} | {DROPPED}
    # what is in an open batch gathers
    for name in {*GATES, *FALLS} - outcomes - {"gathering"}:
        assert f"**{name}**" in glossary or name == State.SUBMITTED.lower()
