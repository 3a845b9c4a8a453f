"""`python -m tests.sim.evidence`: run every scheme under the same schedules, and write down what came of it.

It rewrites the generated sections of `docs/evidence.md` and `docs/simulation.md`, and `docs/evidence.svg`: the same
bytes each time.
With `--check` it writes nothing and ends with 1 if what it found is not what is written there. With `--sections` it
makes only those named: the ones that need no runs are made at once.
"""

import argparse
import ast
import inspect
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path

from tests.sim import explore
from tests.sim.__main__ import everywhere
from tests.sim.coverage import kinds, scenarios, sites
from tests.sim.explore import Report
from tests.sim.knobs import CHOICES, Knobs
from tests.sim.scenarios import PLAIN
from tests.sim.schemes.causes import CAUSES, EVERYTHING, SILENCE, SINGLE
from tests.sim.schemes.picture import Bars, draw
from tests.sim.schemes.statistics import per_thousand, wilson
from tests.sim.schemes.trial import TITLES, Tallies, Tally, Trial, run_all
from tests.sim.seen import SOMETIMES

DOCS = Path(__file__).parents[2] / "docs"
PAGES = (DOCS / "evidence.md", DOCS / "simulation.md")
PICTURE = DOCS / "evidence.svg"
SCHEDULES = 1_000
CAMPAIGN = 1_000
"""Seeds of the campaign that says which states were met."""
SHARE_OF_SINGLE = 4
"""For each single cause, a quarter of the schedules is run."""


class Unsound(Exception):
    """Something that no scheme may do, or that the simulation may not do: not to be written down as a result."""


@dataclass
class Findings:
    """What the sections are made of. Runs are made when a section asks for them, and once."""

    schedules: int = SCHEDULES

    @cached_property
    def tallies(self) -> Tallies:
        """Raises Unsound."""
        tallies = run_all(trials(self.schedules), progress=_progress)
        broken = [each for tally in tallies.values() for each in tally.broken]
        if broken:
            raise Unsound("\n  ".join(broken))
        return tallies

    @cached_property
    def campaign(self) -> Report:
        """Schedules by seed, watched. Raises Unsound."""
        report = explore.run_all(explore.seeds(0, CAMPAIGN), watched=True)
        failures = [f"{each.case}: {each.judgement.broken}" for each in report.failures]
        failures += [f"never seen: {name}" for name in SOMETIMES if not report.happened[name]]
        if failures:
            raise Unsound("\n  ".join(failures))
        return report

    @cached_property
    def explored(self) -> Report:
        """Every fault at every call. Raises Unsound."""
        report = everywhere(PLAIN)
        failures = [f"{each.case}: {each.judgement.broken}" for each in report.failures]
        failures += [f"never tried: {kind} at {site}" for site, kind in report.untried]
        if failures:
            raise Unsound("\n  ".join(failures))
        return report


