"""A drawing of boxes, arrows and words, written as SVG."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final, Literal, TypedDict, Unpack

INK: Final = "#1f2328"
GREY: Final = "#57606a"
BLUE: Final = "#0969da"
GREEN: Final = "#1a7f37"
RED: Final = "#cf222e"
PALE_BLUE: Final = "#ddf4ff"
PALE_GREY: Final = "#f6f8fa"

_WORDS: Final = "-apple-system, 'Segoe UI', 'DejaVu Sans', Helvetica, Arial, sans-serif"
_NAMES: Final = "'DejaVu Sans Mono', Menlo, monospace"
_ARROWHEAD: Final = (
    '<marker id="{id}" viewBox="0 0 10 10" refX="8" refY="5" markerWidth="7" markerHeight="7" '
    'orient="auto"><path d="M0 0L10 5L0 10z" fill="{colour}"/></marker>'
)

Point = tuple[float, float]
Anchor = Literal["start", "middle", "end"]


class TextStyle(TypedDict, total=False):
    """How words look."""

    size: int
    colour: str
    anchor: Anchor
    bold: bool
    is_name: bool


class Drawing:
    """Shapes on a white sheet, which is readable in dark pages, too."""

    def __init__(self, width: int, height: int, label: str) -> None:
        self._size = width, height
        self._label = label
        self._shapes: list[str] = []
        self.box(1, 1, width - 2, height - 2, fill="#ffffff", stroke="#8c959f", width=1)

    def box(
        self,
        x: float,
        y: float,
        wide: float,
        high: float,
        *,
        fill: str = PALE_GREY,
        stroke: str = GREY,
        width: float = 1.5,
    ) -> None:
        """A rectangle whose upper left corner is at (x, y)."""
        self._shapes.append(
            f'<rect x="{x:g}" y="{y:g}" width="{wide:g}" height="{high:g}" rx="8" fill="{fill}" '
            f'stroke="{stroke}" stroke-width="{width:g}"/>'
        )

    def text(self, x: float, y: float, words: str, **style: Unpack[TextStyle]) -> None:
        """A line of words whose base line is at y."""
        weight = ' font-weight="bold"' if style.get("bold") else ""
        family = f' font-family="{_NAMES}"' if style.get("is_name") else ""
        size, colour = style.get("size", 14), style.get("colour", INK)
        anchor = style.get("anchor", "middle")
        self._shapes.append(
            f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{colour}" '
            f'text-anchor="{anchor}"{weight}{family}>{escape(words)}</text>'
        )

    def line(
        self,
        points: Sequence[Point],
        *,
        colour: str = GREY,
        width: float = 2.5,
        arrow: bool = False,
        dashed: bool = False,
    ) -> None:
        """A line through points, with an arrowhead at its end."""
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        head = f' marker-end="url(#{_marker(colour)})"' if arrow else ""
        dashes = ' stroke-dasharray="6 5"' if dashed else ""
        self._shapes.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" '
            f'stroke-width="{width:g}"{dashes}{head}/>'
        )

    def arc(self, start: Point, end: Point, depth: float, *, colour: str) -> None:
        """An arrow that bends down by ``depth`` on its way."""
        (x1, y1), (x2, y2) = start, end
        low = max(y1, y2) + depth
        self._shapes.append(
            f'<path d="M{x1:.1f} {y1:.1f}C{x1:.1f} {low:.1f} {x2:.1f} {low:.1f} {x2:.1f} {y2:.1f}" '
            f'fill="none" stroke="{colour}" stroke-width="2.5" '
            f'marker-end="url(#{_marker(colour)})"/>'
        )

    def svg(self) -> str:
        """The whole file."""
        return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterable[str]:
        width, height = self._size
        yield (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'width="{width}" height="{height}" role="img" aria-label="{escape(self._label)}">'
        )
        heads = (_ARROWHEAD.format(id=_marker(c), colour=c) for c in (BLUE, GREEN, GREY, RED))
        yield f"<defs>{''.join(heads)}</defs>"
        yield f'<g font-family="{_WORDS}">'
        yield from self._shapes
        yield "</g></svg>"


def _marker(colour: str) -> str:
    return f"head-{colour[1:]}"
