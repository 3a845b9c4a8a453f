"""Each scheme leaks where its author says it does, and not elsewhere; a marker that commits with the data does not."""

import ast
import inspect
import re
from dataclasses import fields
from functools import cache
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from simulation.checker.draws import CHOICES
from simulation.checker.explore import simulation
from simulation.comparison import evidence, trial
from simulation.comparison.causes import CAUSES, EVERYTHING, SINGLE
from simulation.comparison.schedule import schedule
from simulation.comparison.statistics import per_thousand, wilson
from simulation.comparison.trial import DEPLOYED, TIDEGATE, TITLES, Trial, TrialCounts, run
from simulation.comparison.verdict import judge
from simulation.world.kernel import Kernel
from simulation.world.knobs import Knobs
from simulation.world.s3 import S3, Bucket

SEEDS = 40
FEWER = 20
"""The leaks are wide: these are enough to see each of them."""

REPEATS, LOSES = "repeats", "loses"

LEAKS = {
    # every message is worked on, so whatever comes twice lands twice
    "nothing": {"duplicates": REPEATS, "redelivery": REPEATS, "answers": ""},
    # the holder of the key dies, and the next delivery is taken for a duplicate; the key is gone after five hours
    "set-nx": {"duplicates": REPEATS, "redelivery": "", "crashes": LOSES},
    # the next delivery passes, although the one before had only not been acknowledged
    "set-nx-count": {"duplicates": REPEATS, "redelivery": REPEATS},
    # at most once, knowingly: the row stays PROCESSING
    "state-row": {"duplicates": "", "redelivery": "", "crashes": LOSES},
    "state-row-audit": {"duplicates": "", "redelivery": "", "crashes": LOSES},
    "state-row-audit-versions": {"duplicates": "", "redelivery": "", "crashes": LOSES},
    # the item is there, the work is not
    "fifo-before": {"duplicates": "", "redelivery": "", "crashes": LOSES, "refusals": LOSES},
    # the work is done, the item is not yet there; the topic has forgotten after five minutes
    "fifo-after": {"duplicates": REPEATS, "redelivery": REPEATS, "crashes": REPEATS},
    "fifo-item": {"duplicates": "", "redelivery": "", "crashes": "", EVERYTHING: ""},
    # after a minute the lock is forgotten; after a day its dead holder is still remembered
    "lock": {"duplicates": REPEATS, "redelivery": REPEATS},
    "lock-day": {"duplicates": "", "redelivery": "", "crashes": LOSES},
    # the process dies after the work, before the record is completed; the record is forgotten after an hour
    "powertools": {"duplicates": REPEATS, "redelivery": "", "crashes": REPEATS},
    "powertools-day": {"duplicates": "", "redelivery": "", "crashes": REPEATS, "zombies": REPEATS},
    "inbox-transaction": {"duplicates": "", "redelivery": "", "crashes": "", EVERYTHING: ""},
    "inbox-document": {"duplicates": "", "redelivery": "", "crashes": "", EVERYTHING: ""},
}
"""By cause, what is seen in some schedule; what is not named must not be seen in any."""


@pytest.fixture(scope="module", autouse=True)
def _simulated():
    with simulation():
        yield


@cache
def count(scheme: str, cause: str, seeds: int) -> TrialCounts:
    counted = TrialCounts()
    for seed in range(seeds):
        counted.add(run(Trial(scheme, cause, seed)))
    assert not counted.broken
    return counted


# ---- the schemes


def test_tidegate_neither_repeats_nor_loses_under_any_fault():
    counted = count(TIDEGATE, EVERYTHING, SEEDS)
    assert (counted.repeated, counted.lost) == (0, 0)
    assert counted.heard > SEEDS
    assert counted.faults > SEEDS


@pytest.mark.parametrize(("scheme", "cause"), [(scheme, cause) for scheme, each in LEAKS.items() for cause in each])
def test_each_scheme_leaks_as_its_author_says_and_not_otherwise(scheme, cause):
    counted = count(scheme, cause, FEWER)
    seen = [name for name, times in ((REPEATS, counted.repeated), (LOSES, counted.lost)) if times]
    assert seen == ([LEAKS[scheme][cause]] if LEAKS[scheme][cause] else [])