def trials(schedules: int) -> list[Trial]:
    """Seeds from 0. The slow scheme is everywhere in between, so that no core is left with it at the end."""
    found = []
    for cause in CAUSES:
        for seed in range(schedules if cause == EVERYTHING else schedules // SHARE_OF_SINGLE):
            found += [Trial(scheme, cause, seed) for scheme in TITLES]
    return found


def _progress(done: int, of: int) -> None:
    if done % 500 == 0 or done == of:
        print(f"\r{done:,} of {of:,} schedules", end="" if done < of else "\n", file=sys.stderr, flush=True)


# ---- the sections


def comparison(findings: Findings) -> str:
    tallies = findings.tallies
    some = tallies[next(iter(TITLES)), EVERYTHING]
    header = (
        "scheme",
        "of 1,000 schedules, an upload repeated in",
        "an upload lost in",
        "uploads notified",
        "repeated",
        "lost",
        "never notified",
        "absent",
        "faults in a schedule",
    )
    rows = []
    for scheme, title in TITLES.items():
        tally = tallies[scheme, EVERYTHING]
        numbers = (tally.heard, tally.repeated, tally.lost, tally.unheard, tally.absent)
        rows.append(
            (
                title,
                _share(tally.with_repeats, tally.schedules),
                _share(tally.with_losses, tally.schedules),
                *(f"{number:,}" for number in numbers),
                f"{tally.faults / tally.schedules:.1f}",
            )
        )
    return (
        f"{some.schedules:,} schedules for each scheme, {_seeds(some)}. Any fault may strike any call. In brackets the "
        f"95 % interval (Wilson).\n\n{markdown(header, rows)}"
    )


def causes(findings: Findings) -> str:
    tallies = findings.tallies
    some = tallies[next(iter(TITLES)), SINGLE[0]]
    rows = []
    for scheme, title in TITLES.items():
        cells = [_both(tallies[scheme, cause]) for cause in SINGLE if cause != SILENCE]
        silent = tallies[scheme, SILENCE]
        rows.append((title, *cells, per_thousand(silent.absent / silent.unheard) if silent.unheard else "0"))
    titles = [CAUSES[cause].title for cause in SINGLE if cause != SILENCE]
    return (
        f"{some.schedules:,} schedules for each scheme and cause, {_seeds(some)}. A cell says in how many of 1,000 "
        "schedules an upload was *repeated* / *lost*; 0 means neither. The last column says how many of 1,000 uploads "
        f"that were never notified are *absent*. The 95 % interval of a share of schedules reaches "
        f"{per_thousand(_widest(some.schedules))} up and down at most; that of a 0 reaches up to "
        f"{per_thousand(wilson(0, some.schedules)[1])}.\n\n"
        f"{markdown(('scheme', *titles, CAUSES[SILENCE].title), rows)}"
    )


def coverage(findings: Findings) -> str:
    report = findings.explored
    calls = [(f"`{name}`", f"{calls:,}", f"{faults:,}") for name, calls, faults in scenarios()]
    struck = [(f"`{kind}`", *(f"{number:,}" for number in numbers)) for kind, *numbers in kinds(report)]
    callers = ", ".join(f"{caller} {number}" for caller, number in sites(report))
    return (
        f"{markdown(('scenario', 'calls', 'faults that can strike one'), calls)}\n\n"
        f"{report.runs:,} runs with {report.calls:,} calls at {len(report.sites)} call sites ({callers}); "
        f"{len(report.failures)} broke a promise.\n\n"
        f"{markdown(('fault', 'call sites that it can strike', 'call sites that it struck', 'times'), struck)}"
    )


def knobs(_: Findings) -> str:
    rows = [
        (f"`{name}`", said, _in_percent(share), ", ".join(map(str, values)))
        for name, (share, values) in CHOICES.items()
        for said in [explained(Knobs)[name]]
    ]
    return markdown(("knob", "what it says", "share of the seeds", "value is one of"), rows)


def explained(owner: type) -> dict[str, str]:
    """What is said of each attribute of a class, right below it, in one line."""
    (definition,) = ast.parse(inspect.getsource(owner)).body
    assert isinstance(definition, ast.ClassDef)
    said = {}
    for attribute, below in pairwise(definition.body):
        if isinstance(attribute, ast.AnnAssign) and isinstance(attribute.target, ast.Name):
            text = below.value if isinstance(below, ast.Expr) else None
            words = text.value if isinstance(text, ast.Constant) else attribute.target.id.replace("_", " ")
            said[attribute.target.id] = " ".join(str(words).split())
    return said


def states(findings: Findings) -> str:
    report = findings.campaign
    seen = [(name, f"{report.happened[name]:,}") for name in SOMETIMES]
    rows = [
        (each.state, each.job.lower(), f"{each.calls:,}", f"{each.sites}", f"{each.struck:,} of {each.possible:,}")
        for each in report.situations
    ]
    header = ("state of the batch", "state of its job", "calls", "call sites", "faults at them that struck")
    met = sum(each.sites for each in report.situations)
    return (
        f"{report.runs:,} seeds, {report.calls:,} calls, {sum(report.struck.values()):,} faults; no promise was"
        " broken.\n\n"
        f"{markdown(('what was seen', 'in so many runs'), seen)}\n\n"
        f"{met:,} combinations of a state, a job and a call site were met. A dash stands for none: a call that is about"
        f" no batch, or a batch without a job.\n\n{markdown(header, rows)}"
    )


def _in_percent(share: float) -> str:
    return f"{share * 100:.0f} %"


def found(_: Findings) -> str:
    from tests.sim.found import FOUND

    rows = [(each.what, each.mended, "; ".join(f"`{case}`" for case in each.cases)) for each in FOUND]
    return markdown(("what was wrong", "how it was mended", "shown by"), rows)


def bugs(_: Findings) -> str:
    """Each of them is planted, run and undone by tests/sim/test_bugs.py."""
    from tests.sim.bugs import BUGS

    rows = [(bug.name, bug.mistake, f"`{bug.scenario}`, {bug.how}") for bug in BUGS]
    return markdown(("mistake", "what it is", "shown by"), rows)


def harmless(_: Findings) -> str:
    from tests.sim.bugs import HARMLESS

    return markdown(("taken away", "what that means"), [(bug.name, bug.mistake) for bug in HARMLESS])


def unseen(_: Findings) -> str:
    from tests.sim.bugs import UNSEEN

    rows = [(bug.name, bug.mistake, bug.because) for bug in UNSEEN]
    return markdown(("mistake", "what it is", "why no run shows it"), rows)


def differences(_: Findings) -> str:
    # imported here: moto comes with it, and hooks itself into the SDK of each process that simulates
    from tests.sim.conformance import table_of_differences

    return table_of_differences()


SECTIONS: dict[str, Callable[[Findings], str]] = {
    "comparison": comparison,
    "causes": causes,
    "knobs": knobs,
    "states": states,
    "coverage": coverage,
    "found": found,
    "bugs": bugs,
    "harmless": harmless,
    "unseen": unseen,
    "differences": differences,
}
"""By the name that their markers on the page have: what is to stand between the markers."""

WITHOUT_RUNS = ("knobs", "found", "bugs", "harmless", "unseen", "differences")
"""They say what is in the code, and are made at once."""


def picture(findings: Findings) -> str:
    rows = []
    for scheme, title in TITLES.items():
        tally = findings.tallies[scheme, EVERYTHING]
        rows.append(Bars(title.replace("`", ""), tally.schedules, tally.with_repeats, tally.with_losses))
    return draw(rows, "Of 1,000 schedules with faults, those with …")


# ---- their parts


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table. Its cells may hold anything but line breaks."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', '&#124;') for cell in line)} |" for line in lines)


