"""The triangle of three probabilities: its corners, a grid of points in it, its frame."""

from __future__ import annotations

from typing import Any

import numpy as np

from legendretron.plots.models import shown

#: Corners of the first, second and third class.
CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(3) / 2]])


def to_plane(p: np.ndarray) -> np.ndarray:
    """Return the places of probabilities in the plane, ``(..., 3) -> (..., 2)``."""
    places: np.ndarray = np.asarray(p) @ CORNERS
    return places


def grid(n: int, margin: float) -> np.ndarray:
    """Return an even grid of probabilities ``(m, 3)`` with ``n`` steps along a side, none of them below ``margin``."""
    first, second = (part.ravel() for part in np.meshgrid(np.arange(n + 1), np.arange(n + 1), indexing="ij"))
    inside = first + second <= n
    p = np.stack([first, second, n - first - second], 1)[inside] / n
    return (1 - 3 * margin) * p + margin


def draw_frame(ax: Any, classes: Any) -> None:
    """Draw the sides, and the names of the classes at their corners."""
    ax.plot(*np.vstack([CORNERS, CORNERS[:1]]).T, color="0.3", linewidth=1.0, zorder=5)
    for place, label, offset in zip(CORNERS, classes, ((0, -4), (0, -4), (0, 3)), strict=True):
        ax.annotate(
            shown(label),
            place,
            offset,
            textcoords="offset points",
            ha="center",
            va="bottom" if offset[1] > 0 else "top",
        )
    ax.set(xlim=(-0.1, 1.1), ylim=(-0.1, 0.98), aspect="equal")
    ax.axis("off")
