"""The report of the comparison of calibrators. See ``calibration.py``."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from scipy.stats import rankdata

import study
from calibration_cases import CHOSEN_ON, RIGHT
from legendretron.experiments import Experiment, Record
from legendretron.experiments.rendering import described, markdown_table, panels_for, save_picture
from legendretron.experiments.rendering import write_report as write_files
from legendretron.experiments.results import Results
from legendretron.experiments.statistics import Mean

OURS, PRESERVED = "LegendreCalibrator", "LegendreCalibrator, order preserved"
UNCALIBRATED, TEMPERATURE, SMS = "uncalibrated", "temperature", "SMS"
#: Probabilities below this count as this in the log-loss: some calibrators say zero.
LEAST = 1e-15
LEVEL = 0.05
#: Range of the picture, in percent.
_SHOWN = (-35, 10)
#: Name in the records, title, digits, and factor.
MEASURES = {
    "log_loss": ("log-loss", 4, 1.0),
    "brier": ("Brier score", 4, 1.0),
    "classwise_error": ("classwise calibration error, %", 3, 100.0),
    "smooth_error": ("smooth calibration error, %", 2, 100.0),
    "accuracy": ("accuracy, %", 2, 1.0),
}

Cell = tuple[str, int]


def _means(results: Results, cell: Cell, models: Sequence[str], name: str) -> dict[str, float]:
    means = {model: results.mean((*cell, model), name) for model in models}
    return {model: mean.value for model, mean in means.items() if mean}


def _sign(name: str) -> int:
    return 1 if name == "accuracy" else -1


def _ranks(results: Results, cells: Sequence[Cell], models: Sequence[str], name: str) -> dict[str, list[float]]:
    """Rank of each model in each cell by its mean; equal ones share a rank. Models that a cell lacks have none there."""
    ranks: dict[str, list[float]] = {model: [] for model in models}
    for cell in cells:
        means = _means(results, cell, models, name)
        for model, rank in zip(means, rankdata([-_sign(name) * mean for mean in means.values()]), strict=True):
            ranks[model].append(float(rank))
    return ranks


def _rank_table(results: Results, cells: Sequence[Cell], models: Sequence[str]) -> str:
    ranks = {name: _ranks(results, cells, models, name) for name in MEASURES}
    lines = [
        [model, *(f"{statistics.fmean(ranks[name][model]):.2f}" if ranks[name][model] else "-" for name in MEASURES)]
        for model in models
    ]
    best = [min(float(line[i]) for line in lines if line[i] != "-") for i in range(1, len(MEASURES) + 1)]
    for line in lines:
        line[1:] = [
            f"**{text}**" if text != "-" and float(text) == top else text
            for text, top in zip(line[1:], best, strict=True)
        ]
    return markdown_table(["calibrator", *(title for title, *_ in MEASURES.values())], lines)


def _verdict(results: Results, cell: Cell, other: str, name: str) -> tuple[Mean, str] | None:
    """Mean difference of ours to another, and better, worse or = by a paired t-test; None without one."""
    found = study.against(results, cell, OURS, other, name)
    return (found.difference, found.verdict(_sign(name), level=LEVEL)) if found and found.mean.n > 1 else None


def _counts(results: Results, cells: Sequence[Cell], models: Sequence[str]) -> str:
    lines = []
    for other in models:
        if other == OURS:
            continue
        line = [other]
        for name in MEASURES:
            found = [v[1] for cell in cells if (v := _verdict(results, cell, other, name))]
            line.append(f"{found.count('better')} / {found.count('worse')} of {len(found)}")
        lines.append(line)
    return markdown_table(["against", *(title for title, *_ in MEASURES.values())], lines)


def _worst(results: Results, cells: Sequence[Cell], other: str) -> str:
    """Cases in which ours is worse than another in log-loss, clearly or not."""
    found = [(cell, v) for cell in cells if (v := _verdict(results, cell, other, "log_loss")) and v[0].value > 0]
    if not found:
        return f"In no case is the mean log-loss above that of {other}."
    words = "; ".join(
        f"{case}, {size:,} rows: +{gap.value:.4f} ± {gap.error:.4f}{' (clear)' if word != '=' else ''}"
        for (case, size), (gap, word) in sorted(found, key=lambda item: -item[1][0].value)
    )
    return f"Mean log-loss above that of {other} in {len(found)} of {len(cells)} cases: {words}."


def _times(results: Results, cells: Sequence[Cell], models: Sequence[str]) -> str:
    """Ratios are of runs of one commit alone, which took turns: at another time the machine may have been busier."""
    lines = []
    for model in models:
        ratios, seconds = [], []
        for cell in cells:
            own, peer = (results.cells.get((*cell, name), {}) for name in (model, SMS))
            if own:
                seconds.append(results.median((*cell, model), "fit_seconds"))
            in_turn = [seed for seed in own if seed in peer and own[seed]["commit"] == peer[seed]["commit"]]
            if in_turn:
                ratio = (own[seed]["fit_seconds"] / peer[seed]["fit_seconds"] for seed in in_turn)
                ratios.append(statistics.median(ratio))
        if seconds:
            ratio = f"{statistics.median(ratios):.2f}" if ratios else "-"
            lines.append([model, f"{statistics.median(seconds):.3f}", f"{max(seconds):.2f}", ratio])
    return markdown_table(["calibrator", "median, s", "longest, s", "median ratio to SMS"], lines)


def _table(results: Results, cells: Sequence[Cell], models: Sequence[str], name: str) -> str:
    _, digits, factor = MEASURES[name]
    lines = []
    for case, size in cells:
        means = _means(results, (case, size), models, name)
        best = (max if name == "accuracy" else min)(means.values())
        line = [case, f"{size:,}"]
        for model in models:
            text = f"{factor * means[model]:.{digits}f}" if model in means else "-"
            line.append(f"**{text}**" if means.get(model) == best else text)
        lines.append(line)
    return markdown_table(["case", "rows", *models], lines)


def _picture(results: Results, cells: Sequence[Cell], path: Path) -> Path:
    """Log-loss relative to temperature scaling, case by case."""
    shown = (OURS, SMS, "SVS", "ETS", PRESERVED)
    (axes,) = panels_for([""], (8, 0.2 * len(cells) + 1.4))
    for model, marker in zip(shown, "os^v.", strict=True):
        xs, ys = [], []
        for i, cell in enumerate(cells):
            means = _means(results, cell, (model, TEMPERATURE), "log_loss")
            if len(means) == 2:
                xs.append(100.0 * (means[model] / means[TEMPERATURE] - 1.0))
                ys.append(i)
        axes.plot(np.clip(xs, *_SHOWN), ys, marker, label=model, alpha=0.8)
    axes.axvline(0.0, color="grey", linewidth=0.8)
    axes.set_yticks(range(len(cells)), [f"{case}, {size:,}" for case, size in cells], fontsize=7)
    axes.set_ylim(len(cells) - 0.5, -0.5)
    axes.set_xlim(_SHOWN[0] - 1, _SHOWN[1] + 1)
    axes.set_xlabel("log-loss relative to temperature scaling, % (beyond the axis: at its end)")
    axes.figure.legend(fontsize=8, loc="outside upper center", ncols=3)
    return save_picture(axes.figure, path)


def _where_temperature_is_right(results: Results, cells: Sequence[Cell]) -> str:
    """Log-loss above that of temperature scaling, on average and in the worst split."""
    lines = []
    for case, size in cells:
        line = [case, f"{size:,}"]
        for model in (OURS, PRESERVED, "SVS", SMS):
            a, b = results.pairs((case, size, model), (case, size, TEMPERATURE), "log_loss")
            excess = [x - y for x, y in zip(a, b, strict=True)]
            line.append(f"{statistics.fmean(excess):+.4f} ({max(excess):+.4f})" if excess else "-")
        lines.append(line)
    return markdown_table(["case", "rows", OURS, PRESERVED, "SVS", SMS], lines)


def write_report(records: list[Record], folder: Path, experiment: Experiment) -> list[Path]:
    """Write ``calibration.md``, ``.csv`` and ``.png``."""
    records = study.in_order(records, dataset=experiment.datasets, size=experiment.sizes, model=experiment.models)
    results = Results(records, "dataset", "size", "model")
    cells = list(dict.fromkeys(cell[:2] for cell in results.cells))
    right_cells, real = ([cell for cell in cells if (cell[0] in RIGHT) is wanted] for wanted in (True, False))
    unseen, seen = ([cell for cell in real if (cell[0] in CHOSEN_ON) is used] for used in (False, True))
    shown = [model for model in experiment.models if model in results.values_of("model")]
    counts, splits = {len(own) for own in results.cells.values()}, experiment.seeds
    level = f"{100 * (1 - LEVEL):g} %"
    sections = [
        "# Calibration of finished classifiers",
        f"`LegendreCalibrator()` and others on {len(real)} cases, {max(counts)} splits each: predictions of three public "
        "networks, and of logistic regression, a network trained until it is over-confident, gradient boosting and a random "
        "forest. Probabilities below 1e-15 count as that in the log-loss. The smooth calibration error is of the predicted "
        "class (relplot), the classwise one the mean over classes, with 15 bins.",
        "The constants of `LegendreCalibrator` (strengths and their weights, number of directions, penalty on probabilities, "
        "rows that count as wrong) were chosen on half of the classifiers, drawn by seed, with other splits, and on made-up "
        f"predictions that are right but for a temperature. {len(unseen)} cases are of the other half, and tell how well it "
        f"does; the {len(seen)} of the first half are shown apart. The form of the map and its other penalties are older, "
        "and were chosen on some cases of both halves.",
        ""
        if counts == {splits}
        else f"**Incomplete: {splits} splits are planned, here are {min(counts)} to {max(counts)}.**",
        *(
            part
            for title, group in (("the other half", unseen), ("the half of the choice", seen))
            if group
            for part in (
                f"## Mean ranks and verdicts, {title}",
                "Ranks are by the mean over splits, averaged over cases; 1 is the best.",
                _rank_table(results, group, shown),
                f"In how many cases `LegendreCalibrator()` is clearly better / worse, by a paired t-test at {level}:",
                _counts(results, group, shown),
                *(_worst(results, group, other) for other in (TEMPERATURE, SMS) if other in shown),
            )
        ),
        *(
            (
                "## Where temperature scaling is exactly right",
                "Log-loss above that of temperature scaling, mean over splits (worst split). Made-up predictions have normal "
                "logits, from which labels are drawn, and are then made twice as certain; those of the networks have labels "
                "drawn from their probabilities. SMS is left out at 100 classes and more, where it takes long.",
                _where_temperature_is_right(results, right_cells),
            )
            if right_cells
            else ()
        ),
        "![log-loss relative to temperature scaling](calibration.png)",
        "## Time to fit",
        "Seconds are of several machines, some of them busy. Ratios are of runs that took turns with those of SMS.",
        _times(results, cells, shown),
    ]
    for name, (title, *_) in MEASURES.items():
        sections += [f"## {title[0].upper()}{title[1:]}", _table(results, cells, shown, name)]
    sections += ["## How it was run", described(records)]
    rows = []
    for case, size, model in results.cells:
        row = {"case": case, "rows": size, "calibrator": model, "splits": len(results.cells[case, size, model])}
        rows.append(row | {name: results.mean((case, size, model), name).value for name in MEASURES})
    return write_files(folder, "calibration", sections, rows, _picture(results, real, folder / "calibration.png"))