@pytest.mark.parametrize("scheme", DEPLOYED)
def test_every_scheme_works_when_nothing_goes_wrong(scheme):
    counted = count(scheme, "calm", 15)
    assert (counted.repeated, counted.lost, counted.faults, counted.unheard) == (0, 0, 0, 0)


def test_only_an_audit_finds_uploads_that_were_never_notified_and_those_that_were_overwritten_if_it_lists_versions():
    without, current, versions = (
        count(scheme, "silence", FEWER) for scheme in ("state-row", "state-row-audit", "state-row-audit-versions")
    )
    assert without.absent > 0
    assert 0 < current.absent < without.absent / 2
    assert versions.absent == 0
    assert (current.repeated, current.lost, versions.repeated, versions.lost) == (0, 0, 0, 0)


@pytest.mark.parametrize("cause", ["silence", EVERYTHING])
def test_tidegate_with_its_audit_leaves_nothing_out_that_s3_never_announced(cause: str):
    counted = count(TIDEGATE, cause, SEEDS if cause == EVERYTHING else FEWER)
    assert counted.unheard > 5
    assert (counted.absent, counted.repeated, counted.lost) == (0, 0, 0)


def test_without_its_audit_tidegate_would_not_find_them(monkeypatch: pytest.MonkeyPatch):
    """Else the test above would show nothing."""
    monkeypatch.setattr(trial, "DailyAudit", Knobs)
    monkeypatch.setattr(trial.audits, "begun_before", lambda world, seconds: None)
    absent = sum(run(Trial(TIDEGATE, "silence", seed)).verdict.absent for seed in range(3))
    assert absent > 0


def test_every_scheme_but_no_scheme_at_all_is_better_than_none_against_duplicates():
    repeated = {scheme: count(scheme, "duplicates", FEWER).repeated for scheme in DEPLOYED}
    worst = repeated.pop("nothing")
    assert all(times < worst for times in repeated.values()), (worst, repeated)


# ---- the same for all


@pytest.mark.parametrize("scheme", ["powertools", "inbox-document", TIDEGATE])
def test_a_seed_gives_the_same_run_again(scheme):
    first, again, other = (run(Trial(scheme, EVERYTHING, seed)) for seed in (7, 7, 8))
    assert first == again
    assert first.digest != other.digest


def test_every_scheme_meets_the_same_uploads_and_announcements():
    def outside(scheme: str) -> list[str]:
        trace = run(Trial(scheme, "calm", 5), keep_trace=True).trace
        # the names of versions count all puts, those into Tidegate's work bucket, too
        return [re.sub(r" v\d+$", "", line) for line in trace if " put " in line]

    seen = {scheme: outside(scheme) for scheme in ("nothing", "fifo-item", TIDEGATE)}
    assert seen["nothing"]
    assert seen["nothing"] == seen["fifo-item"] == seen[TIDEGATE]


def test_no_content_of_a_schedule_comes_twice():
    for seed in range(50):
        bodies = [upload.body for upload in schedule(seed, CAUSES[EVERYTHING].announcing)]
        assert len(set(bodies)) == len(bodies)


# ---- the oracle


def shore():
    s3 = S3(Kernel(0))
    s3.buckets = {"landing": Bucket(versioned=True), "plain": Bucket(versioned=False)}
    return s3


def rows(uri, version, *numbers):
    return [(uri, version, number) for number in numbers]


def test_an_upload_with_a_row_twice_is_repeated_and_one_with_a_row_missing_is_lost():
    s3 = shore()
    twice, torn, whole = (s3.put("landing", key, b"1\n2\n") for key in "abc")
    landed = [
        *rows("s3://landing/a", twice.version_id, 0, 1, 1),
        *rows("s3://landing/b", torn.version_id, 0),
        *rows("s3://landing/c", whole.version_id, 0, 1),
    ]
    verdict = judge([twice, torn, whole], {version.number: 1 for version in (twice, torn, whole)}, s3, landed, True)
    assert (verdict.heard, verdict.repeated, verdict.lost, verdict.broken) == (3, 1, 1, ())


