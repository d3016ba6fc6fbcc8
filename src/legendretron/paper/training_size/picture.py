"""The picture of accuracy against training set size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from legendretron.experiments.panels import panels_for, save_panels
from legendretron.experiments.statistics import Mean
from legendretron.plots.axes import COLOURS

__all__ = ["picture"]

#: Of the models, in order: told apart without colours too.
STYLES = (("o", "-"), ("s", "--"), ("^", ":"), ("D", "-."))


def picture(curves: Mapping[str, Sequence[tuple[Mapping[str, Any], Mean | None]]], path: Path) -> Path:
    """Draw a panel for every data set, with a curve for every model.

    Parameters
    ----------
    curves : mapping
        For each model, pairs of a row with ``label`` and ``size`` and the mean there, or None.
    path : path
        PNG file to write.
    """
    everything = [row for points in curves.values() for row, _ in points]
    labels = list(dict.fromkeys(row["label"] for row in everything))
    ticks = sorted({row["size"] for row in everything})
    panels = panels_for(labels, (1.2 + 3.6 * len(labels), 4.2), sharex=True)
    for panel, label in zip(panels, labels, strict=True):
        for m, (model, points) in enumerate(curves.items()):
            own = [(row["size"], mean) for row, mean in points if row["label"] == label and mean is not None]
            if not own:
                continue
            marker, line = STYLES[m % len(STYLES)]
            # a little beside each other, so that bars of models that agree can be told apart
            sizes = np.array([size for size, _ in own]) * 1.04 ** (m - (len(curves) - 1) / 2)
            panel.errorbar(
                sizes, [mean.value for _, mean in own], yerr=[2.0 * np.nan_to_num(mean.error) for _, mean in own],
                color=COLOURS[m], marker=marker, linestyle=line, markersize=5, linewidth=1.5, elinewidth=1.2, capsize=2.5,
                label=model,
            )  # fmt: skip
        panel.set(xlabel="training images", xscale="log")
        panel.set_xticks(ticks, [f"{tick:,}" for tick in ticks], rotation=30, ha="right")
        panel.minorticks_off()
        panel.grid(color="0.9")
    panels[0].set_ylabel("test accuracy (%)")
    return save_panels(panels, path, ncols=4, title="mean over seeds; bars: two standard errors")
