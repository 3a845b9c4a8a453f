"""The page in a real browser: it is live, works by keyboard and without a script, and breaks no rule of WCAG that a
program can see.

With TIDEGATE_PICTURES=1 the pictures of docs/ui.md are made anew.
"""

import os
import struct
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import Served
from tests.functional.test_resend import KEYS, abandoned, committed_with, deliver
from tests.support.browser import WIDTH, Chromium
from tests.support.build import BUCKET, notice, uploads
from tests.support.fakes import play_publishing
from tests.support.world import World
from tidegate.core.errors import Retryable
from tidegate.core.outcomes import Outcome

ROOT = Path(__file__).parents[2]
PAGES = {
    "flow": "/",
    "route": "/route/flights",
    "batches": "/batches",
    "quarantine": "/quarantine",
    "release": "/quarantine/release",
    "trace": f"/trace?uri=s3://{BUCKET}/{KEYS[0]}",
    "mistake": "/quarantine?since=soon",
    "nowhere": "/nowhere",
}
COUNT = """
const all = await page.locator(".river .place").all();
const words = await Promise.all(all.map(async (each) => await each.locator("text").allTextContents()));
return Object.fromEntries(words.map(([count, name]) => [name, Number(count.replaceAll(",", ""))]));
"""
WAIT_FOR = """
await page.waitForFunction(
  ([name, count]) => document.querySelector(`.river .${name} .count`)?.textContent === count,
  [given.name, given.count],
);
"""


def enter(browser: Chromium, served: Served, **options: Any) -> None:
    browser.fresh(**options)
    browser.run("await page.goto(given.address); await page.waitForURL((url) => !url.search)", address=served.address)


def go(browser: Chromium, served: Served, page: str) -> None:
    browser.run("await page.goto(given.address)", address=served.base + page)


def history(world: World) -> None:
    """What a small deployment looks like on some afternoon."""
    for number in range(3):
        arrive(world, 40 + 30 * number, f"flights/2026/11/21/{number}-")
        world.clock.advance(250)
        world.settle()
        batch = world.record.running[0]
        world.clock.advance(70)
        play_publishing(world.work, batch, {}, rows=18)
        world.settle()
    abandoned(world, prefix="flights/2026/11/20/")
    committed_with(world, *KEYS[:2])
    world.clock.advance(60)
    halted = world.submitted(prefix="flights/2026/11/22/")
    world.ledger.halt(halted.id, halted.attempt, "table lake.flights.departures has no column `dep_delay`")
    arrive(world, 24, "flights/2026/11/23/")
    world.clock.advance(300)
    world.settle()
    arrive(world, 9, "flights/2026/11/24/")
    world.clock.advance(40)


def arrive(world: World, count: int, prefix: str) -> None:
    world.dispatch(notice(*uploads(count, prefix, size=47_000)))


# ---- live


def test_the_page_goes_on_while_uploads_do(browser: Chromium, served: Served):
    world = served.world
    enter(browser, served)
    assert browser.run(COUNT)["notified"] == 0
    world.arrive()
    browser.run(WAIT_FOR, name="gathering", count="3")
    batch = world.open
    world.clock.advance(300)
    world.settle()
    browser.run(WAIT_FOR, name="submitted", count="3")
    play_publishing(world.work, batch.id, {KEYS[0]: (Outcome.QUARANTINED, "line 3: 'x' is no INT")})
    world.settle()
    browser.run(WAIT_FOR, name="committed", count="2")
    assert browser.run(COUNT)["quarantined"] == 1
    # what needs a person is told to who cannot see the picture, and nothing else
    said = browser.run("return await page.locator('#announcer').textContent()")
    assert "quarantined 1 upload of route flights" in said


def test_updates_can_be_paused_and_go_on(browser: Chromium, served: Served):
    enter(browser, served)
    browser.run("await page.getByRole('button', {name: 'Pause updates'}).click()")
    served.world.arrive()
    assert (
        browser.run(
            """
        let asked = 0;
        page.on("request", () => { asked += 1; });
        await page.waitForTimeout(5000);
        return asked;
        """
        )
        == 0
    )
    assert browser.run(COUNT)["gathering"] == 0
    assert browser.run("return await page.locator('#pause').getAttribute('aria-pressed')") == "true"
    browser.run("await page.getByRole('button', {name: 'Pause updates'}).click()")
    browser.run(WAIT_FOR, name="gathering", count="3")


def test_a_page_that_nobody_sees_asks_for_nothing(browser: Chromium, served: Served):
    enter(browser, served)
    asked = browser.run(
        """
        await page.evaluate(() => Object.defineProperty(document, "hidden", {get: () => true}));
        let asked = 0;
        page.on("request", () => { asked += 1; });
        await page.waitForTimeout(4500);
        return asked;
        """
    )
    assert asked == 0


