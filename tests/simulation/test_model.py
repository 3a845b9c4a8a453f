"""The model: every interleaving of a few processes, and rules that are broken on purpose."""

import pytest

from simulation.model import __main__ as command
from simulation.model.broken import VARIANTS, Variant
from simulation.model.explore import Actor, explore
from simulation.model.setups import SETUPS, Setup
from tidegate.core import transitions

SMALL = [each for each in SETUPS if not each.large]


@pytest.mark.parametrize("setup", SMALL, ids=lambda setup: setup.name)
def test_no_interleaving_breaks_a_promise(setup: Setup):
    found = setup.explore()
    assert found.broken is None, str(found.broken)
    assert found.complete
    assert found.states > 50


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.name)
def test_a_broken_rule_is_noticed(variant: Variant):
    assert not variant.shown_by.large
    with variant.breaking():
        found = variant.shown_by.explore()
    assert found.broken is not None, variant.breaks


def test_a_transition_that_no_set_up_takes_is_named():
    """What the model does not explore, and why that is so."""
    there = {name for name in transitions.__all__ if callable(getattr(transitions, name))}
    taken: set[str] = set()
    with pytest.MonkeyPatch.context() as patch:
        for name in there:
            patch.setattr(transitions, name, _noting(getattr(transitions, name), name, taken))
        for setup in SMALL:
            explore(setup.begins(), setup.actors, safe=lambda cells: "", at_most=1_000)
    assert there - taken == {
        "open_ledger",  # before the first upload, or refused: tests/unit/test_guarded.py
        "begin_rebuild",
        "end_rebuild",  # rebuilding, beside a twin of it only: tests/functional/test_rebuild.py, test_rebuilt_sums.py
        "index_batch",
        "index_claim",
        "index_notice",
        "index_over",
        "give_up_audit",
        "note_screening",  # which job named suspects decides nothing: tests/functional/test_audit_job.py
        "offer",  # they decide which driver attempts a batch, not what lands: tests/functional/test_workers.py
        "take",
        "withdraw",
        "note_started",
        "note_alive",
        "leave",
        "pause",  # they decide when a batch begins, not what lands: tests/functional/test_pause.py
        "unpause",
        "drop_quarantined",  # a person's, beside a release: tests/functional/test_drop_quarantined.py
    }


def _noting(real: object, name: str, taken: set[str]) -> object:
    def noted(*arguments: object, **named: object) -> object:
        taken.add(name)
        return real(*arguments, **named)  # type: ignore[operator]

    return noted


def test_two_processes_take_every_order():
    contents = set()

    def first(ports):
        ports.topic.publish([])
        ports.work.put("one", b"")

    def second(ports):
        ports.work.put("two", b"")

    def safe(cells):
        contents.add(frozenset(cell[1] for cell in cells))
        return ""

    found = explore({}, [Actor("a", first), Actor("b", second)], safe=safe)
    assert found.complete
    assert contents == {frozenset(each) for each in ([], ["one"], ["two"], ["one", "two"])}


def test_what_is_broken_is_told_with_its_steps():
    def two(ports):
        ports.work.put("one", b"")
        ports.work.put("two", b"")

    found = explore({}, [Actor("a", two)], safe=lambda cells: "two are there" if len(cells) == 2 else "")
    assert str(found.broken) == "two are there, after a a"


def test_the_command_line_runs_a_set_up_and_its_broken_rules(capsys: pytest.CaptureFixture[str]):
    assert command.main(["drivers"]) == 0
    said = capsys.readouterr().out
    assert "drivers (two drivers of a batch meet at the table):\n  every state" in said
    assert "nothing is broken" in said
    assert "broken on purpose: published without the condition: b is in the table 2 times" in said
    with pytest.raises(SystemExit):
        command.main(["driver"])
    assert "there is no set-up 'driver'" in capsys.readouterr().err
