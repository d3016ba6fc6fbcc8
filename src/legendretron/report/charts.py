"""Charts as small SVG: lines, bands, bars, intervals and heat maps.

Colours are CSS variables, so that one picture serves light, dark and paper. What hovering shows is a ``<title>``, which
browsers show without a script, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from markupsafe import Markup
from markupsafe import escape as escaped

from legendretron.report.markup import figure, number, shorten

#: Margins around the axes: left, right, top, bottom.
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 12, 8, 40
#: Furthest apart that points of a line are for hovering, in units of the picture.
_HOVER = 6.0
#: Width of a letter in units of the picture.
_LETTER = 6.2
_DASHES = ' stroke-dasharray="5 4"'


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Return round numbers between two bounds."""
    if not high > low:
        return [low]
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * power for unit in (1, 2, 5, 10) if unit * power >= rough * (1 - 1e-9))
    first = math.ceil(low / step - 1e-9)
    return [round(place * step, 12) for place in range(first, math.floor(high / step + 1e-9) + 1)]


def _log_ticks(low: float, high: float) -> list[float]:
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    found = [10.0**power for power in powers if low * 0.999 <= 10.0**power <= high * 1.001]
    return found[:: max(1, math.ceil(len(found) / 6))]


def _tick_text(value: float) -> str:
    if value != 0 and (abs(value) >= 1e6 or abs(value) < 1e-3):
        return f"{value:.0e}".replace("e+0", "e").replace("e-0", "e\u2212").replace("e+", "e").replace("e-", "e\u2212")
    return f"{value:,.6g}".replace("-", "\u2212")