def test_the_focus_stays_where_it_is_while_the_page_goes_on(browser: Chromium, served: Served):
    served.world.arrive()
    enter(browser, served)
    browser.run("await page.getByRole('link', {name: 'weather'}).focus()")
    served.world.arrive(prefix="flights/more/")
    browser.run(WAIT_FOR, name="gathering", count="6")
    assert browser.run("return await page.evaluate(() => document.activeElement.textContent)") == "weather"


def test_a_page_whose_server_has_ended_says_so_and_keeps_what_it_had(browser: Chromium, served: Served):
    served.world.arrive()
    enter(browser, served)
    browser.run("await context.setOffline(true)")
    browser.run("await page.locator('#stale').filter({hasText: 'Not up to date'}).waitFor()")
    assert browser.run(COUNT)["gathering"] == 3
    browser.run("await context.setOffline(false)")
    browser.run("await page.waitForFunction(() => document.getElementById('stale').textContent === '')")


def test_a_deployment_that_does_not_answer_is_told_and_what_it_had_stays(
    browser: Chromium, served: Served, monkeypatch: pytest.MonkeyPatch
):
    served.world.arrive()
    enter(browser, served)

    def fails(*_: Any) -> Any:
        raise Retryable("could not read the ledger: the token has expired")

    store = type(served.world.store)
    real = store.get_many
    monkeypatch.setattr(store, "get_many", fails)
    browser.run("await page.locator('#stale').filter({hasText: 'the token has expired'}).waitFor()")
    assert browser.run(COUNT)["gathering"] == 3
    monkeypatch.setattr(store, "get_many", real)
    browser.run("await page.waitForFunction(() => document.getElementById('stale').textContent === '')")


# ---- release


def test_quarantine_is_released_by_keyboard_alone(browser: Chromium, served: Served):
    world = served.world
    committed_with(world, *KEYS[:2])
    enter(browser, served)
    go(browser, served, "/quarantine")
    browser.run(
        """
        const tabTo = async (text) => {
          for (let number = 0; number < 40; number += 1) {
            await page.keyboard.press("Tab");
            const there = await page.evaluate(() => document.activeElement.textContent.trim());
            if (there.startsWith(text)) return;
          }
          throw new Error(`no tab leads to ${text}`);
        };
        await tabTo("Release all of these");
        await page.keyboard.press("Enter");
        await page.getByRole("heading", {name: "Release 2 uploads?"}).waitFor();
        await tabTo("Release 2 uploads");
        await page.keyboard.press("Enter");
        await page.getByText("2 uploads are released").waitFor();
        """
    )
    assert world.topic.keys == KEYS[:2]
    deliver(world)
    assert dict(world.record.back) == {"quarantined": 2}


# ---- without a script


def test_every_page_works_without_a_script(browser: Chromium, served: Served):
    world = served.world
    committed_with(world, *KEYS[:1])
    enter(browser, served, javaScriptEnabled=False)
    assert browser.run("return await page.getByRole('button', {name: 'Pause updates'}).count()") == 0
    world.arrive(prefix="flights/new/")
    served.world.clock.advance(1)
    browser.run("await page.waitForTimeout(1100); await page.getByRole('link', {name: 'Refresh'}).click()")
    assert browser.run(COUNT)["gathering"] == 3
    browser.run(
        """
        await page.getByRole("link", {name: "Quarantine"}).click();
        await page.getByRole("link", {name: /^Release s3/}).click();
        await page.getByRole("button", {name: "Release 1 upload"}).click();
        await page.getByText("1 upload is released").waitFor();
        """
    )
    assert world.topic.keys == KEYS[:1]


# ---- who is let in


def test_the_address_leads_in_from_another_site_and_a_form_of_that_site_does_nothing(browser: Chromium, served: Served):
    committed_with(served.world, *KEYS[:1])
    browser.fresh()
    elsewhere = """
        await page.route("http://elsewhere.example/**", (route) =>
          route.fulfill({contentType: "text/html", body: given.html}));
        await page.goto("http://elsewhere.example/");
    """
    browser.run(
        elsewhere + 'await page.getByRole("link").click(); await page.getByText("What needs you").waitFor()',
        html=f'<a href="{served.address}">the page of a terminal</a>',
    )
    form = f"""
        <form method="post" action="{served.base}/quarantine/release">
        <input name="form" value="{served.secrets.form}"><button>Win</button></form>
    """
    browser.run(
        elsewhere + 'await page.getByRole("button").click(); await page.getByText("locked").waitFor()', html=form
    )
    assert not served.world.topic.published
    # a page of another port of this machine is the same site to the cookie, and still may not
    browser.run(
        elsewhere.replace("elsewhere.example", "127.0.0.1:1")
        + 'await page.getByRole("button").click(); await page.getByText("Nothing was changed").waitFor()',
        html=form,
    )
    assert not served.world.topic.published


