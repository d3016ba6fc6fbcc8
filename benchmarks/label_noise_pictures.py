"""Pictures of the comparison on wrong labels: accuracy by noise, lists of doubted labels, estimated rates."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from defaults_numbers import OURS
from label_noise_numbers import PAIRS, RECALLS, Results, mean_in, noise_name
from legendretron.experiments import Record
from legendretron.experiments.panels import panels_for, save_panels
from legendretron.experiments.statistics import mean_of
from legendretron.plots.axes import COLOURS, axes_or_new

#: Markers that differ also where colours are hard to tell.
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
#: Data sets for the picture of doubted labels, the first with results is drawn.
SHOWN = ("vowel", "vehicle", "letter", "digits")
COLUMNS = 4


def looks(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Colour and marker of each name, the same in all pictures of the same names; ours is above the others."""
    pairs = zip(itertools.cycle((*COLOURS, "#999999")), itertools.cycle(MARKERS), strict=True)
    above = {OURS: {"linewidth": 2.2, "zorder": 3}}
    return {
        name: {"color": colour, "marker": marker, "linewidth": 1.2, **above.get(name, {})}
        for name, (colour, marker) in zip(names, pairs, strict=False)
    }


def draw_accuracy(
    results: Results,
    datasets: Sequence[str],
    noises: Sequence[float],
    models: Sequence[str],
    known: Sequence[str],
    path: Path,
) -> Path:
    """A panel for each data set: accuracy by symmetric noise as a line, and by pair flips beside it."""
    axes_or_new(None)  # raises an error if matplotlib is missing
    import matplotlib.pyplot as plt

    plt.close()
    rows = -(-len(datasets) // COLUMNS)
    columns = min(COLUMNS, len(datasets))
    size = (max(3.1 * columns, 7.5), 2.5 * rows + 1.3)
    _, axes = plt.subplots(rows, columns, figsize=size, layout="constrained", squeeze=False)
    symmetric = sorted(noise for noise in noises if noise != PAIRS)
    places = {noise: 100 * noise for noise in symmetric}
    beside = max(places.values(), default=0.0) + 12.0
    style = looks(known)
    panels = list(axes.ravel())
    for panel, dataset in zip(panels, datasets, strict=False):
        panel.set_title(dataset, fontsize="medium")
        for place, model in enumerate(models):
            points = [(noise, mean_in(results, dataset, noise, model, "accuracy")) for noise in symmetric]
            line = [(places[noise], mean.value) for noise, mean in points if mean]
            if line:
                panel.plot(*zip(*line, strict=True), **style[model], markersize=4, label=model)
            if mean := mean_in(results, dataset, PAIRS, model, "accuracy"):
                shift = 0.7 * (place - (len(models) - 1) / 2)
                panel.plot([beside + shift], [mean.value], **{**style[model], "linestyle": "none"}, markersize=5)
        ticks = [*places.values(), *([beside] if PAIRS in noises else [])]
        panel.set_xticks(ticks, [f"{tick:g}" for tick in places.values()] + (["pairs"] if PAIRS in noises else []))
        panel.grid(color="#e5e5e5", linewidth=0.6)
        panel.set_axisbelow(True)
    for panel in panels[len(datasets) :]:
        panel.set_visible(False)
    for panel in panels[max(0, len(datasets) - columns) : len(datasets)]:
        panel.set_xlabel("wrong training labels in %")
    for row in axes:
        row[0].set_ylabel("test accuracy in %")
    return save_panels(panels[: len(datasets)], path, ncols=4, fontsize="small")


def draw_doubts(
    results: Results, noises: Sequence[float], models: Sequence[str], known: Sequence[str], path: Path
) -> tuple[Path, str] | None:
    """Precision and recall of the labels that are doubted most, mean over the splits; and the data set that is shown."""
    for dataset in SHOWN:
        with_curves = [
            noise for noise in noises if any(_curve(results, dataset, noise, model) is not None for model in models)
        ]
        if with_curves:
            break
    else:
        return None
    titles = [f"{dataset}: {noise_name(noise)}" for noise in with_curves]
    panels = panels_for(titles, (max(3.1 * len(titles), 6.5), 3.9), sharey=True)
    style = looks(known)
    for panel, noise in zip(panels, with_curves, strict=True):
        for model in models:
            if (curve := _curve(results, dataset, noise, model)) is not None:
                panel.plot(RECALLS, curve, **style[model], markersize=3, label=model)
        panel.axhline(noise, color="#666666", linestyle=":", linewidth=1.0, label="rows in any order")
        panel.set_xlabel("share of wrong labels found")
        panel.set_ylim(0.0, 1.03)
        panel.grid(color="#e5e5e5", linewidth=0.6)
        panel.set_axisbelow(True)
    panels[0].set_ylabel("share of wrong labels in the list")
    return save_panels(panels, path, ncols=3, fontsize="small"), dataset


def _curve(results: Results, dataset: str, noise: float, model: str) -> np.ndarray | None:
    curves = [
        record["precisions"] for record in results.get((dataset, noise, model), {}).values() if record.get("precisions")
    ]
    return np.array([mean_of(column).value for column in zip(*curves, strict=True)]) if curves else None


def draw_rates(records: Sequence[Record], models: Sequence[str], noises: Sequence[float], path: Path) -> Path | None:
    """A panel for each model: estimated against true share of wrong labels, a point for each run, with its interval."""
    runs = [record for record in records if record.get("rate") is not None]
    shown = [model for model in models if any(record["model"] == model for record in runs)]
    if not shown:
        return None
    panels = panels_for(shown, (max(4.4 * len(shown), 5.0), 4.8), sharey=True)
    style = looks([noise_name(noise) for noise in noises])
    for panel, model in zip(panels, shown, strict=True):
        panel.set_title(model)
        panel.plot([0, 100], [0, 100], color="black", linewidth=0.8, zorder=1)
        for noise in noises:
            own = [record for record in runs if record["model"] == model and record["noise"] == noise]
            if not own:
                continue
            true, rate, low, high = (
                100 * np.array([record[name] for record in own])
                for name in ("wrong_share", "rate", "rate_low", "rate_high")
            )
            look, label = style[noise_name(noise)], noise_name(noise)
            panel.vlines(true, low, high, color=look["color"], alpha=0.25, linewidth=0.8)
            panel.plot(true, rate, **look, linestyle="none", markersize=3.5, alpha=0.8, label=label)
        most = 100 * max(max(record["wrong_share"], min(record["rate_high"], 1.0)) for record in runs)
        panel.set_xlim(-2, max(62.0, 100 * max(record["wrong_share"] for record in runs) + 2))
        panel.set_ylim(-2, most + 3)
        panel.set_xlabel("wrong training labels in %")
        panel.grid(color="#e5e5e5", linewidth=0.6)
        panel.set_axisbelow(True)
    panels[0].set_ylabel("estimate in %, with 95 % interval")
    return save_panels(panels, path, ncols=5, fontsize="small")
