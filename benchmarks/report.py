"""Results for people: the table of ``docs/performance.md``, and a plot of the same figures."""

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, TypeAlias

__all__ = ["plot", "table", "write_table"]

Result: TypeAlias = Mapping[str, Any]
"""A figure as ``results.json`` has it."""

_BEGIN = "<!-- the table: written by make bench -->\n"
_END = "<!-- end of the table -->\n"
_ROW = 22
_TEXT = 470
_LIMIT = 360
"""How far from the beginning of the bars the limit is."""


def table(results: Sequence[Result]) -> str:
    """A table in Markdown."""
    lines = ["| figure | measured | at most | kept | how |", "|---|---:|---:|---|---|"]
    for each in results:
        unit = each["unit"]
        kept = "yes" if each["kept"] else "**no**"
        measured = f"{each['value']:.2f} {unit} | {each['limit']:g} {unit}"
        lines.append(f"| {each['name']} | {measured} | {kept} | {each['detail']} |")
    return "\n".join(lines) + "\n"


def write_table(page: Path, results: Sequence[Result]) -> None:
    """Put the table into ``page``, in the place of the one that is there."""
    text = page.read_text(encoding="utf-8")
    before, _, rest = text.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    page.write_text(f"{before}{_BEGIN}\n{table(results)}\n{_END}{after}", encoding="utf-8")


def plot(results: Sequence[Result]) -> str:
    """An SVG of bars: each figure as a part of its limit, which is the line."""
    height = _ROW * (len(results) + 2)
    line = _TEXT + _LIMIT
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{line + 160}" height="{height}">',
        "<style>text { font: 12px sans-serif }</style>",
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{line}" y="{_ROW - 6}" text-anchor="middle">limit</text>',
    ]
    for number, each in enumerate(results, 1):
        part = each["value"] / each["limit"] if each["limit"] else float(each["value"] > 0)
        width = max(1.0, min(part, 1.25) * _LIMIT)
        top = _ROW * number
        colour = "#4a7" if each["kept"] else "#c54"
        bar = f'width="{width:.0f}" height="{_ROW - 6}" fill="{colour}"'
        value = f"{each['value']:.3g} {escape(each['unit'])}"
        parts += [
            f'<text x="{_TEXT - 8}" y="{top + 15}" text-anchor="end">{escape(each["name"])}</text>',
            f'<rect x="{_TEXT}" y="{top + 3}" {bar}/>',
            f'<text x="{_TEXT + width + 5:.0f}" y="{top + 15}">{value}</text>',
        ]
    parts.append(f'<path d="M{line} {_ROW}V{height - _ROW}" stroke="#333" stroke-dasharray="4 3"/>')
    return "\n".join([*parts, "</svg>", ""])
