"""Training labels of which some are wrong: who still predicts well, finds the wrong ones, and knows how many there are.

    python benchmarks/label_noise.py --data DIR --out docs/results/label_noise --jobs 2

For each data set, noise and split, a fifth of the rows is to test on, with right labels. Labels of the other rows are made
wrong with some probability, the same for all models. Noise and split are seeded by the number of the split. A run is one fit
and one test, in one process with one thread. A sweep that was stopped goes on when started again; models can be run on
different machines, and their files of results put into one folder. cleanlab comes with ``pip install '.[experiments]'``.
"""

from __future__ import annotations

import functools
import itertools
import statistics
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.sparse import issparse
from scipy.special import log_softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.metrics import average_precision_score, precision_recall_curve
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.preprocessing import StandardScaler

import study
from legendretron import LegendreTronClassifier, MultinomialLogisticClassifier
from legendretron.datasets import flip_labels, pair_transition, symmetric_transition
from legendretron.experiments import Batch, Experiment, Outcome, Record, Resources
from legendretron.experiments.recipes import chosen_strengths, make_recipe
from legendretron.experiments.rendering import (
    as_text,
    described,
    mark,
    markdown_table,
    panels_for,
    save_panels,
    write_report,
)
from legendretron.experiments.results import Mean, Results, mean_of
from legendretron.paper.libsvm import published_accuracies
from legendretron.plots.axes import COLOURS
from study import BASELINE, LEVEL, LOGISTIC, MEASURES, NOT_RUN, OURS

#: Strengths tried, the strongest penalty first: ``l2 / 2 * |W|**2`` is added to the mean loss of a row.
#: A weaker one, 1e-5, was tried on six small data sets: about the same accuracy, and a worse log-loss.
STRENGTHS = (1e-1, 1e-2, 1e-3, 1e-4)
_MAX_ITER = 300


