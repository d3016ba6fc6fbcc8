"""What all plots share: axes on demand, and colors that color-blind readers can tell apart."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from legendretron._internal.printable import without_controls

#: Okabe and Ito's palette.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
#: Most entries of a legend inside the axes, and of one column of a legend beside them.
_MOST_INSIDE, _MOST_IN_A_COLUMN = 6, 20
#: Markers for the first round of colors, the second, and so on.
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
#: Line styles of curves without markers: four, which does not divide the number of colors, so that all pairs differ.
LINES = ("-", "--", "-.", ":")


def marker_of(number: int) -> str:
    """Return the marker of a curve, which differs from those of earlier curves of the same color.

    Examples
    --------
    >>> marker_of(0), marker_of(7)
    ('o', 's')
    """
    return MARKERS[number // len(COLORS) % len(MARKERS)]


def axes_or_new(ax: Any, **size: Any) -> Any:
    """Return the axes given, or those of a new figure; needs matplotlib."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:  # pragma: no cover
        raise ImportError("plots need matplotlib: pip install 'legendretron[plots]'.") from error
    return _check_axes(ax) if ax is not None else plt.subplots(**{"layout": "constrained", **size})[1]


def picture_bytes(figure: Any, format: str = "png", dpi: int = 150) -> bytes:
    """Return a figure as the content of a file, and close it."""
    import matplotlib.pyplot as plt
    from matplotlib.text import Text

    for text in figure.findobj(Text):
        text.set_text(without_controls(text.get_text()))  # no font has them, and SVG must not
    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=dpi, format=format)
    plt.close(figure)
    return buffer.getvalue()


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
            raise ValueError(
                f"ax must contain {n} axes, one for each panel, got {len(given)}; without ax they are made."
            )
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


def add_legend(ax: Any, handles: list[Any]) -> None:
    """Put a legend inside the axes, or to the right of them if it is so long that it would cover the curves."""
    if len(handles) <= _MOST_INSIDE:
        ax.legend(handles=handles, fontsize="small", framealpha=0.8, edgecolor="none")
        return
    columns = -(-len(handles) // _MOST_IN_A_COLUMN)
    beside = {"loc": "upper left", "bbox_to_anchor": (1.01, 1.0), "borderaxespad": 0.0}
    ax.legend(handles=handles, frameon=False, fontsize="small", ncols=columns, **beside)


def add_legend_below(ax: Any, handles: Any = None, columns: int = 2, **look: Any) -> None:
    """Put a legend below the axes, for curves that fill them."""
    handles = ax.get_legend_handles_labels()[0] if handles is None else handles
    below = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.16)}
    ax.legend(handles=handles, frameon=False, fontsize="small", ncols=columns, **below, **look)