class Chart:
    """A chart with two axes."""

    def __init__(
        self,
        x: str,
        y: str,
        xlim: tuple[float, float],
        ylim: tuple[float, float],
        *,
        xlog: bool = False,
        width: int = 400,
        height: int = 300,
        small: bool = False,
    ) -> None:
        self._xlim, self._ylim, self._xlog = xlim, ylim, xlog
        self._width, self._height = width, height
        self._labels, self._small = (x, y), small
        self._marks: list[str] = []
        self._legend: list[tuple[str, str, bool]] = []

    # --- from data to the picture ---

    def _x(self, value: float) -> float:
        low, high = self._xlim
        if self._xlog:
            low, high, value = math.log(low), math.log(high), math.log(value)
        share = (value - low) / (high - low) if high > low else 0.5
        return _LEFT + share * (self._width - _LEFT - _RIGHT)

    def _y(self, value: float) -> float:
        low, high = self._ylim
        share = (value - low) / (high - low) if high > low else 0.5
        return self._height - _BOTTOM - share * (self._height - _BOTTOM - _TOP)

    def _inside(self, value: float) -> float:
        """A height that a line far outside may be drawn at: no picture needs it further."""
        low, high = self._ylim
        room = high - low
        return min(max(value, low - room), high + room)

    # --- marks ---

    def line(
        self,
        x: Sequence[float] | np.ndarray,
        y: Sequence[float] | np.ndarray,
        colour: str,
        name: str = "",
        *,
        dashed: bool = False,
        tips: Sequence[str] = (),
    ) -> Chart:
        """Add a line; NaN interrupts it."""
        path, drawing, last = [], False, -math.inf
        points = zip(np.asarray(x, float).tolist(), np.asarray(y, float).tolist(), strict=True)
        for place, (a, b) in enumerate(points):
            if not (math.isfinite(a) and math.isfinite(b)):
                drawing = False
                continue
            at, height = self._x(a), self._y(self._inside(b))
            path.append(f"{'L' if drawing else 'M'}{at:.1f} {height:.1f}")
            drawing = True
            visible = self._ylim[0] <= b <= self._ylim[1]
            if len(tips) and visible and abs(at - last) >= _HOVER:
                self._marks.append(_circle("hit", colour, at, height, 5, tips[place]))
                last = at
        self._marks.insert(0, f'<path class="line {colour}"{_DASHES * dashed} d="{"".join(path)}"/>')
        if name:
            self._legend.append((colour, name, dashed))
        return self

    def points(
        self, x: Sequence[float], y: Sequence[float], colour: str, tips: Sequence[str], error: Sequence[float] = ()
    ) -> Chart:
        """Add dots with what hovering shows, and bars of one error to each side."""
        for place, (a, b, text) in enumerate(zip(x, y, tips, strict=True)):
            at, height = self._x(a), self._y(self._inside(b))
            if len(error) and math.isfinite(error[place]):
                low, high = (self._y(self._inside(b + sign * error[place])) for sign in (-1, 1))
                self._marks.append(
                    f'<line class="whisker {colour}" x1="{at:.1f}" x2="{at:.1f}" y1="{low:.1f}" y2="{high:.1f}"/>'
                )
            self._marks.append(_circle("dot", colour, at, height, 3.5, text))
        return self

    def ring(self, x: float, y: float, text: str) -> Chart:
        """Add a ring around a point."""
        self._marks.append(_circle("ring", "", self._x(x), self._y(self._inside(y)), 7, text))
        return self

    def band(self, x: np.ndarray, low: np.ndarray, high: np.ndarray, colour: str) -> Chart:
        """Add the area between two lines, where both are finite."""
        fine = np.isfinite(low) & np.isfinite(high)
        edges = np.flatnonzero(np.diff(np.concatenate([[0], fine.astype(int), [0]])))
        for start, end in zip(edges[::2], edges[1::2], strict=True):
            up = [f"{self._x(a):.1f} {self._y(b):.1f}" for a, b in zip(x[start:end], high[start:end], strict=True)]
            down = [f"{self._x(a):.1f} {self._y(b):.1f}" for a, b in zip(x[start:end], low[start:end], strict=True)]
            self._marks.insert(0, f'<path class="band {colour}" d="M{"L".join([*up, *down[::-1]])}Z"/>')
        return self

    def histogram(
        self, edges: np.ndarray, share: np.ndarray, colour: str, tips: Sequence[str], name: str = ""
    ) -> Chart:
        """Add bars from the bottom, with a name for the legend."""
        if name:
            self._legend.append((colour, name, False))
        for left, right, height, text in zip(edges[:-1], edges[1:], share, tips, strict=True):
            a, b, top = self._x(left) + 0.5, self._x(right) - 0.5, self._y(self._inside(height))
            bottom = self._y(self._ylim[0])
            self._marks.append(
                f'<rect class="bar {colour}" x="{a:.1f}" y="{top:.1f}" width="{max(b - a, 0.5):.1f}" '
                f'height="{max(bottom - top, 0):.1f}"><title>{escaped(text)}</title></rect>'
            )
        return self

    # --- the picture ---

    def _axes(self) -> str:
        left, right = self._x(self._xlim[0]), self._x(self._xlim[1])
        bottom, top = self._y(self._ylim[0]), self._y(self._ylim[1])
        parts = []
        most = 4 if self._small else 6
        for value in _log_ticks(*self._xlim) if self._xlog else ticks(*self._xlim, most):
            at = self._x(value)
            parts.append(_rule(at, at, top, bottom) + _text("tick", at, bottom + 14, "middle", _tick_text(value)))
        for value in ticks(*self._ylim, most):
            at = self._y(value)
            parts.append(_rule(left, right, at, at) + _text("tick", left - 5, at + 4, "end", _tick_text(value)))
        room = int((self._width - _LEFT - _RIGHT) / _LETTER)
        x, y = shorten(self._labels[0], room), shorten(self._labels[1], int((bottom - top) / _LETTER))
        middle = (top + bottom) / 2
        parts.append(
            f'<text class="label" x="{(left + right) / 2:.1f}" y="{self._height - 6}" text-anchor="middle">'
            f'{escaped(x)}</text><text class="label" transform="translate(11 {middle:.1f}) rotate(-90)" '
            f'text-anchor="middle">{escaped(y)}</text>'
        )
        return "".join(parts)

    def svg(self) -> Markup:
        """Return the picture, with lines below the points to hover over."""
        name = escaped(f"{self._labels[1]} against {self._labels[0]}")
        left, top = _LEFT, _TOP
        width, height = self._width - _LEFT - _RIGHT, self._height - _TOP - _BOTTOM
        # an inner picture cuts what leaves the axes, without the name that a clip path would need
        marks = "".join(self._marks)
        return Markup(
            f'<svg viewBox="0 0 {self._width} {self._height}" role="img" aria-label="{name}">{self._axes()}'
            f'<svg x="{left}" y="{top}" width="{width}" height="{height}" viewBox="{left} {top} {width} {height}">{marks}'
            "</svg></svg>"
        )

    def figure(self, caption: str) -> Markup:
        """Return the picture with a caption and a legend of the lines that have names."""
        return figure(self.svg(), caption, self._legend)


