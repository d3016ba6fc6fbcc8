"""The report of the comparison of calibrators. See ``calibration.py``."""

from __future__ import annotations

import statistics
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from legendretron.experiments import Record
from legendretron.experiments.grouping import by_seed, paired_values
from legendretron.experiments.rendering import described, markdown_table, save_picture, write_csv, write_text
from legendretron.experiments.statistics import mean_difference, mean_of, paired_test

OURS, PRESERVED = "LegendreCalibrator", "LegendreCalibrator, order preserved"
UNCALIBRATED, TEMPERATURE, SMS = "uncalibrated", "temperature", "SMS"
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
Results = dict[tuple[Any, ...], dict[int, Record]]


def _means(results: Results, cell: Cell, models: Sequence[str], name: str) -> dict[str, float]:
    return {
        model: mean_of([record[name] for record in own.values()]).value
        for model in models
        if (own := results.get((*cell, model)))
    }


def _ranks(results: Results, cells: Sequence[Cell], models: Sequence[str], name: str) -> dict[str, list[float]]:
    """Rank of each model in each cell by its mean; equal ones share a rank. Models that a cell lacks have none there."""
    ranks: dict[str, list[float]] = {model: [] for model in models}
    for cell in cells:
        means = _means(results, cell, models, name)
        sign = -1.0 if name == "accuracy" else 1.0
        for model, value in means.items():
            below = sum(sign * other < sign * value for other in means.values())
            equal = sum(other == value for other in means.values())
            ranks[model].append(below + (equal + 1) / 2)
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


def _verdict(results: Results, cell: Cell, other: str, name: str) -> tuple[float, float, str] | None:
    """Mean difference of ours to another, its standard error, and better, worse or nothing by a paired t-test."""
    own, peer = results.get((*cell, OURS)), results.get((*cell, other))
    if not own or not peer:
        return None
    a, b = paired_values(own, peer, name)
    if len(a) < 2:
        return None
    gap = mean_difference(a, b)
    clear = paired_test(a, b) < LEVEL
    good = gap.value > 0 if name == "accuracy" else gap.value < 0
    return gap.value, gap.error, ("better" if good else "worse") if clear else ""


def _counts(results: Results, cells: Sequence[Cell], models: Sequence[str]) -> str:
    lines = []
    for other in models:
        if other == OURS:
            continue
        line = [other]
        for name in MEASURES:
            found = [v[2] for cell in cells if (v := _verdict(results, cell, other, name))]
            line.append(f"{found.count('better')} / {found.count('worse')} of {len(found)}")
        lines.append(line)
    return markdown_table(["against", *(title for title, *_ in MEASURES.values())], lines)


def _worst(results: Results, cells: Sequence[Cell], other: str) -> str:
    """Cases in which ours is worse than another in log-loss, clearly or not."""
    found = [(cell, v) for cell in cells if (v := _verdict(results, cell, other, "log_loss")) and v[0] > 0]
    if not found:
        return f"In no case is the mean log-loss above that of {other}."
    words = "; ".join(
        f"{case}, {size:,} rows: +{gap:.4f} ± {error:.4f}{' (clear)' if verdict else ''}"
        for (case, size), (gap, error, verdict) in sorted(found, key=lambda item: -item[1][0])
    )
    return f"Mean log-loss above that of {other} in {len(found)} of {len(cells)} cases: {words}."


def _times(results: Results, cells: Sequence[Cell], models: Sequence[str]) -> str:
    """Ratios are of runs of one commit alone, which took turns: at another time the machine may have been busier."""
    lines = []
    for model in models:
        ratios, seconds = [], []
        for cell in cells:
            own, peer = results.get((*cell, model)), results.get((*cell, SMS))
            if not own:
                continue
            seconds.append(statistics.median(record["fit_seconds"] for record in own.values()))
            in_turn = [seed for seed in own if peer and seed in peer and own[seed]["commit"] == peer[seed]["commit"]]
            if peer and in_turn:
                ratios.append(
                    statistics.median(own[seed]["fit_seconds"] / peer[seed]["fit_seconds"] for seed in in_turn)
                )
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
    import matplotlib.pyplot as plt

    shown = (OURS, SMS, "SVS", "ETS", PRESERVED)
    figure, axes = plt.subplots(figsize=(8, 0.2 * len(cells) + 1.4), layout="constrained")
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
    figure.legend(fontsize=8, loc="outside upper center", ncols=3)
    return save_picture(figure, path)


def _where_temperature_is_right(results: Results, cells: Sequence[Cell]) -> str:
    """Log-loss above that of temperature scaling, on average and in the worst split."""
    lines = []
    for case, size in cells:
        line = [case, f"{size:,}"]
        for model in (OURS, PRESERVED, "SVS", SMS):
            own, peer = results.get((case, size, model)), results.get((case, size, TEMPERATURE))
            a, b = paired_values(own, peer, "log_loss") if own and peer else ([], [])
            excess = [x - y for x, y in zip(a, b, strict=True)]
            line.append(f"{statistics.fmean(excess):+.4f} ({max(excess):+.4f})" if excess else "-")
        lines.append(line)
    return markdown_table(["case", "rows", OURS, PRESERVED, "SVS", SMS], lines)


def write_report(
    records: list[Record],
    folder: Path,
    cases: Sequence[str],
    models: Sequence[str],
    splits: int,
    *,
    chosen_on: Collection[str],
    right: Collection[str],
) -> list[Path]:
    """Write ``calibration.md``, ``.csv`` and ``.png``.

    ``chosen_on`` are the cases on which constants were chosen, ``right`` those in which temperature scaling is right.
    """
    records = sorted(records, key=lambda r: (cases.index(r["dataset"]), r["size"], models.index(r["model"]), r["seed"]))
    results: Results = by_seed(records, "dataset", "size", "model")
    cells = list(dict.fromkeys((record["dataset"], record["size"]) for record in records))
    right_cells = [cell for cell in cells if cell[0] in right]
    real = [cell for cell in cells if cell[0] not in right]
    unseen, seen = ([cell for cell in real if (cell[0] in chosen_on) is used] for used in (False, True))
    shown = [model for model in models if any(key[2] == model for key in results)]
    counts = {len(own) for own in results.values()}
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
    rows = [
        {"case": case, "rows": size, "calibrator": model, "splits": len(own)}
        | {name: mean_of([record[name] for record in own.values()]).value for name in MEASURES}
        for (case, size, model), own in results.items()
    ]
    return [
        write_text(folder / "calibration.md", "\n\n".join(section for section in sections if section)),
        write_csv(folder / "calibration.csv", rows),
        _picture(results, real, folder / "calibration.png"),
    ]
