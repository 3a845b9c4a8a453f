"""What the verbs do if `tidegate.toml` differs from what is deployed: it may be wrong, changed, or of another stack."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.functional.test_files import KEYS
from tests.support.past import DatedWorld, dated_world
from tests.support.verbs import of_nobody
from tidegate import wiring
from tidegate.cli import deployment, main
from tidegate.cli.exits import Exit
from tidegate.environment import DEPLOYED, LOCAL_CONFIG, LOCAL_STACK

GOOD = Path(__file__).parents[2] / "tidegate.example.toml"
WRONG = "[[route]]\nname = 7\n"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The file of a deployment that the environment names."""
    for name in [each for each in wiring.os.environ if each.startswith(("TIDEGATE_", "AWS_"))]:
        monkeypatch.delenv(name)
    for name, value in of_nobody().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("TIDEGATE_CONFIG", str(tmp_path / "tidegate.toml"))
    wiring.this_deployment.cache_clear()
    yield tmp_path / "tidegate.toml"
    wiring.this_deployment.cache_clear()


@pytest.fixture
def world(file: Path, monkeypatch: pytest.MonkeyPatch) -> DatedWorld:
    world = dated_world()
    world.ports.ledger.end_rebuild()
    monkeypatch.setattr(wiring, "_ledger", lambda table, retention: world.ports.ledger)
    monkeypatch.setattr(wiring.Deployment, "_work", lambda deployed: world.work)
    monkeypatch.setattr(wiring, "clock", world.clock)
    return world


def run(*arguments: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(main.app, list(arguments), catch_exceptions=False)
    return done.exit_code, done.stdout, done.stderr


@pytest.mark.parametrize("source", [WRONG, "not = [toml", None], ids=["wrong", "no TOML", "absent"])
@pytest.mark.parametrize("verb", ["status", "files", "trace"])
def test_a_mistake_in_the_file_does_not_hide_what_the_ledger_knows(
    world: DatedWorld, file: Path, verb: str, source: str | None
):
    world.land(rows=7)
    if source is not None:
        file.write_text(source)
    given = [f"s3://landing/{KEYS[0]}"] if verb == "trace" else []
    code, out, said = run(verb, *given)
    assert code == Exit.OK
    assert "flights" in out
    assert str(file) in said
    assert "the routes are those that the ledger has" in said


def test_a_verb_that_writes_needs_the_file(world: DatedWorld, file: Path):
    file.write_text(WRONG)
    code, out, said = run("resend", "s3://landing/flights/a")
    assert (code, out) == (Exit.USAGE, "")
    assert str(file) in said


def test_a_stack_of_this_machine_is_read_by_what_was_deployed(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv(LOCAL_CONFIG, str(file))
    monkeypatch.setenv(LOCAL_STACK, str(tmp_path))
    (tmp_path / DEPLOYED).write_text(GOOD.read_text())
    for source, told in (
        (GOOD.read_text(), ""),
        (WRONG, "The stack runs on by what the file said before"),
        (f"{GOOD.read_text()}\n# changed", f"{file} has changed"),
        (None, ""),
    ):
        file.unlink(missing_ok=True)
        if source is not None:
            file.write_text(source)
        wiring.this_deployment.cache_clear()
        assert list(deployment.find(None).routes) == ["flights"]
        said = capsys.readouterr().err
        assert told in said
        assert bool(told) == bool(said)


def test_the_file_of_a_stack_is_no_file_of_the_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Another project is checked, tried and started by its own file, in a shell that calls the stack of the first."""
    monkeypatch.delenv("TIDEGATE_CONFIG", raising=False)
    monkeypatch.setenv(LOCAL_CONFIG, "/first/tidegate.toml")
    monkeypatch.setenv(LOCAL_STACK, "/first/.tidegate")
    assert deployment.config_file(None) == Path("tidegate.toml")
    assert wiring.settings_file(wiring.os.environ) == Path("/first/.tidegate") / DEPLOYED
