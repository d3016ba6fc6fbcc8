"""The report of the study on wrong labels: tables, pictures, and where each method loses. See ``label_noise.py``."""

from __future__ import annotations

import itertools
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import study
from legendretron.experiments import Experiment, Record
from legendretron.experiments.rendering import as_text, described, mark, markdown_table, panels_for, save_panels
from legendretron.experiments.rendering import write_report as write_files
from legendretron.experiments.results import Results
from legendretron.experiments.statistics import Mean, mean_of
from legendretron.paper.libsvm.report import published_accuracies
from legendretron.plots.axes import COLOURS
from study import BASELINE, LEVEL, MEASURES, NOT_RUN, OURS

WITHOUT = "without label_noise"
FLOOR = "logistic regression with a floor"
FORWARD = "forward, true matrix"
GENERALISED = "generalised cross-entropy"
CLEANLAB = "cleanlab"
TUNED_CLEANLAB = "cleanlab, C by cross-validation"
#: The noise level that stands for pair flips; the others are symmetric.
PAIRS = 0.3
#: Shares of the wrong labels at which precision is recorded.
RECALLS = tuple(step / 20 for step in range(1, 21))
#: The paper's model, as its table calls it, and the noises of that table.
PAPERS, PAPERS_NOISES = "LegendreTron", (0.2, 0.5)
SCORES = ("accuracy", "log_loss", "brier")
#: What each model is.
MODELS = {
    BASELINE: "scikit-learn's logistic regression, its strength chosen by log-loss in cross-validation; knows nothing of "
    "wrong labels.",
    OURS: "as it comes.",
    WITHOUT: "`LegendreTronClassifier(label_noise=None)`, which takes all labels for right.",
    FLOOR: '`MultinomialLogisticClassifier(label_noise="symmetric")`: logistic regression that learns the share of wrong '
    "labels, which gives each probability a floor.",
    FORWARD: "`MultinomialLogisticClassifier(label_noise=T)` with the matrix that labels were drawn with. Nobody knows it "
    "outside of an experiment; it is there to show what can be had by a linear model.",
    GENERALISED: "a linear softmax model with the loss (1 - p^q) / q of the label's probability p, q = 0.7 (Zhang and "
    "Sabuncu 2018), its strength chosen by accuracy in cross-validation.",
    CLEANLAB: "`CleanLearning(LogisticRegression())` on standardised features: labels that it calls wrong are left out "
    "(Northcutt, Jiang and Chuang 2021). C = 1, scikit-learn's default.",
    TUNED_CLEANLAB: f"the same, with the C that {BASELINE} chooses.",
}

Cell = tuple[str, float]


# --- numbers ---


def noise_name(noise: float) -> str:
    """Such as ``20 %``, and ``30 % pairs`` for pair flips."""
    return f"{100 * noise:g} %" + (" pairs" if noise == PAIRS else "")


def cells_of(results: Results, noises: Iterable[float]) -> list[Cell]:
    """Data sets and noises with results, noise by noise."""
    known = {cell[:2] for cell in results.cells}
    datasets = results.values_of("dataset")
    return [(dataset, noise) for noise in noises for dataset in datasets if (dataset, noise) in known]


def count_verdicts(results: Results, cells: Iterable[Cell], model: str, other: str, name: str) -> dict[str, list[Cell]]:
    """The cells of each verdict: ``better``, ``worse`` and ``=``."""
    found: dict[str, list[Cell]] = {"better": [], "worse": [], "=": []}
    for cell in cells:
        if word := study.verdict(results, cell, model, other, name):
            found[word].append(cell)
    return found


def better_and_worse(results: Results, cells: Iterable[Cell], model: str, other: str, name: str) -> str:
    """Such as ``5 / 1 of 13``."""
    found = count_verdicts(results, cells, model, other, name)
    tested = sum(map(len, found.values()))
    return f"{len(found['better'])} / {len(found['worse'])} of {tested}" if tested else NOT_RUN


