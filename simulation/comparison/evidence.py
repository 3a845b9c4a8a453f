"""`python -m simulation evidence`: run every scheme under the same schedules, and write the results.

It rewrites the generated sections of `docs/evidence.md` and `docs/simulation.md`, and `docs/evidence.svg`. The same
code and seeds give the same bytes. With `--check` it writes nothing, and exits with 1 if the results differ from the
pages. With `--sections` it makes only the named sections; those that need no runs take a second.
"""

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from simulation.checker import explore
from simulation.checker.bugs import SUBJECTS, UNSEEN
from simulation.checker.coverage import kinds, scenarios, sites
from simulation.checker.explore import Report, everywhere
from simulation.checker.found import FOUND
from simulation.checker.scenarios import PLAIN
from simulation.checker.sometimes import SOMETIMES
from simulation.comparison.causes import CAUSES, EVERYTHING, SILENCE, SINGLE
from simulation.comparison.picture import Bars, draw
from simulation.comparison.statistics import per_thousand, wilson
from simulation.comparison.trial import TITLES, Counted, Trial, TrialCounts, run_all
from simulation.world.differences import table_of_differences

DOCS = Path(__file__).parents[2] / "docs"
PAGES = (DOCS / "evidence.md", DOCS / "simulation.md")
PICTURE = DOCS / "evidence.svg"
SCHEDULES = 1_000
CAMPAIGN = 1_000
"""The number of seeds of the campaign that counts the states."""
SHARE_OF_SINGLE = 4
"""For each single cause, a quarter of the schedules is run."""


class Unsound(Exception):
    """A scheme or the simulation did something impossible. Such a result is not written."""


@dataclass
class Findings:
    """The results that the sections show. Each campaign runs once, when a section first needs it."""

    schedules: int = SCHEDULES

    @cached_property
    def counted(self) -> Counted:
        """Raises Unsound."""
        counted = run_all(trials(self.schedules), progress=_progress)
        _refuse(each for counts in counted.values() for each in counts.broken)
        return counted

    @cached_property
    def campaign(self) -> Report:
        """Seeds, with their states counted. Raises Unsound."""
        report = explore.run_all(explore.seeds(0, CAMPAIGN), watched=True)
        never = [f"never met: {name}" for name in SOMETIMES if not report.happened[name]]
        _refuse([*_failures(report), *never])
        return report

    @cached_property
    def explored(self) -> Report:
        """Every fault at every call. Raises Unsound."""
        report = everywhere(PLAIN)
        _refuse([*_failures(report), *(f"never tried: {kind} at {site}" for site, kind in report.untried)])
        return report


def _failures(report: Report) -> list[str]:
    return [f"{each.case}: {each.judgement.broken}" for each in report.failures]


def _refuse(wrong: Iterable[str]) -> None:
    if found := list(wrong):
        raise Unsound("\n  ".join(found))


def trials(schedules: int) -> list[Trial]:
    """Seeds from 0. The schemes alternate, so that no core is left with the slow one at the end."""
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
    counted = findings.counted
    some = counted[next(iter(TITLES)), EVERYTHING]
    header = (
        "scheme",
        "of 1,000 schedules, an upload repeated in",
        "an upload lost in",
        "uploads never notified",
        "absent",
        "faults in a schedule",
    )
    rows = []
    for scheme, title in TITLES.items():
        counts = counted[scheme, EVERYTHING]
        numbers = (counts.unheard, counts.absent)
        rows.append(
            (
                title,
                _share(counts.with_repeats, counts.schedules),
                _share(counts.with_losses, counts.schedules),
                *(f"{number:,}" for number in numbers),
                f"{counts.faults / counts.schedules:.1f}",
            )
        )
    return (
        f"{some.schedules:,} schedules for each scheme, {_seeds(some)}, with any fault at any call. In brackets the"
        f" 95 % interval (Wilson).\n\n{markdown(header, rows)}"
    )


def causes(findings: Findings) -> str:
    counted = findings.counted
    some = counted[next(iter(TITLES)), SINGLE[0]]
    rows = []
    for scheme, title in TITLES.items():
        cells = [_both(counted[scheme, cause]) for cause in SINGLE if cause != SILENCE]
        silent = counted[scheme, SILENCE]
        rows.append((title, *cells, per_thousand(silent.absent / silent.unheard) if silent.unheard else "0"))
    titles = [CAUSES[cause].title for cause in SINGLE if cause != SILENCE]
    return (
        f"{some.schedules:,} schedules for each scheme and cause, {_seeds(some)}. A cell: of 1,000 schedules, those "
        "with an upload *repeated*/*lost*; 0: neither. The last column: of 1,000 uploads never notified, those "
        f"*absent*. The 95 % interval reaches at most {per_thousand(_widest(some.schedules))} up and down, for a 0 up "
        f"to {per_thousand(wilson(0, some.schedules)[1])}.\n\n"
        f"{markdown(('scheme', *titles, CAUSES[SILENCE].title), rows)}"
    )


def coverage(findings: Findings) -> str:
    report = findings.explored
    calls = [(f"`{name}`", f"{calls:,}", f"{faults:,}") for name, calls, faults in scenarios()]
    alike: dict[int, list[tuple[str, int]]] = {}
    for kind, _, did, times in kinds(report):
        alike.setdefault(did, []).append((f"`{kind}`", times))
    struck = [
        (", ".join(name for name, _ in group), f"{did:,}", f"{sum(times for _, times in group):,}")
        for did, group in alike.items()
    ]
    callers = ", ".join(f"{caller} {number}" for caller, number in sites(report))
    return (
        f"{markdown(('scenario', 'calls', 'faults that can strike one'), calls)}\n\n"
        f"{report.runs:,} runs with {report.calls:,} calls at {len(report.sites)} call sites ({callers}); "
        f"{len(report.failures)} broke a promise. Each fault struck every call site that it can strike:\n\n"
        f"{markdown(('faults', 'call sites of each', 'times in all'), struck)}"
    )


