"""What all plots share: axes on demand, and colours that colour-blind readers can tell apart."""

from __future__ import annotations

from typing import Any

import numpy as np

#: Okabe and Ito's palette.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")


#: Most entries of a legend inside the axes, and of one column of a legend beside them.
_MOST_INSIDE, _MOST_IN_A_COLUMN = 6, 20
#: Markers for the first round of colours, the second, and so on.
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
#: Line styles of curves without markers: four, which does not divide the number of colours, so that all pairs differ.
LINES = ("-", "--", "-.", ":")


def styles(n: int) -> list[tuple[str, str]]:
    """Return a colour and a marker for each of ``n`` curves, all different until the combinations repeat.

    Examples
    --------
    >>> styles(8)[0], styles(8)[7]
    (('#0072B2', 'o'), ('#0072B2', 's'))
    """
    rounds = [divmod(number, len(COLOURS)) for number in range(n)]
    return [(COLOURS[colour], MARKERS[number % len(MARKERS)]) for number, colour in rounds]


def width(number: int) -> float:
    """Return the line width of a curve: later ones are thinner, so that curves that coincide are all seen."""
    return max(2.4 - 0.6 * number, 1.2)


def axes_or_new(ax: Any, **size: Any) -> Any:
    """Return the axes given, or those of a new figure; needs matplotlib."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:  # pragma: no cover
        raise ImportError("plots need matplotlib: pip install 'legendretron[plots]'.") from error
    return _check_axes(ax) if ax is not None else plt.subplots(layout="constrained", **size)[1]


def _check_axes(ax: Any) -> Any:
    from matplotlib.axes import Axes

    if not isinstance(ax, Axes):
        raise ValueError(f"ax must be matplotlib axes, as plt.subplots() makes, got {type(ax).__name__}: {ax!r}.")
    return ax


def panels_or_new(ax: Any, n: int, columns: int, size: tuple[float, float]) -> Any:
    """Return an array of ``n`` axes: those given, or those of a new figure, each of a size in inches; needs matplotlib."""
    if ax is not None:
        given = np.asarray(ax, dtype=object).ravel()
        if len(given) != n:
            raise ValueError(f"ax must hold {n} axes, one for each panel, got {len(given)}; without ax they are made.")
        return np.array([_check_axes(one) for one in given], dtype=object)
    rows = -(-n // columns)
    made = axes_or_new(
        None, nrows=rows, ncols=columns, figsize=(size[0] * columns, size[1] * rows), squeeze=False
    ).ravel()
    for unused in made[n:]:
        unused.remove()
    return made[:n]


def room_for_legend(width: float, height: float, entries: int) -> tuple[float, float]:
    """Return the size of a figure in inches, wider if :func:`add_legend` will put so many entries beside the axes."""
    return (width if entries <= _MOST_INSIDE else width + 3.6 * -(-entries // _MOST_IN_A_COLUMN), height)


def add_legend(ax: Any, **inside: Any) -> None:
    """Put a legend inside the axes, or to the right of them if it is so long that it would cover the curves."""
    entries = len(ax.get_legend_handles_labels()[1])
    if entries <= _MOST_INSIDE:
        ax.legend(**{"frameon": False, **inside})
        return
    columns = -(-entries // _MOST_IN_A_COLUMN)
    ax.legend(
        frameon=False, fontsize="small", ncols=columns, loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0.0
    )


def add_legend_below(ax: Any, handles: Any = None, columns: int = 2, **look: Any) -> None:
    """Put a legend below the axes, for curves that fill them."""
    handles = ax.get_legend_handles_labels()[0] if handles is None else handles
    ax.legend(
        handles=handles,
        frameon=False,
        fontsize="small",
        ncols=columns,
        loc="upper center",
        bbox_to_anchor=(0.5, -0.16),
        **look,
    )


class Display:
    """Base of the displays; not for direct use."""

    ax_: Any  #: where the display was drawn
    figure_: Any  #: the figure of these axes
    lines_: dict[str, Any]  #: what was drawn for each model, by its name

    @property
    def line_(self) -> Any:
        """What was drawn for the model; a list if there are several."""
        drawn = list(self.lines_.values())
        return drawn[0] if len(drawn) == 1 else drawn
