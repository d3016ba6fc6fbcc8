"""Charts as small SVG: those that displays describe, intervals, and heat maps.

Displays draw the same charts by matplotlib. A page has its own SVG: matplotlib would have to be installed, takes ten times as
long, and knows neither dark pages nor hovering. Colors are CSS variables, so that one picture serves light, dark and paper.
What hovering shows is a ``<title>``, which browsers show without a script, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from markupsafe import Markup
from markupsafe import escape as escaped

from legendretron.plots.chart import Chart, Line
from legendretron.report.markup import abridge, figure, number, shorten

#: Margins around the axes: left, if labels are not long, right, top, bottom.
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 12, 8, 40
#: Least distance of points of a curve, and of those to hover over, in units of the picture.
_APART, _HOVER = 5.0, 8.0
#: Width of a letter in units of the picture, and most letters of a class beside a heat map.
_LETTER, _LONGEST = 6.2, 20
_DASHES = {"-": "", "--": "5 4", "-.": "7 3 2 3", ":": "2 3"}


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


class _Axis:
    """From values to places in the picture."""

    def __init__(
        self, limits: tuple[float, float] | None, values: list[np.ndarray], log: bool, ends: tuple[float, float]
    ):
        self.log, self.ends = log, ends
        if limits is None:
            known = np.concatenate(values)
            known = known[np.isfinite(known) & (known > 0 if log else True)]
            low, high = self._scale(np.array([known.min(), known.max()])) if len(known) else (0.0, 1.0)
            room = 0.06 * (high - low) or 0.05 * abs(high) or 1.0
            limits = (np.exp(low - room), np.exp(high + room)) if log else (low - room, high + room)
        self.limits = float(limits[0]), float(limits[1])

    def _scale(self, values: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.log(values) if self.log else values

    def places(self, values: Any) -> np.ndarray:
        """Places of values; what is far outside is brought nearer, and NaN has none."""
        low, high = self._scale(np.array(self.limits))
        share = (self._scale(np.asarray(values, dtype=float)) - low) / (high - low)
        share[np.isinf(share)] = np.nan  # zero on a logarithmic axis
        start, end = self.ends
        return start + np.clip(share, -1.0, 2.0) * (end - start)

    def ticks(self, most: int) -> list[tuple[float, str]]:
        """Places and texts of ticks."""
        found = _log_ticks(*self.limits) if self.log else []
        found = found if len(found) > 1 else ticks(*self.limits, most)
        return list(zip(self.places(found).tolist(), map(_tick_text, found), strict=True))


def chart_figure(chart: Chart, caption: str, *, width: int = 400, height: int = 300) -> Markup:
    """Return a chart with a caption, and a legend of the curves that have labels."""
    named = [line for line in chart.lines if line.label and line.style != "none"]
    legend = [(_color(line), line.label, _DASHES[line.style]) for line in named]
    return figure(chart_svg(chart, width, height), caption, legend)


def chart_svg(chart: Chart, width: int, height: int) -> Markup:
    """Return a chart as SVG, with points to hover over."""
    right, bottom = width - _RIGHT, height - _BOTTOM
    most = 4 if width < 300 else 6
    y = _Axis(chart.ylim, [line.y for line in chart.lines], "y" in chart.log, (bottom, _TOP))
    y_ticks = y.ticks(most)
    left = max(
        _LEFT, 24 + math.ceil(max((len(text) for _, text in y_ticks), default=0) * _LETTER)
    )  # room for the title
    x = _Axis(chart.xlim, [line.x for line in chart.lines], "x" in chart.log, (left, right))
    below: list[str] = []
    above: list[str] = []
    for place, line in enumerate(chart.lines):
        if line.steps and place == 0:
            below += _bars(line, chart, x, y)
        elif line.steps:  # the outline, since bars would hide those before
            line = replace(line, x=np.repeat(line.x, 2)[1:-1], y=np.repeat(line.y, 2), steps=False)
            _add_line(line, chart, x, y, below, above)
        else:
            _add_line(line, chart, x, y, below, above)
    rules = [_rule(at, at, _TOP, bottom) + _text("tick", at, bottom + 14, "middle", text) for at, text in x.ticks(most)]
    rules += [_rule(left, right, at, at) + _text("tick", left - 5, at + 4, "end", text) for at, text in y_ticks]
    across, along = (int((end - start) / _LETTER) for start, end in ((left, right), (_TOP, bottom)))
    inner = f"{left} {_TOP} {right - left} {bottom - _TOP}"
    # an inner picture cuts what leaves the axes, without the name that a clip path would need
    return Markup(
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{escaped(chart.y)} against {escaped(chart.x)}">'
        + "".join(rules)
        + _text("label", (left + right) / 2, height - 6, "middle", shorten(chart.x, across))
        + _text("label", 11, (_TOP + bottom) / 2, "middle", shorten(chart.y, along), upward=True)
        + f'<svg x="{left}" y="{_TOP}" width="{right - left}" height="{bottom - _TOP}" viewBox="{inner}">'
        f"{''.join(below + above)}</svg></svg>"
    )


def _color(line: Line) -> str:
    """The class of a color; dark grays have that of text."""
    if isinstance(line.color, int):
        return f"c{line.color % 7}"
    return "grey" if float(line.color) >= 0.5 else "c6"


def _add_line(line: Line, chart: Chart, x: _Axis, y: _Axis, below: list[str], above: list[str]) -> None:
    """Add the curve and its band below, and the points with their bars above."""
    color, at, height = _color(line), x.places(line.x), y.places(line.y)
    faint = f' opacity="{line.opacity}"' if line.opacity < 1 else ""
    has_bars = line.low is not None and line.high is not None
    low, high = (y.places(line.low), y.places(line.high)) if has_bars else (height, height)
    kept = np.arange(len(at)) if line.marker else _thin(at, height)
    if has_bars and not line.marker:
        fine = kept[np.isfinite(low[kept]) & np.isfinite(high[kept])]
        for part in np.split(fine, np.flatnonzero(np.diff(np.searchsorted(kept, fine)) > 1) + 1):
            around = np.concatenate([part, part[::-1]])
            path = _path(at[around], np.concatenate([high[part], low[part[::-1]]]))
            below.insert(0, f'<path class="band {color}" d="{path}Z"/>')
    if line.style != "none":
        dashes = f' stroke-dasharray="{_DASHES[line.style]}"' if _DASHES[line.style] else ""
        below.append(f'<path class="line {color}"{dashes}{faint} d="{_path(at[kept], height[kept])}"/>')
    kind, radius = ("ring", 7.0) if line.marker == "ring" else ("dot", 3.5) if line.marker else ("hit", 5.0)
    last = -np.inf
    for k in kept[np.isfinite(at[kept]) & np.isfinite(height[kept])].tolist():
        outside = not y.ends[1] <= height[k] <= y.ends[0]
        if kind == "hit" and (color == "grey" or outside or at[k] - last < _HOVER):
            continue
        last = at[k]
        if has_bars and line.marker and np.isfinite(low[k] + high[k]):
            ends = f'x1="{at[k]:.1f}" x2="{at[k]:.1f}" y1="{low[k]:.1f}" y2="{high[k]:.1f}"'
            above.append(f'<line class="whisker {color}"{faint} {ends}/>')
        above.append(_circle(f"{kind} {color}", at[k], height[k], radius, _tip(line, chart, k), faint))


def _bars(line: Line, chart: Chart, x: _Axis, y: _Axis) -> list[str]:
    """Bars of a histogram."""
    edges, tops = x.places(line.x), np.nan_to_num(y.places(line.y), nan=y.ends[0])
    return [
        f'<rect class="bar {_color(line)}" x="{edges[k] + 0.5:.1f}" y="{tops[k]:.1f}" '
        f'width="{max(edges[k + 1] - edges[k] - 1.0, 0.5):.1f}" height="{max(y.ends[0] - tops[k], 0.0):.1f}">'
        f"<title>{escaped(_tip(line, chart, k))}</title></rect>"
        for k in range(len(tops))
    ]


def _tip(line: Line, chart: Chart, k: int) -> str:
    """What hovering over a point says."""
    value = number(float(line.x[k])) + (f" to {number(float(line.x[k + 1]))}" if line.steps else "")
    between = ""
    if line.low is not None and line.high is not None and np.isfinite(line.low[k]):
        between = f" ({number(float(line.low[k]))} to {number(float(line.high[k]))})"
    name = line.name or line.label
    return f"{name}\n{chart.x}: {value}\n{chart.y}: {number(float(line.y[k]))}{between}"


def _path(x: np.ndarray, y: np.ndarray) -> str:
    """Points of a path, which NaN interrupts."""
    path, letter = [], "M"
    for a, b in zip(x.tolist(), y.tolist(), strict=True):
        fine = math.isfinite(a) and math.isfinite(b)
        path.append(f"{letter}{a:.1f} {b:.1f}" if fine else "")
        letter = "L" if fine else "M"
    return "".join(path)


def _thin(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Places of points some way apart along a curve: its ends, and those of its parts, are among them."""
    step = np.nan_to_num(np.abs(np.diff(x)) + np.abs(np.diff(y)))
    kept = np.diff(np.floor(np.cumsum(step) / _APART), prepend=0.0) > 0
    broken = np.diff(np.isfinite(x) & np.isfinite(y))
    ends = np.flatnonzero(broken)
    return np.unique(np.concatenate([[0], np.flatnonzero(kept) + 1, ends, ends + 1, [len(x) - 1]]))