def test_an_upload_that_was_never_notified_is_absent_and_not_lost():
    s3 = shore()
    silent = s3.put("landing", "a", b"1\n")
    verdict = judge([silent], {}, s3, [], True)
    assert (verdict.heard, verdict.lost, verdict.unheard, verdict.absent) == (0, 0, 1, 1)


def test_an_upload_that_only_an_audit_has_found_is_repeated_like_any_other():
    s3 = shore()
    silent = s3.put("landing", "a", b"1\n")
    landed = rows("s3://landing/a", silent.version_id, 0, 0)
    assert judge([silent], {}, s3, landed, True).repeated == 1


def test_an_upload_that_was_overwritten_without_versions_is_not_lost():
    s3 = shore()
    before, after = s3.put("plain", "a", b"1\n"), s3.put("plain", "a", b"2\n")
    landed = rows("s3://plain/a", f"etag:{after.etag}", 0)
    assert judge([before, after], {before.number: 1, after.number: 1}, s3, landed, True).lost == 0
    assert judge([before, after], {before.number: 1, after.number: 1}, s3, [], True).lost == 1


def test_rows_of_nothing_and_a_schedule_without_rest_are_told():
    verdict = judge([], {}, shore(), rows("s3://landing/x", "v1", 0), False)
    assert len(verdict.broken) == 2


# ---- the page


def test_the_interval_of_wilson_is_the_published_one():
    # https://www.itl.nist.gov/div898/handbook/prc/section2/prc241.htm gives the formula; no hits: z² / (n + z²)
    assert wilson(0, 1_000) == pytest.approx((0.0, 0.003827), abs=1e-6)
    assert wilson(4, 20) == pytest.approx((0.0807, 0.4160), abs=5e-5)
    low, high = wilson(20, 20)
    assert (1 - high, 1 - low) == pytest.approx(wilson(0, 20))


def test_a_share_is_told_in_thousandths():
    told = [per_thousand(share) for share in (0.0, 1e-19, 0.00383, 0.0099, 0.00999, 0.4904, 1.0)]
    assert told == ["0", "0", "3.8", "9.9", "10", "490", "1000"]


def tables(name: str) -> list[list[list[str]]]:
    """The tables of a section, in rows of cells."""
    blocks = evidence.written(evidence.page_of(name), name).split("\n\n")
    return [
        [[cell.strip() for cell in line.split("|")[1:-1]] for line in block.splitlines()]
        for block in blocks
        if block.startswith("|")
    ]


def test_the_pages_have_every_section_once():
    there = [name for page in evidence.PAGES for name in evidence.sections(page.read_text())]
    assert sorted(there) == sorted(evidence.SECTIONS)


@pytest.mark.parametrize("name", evidence.SECTIONS)
def test_the_generated_tables_are_well_formed(name):
    assert tables(name)
    for header, _, *body in tables(name):
        assert body
        assert {len(row) for row in body} == {len(header)}
        assert all(cell for row in body for cell in row)


@pytest.mark.parametrize("name", ["comparison", "causes"])
def test_the_generated_comparisons_name_every_scheme(name):
    (table,) = tables(name)
    assert [row[0] for row in table[2:]] == list(TITLES.values())


@pytest.mark.parametrize("name", evidence.WITHOUT_RUNS)
def test_what_the_page_quotes_from_the_code_is_what_the_code_says(name):
    made = evidence.SECTIONS[name](evidence.Findings())
    assert evidence.written(evidence.page_of(name), name) == made, "run python -m simulation evidence --sections"


def test_the_page_describes_every_scheme():
    described = evidence.PAGES[0].read_text().split("## The schemes")[1].split("## The comparison")[0]
    assert re.findall(r"^\| (?!scheme)(.+?) \|", described, re.MULTILINE) == list(TITLES.values())


