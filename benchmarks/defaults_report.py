"""The report of the comparison of defaults: tables, a figure, and which promises hold. See ``defaults.py``."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from defaults_numbers import (
    BASELINE,
    MEASURES,
    OURS,
    Cells,
    compared,
    comparison,
    geometric_mean,
    is_logistic,
    log_loss_ratio,
    median_of,
    promises,
    time_ratio,
)
from legendretron.experiments import Record
from legendretron.experiments.grouping import by_seed
from legendretron.experiments.panels import panels_for, save_panels
from legendretron.experiments.rendering import described, markdown_table, write_csv, write_text
from legendretron.experiments.statistics import mean_of

NOT_RUN = "-"


@dataclass(frozen=True)
class Plan:
    """What the report is about, in the order it is shown: models, and the splits that each data set should have."""

    splits: Mapping[str, int]
    main: Sequence[str]
    ablation: Sequence[str]


def _marked(value: float, digits: int, word: str) -> str:
    mark = {"better": "**", "worse": "*"}.get(word, "")
    return f"{mark}{value:.{digits}f}{mark}"


def _cell(cells: Cells, dataset: str, model: str, names: Sequence[str]) -> str:
    own = cells.get((dataset, model))
    if not own:
        return NOT_RUN
    texts = []
    for name in names:
        found = None if model == BASELINE else compared(cells, dataset, model, BASELINE, name)
        mean = mean_of([record[name] for record in own.values()]).value
        texts.append(_marked(mean, MEASURES[name].digits, found.verdict if found else ""))
    return " / ".join(texts)


def _quality_table(cells: Cells, datasets: Sequence[str], models: Sequence[str], names: Sequence[str]) -> str:
    lines = []
    for dataset in datasets:
        data = _facts(cells, dataset)
        shape = f"{data['rows']:,} x {data['features']:,}, {data['classes']}"
        lines.append([data["label"], shape, *(_cell(cells, dataset, model, names) for model in models)])
    return markdown_table(["data set", "rows x features, classes", *models], lines)


def _facts(cells: Cells, dataset: str) -> dict[str, Any]:
    own = next(own for (name, _), own in cells.items() if name == dataset)
    data: dict[str, Any] = next(iter(own.values()))["data"]
    return data


def _seconds(cells: Cells, dataset: str, model: str, name: str) -> str:
    own = cells.get((dataset, model))
    return f"{statistics.median(record[name] for record in own.values()):.3g}" if own else NOT_RUN


def _times_table(cells: Cells, datasets: Sequence[str], models: Sequence[str], name: str) -> str:
    """Median seconds of the models and, where both were run, how many times as long ours takes as the baseline."""
    pair = [model for model in (BASELINE, OURS) if model in models]
    others = [model for model in models if model not in pair]
    ratios = {dataset: time_ratio(cells, dataset, name) for dataset in datasets}
    lines = []
    for dataset in datasets:
        ratio = ratios[dataset]
        seconds = [_seconds(cells, dataset, model, name) for model in (*pair, *others)]
        seconds.insert(len(pair), NOT_RUN if ratio is None else f"{ratio:.2f}")
        lines.append([_facts(cells, dataset)["label"], *seconds])
    known = {dataset: ratio for dataset, ratio in ratios.items() if ratio is not None}
    table = markdown_table(["data set", *pair, "ratio", *others], lines)
    if not known:
        return table
    worst = max(known, key=lambda dataset: known[dataset])
    return (
        f"{table}\n\nGeometric mean of the ratios over {len(known)} data sets: {geometric_mean(known.values()):.2f}; "
        f"largest: {known[worst]:.2f}, on {worst}."
    )


def _strengths_table(cells: Cells, datasets: Sequence[str]) -> str:
    lines = []
    for dataset in datasets:
        own = list(cells.get((dataset, OURS), {}).values())
        if not own:
            continue
        logistic = sum(is_logistic(record) for record in own)
        medians = [median_of(record.get(name) for record in own) for name in ("alpha", "link_alpha")]
        shown = [NOT_RUN if median is None else f"{median:.2g}" for median in medians]
        lines.append([_facts(cells, dataset)["label"], f"{logistic} of {len(own)}", *shown])
    return markdown_table(
        ["data set", "chose logistic regression", "median alpha_", "median link_alpha_, where finite"], lines
    )


def _ablation_table(cells: Cells, datasets: Sequence[str], variants: Sequence[str]) -> str:
    lines = []
    ratios: dict[str, list[float]] = {variant: [] for variant in variants}
    for dataset in datasets:
        if not any((dataset, variant) in cells for variant in variants):
            continue
        tried = [set(cells.get((dataset, variant), {})) for variant in variants]
        # means over the same splits: variants have fewer than the default
        full = {seed: run for seed, run in cells.get((dataset, OURS), {}).items() if any(seed in own for own in tried)}
        line = [f"{mean_of([r['log_loss'] for r in full.values()]).value:.3f}" if full else NOT_RUN]
        for variant in variants:
            own = cells.get((dataset, variant), {})
            found = compared(cells, dataset, variant, OURS, "log_loss")
            mean = mean_of([r["log_loss"] for r in own.values()]).value if own else math.nan
            line.append(_marked(mean, 3, found.verdict if found else "") if own else NOT_RUN)
            if ratio := log_loss_ratio(cells, dataset, variant, OURS):
                ratios[variant].append(ratio[0])
        lines.append([_facts(cells, dataset)["label"], *line])
    means = [f"{geometric_mean(own):.3f} ({len(own)} sets)" if own else NOT_RUN for own in ratios.values()]
    lines.append(["ratio to the default, geometric mean", "1", *means])
    return markdown_table(["data set", OURS, *variants], lines)


def _incomplete(cells: Cells, plan: Plan) -> list[str]:
    """Data sets on which ours or the baseline lacks runs, with the number of splits that both have."""
    both = {
        dataset: len(set(cells.get((dataset, OURS), {})) & set(cells.get((dataset, BASELINE), {})))
        for dataset in plan.splits
    }
    return [f"{dataset} {both[dataset]} of {asked}" for dataset, asked in plan.splits.items() if both[dataset] < asked]


def _promises_section(cells: Cells, datasets: Sequence[str], plan: Plan) -> str:
    missing = _incomplete(cells, plan)
    remark = (
        f"**Incomplete: splits done are {', '.join(missing)}. What follows is about these.**\n\n" if missing else ""
    )
    return remark + "\n".join(promise.line for promise in promises(cells, datasets))


def _unconverged(cells: Cells, models: Sequence[str]) -> str:
    """How many runs of each model stopped at its limit of iterations, as its warning says."""
    parts = []
    for model in models:
        own = [record for (_, name), runs in cells.items() if name == model for record in runs.values()]
        if stopped := sum(not record["converged"] for record in own):
            parts.append(f"{model} in {stopped:,} of {len(own):,} runs")
    return f"Stopped at its limit of iterations, with a warning: {'; '.join(parts) or 'none'}."


def draw(cells: Cells, datasets: Sequence[str], path: Path) -> Path | None:
    """Draw the ratio of log-losses by data set, sorted, with 99 % intervals; None if no data set has both models."""
    found = {d: pair for d in datasets if (pair := log_loss_ratio(cells, d, OURS, BASELINE))}
    if not found:
        return None
    order = sorted(found, key=lambda dataset: -found[dataset][0])
    (panel,) = panels_for([f"Log-loss of {OURS} relative to {BASELINE}"], (7.0, 1.8 + 0.27 * len(order)))
    looks: dict[str, tuple[str, str, str]] = {
        "better": ("#0072B2", "o", "significantly better"),
        "": ("#666666", "D", "no significant difference"),
        "worse": ("#D55E00", "s", "significantly worse"),
    }
    for word, (colour, marker, label) in looks.items():
        for place, dataset in enumerate(order):
            result = compared(cells, dataset, OURS, BASELINE, "log_loss")
            assert result is not None
            if (result.verdict if result.verdict in ("better", "worse") else "") != word:
                continue
            ratio, factor = found[dataset]
            bar = [[ratio - ratio / factor], [ratio * factor - ratio]]
            panel.errorbar(ratio, place, xerr=bar, fmt=marker, color=colour, capsize=3, markersize=5, label=label)
    panel.axvline(1.0, color="black", linewidth=0.8, zorder=0)
    _label_axes(panel, order)
    return save_panels([panel], path, ncols=3)


#: Ratios that may have a tick; each range of the axis shows those that leave room for their labels.
_TICKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.05, 1.1, 1.25, 1.5, 2, 3, 5, 10, 20)


def _label_axes(panel: Any, datasets: Sequence[str]) -> None:
    panel.set_xscale("log")
    low, high = panel.get_xlim()
    # never so close that differences of a percent look large
    low, high = min(low, 0.85), max(high, 1.15)
    panel.set_xlim(low, high)
    room = math.log(high / low) / 11
    ticks: list[float] = [1.0]
    for tick in sorted(_TICKS, key=lambda tick: abs(math.log(tick))):
        if low <= tick <= high and all(abs(math.log(tick / other)) >= room for other in ticks):
            ticks.append(tick)
    panel.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    panel.set_xticks([], minor=True)
    panel.set_yticks(range(len(datasets)), datasets)
    panel.set_ylim(-0.6, len(datasets) - 0.4)
    panel.grid(axis="x", color="#dddddd", linewidth=0.6)
    panel.set_axisbelow(True)
    panel.set_xlabel("ratio of mean log-losses with 99 % interval; below 1 is better")
    for side in ("top", "right"):
        panel.spines[side].set_visible(False)


def write_report(records: list[Record], folder: Path, plan: Plan) -> list[Path]:
    """Write ``defaults.md``, ``.csv`` and ``.png``."""
    datasets, models = list(plan.splits), [*plan.main, *plan.ablation]

    def place(record: Record) -> tuple[int, int, int]:
        return datasets.index(record["dataset"]), models.index(record["model"]), record["seed"]

    records = sorted(records, key=place)  # the same text in whatever order they come
    cells = by_seed(records, "dataset", "model")
    measured = [dataset for dataset in plan.splits if any(name == dataset for name, _ in cells)]
    main = [model for model in plan.main if any(name == model for _, name in cells)]
    variants = [model for model in plan.ablation if any(name == model for _, name in cells)]
    picture = draw(cells, measured, folder / "defaults.png")
    sections = ["# LegendreTronClassifier() against what one would use instead", _INTRODUCTION]
    if main:
        sections += [
            _quality_table(cells, measured, main, ["accuracy", "log_loss"]),
            _unconverged(cells, main),
            "## What was promised, and what holds",
            _promises_section(cells, measured, plan),
        ]
    if picture:
        sections += [
            f"![Ratio of log-losses by data set]({picture.name})",
            f"Ratio of mean log-losses, {OURS} to {BASELINE}, with 99 % intervals from the paired splits.",
        ]
    if main:
        sections += [
            "## Probabilities",
            "Brier score / expected calibration error. The Brier score is the mean over the rows of the sum over all classes "
            "of squared differences; the expected calibration error is that of the predicted class, in 15 bins of equal "
            "width.",
            _quality_table(cells, measured, main, ["brier", "calibration_error"]),
            "## Times",
            "Median seconds of a fit, and the median over the splits of the ratio of both times on the same split. Before a "
            "process times a model for the first time, it fits the model to a few made-up rows, so that imports and "
            "compilation are not counted.",
            _times_table(cells, measured, main, "fit_seconds"),
            "Median seconds of processor time of a fit, which do not count waiting for a core that others use:",
            _times_table(cells, measured, main, "fit_cpu_seconds"),
            "Median seconds to predict the probabilities of the test rows:",
            _times_table(cells, measured, main, "predict_seconds"),
        ]
    if OURS in main:
        sections += [
            "## What the default chose",
            "In how many splits the fitted model is logistic regression, and the strengths of the penalties.",
            _strengths_table(cells, measured),
        ]
    if variants:
        sections += [
            "## Ablation",
            f"Log-loss. Bold: better than {OURS} at 99 % in a paired t-test; italic: worse.",
            _ablation_table(cells, measured, variants),
        ]
    text = "\n\n".join([*sections, described(records)])
    files = [write_text(folder / "defaults.md", text), write_csv(folder / "defaults.csv", comparison(cells))]
    return [*files, picture] if picture else files


_INTRODUCTION = (
    "Test accuracy in % / log-loss, mean over stratified splits with 80 % of the rows to train on. Features are as "
    "distributed, and each model standardises on its own training rows. Probabilities are clipped at the precision of "
    f"floating-point numbers. Bold: better than {BASELINE} at 99 % in a paired t-test; italic: worse; {NOT_RUN}: not run. "
    "HistGradientBoosting needs dense features and is not run on news20, nor is the ablation; there the splits are fewer. "
    "Every run has one thread."
)
