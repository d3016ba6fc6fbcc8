"""What all plots share: axes on demand, and colours that colour-blind readers can tell apart."""

from __future__ import annotations

from typing import Any

__all__ = ["COLOURS", "add_legend", "axes_or_new", "styles"]

#: Okabe and Ito's palette.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")


#: Most entries of a legend inside the axes, and of one column of a legend beside them.
_MOST_INSIDE, _MOST_IN_A_COLUMN = 6, 20
#: Markers for the first round of colours, the second, and so on.
MARKERS = ("o", "s", "^", "D", "v", "P", "X")


def styles(n: int) -> list[tuple[str, str]]:
    """Return a colour and a marker for each of ``n`` curves, all different until the combinations repeat.

    Examples
    --------
    >>> styles(8)[0], styles(8)[7]
    (('#0072B2', 'o'), ('#0072B2', 's'))
    """
    rounds = [divmod(number, len(COLOURS)) for number in range(n)]
    return [(COLOURS[colour], MARKERS[number % len(MARKERS)]) for number, colour in rounds]


def axes_or_new(ax: Any, **size: Any) -> Any:
    """Return the axes given, or those of a new figure; needs matplotlib."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:  # pragma: no cover
        raise ImportError("plots need matplotlib: pip install 'legendretron[plots]'.") from error
    return ax if ax is not None else plt.subplots(layout="constrained", **size)[1]


def add_legend(ax: Any, **inside: Any) -> None:
    """Put a legend inside the axes, or to the right of them if it is so long that it would cover the curves."""
    entries = len(ax.get_legend_handles_labels()[1])
    if entries <= _MOST_INSIDE:
        ax.legend(frameon=False, **inside)
        return
    columns = -(-entries // _MOST_IN_A_COLUMN)
    ax.legend(
        frameon=False, fontsize="small", ncols=columns, loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0.0
    )