@dataclass(frozen=True)
class Rate:
    """Estimates of the share of wrong labels, against the share there was and the probability it was drawn with."""

    true: float
    estimate: float
    bias: float
    largest_error: float  #: of an estimate, from the share there was in the same training rows
    covered: int  #: intervals that hold the probability
    covered_share: int  #: intervals that hold the share there was
    n: int

    @classmethod
    def of(cls, records: Iterable[Record]) -> Rate | None:
        """From some runs; None if no run has an estimate."""
        own = [record for record in records if record.get("rate") is not None]
        if not own:
            return None
        true, rate, low, high, drawn = (
            np.array([record[name] for record in own])
            for name in ("wrong_share", "rate", "rate_low", "rate_high", "noise")
        )
        holds, holds_share = ((low - 1e-9 <= value) & (value <= high + 1e-9) for value in (drawn, true))
        errors = [a - b for a, b in zip(rate.tolist(), true.tolist(), strict=True)]
        return cls(
            statistics.fmean(true.tolist()),
            statistics.fmean(rate.tolist()),
            statistics.fmean(errors),
            max(map(abs, errors)),
            int(holds.sum()),
            int(holds_share.sum()),
            len(own),
        )


def against_paper(results: Results, cell: Cell, model: str) -> tuple[Mean, Mean, bool] | None:
    """The paper's mean accuracy, a model's, and whether that is at most one combined standard error below.

    None where the paper has no mean, the data are a subset, or fewer than two splits were run.
    """
    published, found = published_accuracies().get((*cell, PAPERS)), results.mean((*cell, model), "accuracy")
    if published is None or found is None or found.n < 2 or results.facts(cell[0])["source"] != "complete":
        return None
    return published, found, found.minus(published) >= -1.0


def table_of_numbers(results: Results) -> list[dict[str, Any]]:
    """A row for each data set, noise and model, for the CSV file."""
    rows = []
    for dataset, noise, model in results.cells:
        cell, full = (dataset, noise), (dataset, noise, model)
        own, facts = results.records(*full), results.facts(dataset)
        row: dict[str, Any] = {"dataset": dataset, **{name: facts[name] for name in study.FACTS}, "noise": noise}
        row |= {"kind": "pairs" if noise == PAIRS else "symmetric", "model": model, "splits": len(own)}
        row["wrong_share"] = statistics.fmean(record["wrong_share"] for record in own)
        row |= study.scored(results, cell, model, SCORES, {BASELINE: ""})
        for name in ("fit_seconds", "fit_cpu_seconds"):
            row[name] = results.median(full, name)
        row["unconverged"] = sum(not record["converged"] for record in own)
        if rate := Rate.of(own):
            row |= {"rate": rate.estimate, "rate: largest error": rate.largest_error}
            row |= {"rate: intervals": rate.n, "rate: covered": rate.covered, "rate: share covered": rate.covered_share}
        for name in ("average_precision", "called_precision", "called_recall", "called_doubt"):
            if mean := results.mean(full, name):
                row |= mean.columns(name)
        if paper := against_paper(results, cell, model):
            row |= paper[0].columns("paper") | {"met": paper[2]}
        rows.append(row)
    return rows


# --- tables ---


def _label(results: Results, dataset: str) -> str:
    return str(results.facts(dataset)["label"])


def _scores_table(results: Results, noise: float, name: str, models: Sequence[str], other: str) -> str:
    """Means by data set and model, marked where they differ from another model's."""
    lines = []
    for cell in cells_of(results, [noise]):
        means = {model: results.mean((*cell, model), name) for model in models}
        if any(means.values()):
            texts = [
                mark(as_text(mean, MEASURES[name].digits), study.verdict(results, cell, model, other, name))
                if mean
                else NOT_RUN
                for model, mean in means.items()
            ]
            lines.append([_label(results, cell[0]), *texts])
    return markdown_table(["data set", *models], lines)


def _counts_table(results: Results, noises: Sequence[float], models: Sequence[str], name: str) -> str:
    others = [model for model in models if model != BASELINE]
    groups = {**{noise_name(noise): [noise] for noise in noises}, "all": noises}
    lines = [
        [title, *(better_and_worse(results, cells_of(results, group), model, BASELINE, name) for model in others)]
        for title, group in groups.items()
    ]
    return markdown_table(["wrong labels", *others], lines)