def _rule(x: float, x2: float, y: float, y2: float) -> str:
    return f'<line class="rule" x1="{x:.1f}" x2="{x2:.1f}" y1="{y:.1f}" y2="{y2:.1f}"/>'


def _text(kind: str, x: float, y: float, anchor: str, text: str) -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escaped(text)}</text>'


def _circle(kind: str, colour: str, x: float, y: float, r: float, text: str) -> str:
    title = f"<title>{escaped(text)}</title>"
    return f'<circle class="{kind} {colour}" cx="{x:.1f}" cy="{y:.1f}" r="{r}">{title}</circle>'


def forest(entries: Sequence[tuple[str, float, float, float, str]], label: str) -> Markup:
    """Return values with intervals, one line each."""
    width, line = 400, 34
    height = 30 + line * len(entries)
    ends = [end for _, value, low, high, _ in entries for end in (value, low, high) if math.isfinite(end)]
    low_end, high_end = min(ends), max(ends)
    room = 0.06 * (high_end - low_end) or 0.05 * abs(high_end) or 1.0
    low_end, high_end = low_end - room, high_end + room

    def at(value: float) -> float:
        return 10 + (value - low_end) / (high_end - low_end) * (width - 20)

    parts = []
    for value in ticks(low_end, high_end, 5):
        parts.append(f'<line class="rule" x1="{at(value):.1f}" x2="{at(value):.1f}" y1="4" y2="{height - 24}"/>')
        parts.append(
            f'<text class="tick" x="{at(value):.1f}" y="{height - 8}" text-anchor="middle">{_tick_text(value)}</text>'
        )
    for place, (name, value, low, high, colour) in enumerate(entries):
        y = 26 + line * place
        anchor, side = ("start", 10) if at(value) < width / 2 else ("end", width - 10)
        text = f"{name}: {number(value)} ({number(low)} to {number(high)})"
        parts.append(
            f'<text class="label" x="{side}" y="{y - 8}" text-anchor="{anchor}">{escaped(shorten(name, 50))}</text>'
            f'<line class="whisker {colour}" x1="{at(low):.1f}" x2="{at(high):.1f}" y1="{y}" y2="{y}"/>'
            + _circle("dot", colour, at(value), y, 4.5, text)
        )
    return Markup(
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{escaped(label)}">{"".join(parts)}</svg>'
    )


def heat_map(share: np.ndarray, names: Sequence[str], tips: Callable[[int, int], str], text: bool) -> Markup:
    """Return a confusion matrix: true classes from top to bottom, predicted ones from left to right.

    The square root of the share of a true class is the opacity, so that rare mistakes are seen.
    """
    n, longest = len(share), min(max(map(len, names)), 14)
    margin = 12 + longest * 6
    cell = max(12.0, min(80.0, (420.0 - margin) / n))
    size = margin + cell * n + 4
    parts = []
    for k, name in enumerate(names):
        at, short = margin + cell * (k + 0.5), escaped(shorten(name, 14))
        parts.append(f'<text class="tick" x="{margin - 4}" y="{at + 3.5:.1f}" text-anchor="end">{short}</text>')
        parts.append(
            f'<text class="tick" transform="translate({at + 3.5:.1f} {margin - 4}) rotate(-90)" text-anchor="start">'
            f"{short}</text>"
        )
    for true in range(n):
        for predicted in range(n):
            value = float(share[true, predicted])
            kind = "right" if true == predicted else "wrong"
            x, y = margin + cell * predicted, margin + cell * true
            shown = 0.0 if not value > 0 else 0.08 + 0.92 * math.sqrt(value)
            parts.append(
                f'<rect class="cell {kind}" x="{x:.1f}" y="{y:.1f}" width="{cell - 1:.1f}" height="{cell - 1:.1f}" '
                f'fill-opacity="{shown:.2f}"><title>{escaped(tips(true, predicted))}</title></rect>'
            )
            if text and value >= 0.005:
                dark = " over" if shown > 0.6 else ""
                parts.append(
                    f'<text class="value{dark}" x="{x + cell / 2:.1f}" y="{y + cell / 2 + 4:.1f}" text-anchor="middle">'
                    f"{100 * value:.0f}</text>"
                )
    return Markup(
        f'<svg viewBox="0 0 {size:.0f} {size:.0f}" role="img" aria-label="confusion matrix: true classes in rows, '
        f'predicted ones in columns" style="max-width:{1.2 * size:.0f}px">{"".join(parts)}</svg>'
    )