def test_a_script_cannot_read_the_cookie_and_what_is_injected_does_not_run(browser: Chromium, served: Served):
    enter(browser, served)
    assert browser.run("return await page.evaluate(() => document.cookie)") == ""
    (cookie,) = browser.run("return await context.cookies()")
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
    refused = browser.run(
        """
        const told = page.waitForEvent("console", (message) => message.text().includes("Content Security Policy"));
        await page.evaluate(() => {
          const script = document.createElement("script");
          script.textContent = "window.injected = true";
          document.body.append(script);
        });
        await told;
        return await page.evaluate(() => window.injected ?? false);
        """
    )
    assert refused is False


# ---- how it looks


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("page", PAGES)
def test_no_page_breaks_a_rule_of_accessibility(browser: Chromium, served: Served, page: str, scheme: str):
    history(served.world)
    enter(browser, served, colorScheme=scheme)
    go(browser, served, PAGES[page])
    assert browser.run("return await axe(page)") == []


def test_the_check_of_accessibility_can_fail(browser: Chromium, served: Served):
    enter(browser, served)
    browser.run("await page.evaluate(() => { document.querySelector('main h1').remove(); })")
    assert any("page-has-heading-one" in each for each in browser.run("return await axe(page)"))


@pytest.mark.parametrize("page", PAGES)
def test_no_page_is_wider_than_the_window(browser: Chromium, served: Served, page: str):
    history(served.world)
    enter(browser, served)
    go(browser, served, PAGES[page])
    for width in (320, 640, WIDTH):
        browser.run("await page.setViewportSize({width: given.width, height: 760})", width=width)
        assert browser.run("return await page.evaluate(() => document.documentElement.scrollWidth)") <= width


@pytest.mark.parametrize("page", PAGES)
def test_no_page_reports_an_error_to_the_console(browser: Chromium, served: Served, page: str):
    history(served.world)
    enter(browser, served)
    told = browser.run(
        """
        const told = [];
        page.on("console", (message) => { if (message.type() === "error") told.push(message.text()); });
        page.on("pageerror", (error) => told.push(String(error)));
        await page.goto(given.address);
        await page.waitForTimeout(300);
        return told;
        """,
        address=served.base + PAGES[page],
    )
    # that the answer is an error is told, too
    assert [each for each in told if "status of 40" not in each] == []


def test_what_moves_stands_still_for_who_wants_that(browser: Chromium, served: Served):
    served.world.arrive()
    moving = "return await page.evaluate(() => document.getAnimations().length)"
    enter(browser, served)
    assert browser.run(moving) > 0
    enter(browser, served, reducedMotion="reduce")
    assert browser.run(moving) == 0


def test_the_focus_is_seen(browser: Chromium, served: Served):
    enter(browser, served)
    seen = browser.run(
        """
        await page.keyboard.press("Tab");
        const skip = await page.evaluate(() => {
          const there = document.activeElement;
          return [there.textContent, there.getBoundingClientRect().left];
        });
        await page.keyboard.press("Tab");
        return [...skip, await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle)];
        """
    )
    assert seen[0] == "Skip to the content"
    assert seen[1] >= 0
    assert seen[2] == "solid"


# ---- the pictures of docs/ui.md

PICTURES = {
    "ui-flow": ("flow", "light"),
    "ui-batches": ("batches", "dark"),
    "ui-quarantine": ("quarantine", "light"),
}


@pytest.mark.parametrize("picture", PICTURES)
def test_the_pictures_of_the_documentation_are_of_this_page(
    browser: Chromium, served: Served, tmp_path: Path, picture: str
):
    page, scheme = PICTURES[picture]
    history(served.world)
    enter(browser, served, colorScheme=scheme, reducedMotion="reduce")
    go(browser, served, PAGES[page])
    folder = ROOT / "docs" if os.environ.get("TIDEGATE_PICTURES") else tmp_path
    made = folder / f"{picture}.png"
    browser.run("await page.screenshot({path: given.path, fullPage: true})", path=str(made))
    kept = ROOT / "docs" / made.name
    assert size_of(kept) == size_of(made), "TIDEGATE_PICTURES=1 makes it anew"
    assert kept.stat().st_size < 150_000
    assert f"]({made.name})" in (ROOT / "docs" / "ui.md").read_text()


def size_of(png: Path) -> tuple[int, int]:
    """Width and height (https://www.w3.org/TR/png-3/#11IHDR)."""
    width, height = struct.unpack(">II", png.read_bytes()[16:24])
    return width, height