def _losses(results: Results, noises: Sequence[float], models: Sequence[str]) -> str:
    """A line for each model and measure: where it is significantly worse than the baseline; then ours against each model."""
    pairs = [(model, BASELINE) for model in models if model != BASELINE]
    pairs += [(OURS, model) for model in models if OURS in models and model not in (OURS, BASELINE)]
    lines = []
    for (model, other), name in itertools.product(pairs, ("accuracy", "log_loss")):
        found = count_verdicts(results, cells_of(results, noises), model, other, name)
        title, tested = f"{model} against {other}, {MEASURES[name].title}", sum(map(len, found.values()))
        by_noise = itertools.groupby(found["worse"], key=lambda cell: cell[1])
        listed = "; ".join(f"{noise_name(noise)}: {', '.join(d for d, _ in cells)}" for noise, cells in by_noise)
        where = f"worse in {len(found['worse'])} ({listed})" if listed else "worse in none"
        said = (
            f"of {tested} cells better in {len(found['better'])}, {where}" if tested else "not tested, too few splits"
        )
        lines.append(f"- {title}: {said}.")
    return "\n".join(lines)


def percent(value: float) -> str:
    return f"{100 * value:.1f}"


def rate_texts(rate: Rate | None) -> list[str]:
    """Mean estimate, largest error, and intervals that hold the probability."""
    if rate is None:
        return [NOT_RUN] * 3
    return [percent(rate.estimate), percent(rate.largest_error), f"{rate.covered} of {rate.n}"]


def _rates_table(results: Results, noises: Sequence[float], models: Sequence[str]) -> str:
    lines = []
    for cell in cells_of(results, noises):
        rates = [Rate.of(results.records(*cell, model)) for model in models]
        if known := [rate for rate in rates if rate]:
            texts = [text for rate in rates for text in rate_texts(rate)]
            lines.append([_label(results, cell[0]), noise_name(cell[1]), percent(known[0].true), *texts])
    head = [f"{model}: {what}" for model in models for what in ("mean estimate", "largest error", "covered")]
    return markdown_table(["data set", "drawn with", "true share", *head], lines)


def _rates_in_short(records: Sequence[Record], noises: Sequence[float], models: Sequence[str]) -> str:
    """A line for each model and noise: the largest error and how many intervals hold the truth."""
    lines = []
    for model, noise in itertools.product(models, noises):
        if rate := Rate.of(r for r in records if (r["noise"], r["model"]) == (noise, model)):
            lines.append(
                f"- {model}, {noise_name(noise)}: mean error {100 * rate.bias:+.1f}, largest "
                f"{percent(rate.largest_error)} percentage points; of {rate.n} intervals {rate.covered} hold "
                f"the probability, and {rate.covered_share} the share there was."
            )
    return "\n".join(lines)


def _called_table(results: Results, noises: Sequence[float], models: Sequence[str]) -> str:
    """Precision / recall of the labels that are called wrong, mean over data sets of means over splits."""

    def text(noise: float, model: str) -> str:
        pairs = [
            [results.mean((*cell, model), name) for name in ("called_precision", "called_recall")]
            for cell in cells_of(results, [noise])
        ]
        pairs = [[mean.value for mean in pair] for pair in pairs if all(pair)]
        means = [f"{statistics.fmean(column):.2f}" for column in zip(*pairs, strict=True)]
        return f"{' / '.join(means)} ({len(pairs)} sets)" if pairs else NOT_RUN

    lines = [[noise_name(noise), *(text(noise, model) for model in models)] for noise in noises]
    return markdown_table(["wrong labels", *models], [line for line in lines if set(line[1:]) != {NOT_RUN}])


def _paper_table(results: Results, noises: Sequence[float], models: Sequence[str]) -> str:
    """The paper's means beside ours, in bold where met; empty if there is nothing to compare."""
    lines, met = [], Counter()
    for cell in cells_of(results, [noise for noise in PAPERS_NOISES if noise in noises]):
        found = {model: against_paper(results, cell, model) for model in models}
        if known := [pair for pair in found.values() if pair]:
            texts = [
                mark(as_text(pair[1]), "better" if pair[2] else "") if pair else NOT_RUN for pair in found.values()
            ]
            lines.append([_label(results, cell[0]), noise_name(cell[1]), as_text(known[0][0]), *texts])
            met.update((model, pair[2]) for model, pair in found.items() if pair)
    if not lines:
        return ""
    runs = {model: met[model, True] + met[model, False] for model in models}
    lines.append(["met", "", "", *(f"{met[model, True]} of {n}" if n else NOT_RUN for model, n in runs.items())])
    return markdown_table(["data set", "wrong labels", "the paper's LegendreTron", *models], lines)


