"""Figures with panels side by side, one per data set, and a shared legend below."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from legendretron.experiments.rendering import save_picture
from legendretron.plots.axes import axes_or_new


def panels_for(titles: Sequence[str], size: tuple[float, float], **options: Any) -> list[Any]:
    """Return axes with titles, side by side; needs matplotlib."""
    axes_or_new(None)  # raises an error if matplotlib is missing
    import matplotlib.pyplot as plt

    plt.close()
    _, axes = plt.subplots(1, len(titles), figsize=size, layout="constrained", squeeze=False, **options)
    for panel, title in zip(axes[0], titles, strict=True):
        panel.set_title(title.replace(" (", "\n(").replace(", ", ",\n"))
    return list(axes[0])


def save_panels(panels: Sequence[Any], path: Path, **legend: Any) -> Path:
    """Put everything that has a label into one legend, once, write the picture and close it."""
    figure = panels[0].figure
    found: dict[str, Any] = {}
    for panel in panels:
        for handle, name in zip(*panel.get_legend_handles_labels(), strict=True):
            found.setdefault(name, handle)
    figure.legend(list(found.values()), list(found), loc="outside lower center", frameon=False, **legend)
    return save_picture(figure, path)
