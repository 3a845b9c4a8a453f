"""Charts as SVG: groups of horizontal bars, the product's first."""

from html import escape

from bench.findings import BarChart

LEFT, WIDTH, RIGHT, TOP, BAR, GAP, FOOT = 270, 460, 110, 56, 16, 14, 16
PRODUCT, PEER = "#1d4f91", "#b9c4d0"


def draw(chart: BarChart) -> str:
    bars = sum(len(group) for _, group in chart.groups)
    height = TOP + bars * (BAR + 3) + len(chart.groups) * (GAP + 18) + FOOT
    width = LEFT + WIDTH + RIGHT
    heading = f"{chart.title} ({chart.unit})"
    most = max((value for _, group in chart.groups for _, value in group), default=1.0) or 1.0
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif"'
        ' font-size="13" role="img">',
        f"<title>{escape(heading)}</title>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        f'<text x="16" y="30" font-size="16" font-weight="bold">{escape(heading)}</text>',
    ]
    y = TOP
    for title, group in chart.groups:
        lines.append(f'<text x="16" y="{y + 12}" font-weight="bold">{escape(title)}</text>')
        y += 18
        for number, (label, value) in enumerate(group):
            length = WIDTH * value / most
            lines.append(f'<text x="{LEFT - 10}" y="{y + 12}" text-anchor="end">{escape(label)}</text>')
            color = PEER if number else PRODUCT
            lines.append(f'<rect x="{LEFT}" y="{y}" width="{length:.1f}" height="{BAR}" fill="{color}"/>')
            lines.append(f'<text x="{LEFT + length + 6:.1f}" y="{y + 12}" fill="#333333">{value:,.3g}</text>')
            y += BAR + 3
        y += GAP
    return "\n".join([*lines, "</svg>", ""])