def _times_table(records: Sequence[Record], results: Results, models: Sequence[str]) -> str:
    def seconds(dataset: str, model: str) -> str:
        own = [r["fit_seconds"] for r in records if (r["dataset"], r["model"]) == (dataset, model)]
        return f"{statistics.median(own):.3g}" if own else NOT_RUN

    datasets = results.values_of("dataset")
    lines = [[_label(results, dataset), *(seconds(dataset, model) for model in models)] for dataset in datasets]
    return markdown_table(["data set", *models], lines)


def _missing(records: Sequence[Record], experiment: Experiment) -> str:
    done, planned = (Counter(model) for model in ((r["model"] for r in records), (r.model for r in experiment.runs())))
    lacking = [f"{model} {done[model]:,} of {n:,}" for model, n in planned.items() if done[model] < n]
    return f"**Incomplete: runs done are {'; '.join(lacking)}. What follows is about these.**" if lacking else ""


def _stopped(records: Sequence[Record], models: Sequence[str]) -> str:
    """How many fits of each model stopped at a limit of iterations, as a warning said."""
    runs = Counter(record["model"] for record in records)
    stopped = Counter(record["model"] for record in records if not record["converged"])
    parts = [f"{model} in {stopped[model]:,} of {runs[model]:,} runs" for model in models if stopped[model]]
    return f"Some fit inside stopped at its limit of iterations, with a warning: {'; '.join(parts) or 'none'}."


# --- pictures ---

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


def _add_grid(panel: Any) -> None:
    panel.grid(color="#e5e5e5", linewidth=0.6)
    panel.set_axisbelow(True)


