"""Drawings of boxes, arrows and words as SVG, without a font or script of others."""

from collections.abc import Sequence
from html import escape
from itertools import pairwise

STYLE = """
text { font: 13px system-ui, "Segoe UI", Helvetica, Arial, sans-serif; fill: #24292f }
.small { font-size: 11px; fill: #57606a } .title { font-weight: 600 } .middle { text-anchor: middle }
.box { fill: #f6f8fa; stroke: #8c959f } .paper { fill: #fff; stroke: #d0d7de } .red { fill: #ffebe9; stroke: #cf222e }
.blue { fill: #ddf4ff; stroke: #0969da } .green { fill: #dafbe1; stroke: #1a7f37 } .dashed { stroke-dasharray: 4 4 }
.label { paint-order: stroke; stroke: #fff; stroke-width: 5px }
.line { fill: none; stroke: #57606a; stroke-width: 1.4 } .cut { stroke: #cf222e; stroke-width: 2 }
"""
HEAD = """<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto">
<path d="M0 0 10 5 0 10z" fill="#57606a"/></marker></defs>"""
LINE = 17


class Drawing:
    """A picture on white paper, in pixels from the upper left corner. title: what it shows, for those who hear it."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self._size, self._title = (width, height), title
        self._parts: list[str] = []

    def text(self, x: float, y: float, *lines: str, style: str = "") -> None:
        """Lines of text, the first with its middle line at `y`."""
        for n, line in enumerate(lines):
            self._parts.append(f'<text x="{x:g}" y="{y + 4 + n * LINE:g}" class="{style}">{escape(line)}</text>')

    def box(self, x: float, y: float, width: float, height: float, *lines: str, style: str = "box") -> None:
        """A box with text in its middle: a title, and small lines below it."""
        self._parts.append(f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="6" class="{style}"/>')
        middle, top = x + width / 2, y + height / 2 - (len(lines) - 1) * LINE / 2
        for n, line in enumerate(lines):
            self.text(middle, top + n * LINE, line, style="middle title" if n == 0 else "middle small")

    def line(self, *points: tuple[float, float], style: str = "") -> None:
        """A line through points."""
        self._parts.append(f'<polyline points="{_points(points)}" class="line {style}"/>')

    def arrow(self, *points: tuple[float, float], label: str = "", style: str = "") -> None:
        """An arrow through points; its label is above the middle of the longest part."""
        self._parts.append(f'<polyline points="{_points(points)}" class="line {style}" marker-end="url(#head)"/>')
        if label:
            (x1, y1), (x2, y2) = max(pairwise(points), key=lambda pair: abs(pair[0][0] - pair[1][0]))
            self.text((x1 + x2) / 2, (y1 + y2) / 2 - 9, label, style="middle small label")

    def __str__(self) -> str:
        width, height = self._size
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" role="img"',
                f'viewBox="0 0 {width} {height}">',
                f"<title>{escape(self._title)}</title>",
                f"<style>{STYLE}</style>",
                HEAD,
                f'<rect x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8" class="paper"/>',
                *self._parts,
                "</svg>\n",
            ]
        )


def _points(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:g},{y:g}" for x, y in points)
