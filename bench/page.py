"""The results in docs/performance.md: tables between markers, and charts beside the page.

A marker is `<!-- bench: NAME -->`, and `<!-- end -->` ends its section. NAME is a bench. Between them stands what the
bench found last, and nothing else: the prose around it is written by hand.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.findings import BenchFindings, decode_findings
from bench.picture import draw

PAGE = Path(__file__).parents[1] / "docs" / "performance.md"
SECTION = re.compile(r"(<!-- bench: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


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

    return SECTION.sub(filled, page)


def section(result: Mapping[str, Any]) -> str:
    findings = decode_findings(result)
    measured = (
        f"Measured on {result['date']} on {result['processors']} processors ({result['processor']}),"
        f" Python {result['versions']['python']}."
    )
    limits = "\n".join(f"- {limit}" for limit in findings.limits)
    pictures = "\n".join(f"![{chart.title}]({_file(chart.name)})" for chart in findings.charts)
    return "\n\n".join(part for part in (measured, *map(str, findings.tables), limits, pictures) if part)


def charts(record: Mapping[str, Any]) -> dict[str, str]:
    """By the name of the file beside the page."""
    findings: list[BenchFindings] = [decode_findings(result) for result in record.values()]
    return {_file(chart.name): draw(chart) for each in findings for chart in each.charts}


def _file(chart: str) -> str:
    return f"performance-{chart}.svg"