def draw_accuracy(results: Results, noises: Sequence[float], models: Sequence[str], path: Path) -> Path:
    """A panel for each data set: accuracy by symmetric noise as a line, and by pair flips beside it."""
    import matplotlib.pyplot as plt

    datasets = results.values_of("dataset")
    rows, columns = -(-len(datasets) // COLUMNS), min(COLUMNS, len(datasets))
    size = (max(3.1 * columns, 7.5), 2.5 * rows + 1.3)
    _, axes = plt.subplots(rows, columns, figsize=size, layout="constrained", squeeze=False)
    places = {noise: 100 * noise for noise in sorted(noises) if noise != PAIRS}
    beside = max(places.values(), default=0.0) + 12.0
    style = looks(list(MODELS))
    panels = list(axes.ravel())
    for panel, dataset in zip(panels, datasets, strict=False):
        panel.set_title(dataset, fontsize="medium")
        for place, model in enumerate(models):
            points = [(at, results.mean((dataset, noise, model), "accuracy")) for noise, at in places.items()]
            if line := [(at, mean.value) for at, mean in points if mean]:
                panel.plot(*zip(*line, strict=True), **style[model], markersize=4, label=model)
            if mean := results.mean((dataset, PAIRS, model), "accuracy"):
                shift = 0.7 * (place - (len(models) - 1) / 2)
                panel.plot([beside + shift], [mean.value], **{**style[model], "linestyle": "none"}, markersize=5)
        ticks = {at: f"{at:g}" for at in places.values()} | ({beside: "pairs"} if PAIRS in noises else {})
        panel.set_xticks(list(ticks), list(ticks.values()))
        _add_grid(panel)
    for panel in panels[len(datasets) :]:
        panel.set_visible(False)
    for panel in panels[max(0, len(datasets) - columns) : len(datasets)]:
        panel.set_xlabel("wrong training labels in %")
    for row in axes:
        row[0].set_ylabel("test accuracy in %")
    return save_panels(panels[: len(datasets)], path, ncols=4, fontsize="small")


def draw_doubts(
    results: Results, noises: Sequence[float], models: Sequence[str], path: Path
) -> tuple[Path, str] | None:
    """Precision and recall of the labels that are doubted most, mean over the splits; and the data set that is shown."""

    def curve(dataset: str, noise: float, model: str) -> list[float]:
        curves = results.values((dataset, noise, model), "precisions").values()
        return [mean_of(column).value for column in zip(*curves, strict=True)]

    for dataset in SHOWN:
        found = {noise: {m: c for m in models if (c := curve(dataset, noise, m))} for noise in noises}
        if found := {noise: curves for noise, curves in found.items() if curves}:
            break
    else:
        return None
    titles = [f"{dataset}: {noise_name(noise)}" for noise in found]
    panels = panels_for(titles, (max(3.1 * len(titles), 6.5), 3.9), sharey=True)
    style = looks(list(MODELS))
    for panel, (noise, curves) in zip(panels, found.items(), strict=True):
        for model, precisions in curves.items():
            panel.plot(RECALLS, precisions, **style[model], markersize=3, label=model)
        panel.axhline(noise, color="#666666", linestyle=":", linewidth=1.0, label="rows in any order")
        panel.set_xlabel("share of wrong labels found")
        panel.set_ylim(0.0, 1.03)
        _add_grid(panel)
    panels[0].set_ylabel("share of wrong labels in the list")
    return save_panels(panels, path, ncols=3, fontsize="small"), dataset


def draw_rates(records: Sequence[Record], models: Sequence[str], noises: Sequence[float], path: Path) -> Path:
    """A panel for each model: estimated against true share of wrong labels, a point for each run, with its interval."""
    runs = [record for record in records if record.get("rate") is not None]
    panels = panels_for(models, (max(4.4 * len(models), 5.0), 4.8), sharey=True)
    style = looks([noise_name(noise) for noise in noises])
    for panel, model in zip(panels, models, strict=True):
        panel.set_title(model)
        panel.plot([0, 100], [0, 100], color="black", linewidth=0.8, zorder=1)
        for noise in noises:
            own = [record for record in runs if (record["model"], record["noise"]) == (model, noise)]
            if not own:
                continue
            names = ("wrong_share", "rate", "rate_low", "rate_high")
            true, rate, low, high = (100 * np.array([record[name] for record in own]) for name in names)
            look, label = style[noise_name(noise)], noise_name(noise)
            panel.vlines(true, low, high, color=look["color"], alpha=0.25, linewidth=0.8)
            panel.plot(true, rate, **look, linestyle="none", markersize=3.5, alpha=0.8, label=label)
        most = 100 * max(max(record["wrong_share"], min(record["rate_high"], 1.0)) for record in runs)
        panel.set_xlim(-2, max(62.0, 100 * max(record["wrong_share"] for record in runs) + 2))
        panel.set_ylim(-2, most + 3)
        panel.set_xlabel("wrong training labels in %")
        _add_grid(panel)
    panels[0].set_ylabel("estimate in %, with 95 % interval")
    return save_panels(panels, path, ncols=5, fontsize="small")


# --- the report ---


def write_report(records: list[Record], folder: Path, experiment: Experiment) -> list[Path]:
    """Write ``label_noise.md``, ``.csv`` and pictures."""
    records = study.in_order(records, dataset=experiment.datasets, noise=experiment.noise, model=experiment.models)
    results = Results(records, "dataset", "noise", "model")
    noises = [noise for noise in experiment.noise if noise in results.values_of("noise")]
    models = [model for model in experiment.models if model in results.values_of("model")]
    seeds = {record["seed"] for record in records}
    versions = ", ".join(dict.fromkeys(record["cleanlab"] for record in records if record.get("cleanlab")))

    def having(name: str) -> list[str]:
        """Models of which some run has a measurement."""
        return [m for m in models if any(r["model"] == m and r.get(name) is not None for r in records)]

    accuracy = draw_accuracy(results, noises, models, folder / "label_noise_accuracy.png")
    sections = [
        "# Training labels of which some are wrong",
        _introduction(experiment),
        "\n".join(f"- **{model}**: {MODELS[model]}" for model in models),
        _missing(records, experiment),
        *_in_short(results, noises, models),
        f"![Accuracy by noise, a panel for each data set]({accuracy.name})",
        "Test accuracy by wrong training labels, mean over the splits.",
    ]
    for noise in noises:
        title = f"## Wrong labels: {noise_name(noise)}" if noise else "## No wrong labels"
        sections += [title, "Accuracy in %:", _scores_table(results, noise, "accuracy", models, BASELINE)]
        sections += ["Log-loss:", _scores_table(results, noise, "log_loss", models, BASELINE)]
    pictures = [accuracy]
    if with_rates := having("rate"):
        pictures.append(draw_rates(records, with_rates, experiment.noise, folder / "label_noise_rates.png"))
        sections += [
            "## How many are wrong",
            "The estimated share of wrong labels, `noise_rate_`, in %. The true share is that in the training rows, mean "
            "over the splits; the largest error of an estimate is from the true share of the same rows, in percentage "
            "points; covered are the intervals that hold the probability with which labels were made wrong.",
            _rates_in_short(records, noises, with_rates),
            f"![Estimated against true share of wrong labels]({pictures[-1].name})",
            "Each point is a run, and each line its interval.",
            _rates_table(results, noises, with_rates),
        ]
    if with_doubts := having("average_precision"):
        sections += _doubts_section(results, [noise for noise in noises if noise], with_doubts, folder, pictures)
    if paper := _paper_table(results, noises, models):
        sections += [
            "## The paper's means",
            "The paper prints mean accuracies of LegendreTron over 20 splits with wrong training labels; these were not "
            "run again here. Its splits are others and not stratified. Bold: met, which is at most one combined standard "
            "error below. Data of which only a subset is at hand are left out.",
            paper,
        ]
    sections += [
        "## Times",
        "Median seconds of a fit over noises and splits, with all that the model does to choose its settings. Doubts "
        "in labels are not counted.",
        _times_table(records, results, models),
        _stopped(records, models),
        "## How it was run",
        f"Splits and their noise have seeds {min(seeds)} to {max(seeds)}."
        f"{f' cleanlab {versions}.' if versions else ''} {described(records)}",
    ]
    return write_files(folder, "label_noise", sections, table_of_numbers(results), *pictures)


def _in_short(results: Results, noises: Sequence[float], models: Sequence[str]) -> list[str]:
    if BASELINE not in models or len(models) < 2:
        return []
    return [
        "## Better and worse",
        f"In how many cells, each a data set and a noise, a model is significantly better / worse than {BASELINE}. Accuracy:",
        _counts_table(results, noises, models, "accuracy"),
        "Log-loss:",
        _counts_table(results, noises, models, "log_loss"),
        "Brier score:",
        _counts_table(results, noises, models, "brier"),
        "Where each method loses, at the same level:",
        _losses(results, noises, models),
    ]


def _doubts_section(
    results: Results, noises: Sequence[float], models: Sequence[str], folder: Path, pictures: list[Path]
) -> list[str]:
    reference = CLEANLAB if CLEANLAB in models else models[0]
    sections = [
        "## Which are wrong",
        f"The {MEASURES['average_precision'].title} of training labels, those first that are doubted most, against which "
        "labels were really made wrong. Labels are judged by models that did not see the row. Bold: better than "
        f"{reference} at 99 % in a paired t-test; italic: worse.",
        "Our figures in this section are of development versions before label quality was calibrated (see the changelog): "
        "predictions had a floor then, below which rows could not be told apart. Accuracies and rates do not depend on it.",
    ]
    for noise in noises:
        table = _scores_table(results, noise, "average_precision", models, reference)
        sections += [f"Wrong labels: {noise_name(noise)}", table]
    if drawn := draw_doubts(results, noises, models, folder / "label_noise_doubts.png"):
        picture, dataset = drawn
        pictures.append(picture)
        sections += [
            f"![Precision and recall of doubted labels on {dataset}]({picture.name})",
            f"On {dataset}: of the shortest list of doubted labels that holds a share of the wrong ones, how much of "
            "it is wrong. Mean over the splits.",
        ]
    return [
        *sections,
        "Precision / recall of the labels that a method calls wrong, mean over the data sets. Ours calls a label "
        "wrong if that is more likely than not, cleanlab by `find_label_issues`.",
        _called_table(results, noises, models),
    ]


def _introduction(experiment: Experiment) -> str:
    planned = {(run.dataset, run.noise) for run in experiment.runs()}
    cells = itertools.product(experiment.datasets, experiment.noise)
    skipped = "; ".join(
        f"{dataset} at {noise_name(noise)}" for dataset, noise in cells if (dataset, noise) not in planned
    )
    return (
        "Models are trained with labels of which some are wrong, and tested with right ones. Labels are made wrong "
        "with some probability: symmetric noise draws one of the other classes, and pairs turns each class into the "
        "next, the last into the first. All models have the same splits, stratified with 80 % of the rows to train on, "
        "and the same wrong labels. Features are as distributed, and each model standardises on its training rows. "
        "What is chosen by cross-validation is chosen by the labels there are, right or wrong. Every run has one "
        f"thread. Where half of the labels of two classes are wrong they say nothing, so it is not run ({skipped}); for "
        "two classes, pairs is symmetric noise.\n\n"
        f"Means over splits ± standard error. Bold: better than {BASELINE} at {100 * (1 - LEVEL):g} % in a paired t-test; "
        f"italic: worse; {NOT_RUN}: not run. Tests are not corrected for their number: where nothing differs, "
        f"{100 * LEVEL:g} % of the cells are marked all the same."
    )
