"""The results in docs/performance.md: tables between markers, and charts beside the page.

A marker is `<!-- bench: NAME -->`, and `<!-- end -->` ends its section. NAME is a bench. Between them stands what the
bench found last, and nothing else: the prose around it is written by hand. Long tables are shortened
(`bench/shortened.py`), and of the limits that hold only the number is told: latest.json has everything. Between
`<!-- measured -->` and `<!-- end -->` stands when and where all of it was measured.
"""

import re
import textwrap
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.findings import BenchFindings, BenchLimit, decode_findings, time_to
from bench.picture import draw
from bench.shortened import COMPARED, shortened

PAGE = Path(__file__).parents[1] / "docs" / "performance.md"
WIDTH = 120
SECTION = re.compile(r"(<!-- bench: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
MEASURED = re.compile(r"(<!-- measured -->\n).*?(<!-- end -->)", re.DOTALL)


def write(record: Mapping[str, Any]) -> None:
    """Write the sections and the charts of the benches that have a result."""
    if PAGE.exists():
        PAGE.write_text(rendered(PAGE.read_text(), record))
    for name, content in charts(record).items():
        PAGE.with_name(name).write_text(content)


def rendered(page: str, record: Mapping[str, Any]) -> str:
    """The page with these results. A bench without a result keeps what stands there."""

    def filled(found: re.Match[str]) -> str:
        begin, name, end = found.groups()
        return f"{begin}{section(record[name])}\n{end}" if name in record else found[0]

    dated = MEASURED.sub(lambda found: f"{found[1]}{measured(record)}\n{found[2]}", page)
    return SECTION.sub(filled, dated)


def measured(record: Mapping[str, Any]) -> str:
    """When and where. If not all of it is of one day and one machine, with the names of the benches."""
    names: dict[str, list[str]] = {}
    for name, result in record.items():
        said = (
            f"Measured on {result['date']} on {result['processors']} processors ({result['processor']}),"
            f" Python {result['versions']['python']}"
        )
        names.setdefault(said, []).append(name)
    if len(names) == 1:
        return f"{next(iter(names))}."
    return "\n".join(f"- {said}: {', '.join(of)}" for said, of in names.items())


def section(result: Mapping[str, Any]) -> str:
    findings = decode_findings(result)
    broken = frozenset(limit.what for limit in findings.limits if not limit.holds)
    short = shortened(findings.tables, broken)
    tables = [str(replace(table, note=textwrap.fill(table.note, WIDTH))) for table in short]
    pictures = "\n".join(f"![{chart.title}]({_file(chart.name)})" for chart in findings.charts)
    in_bold = broken & {time_to(*row[:2]) for table in findings.tables if table.name in COMPARED for row in table.rows}
    return "\n\n".join(part for part in (*tables, _limits(findings.limits, in_bold), pictures) if part)


def _limits(limits: Sequence[BenchLimit], in_bold: Set[str]) -> str:
    """How many hold, and those that do not, but for what is in bold in the table."""
    if not limits:
        return ""
    broken = [limit for limit in limits if not limit.holds]
    told = f"Limits: {len(limits) - len(broken)} of {len(limits)} hold.{' Those in bold do not.' if in_bold else ''}"
    return "\n".join([told, *(f"- {limit}" for limit in broken if limit.what not in in_bold)])


def charts(record: Mapping[str, Any]) -> dict[str, str]:
    """By the name of the file beside the page."""
    findings: list[BenchFindings] = [decode_findings(result) for result in record.values()]
    return {_file(chart.name): draw(chart) for each in findings for chart in each.charts}


def _file(chart: str) -> str:
    return f"performance-{chart}.svg"