def _seeds(tally: Tally) -> str:
    return f"seeds 0 to {tally.schedules - 1}"


def _share(hits: int, trials: int) -> str:
    low, high = wilson(hits, trials)
    return f"{per_thousand(hits / trials)} [{per_thousand(low)}, {per_thousand(high)}]"


def _both(tally: Tally) -> str:
    repeats, losses = (per_thousand(hits / tally.schedules) for hits in (tally.with_repeats, tally.with_losses))
    return "0" if (repeats, losses) == ("0", "0") else f"{repeats} / {losses}"


def _widest(trials: int) -> float:
    low, high = wilson(trials // 2, trials)
    return (high - low) / 2


# ---- the page


def page_of(name: str) -> str:
    """The text of the page that has this section. Raises ValueError if none has."""
    found = [text for text in (page.read_text() for page in PAGES) if name in sections(text)]
    if len(found) != 1:
        raise ValueError(f"section {name} is on {len(found)} pages")
    return found[0]


def sections(text: str) -> list[str]:
    """The names of the page's generated sections."""
    return re.findall(r"<!-- generated: ([a-z-]+) -->", text)


def written(text: str, name: str) -> str:
    """What stands in a generated section. Raises ValueError if the page has no such section, or two."""
    if text.count(_begin(name)) != 1 or text.count(_end(name)) != 1:
        raise ValueError(f"the page has not one section {name}, but has {sections(text)}")
    return text.split(_begin(name))[1].split(_end(name))[0].strip("\n")


def filled(text: str, contents: Mapping[str, str]) -> str:
    """The page with these sections replaced. Raises ValueError if it has not each of them once."""
    for name, content in contents.items():
        written(text, name)
        head, rest = text.split(_begin(name))
        text = f"{head}{_begin(name)}\n{content}\n{_end(name)}{rest.split(_end(name))[1]}"
    return text


def _begin(name: str) -> str:
    return f"<!-- generated: {name} -->\n"


def _end(name: str) -> str:
    return f"\n<!-- end of {name} -->"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim.evidence", description=__doc__.partition("\n")[0])
    parser.add_argument("--schedules", type=int, default=SCHEDULES, help="for each scheme (default: %(default)s)")
    parser.add_argument("--sections", nargs="+", choices=SECTIONS, default=list(SECTIONS), help="only these")
    parser.add_argument("--check", action="store_true", help="write nothing; 1 if the page says something else")
    options = parser.parse_args(arguments)
    if options.schedules < SHARE_OF_SINGLE:
        parser.error(f"at least {SHARE_OF_SINGLE} schedules")
    findings = Findings(options.schedules)
    try:
        contents = {name: SECTIONS[name](findings) for name in options.sections}
        # read only now: the runs take minutes, and somebody may have written on the page meanwhile
        new = {}
        for page in PAGES:
            text = page.read_text()
            new[page] = filled(text, {name: contents[name] for name in sections(text) if name in contents})
        if "comparison" in options.sections:
            new[PICTURE] = picture(findings)
    except Unsound as unsound:
        print(f"Not to be written down, but to be looked into:\n  {unsound}", file=sys.stderr)
        return 1
    if options.check:
        differing = [path.name for path, text in new.items() if not path.exists() or path.read_text() != text]
        print(f"differs: {', '.join(differing)}" if differing else "what is written is what was found")
        return 1 if differing else 0
    for path, text in new.items():
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
