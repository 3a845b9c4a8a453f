"""A picture of the comparison, as SVG: two bars for each scheme, with their 95 % intervals."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from simulation.comparison.statistics import per_thousand, wilson

LEFT, WIDTH, RIGHT, TOP, ROW, BAR, FOOT = 300, 520, 60, 84, 40, 13, 36
REPEATED, LOST = "#c2570c", "#1d4f91"


@dataclass(frozen=True)
class Bars:
    """Of so many schedules, how many had an upload repeated, and how many had one lost."""

    title: str
    schedules: int
    repeated: int
    lost: int


def draw(rows: Sequence[Bars], heading: str) -> str:
    height = TOP + ROW * len(rows) + FOOT
    bottom = TOP + ROW * len(rows)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + RIGHT} {height}" '
        'font-family="sans-serif" font-size="13" role="img">',
        f"<title>{escape(heading)}</title>",
        f'<rect width="{LEFT + WIDTH + RIGHT}" height="{height}" fill="#ffffff"/>',
        f'<text x="16" y="28" font-size="16" font-weight="bold">{escape(heading)}</text>',
        f'<rect x="16" y="44" width="12" height="12" fill="{REPEATED}"/><text x="34" y="55">an upload repeated</text>',
        f'<rect x="180" y="44" width="12" height="12" fill="{LOST}"/><text x="198" y="55">an upload lost</text>',
    ]
    for share in range(0, 1001, 200):
        x = LEFT + WIDTH * share / 1000
        lines.append(f'<line x1="{x:.1f}" y1="{TOP - 6}" x2="{x:.1f}" y2="{bottom}" stroke="#dddddd"/>')
        lines.append(f'<text x="{x:.1f}" y="{bottom + 20}" text-anchor="middle" fill="#555555">{share}</text>')
    for number, row in enumerate(rows):
        y = TOP + ROW * number
        lines.append(f'<text x="{LEFT - 10}" y="{y + 18}" text-anchor="end">{escape(row.title)}</text>')
        lines += _bar(y, row.repeated, row.schedules, REPEATED)
        lines += _bar(y + BAR + 1, row.lost, row.schedules, LOST)
    return "\n".join([*lines, "</svg>", ""])


def _bar(y: int, hits: int, trials: int, color: str) -> list[str]:
    share = hits / trials if trials else 0.0
    low, high = (LEFT + WIDTH * bound for bound in wilson(hits, trials))
    middle = y + BAR / 2
    return [
        f'<rect x="{LEFT}" y="{y}" width="{WIDTH * share:.1f}" height="{BAR}" fill="{color}"/>',
        f'<line x1="{low:.1f}" y1="{middle}" x2="{high:.1f}" y2="{middle}" stroke="#222222"/>',
        f'<text x="{high + 5:.1f}" y="{y + 11}" font-size="11" fill="#333333">{per_thousand(share)}</text>',
    ]