def _rule(x: float, x2: float, y: float, y2: float) -> str:
    return f'<line class="rule" x1="{x:.1f}" x2="{x2:.1f}" y1="{y:.1f}" y2="{y2:.1f}"/>'


def _text(kind: str, x: float, y: float, anchor: str, text: str, *, upward: bool = False) -> str:
    place = f'transform="translate({x:.1f} {y:.1f}) rotate(-90)"' if upward else f'x="{x:.1f}" y="{y:.1f}"'
    return f'<text class="{kind}" {place} text-anchor="{anchor}">{escaped(text)}</text>'


def _circle(kind: str, x: float, y: float, r: float, text: str, faint: str = "") -> str:
    title = f"<title>{escaped(text)}</title>"
    return f'<circle class="{kind}"{faint} cx="{x:.1f}" cy="{y:.1f}" r="{r}">{title}</circle>'


def forest(entries: Sequence[tuple[str, float, float, float, str]], label: str) -> Markup:
    """Return values with intervals, one line each."""
    width, line = 400, 34
    height = 30 + line * len(entries)
    ends = np.array([entry[1:4] for entry in entries]).ravel()
    axis = _Axis(None, [ends], False, (10.0, width - 10.0))
    parts = [
        _rule(at, at, 4, height - 24) + _text("tick", at, height - 8, "middle", text) for at, text in axis.ticks(5)
    ]
    for place, (name, value, low, high, color) in enumerate(entries):
        y = 26 + line * place
        left, middle, right = axis.places([low, value, high]).tolist()
        anchor, side = ("start", 10) if middle < width / 2 else ("end", width - 10)
        tip = f"{name}: {number(value)} ({number(low)} to {number(high)})"
        parts += [
            _text("label", side, y - 8, anchor, shorten(name, 50)),
            f'<line class="whisker {color}" x1="{left:.1f}" x2="{right:.1f}" y1="{y}" y2="{y}"/>',
            _circle(f"dot {color}", middle, y, 4.5, tip),
        ]
    return Markup(
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{escaped(label)}">{"".join(parts)}</svg>'
    )