def test_the_page_explains_every_cause_and_every_kind_of_fault():
    explained = evidence.PAGES[0].read_text().split("## By cause")[1].split("<!-- generated")[0]
    described = re.findall(r"^\| (?!cause)(.+?) \| (.+) \|$", explained, re.MULTILINE)
    assert [title for title, _ in described] == [CAUSES[cause].title for cause in SINGLE]
    for (_, text), cause in zip(described, SINGLE, strict=True):
        assert set(re.findall(r"`(.+?)`", text)) == set(CAUSES[cause].kinds)


def test_the_page_says_that_tidegate_repeated_and_lost_nothing():
    (comparison,) = [row for row in tables("comparison")[0] if row[0] == TITLES[TIDEGATE]]
    assert [share.split()[0] for share in comparison[1:3]] == ["0", "0"]
    (causes,) = [row for row in tables("causes")[0] if row[0] == TITLES[TIDEGATE]]
    assert set(causes[1:]) == {"0"}


def test_the_page_says_that_tidegate_left_out_nothing_that_was_never_notified():
    (header, *_) = tables("comparison")[0]
    (comparison,) = [row for row in tables("comparison")[0] if row[0] == TITLES[TIDEGATE]]
    assert int(comparison[header.index("uploads never notified")]) > 100
    assert comparison[header.index("absent")] == "0"


def test_the_picture_shows_every_scheme_with_two_bars():
    root = ElementTree.fromstring(evidence.PICTURE.read_text())
    texts = {element.text for element in root.iter("{http://www.w3.org/2000/svg}text")}
    assert {title.replace("`", "") for title in TITLES.values()} <= texts
    bars = [each for each in root.iter("{http://www.w3.org/2000/svg}rect") if each.get("height") == "13"]
    assert len(bars) == 2 * len(TITLES)


def test_every_knob_is_drawn_and_explained():
    (owner,) = (node for node in ast.parse(inspect.getsource(Knobs)).body if isinstance(node, ast.ClassDef))
    explained = {
        attribute.target.id
        for attribute, below in pairwise(owner.body)
        if isinstance(attribute, ast.AnnAssign)
        and isinstance(attribute.target, ast.Name)
        and isinstance(below, ast.Expr)
        and isinstance(below.value, ast.Constant)
    }
    assert explained == {field.name for field in fields(Knobs)} == set(CHOICES)


def test_a_page_without_a_section_is_refused():
    page = "<!-- generated: a -->\nold\n<!-- end of a -->"
    with pytest.raises(ValueError, match="not one section"):
        evidence.filled(page, {"b": "x"})
    with pytest.raises(ValueError, match="not one section"):
        evidence.filled(page + "\n" + page, {"a": "x"})


def test_filling_a_page_replaces_the_sections_and_nothing_else():
    page = "before\n<!-- generated: a -->\nold\n<!-- end of a -->\nafter\n"
    once = evidence.filled(page, {"a": "new"})
    assert once == "before\n<!-- generated: a -->\n\nnew\n\n<!-- end of a -->\nafter\n"
    assert evidence.filled(once, {"a": "new"}) == once
    assert evidence.written(once, "a") == "new"


def test_a_cell_cannot_break_its_table():
    assert evidence.markdown(("a",), [("x | y",)]) == "| a |\n| --- |\n| x &#124; y |"


def test_what_is_unsound_is_not_written_down(monkeypatch, capsys):
    broken = {(TIDEGATE, EVERYTHING): TrialCounts(broken=["tidegate everything SEED=3: torn"])}
    monkeypatch.setattr(evidence, "run_all", lambda _, **__: broken)
    before = evidence.PAGES[0].read_bytes(), evidence.PICTURE.read_bytes()
    assert evidence.main([]) == 1
    assert "SEED=3" in capsys.readouterr().err
    assert before == (evidence.PAGES[0].read_bytes(), evidence.PICTURE.read_bytes())