def states(findings: Findings) -> str:
    report = findings.campaign
    seen = [(name, f"{report.happened[name]:,}") for name in SOMETIMES]
    met, struck, possible = (
        sum(getattr(each, name) for each in report.situations) for name in ("sites", "struck", "possible")
    )
    return (
        f"{report.runs:,} seeds, {report.calls:,} calls, {sum(report.struck.values()):,} faults; no promise was"
        f" broken. {met:,} combinations of a batch's state, its job's state and a call site were met. Of"
        f" {possible:,} faults that can strike there, {struck:,} did.\n\n"
        f"{markdown(('what was seen', 'in so many runs'), seen)}"
    )


def found(_: Findings) -> str:
    rows = [(each.what, each.mended, "; ".join(f"`{case}`" for case in each.cases)) for each in FOUND]
    return markdown(("what was wrong", "how it was mended", "shown by"), rows)


def bugs(_: Findings) -> str:
    """How many there are of each subject. tests/simulation/test_bugs.py plants, runs and undoes them all."""
    rows = [(subject, f"{len(module.BUGS)}") for subject, module in SUBJECTS.items()]
    return markdown(("subject", "planted"), rows)


def unseen(_: Findings) -> str:
    return markdown(("mistake", "why no run shows it"), [(bug.mistake, bug.because) for bug in UNSEEN])


def differences(_: Findings) -> str:
    return table_of_differences()


SECTIONS: dict[str, Callable[[Findings], str]] = {
    "comparison": comparison,
    "causes": causes,
    "states": states,
    "coverage": coverage,
    "found": found,
    "bugs": bugs,
    "unseen": unseen,
    "differences": differences,
}
"""The text of each section, by the name in its markers on the page."""

WITHOUT_RUNS = ("found", "bugs", "unseen", "differences")
"""These sections list what is in the code. They need no runs."""


def picture(findings: Findings) -> str:
    rows = []
    for scheme, title in TITLES.items():
        counts = findings.counted[scheme, EVERYTHING]
        rows.append(Bars(title.replace("`", ""), counts.schedules, counts.with_repeats, counts.with_losses))
    return draw(rows, "Of 1,000 schedules with faults, those with …")


# ---- their parts


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table. Its cells may hold anything but line breaks."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', '&#124;') for cell in line)} |" for line in lines)


def _seeds(counts: TrialCounts) -> str:
    return f"seeds 0 to {counts.schedules - 1}"


def _share(hits: int, trials: int) -> str:
    low, high = wilson(hits, trials)
    return f"{per_thousand(hits / trials)} [{per_thousand(low)}, {per_thousand(high)}]"


def _both(counts: TrialCounts) -> str:
    repeats, losses = (per_thousand(hits / counts.schedules) for hits in (counts.with_repeats, counts.with_losses))
    return "0" if (repeats, losses) == ("0", "0") else f"{repeats}/{losses}"


def _widest(trials: int) -> float:
    low, high = wilson(trials // 2, trials)
    return (high - low) / 2


# ---- the page


def page_of(name: str) -> str:
    """The text of the page with this section. Raises ValueError if no page has it, or two."""
    found = [text for text in (page.read_text() for page in PAGES) if name in sections(text)]
    if len(found) != 1:
        raise ValueError(f"section {name} is on {len(found)} pages")
    return found[0]


def sections(text: str) -> list[str]:
    """The names of the page's generated sections."""
    return re.findall(r"<!-- generated: ([a-z-]+) -->", text)


def written(text: str, name: str) -> str:
    """The text of a generated section. Raises ValueError if the page has no such section, or two."""
    if text.count(_begin(name)) != 1 or text.count(_end(name)) != 1:
        raise ValueError(f"the page has not one section {name}, but has {sections(text)}")
    return text.split(_begin(name))[1].split(_end(name))[0].strip("\n")


def filled(text: str, contents: Mapping[str, str]) -> str:
    """The page with these sections replaced. Raises ValueError unless it has each of them once."""
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
    parser = argparse.ArgumentParser(prog="python -m simulation evidence", description=__doc__.partition("\n")[0])
    parser.add_argument("--schedules", type=int, default=SCHEDULES, help="for each scheme (default: %(default)s)")
    parser.add_argument("--sections", nargs="+", choices=SECTIONS, default=list(SECTIONS), help="only these")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if the pages differ")
    options = parser.parse_args(arguments)
    if options.schedules < SHARE_OF_SINGLE:
        parser.error(f"at least {SHARE_OF_SINGLE} schedules")
    findings = Findings(options.schedules)
    try:
        contents = {name: SECTIONS[name](findings) for name in options.sections}
        # read after the runs: they take minutes, and somebody may have edited the page meanwhile
        new = {}
        for page in PAGES:
            text = page.read_text()
            new[page] = filled(text, {name: contents[name] for name in sections(text) if name in contents})
        if "comparison" in options.sections:
            new[PICTURE] = picture(findings)
    except Unsound as unsound:
        print(f"Nothing is written. To be examined:\n  {unsound}", file=sys.stderr)
        return 1
    if options.check:
        differing = [path.name for path, text in new.items() if not path.exists() or path.read_text() != text]
        print(f"differs: {', '.join(differing)}" if differing else "the pages have these results")
        return 1 if differing else 0
    for path, text in new.items():
        path.write_text(text)
    return 0
