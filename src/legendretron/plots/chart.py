"""What a display shows, described once: matplotlib draws it for displays, and the report writes it as SVG."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from legendretron.plots.axes import COLORS, add_legend, add_legend_below, axes_or_new, room_for_legend


@dataclass(frozen=True)
class Line:
    """A curve, or points; NaN interrupts it."""

    x: np.ndarray
    y: np.ndarray
    label: str = ""  #: in the legend; a curve without one is not there
    color: int | str = "0.6"  #: the number of a color, or a gray of matplotlib
    style: str = "-"  #: of matplotlib; ``"none"`` for points alone
    marker: str = ""  #: of matplotlib, or ``"ring"``
    low: np.ndarray | None = None  #: lower end of an interval at each point: a band, or bars if there are markers
    high: np.ndarray | None = None  #: upper end
    width: float = 1.4
    opacity: float = 1.0
    steps: bool = False  #: whether this is a histogram, with ``x`` the edges of its bars
    name: str = ""  #: its key in ``lines_``; a curve without one is not there


@dataclass(frozen=True)
class Chart:
    """Curves between two axes."""

    x: str  #: label of the horizontal axis
    y: str  #: label of the vertical axis
    lines: list[Line]
    title: str = ""
    xlim: tuple[float, float] | None = None
    ylim: tuple[float, float] | None = None
    log: str = ""  #: axes with a logarithmic scale: ``""``, ``"x"`` or ``"y"``
    legend: str = "inside"  #: or ``"below"``, for curves that fill the axes

    @property
    def legend_entries(self) -> int:
        """Number of curves in the legend."""
        return sum(bool(line.label) for line in self.lines)

    def draw(self, ax: Any) -> dict[str, Any]:
        """Draw on matplotlib axes; return the curves by their names."""
        drawn, handles = {}, []
        for line in self.lines:
            artist, handle = _draw_line(line, ax)
            if line.label:
                handles.append(handle)
            if line.name:
                drawn[line.name] = artist
        if "x" in self.log:  # zero has no place on a logarithmic axis
            x = np.concatenate([np.asarray(line.x, float).ravel() for line in self.lines])
            positive = x[x > 0]
            linear = {"linthresh": positive.min() if len(positive) else 1.0}
            ax.set_xscale("symlog", **linear) if len(positive) < len(x) else ax.set_xscale("log")
        if "y" in self.log:
            ax.set_yscale("log")
        ax.set(xlabel=self.x, ylabel=self.y, title=self.title)
        ax.set(**{name: limits for name, limits in (("xlim", self.xlim), ("ylim", self.ylim)) if limits is not None})
        if handles:
            (add_legend if self.legend == "inside" else add_legend_below)(ax, handles)
        return drawn


def _draw_line(line: Line, ax: Any) -> tuple[Any, Any]:
    """Draw a curve; return it, and what stands for it in the legend."""
    color = COLORS[line.color % len(COLORS)] if isinstance(line.color, int) else line.color
    look: dict[str, Any] = {"color": color, "linestyle": line.style, "linewidth": line.width, "alpha": line.opacity}
    look["label"] = line.label or None
    if line.steps:
        drawn = ax.stairs(line.y, line.x, **look)
        return drawn, drawn
    if line.marker == "ring":
        look |= {"color": "none", "marker": "o", "markeredgecolor": "black", "markersize": 13}
    elif line.marker == "|":
        look |= {"marker": "|", "markersize": 8, "markeredgewidth": 0.6}
    elif line.marker:
        look |= {"marker": line.marker, "markersize": 4.5}
    if line.marker and line.low is not None and line.high is not None:
        bars = ax.errorbar(
            line.x, line.y, yerr=[line.y - line.low, line.high - line.y], elinewidth=0.8, capsize=2, **look
        )
        return bars.lines[0], bars
    (drawn,) = ax.plot(line.x, line.y, **look)
    if line.low is not None and line.high is not None and np.isfinite(line.low).any():
        ax.fill_between(line.x, line.low, line.high, color=color, alpha=0.2, linewidth=0)
    return drawn, drawn


def line_width(number: int) -> float:
    """Return the width of a curve: later ones are thinner, so that curves that coincide are all seen."""
    return max(2.4 - 0.6 * number, 1.2)


class Display:
    """Base of the displays; not for direct use."""

    ax_: Any  #: where the display was drawn
    figure_: Any  #: the figure of these axes
    lines_: dict[str, Any]  #: what was drawn for each model, by its name

    def chart(self) -> Chart:
        """Return what is to be drawn."""
        raise NotImplementedError

    def plot(self, ax: Any = None) -> Self:
        """Draw on the axes given, or on new ones."""
        return self._draw(self.chart(), ax)

    def _draw(self, chart: Chart, ax: Any) -> Self:
        width, height = room_for_legend(6.4, 4.2, chart.legend_entries if chart.legend == "inside" else 0)
        self.ax_ = axes_or_new(ax, figsize=(width, height + 0.1 * chart.legend_entries * (chart.legend == "below")))
        self.figure_, self.lines_ = self.ax_.figure, chart.draw(self.ax_)
        return self

    @property
    def line_(self) -> Any:
        """What was drawn for the model; a list if there are several."""
        drawn = list(self.lines_.values())
        return drawn[0] if len(drawn) == 1 else drawn