def minimize_loss(X: Any, y: np.ndarray, n_classes: int, l2: float, q: float, start: np.ndarray | None) -> np.ndarray:
    """Weights ``(d + 1, C)``, intercepts last, at a minimum of the penalised mean loss; ``q`` of 0 is cross-entropy.

    With logits ``z``, probabilities ``p`` and one-hot labels ``e``, the gradient is ``dl/dz = p_y**q * (p - e)``.
    """
    rows, shape = np.arange(len(y)), (X.shape[1] + 1, n_classes)

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        W = flat.reshape(shape)
        log_p = log_softmax(X @ W[:-1] + W[-1], axis=1)
        of_label = log_p[rows, y]
        losses = -np.expm1(q * of_label) / q if q else -of_label
        slopes = np.exp(log_p)
        slopes[rows, y] -= 1.0
        slopes *= (np.exp(q * of_label) / len(y))[:, None]
        gradient = np.vstack([X.T @ slopes + l2 * W[:-1], slopes.sum(0)])
        return float(losses.mean() + 0.5 * l2 * (W[:-1] ** 2).sum()), gradient.ravel()

    first = np.zeros(shape) if start is None else start
    found = minimize(loss, first.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": _MAX_ITER})
    return found.x.reshape(shape)


class GeneralisedCrossEntropy(ClassifierMixin, BaseEstimator):
    """The strength is that with the best accuracy on held-out rows, by the labels as they come.

    The loss is not convex: what L-BFGS finds depends on its start, which is the solution of cross-entropy.
    """

    def __init__(self, q: float = 0.7, strengths: tuple[float, ...] = STRENGTHS, seed: int = 0) -> None:
        self.q = q
        self.strengths = strengths
        self.seed = seed

    def fit(self, X: Any, y: np.ndarray) -> GeneralisedCrossEntropy:
        self.classes_, encoded = np.unique(y, return_inverse=True)
        # sparse features are not centred, which would make them dense
        self.scaler_ = StandardScaler(with_mean=not issparse(X))
        X = self.scaler_.fit_transform(X)
        right = np.zeros(len(self.strengths))
        for train, held in StratifiedKFold(5, shuffle=True, random_state=self.seed).split(X, encoded):
            for place, W in enumerate(self._path(X[train], encoded[train], self.strengths)):
                right[place] += (_logits(X[held], W).argmax(1) == encoded[held]).sum()
        best = int(right.argmax())  # the strongest of equals
        self.l2_ = self.strengths[best]
        self.weights_ = self._path(X, encoded, self.strengths[: best + 1])[-1]
        return self

    def _path(self, X: Any, y: np.ndarray, strengths: tuple[float, ...]) -> list[np.ndarray]:
        """Weights for each strength; cross-entropy's are found from those of the strength before."""
        found, plain = [], None
        for l2 in strengths:
            plain = minimize_loss(X, y, len(self.classes_), l2, 0.0, plain)
            found.append(minimize_loss(X, y, len(self.classes_), l2, self.q, plain))
        return found

    def predict_proba(self, X: Any) -> np.ndarray:
        return np.exp(log_softmax(_logits(self.scaler_.transform(X), self.weights_), axis=1))


def _logits(X: Any, W: np.ndarray) -> np.ndarray:
    return X @ W[:-1] + W[-1]


#: More iterations than scikit-learn's 100, so that cleanlab's fits are not cut short.
_CLEANLAB_MAX_ITER = 1000


class WithCleanlab(ClassifierMixin, BaseEstimator):
    """``CleanLearning(LogisticRegression(C))`` on standardised features; ``tuning`` has what chooses ``C``, if anything does.

    ``quality_`` and ``issues_`` tell of the training rows, by predictions out of five folds: cleanlab's score of each label,
    and whether it counts the label as wrong.
    """

    def __init__(self, seed: int = 0, tuning: dict[str, Any] | None = None) -> None:
        self.seed = seed
        self.tuning = tuning

    def fit(self, X: Any, y: np.ndarray) -> WithCleanlab:
        from cleanlab.classification import CleanLearning  # the extra "experiments"

        self.scaler_ = StandardScaler(with_mean=not issparse(X))
        X = self.scaler_.fit_transform(X)
        self.C_ = 1.0  # scikit-learn's default
        if self.tuning is not None:
            self.C_ = float(np.ravel(LogisticRegressionCV(**self.tuning).fit(X, y).C_)[0])
        self.model_ = CleanLearning(LogisticRegression(C=self.C_, max_iter=_CLEANLAB_MAX_ITER), seed=self.seed)
        self.model_.fit(X, y)
        issues = self.model_.get_label_issues()
        self.quality_ = np.asarray(issues["label_quality"], dtype=float)
        self.issues_ = np.asarray(issues["is_label_issue"], dtype=bool)
        self.classes_ = self.model_.clf.classes_
        self.version_ = version("cleanlab")
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        return self.model_.predict_proba(self.scaler_.transform(X))


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
ABOUT = {
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
    style = looks(list(ABOUT))
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
    style = looks(list(ABOUT))
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


def report(records: list[Record], folder: Path) -> list[Path]:
    """Write ``label_noise.md``, ``.csv`` and pictures."""
    records = study.in_order(records, dataset=EXPERIMENT.datasets, noise=EXPERIMENT.noise, model=EXPERIMENT.models)
    results = Results(records, "dataset", "noise", "model")
    noises = [noise for noise in EXPERIMENT.noise if noise in results.values_of("noise")]
    models = [model for model in EXPERIMENT.models if model in results.values_of("model")]
    seeds = {record["seed"] for record in records}
    versions = ", ".join(dict.fromkeys(record["cleanlab"] for record in records if record.get("cleanlab")))

    def having(name: str) -> list[str]:
        """Models of which some run has a measurement."""
        return [m for m in models if any(r["model"] == m and r.get(name) is not None for r in records)]

    accuracy = draw_accuracy(results, noises, models, folder / "label_noise_accuracy.png")
    sections = [
        "# Training labels of which some are wrong",
        _introduction(EXPERIMENT),
        study.DISCLOSURE,
        "\n".join(f"- **{model}**: {ABOUT[model]}" for model in models),
        _missing(records, EXPERIMENT),
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
        pictures.append(draw_rates(records, with_rates, EXPERIMENT.noise, folder / "label_noise_rates.png"))
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
    return write_report(folder, "label_noise", sections, table_of_numbers(results), *pictures)


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
        f"Figures of {FLOOR} and {FORWARD} in this section are of development versions before label quality was calibrated "
        "(see the changelog): predictions had a floor then, below which rows could not be told apart. Accuracies and rates "
        "do not depend on it.",
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


SHARED = {
    "features": "as distributed",
    "splits": "stratified, a fifth to test on",
    "noise": f"symmetric; at {PAIRS:g}, class c becomes c + 1",
}
DATASETS = (*study.LIBSVM, *study.FROM_SKLEARN)
SPLITS = 10
#: Noise by its name on the command line.
NOISES = {"0": 0.0, "0.2": 0.2, "0.4": 0.4, "0.5": 0.5, "pairs": PAIRS}
#: Where labels say nothing: of two classes, half are wrong.
HOPELESS = {("breast cancer", 0.5)}
Q = 0.7
FOLDS = 5
#: Doubts in training labels take as long as five fits, so not all splits have them, and no sparse data: hours for news20.
DOUBTED_SPLITS = 5


def transition(noise: float, n_classes: int) -> np.ndarray:
    """Row ``i`` has the probabilities of the label in the table given the right label ``i``."""
    return pair_transition(n_classes, noise) if noise == PAIRS else symmetric_transition(n_classes, noise)


@dataclass(frozen=True)
class Model:
    """How a model is built from a seed, whether features are sparse, and the true matrix; and the settings of its runs."""

    make: Callable[[int, bool, np.ndarray], Any]
    settings: dict[str, Any]
    #: Of a fitted model, with its training rows: the doubt in each label, and whether the label is called wrong.
    doubts: Callable[[Any, Any, np.ndarray], tuple[np.ndarray, np.ndarray]] | None = None


def doubts_out_of_fold(estimator: Any, X: Any, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """By copies that did not see the row; a label is called wrong if that is more likely than not."""
    quality = np.asarray(estimator.label_quality(X, y, cv=FOLDS), dtype=float)
    return 1.0 - quality, quality < 0.5


def doubts_of_cleanlab(estimator: WithCleanlab, X: Any, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return 1.0 - estimator.quality_, estimator.issues_


def _make_model(kind: type[Any], doubts: Any = None, **parameters: Any) -> Model:
    return Model(lambda seed, *_: kind(**parameters, random_state=seed), make_recipe(kind(**parameters)), doubts)


def _cleanlab(tuning: dict[str, Any] | None) -> Model:
    return Model(
        lambda seed, *_: WithCleanlab(seed, tuning),
        {"estimator": "CleanLearning(LogisticRegression)", "C": 1.0 if tuning is None else {**LOGISTIC}},
        doubts_of_cleanlab,
    )


MODELS = {
    BASELINE: Model(lambda _, sparse, __: study.logistic(sparse), {"estimator": "LogisticRegressionCV", **LOGISTIC}),
    OURS: _make_model(LegendreTronClassifier, doubts_out_of_fold),
    WITHOUT: _make_model(LegendreTronClassifier, label_noise=None),
    FLOOR: _make_model(MultinomialLogisticClassifier, doubts_out_of_fold, label_noise="symmetric"),
    FORWARD: Model(
        lambda seed, _, matrix: MultinomialLogisticClassifier(label_noise=matrix, random_state=seed),
        {**make_recipe(MultinomialLogisticClassifier()), "label_noise": "the true matrix"},
        doubts_out_of_fold,
    ),
    GENERALISED: Model(
        lambda seed, *_: GeneralisedCrossEntropy(Q, STRENGTHS, seed),
        {"estimator": "GeneralisedCrossEntropy", "q": Q, "strengths": list(STRENGTHS)},
    ),
    CLEANLAB: _cleanlab(None),
    TUNED_CLEANLAB: _cleanlab({**LOGISTIC, "l1_ratios": (0,)}),
}
#: Words for several models on the command line.
GROUPS = {
    "ours": [OURS, WITHOUT, FLOOR, FORWARD],
    "others": [BASELINE, GENERALISED],
    "with-cleanlab": [CLEANLAB, TUNED_CLEANLAB],
}


def settings(model: str, dataset: str) -> dict[str, Any]:
    return {**MODELS[model].settings, **SHARED}


@functools.cache
def warm_up(model: str, sparse: bool) -> None:
    study.warm_up(MODELS[model].make(0, sparse, symmetric_transition(3, 0.1)), sparse)


@study.one_thread(settings)
def execute(batch: Batch, resources: Resources) -> Outcome:
    X, y, facts = study.load(batch.dataset, resources.data)
    return Outcome(facts, measure(batch, X, y, 0 if issparse(X) else DOUBTED_SPLITS))


def noisy_split(y: np.ndarray, noise: float, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows to train on, labels of these, of which some are wrong, and rows to test on."""
    train, test = train_test_split(np.arange(len(y)), test_size=0.2, random_state=seed, stratify=y)
    # a generator of another kind than the split's: which rows are flipped does not depend on where they are
    labels = flip_labels(y[train], transition(noise, int(y.max()) + 1), np.random.default_rng(seed))
    return train, labels, test


def measure(batch: Batch, X: Any, y: np.ndarray, doubted_splits: int) -> list[dict[str, Any]]:
    """Fit the model of a batch to four fifths of the rows, with wrong labels among them, and test it on the others."""
    model = MODELS[batch.model]
    warm_up(batch.model, issparse(X))
    runs = []
    for run in batch.runs:
        train, labels, test = noisy_split(y, run.noise, run.seed)
        wrong = labels != y[train]
        estimator = model.make(run.seed, issparse(X), transition(run.noise, int(y.max()) + 1))
        found = study.fit_and_score(estimator, X[train], labels, X[test], y[test])
        found |= {"wrong_share": float(wrong.mean()), **estimated_rate(estimator)}
        if run.seed < doubted_splits:
            found |= judge_doubts(batch.model, estimator, X[train], labels, wrong)
        if isinstance(estimator, LegendreTronClassifier):
            found |= chosen_strengths(estimator)
        if isinstance(estimator, WithCleanlab):
            found["cleanlab"] = estimator.version_
        runs.append(found)
    return runs


def estimated_rate(estimator: Any) -> dict[str, float]:
    """The share of wrong labels that a model has found, with its interval; nothing if it looks for none or was told."""
    if not isinstance(getattr(estimator, "label_noise", None), str):
        return {}
    low, high = estimator.noise_rate_interval_
    return {"rate": float(estimator.noise_rate_), "rate_low": float(low), "rate_high": float(high)}


def judge_doubts(model: str, estimator: Any, X: Any, labels: np.ndarray, wrong: np.ndarray) -> dict[str, Any]:
    """How well the doubts in training labels tell the wrong ones; nothing if the model has none or all are right."""
    doubts = MODELS[model].doubts
    if doubts is None or not wrong.any():
        return {}
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        doubt, called = doubts(estimator, X, labels)
    precision, recall, _ = precision_recall_curve(wrong, doubt)
    return {
        "doubt_seconds": time.perf_counter() - began,
        "average_precision": float(average_precision_score(wrong, doubt)),
        # of the shortest lists that hold these shares of the wrong labels: recall falls, so the last that has enough
        "precisions": [float(precision[np.flatnonzero(recall >= share - 1e-9)[-1]]) for share in RECALLS],
        "called": int(called.sum()),
        "called_precision": float(wrong[called].mean()) if called.any() else None,
        "called_recall": float(called[wrong].mean()),
        # as large as the precision if doubts are probabilities
        "called_doubt": float(doubt[called].mean()) if called.any() else None,
    }


EXPERIMENT = Experiment(
    name="label_noise",
    title="Training labels of which some are wrong",
    datasets=DATASETS,
    models=tuple(MODELS),
    settings=settings,
    execute=execute,
    report=report,
    seeds=SPLITS,
    noise=tuple(NOISES.values()),
    by_split=True,
    left_out=lambda run: (run.dataset, run.noise) in HOPELESS,
    cost=study.cost,
    find_data=study.find,
)

if __name__ == "__main__":
    study.main("label_noise", groups=GROUPS, noises=NOISES)