def heat_map(
    share: np.ndarray, rows: np.ndarray, names: Sequence[str], tips: Callable[[int, int], str], text: bool
) -> Markup:
    """Return a confusion matrix: true classes from top to bottom, predicted ones from left to right.

    The square root of the share of a true class is the opacity, so that rare mistakes are seen. With ``text``, cells have
    their numbers of rows, and shares in percent.
    """
    names = [abridge(name, _LONGEST) for name in names]
    n = len(share)
    margin = 12 + math.ceil(max(map(len, names)) * _LETTER)
    cell = max(30.0 if text else 12.0, min(80.0, (420.0 - margin) / n))
    size = margin + cell * n + 4
    parts = []
    for k, name in enumerate(names):
        at = margin + cell * (k + 0.5) + 3.5
        parts.append(_text("tick", margin - 4, at, "end", name))
        parts.append(_text("tick", at, margin - 4, "start", name, upward=True))
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
            if text and rows[true, predicted]:
                dark = " over" if shown > 0.6 else ""
                middle = x + cell / 2, y + cell / 2
                parts.append(_text(f"value{dark}", middle[0], middle[1] - 1, "middle", f"{rows[true, predicted]:,}"))
                parts.append(_text(f"value small{dark}", middle[0], middle[1] + 11, "middle", f"{100 * value:.0f} %"))
    return Markup(
        f'<svg viewBox="0 0 {size:.0f} {size:.0f}" role="img" aria-label="confusion matrix: true classes in rows, '
        f'predicted ones in columns" style="max-width:{1.2 * size:.0f}px">{"".join(parts)}</svg>'
    )
