"""Who is let in to the page, and who may change something."""

from dataclasses import replace

import pytest

from tidegate.ui.guard import HEADERS, Asked, Door, Secrets, door

KNOWN = Secrets(token="printed", session="in the cookie")
HOST = "127.0.0.1:8000"
LOOKS = Asked(HOST, cookie=KNOWN.session)
CHANGES = replace(LOOKS, changes=True, origin=f"http://{HOST}", site="same-origin", form=KNOWN.form)


def test_who_has_the_cookie_sees_the_pages_and_may_send_their_forms():
    assert door(LOOKS, KNOWN) is Door.OPEN
    assert door(CHANGES, KNOWN) is Door.OPEN
    # an older browser sends neither header
    assert door(replace(CHANGES, origin="", site=""), KNOWN) is Door.OPEN


def test_who_has_the_token_gets_the_cookie():
    assert door(Asked(HOST, token=KNOWN.token), KNOWN) is Door.ENTER


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:8000", "localhost:9000"])
def test_this_machine_may_be_called_by_its_names_at_any_port(host: str):
    assert door(replace(LOOKS, host=host), KNOWN) is Door.OPEN


@pytest.mark.parametrize(
    "host", ["", "evil.example", "evil.example:8000", "127.0.0.1.evil.example", "sub.localhost", "0.0.0.0:8000"]
)
@pytest.mark.parametrize("asked", [LOOKS, CHANGES, Asked("", token=KNOWN.token)])
def test_a_name_that_was_made_to_lead_here_is_refused_whatever_it_brings(host: str, asked: Asked):
    assert door(replace(asked, host=host), KNOWN) is Door.FOREIGN


@pytest.mark.parametrize(
    "asked",
    [
        Asked(HOST),
        Asked(HOST, cookie="guessed"),
        Asked(HOST, cookie=KNOWN.token),
        Asked(HOST, token="guessed"),
        Asked(HOST, token=KNOWN.session),
        Asked(HOST, cookie="ünicode"),
        # a token opens the door, and does nothing else
        replace(CHANGES, token=KNOWN.token),
        replace(LOOKS, token="guessed"),
    ],
)
def test_without_the_token_or_the_cookie_the_page_is_locked(asked: Asked):
    assert door(asked, KNOWN) is Door.LOCKED


@pytest.mark.parametrize(
    "changed",
    [
        {"form": ""},
        {"form": "guessed"},
        {"form": KNOWN.session},
        {"origin": "http://evil.example"},
        {"origin": "http://127.0.0.1:9999"},
        {"origin": "null"},
        {"origin": f"https://{HOST}"},
        {"site": "cross-site"},
        {"site": "same-site"},
        {"site": "none"},
    ],
)
def test_a_form_of_another_page_changes_nothing_though_the_cookie_comes_along(changed: dict[str, str]):
    assert door(replace(CHANGES, **changed), KNOWN) is Door.FORGED


def test_every_run_has_secrets_of_its_own():
    one, other = Secrets.new(), Secrets.new()
    assert len({one.token, one.session, one.form, other.token, other.session, other.form}) == 6
    assert min(len(one.token), len(one.session)) >= 32


def test_no_page_runs_or_loads_anything_from_elsewhere():
    policy = HEADERS["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    assert "http" not in policy
    assert {"frame-ancestors 'none'", "base-uri 'none'", "form-action 'self'"} <= set(policy.split("; "))
