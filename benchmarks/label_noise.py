"""Label noise: who still predicts well, finds the wrong ones, and knows how many there are.

    python benchmarks/label_noise.py --data DIR --out docs/results/label_noise --jobs 2

For each data set, noise and split, a fifth of the rows is to test on, with right labels. Labels of the other rows are made
wrong with some probability, the same for all models. Noise and split are seeded by the number of the split. A run is one fit
and one test, in one process with one thread. A sweep that was stopped goes on when started again; models can be run on
different machines, and their files of results put into one folder. cleanlab comes with ``pip install '.[experiments]'``.
"""

from __future__ import annotations

import itertools
import math
import statistics
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.sparse import issparse
from scipy.special import log_softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.metrics import average_precision_score
from sklearn.model_selection import StratifiedKFold, train_test_split

import study
from legendretron import LegendreTronClassifier, MultinomialLogisticClassifier
from legendretron.datasets import flip_labels, pair_transition, symmetric_transition
from legendretron.experiments import Record, Run
from legendretron.experiments.recipes import make_recipe
from legendretron.experiments.rendering import Curves, as_text, draw_curves, markdown_table
from legendretron.experiments.results import Mean, Results
from legendretron.paper.published import published
from study import BASELINE, LEVEL, LOGISTIC, MEASURES, NOT_RUN, OURS

#: Strengths tried, the strongest penalty first: ``l2 / 2 * |W|**2`` is added to the mean loss of a row.
#: A weaker one, 1e-5, was tried on six small data sets: about the same accuracy, and a worse log-loss.
STRENGTHS = (1e-1, 1e-2, 1e-3, 1e-4)
_MAX_ITER = 300


def minimize_loss(X: Any, y: np.ndarray, n_classes: int, l2: float, q: float, start: np.ndarray | None) -> np.ndarray:
    """Weights ``(d + 1, C)``, intercepts last, at a minimum of the penalized mean loss; ``q`` of 0 is cross-entropy.

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
        self.scaler_ = study.Scaler()
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


class WithCleanlab(ClassifierMixin, BaseEstimator):
    """``CleanLearning(LogisticRegression(C))`` on standardized features; ``tuning`` has what chooses ``C``, if anything does.

    ``label_quality`` and ``issues_`` tell of the training rows, by predictions out of five folds: cleanlab's score of each
    label, and whether it counts the label as wrong.
    """

    def __init__(self, seed: int = 0, tuning: dict[str, Any] | None = None) -> None:
        self.seed = seed
        self.tuning = tuning

    def fit(self, X: Any, y: np.ndarray) -> WithCleanlab:
        from cleanlab.classification import CleanLearning  # the extra "experiments"

        self.scaler_ = study.Scaler()
        X = self.scaler_.fit_transform(X)
        self.C_ = 1.0  # scikit-learn's default
        if self.tuning is not None:
            self.C_ = float(np.ravel(LogisticRegressionCV(**self.tuning).fit(X, y).C_)[0])
        # more iterations than scikit-learn's 100, so that cleanlab's fits are not cut short
        self.model_ = CleanLearning(LogisticRegression(C=self.C_, max_iter=1000), seed=self.seed).fit(X, y)
        self.issues_ = np.asarray(self.model_.get_label_issues()["is_label_issue"], dtype=bool)
        self.classes_ = self.model_.clf.classes_
        self.version_ = version("cleanlab")
        return self

    def label_quality(self, X: Any, y: np.ndarray, cv: int) -> Any:
        return self.model_.get_label_issues()["label_quality"]

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
    CLEANLAB: "`CleanLearning(LogisticRegression())` on standardized features: labels that it calls wrong are left out "
    "(Northcutt, Jiang and Chuang 2021). C = 1, scikit-learn's default.",
    TUNED_CLEANLAB: f"the same, with the C that {BASELINE} chooses.",
}

# --- the report ---


def noise_name(noise: float) -> str:
    """Such as ``20 %``, and ``30 % pairs`` for pair flips."""
    return f"{100 * noise:g} %" + (" pairs" if noise == PAIRS else "")


class Rate(NamedTuple):
    """Estimates of the share of wrong labels, against the share there was and the probability it was drawn with."""

    true: float
    estimate: float
    largest_error: float  #: of an estimate, from the share there was in the same training rows
    covered: int  #: intervals that hold the probability
    n: int

    @classmethod
    def of(cls, records: Iterable[Record]) -> Rate | None:
        """From some runs; None if no run has an estimate."""
        own = [record for record in records if record.get("rate") is not None]
        if not own:
            return None
        true, rate = (statistics.fmean(record[name] for record in own) for name in ("wrong_share", "rate"))
        largest = max(abs(record["rate"] - record["wrong_share"]) for record in own)
        covered = sum(r["rate_low"] - 1e-9 <= r["noise"] <= r["rate_high"] + 1e-9 for r in own)
        return cls(true, rate, largest, covered, len(own))


def rates_table(results: Results, cells: Iterable[tuple[Any, ...]], models: Sequence[str]) -> str:
    """Of each model: mean estimate, largest error, and intervals that hold the probability."""
    lines = []
    for cell in cells:
        rates = [Rate.of(results.records(*cell, model)) for model in models]
        if known := [rate for rate in rates if rate]:
            texts = [
                NOT_RUN if rate is None else
                f"{100 * rate.estimate:.1f}, {100 * rate.largest_error:.1f}, {rate.covered} of {rate.n}"
                for rate in rates
            ]  # fmt: skip
            lines.append([results.facts(cell[0])["label"], noise_name(cell[1]), f"{100 * known[0].true:.1f}", *texts])
    return markdown_table(["data set", "drawn with", "true share", *models], lines)


def _paper_table(results: Results, models: Sequence[str]) -> str:
    """The paper's means beside ours, in bold where met: at most one combined standard error below.

    Empty where there is nothing to compare. Data of which there is only a subset are left out.
    """
    lines, met = [], Counter()
    for cell in (cell for noise in PAPERS_NOISES for cell in study.cells_of(results, noise)):
        theirs, facts = published("libsvm").get((*cell, PAPERS)), results.facts(cell[0])
        if theirs is None or facts["source"] != "complete":
            continue
        means = {model: results.mean((*cell, model), "accuracy") for model in models}
        means = {model: mean for model, mean in means.items() if mean is not None and mean.n > 1}
        if not means:
            continue
        is_met = {model: mean.minus(theirs) >= -1.0 for model, mean in means.items()}
        met.update(is_met.items())
        texts = [
            study.mark(as_text(means[m]), "better" if is_met[m] else "") if m in means else NOT_RUN for m in models
        ]
        lines.append([facts["label"], noise_name(cell[1]), as_text(theirs), *texts])
    if not lines:
        return ""
    lines.append(["met", "", "", *(f"{met[m, True]} of {met[m, True] + met[m, False]}" for m in models)])
    return markdown_table(["data set", "wrong labels", "the paper's LegendreTron", *models], lines)


def _called_table(results: Results, noises: Sequence[float], models: Sequence[str]) -> str:
    """Precision / recall of the labels that are called wrong, mean over data sets of means over splits."""

    def text(noise: float, model: str) -> str:
        means = [
            [mean.value for cell in study.cells_of(results, noise) if (mean := results.mean((*cell, model), name))]
            for name in ("called_precision", "called_recall")
        ]
        return " / ".join(f"{statistics.fmean(values):.2f}" for values in means) if all(means) else NOT_RUN

    return markdown_table(["wrong labels", *models], [[noise_name(n), *(text(n, m) for m in models)] for n in noises])


def accuracy_curves(results: Results, places: Mapping[float, float], beside: float) -> Curves:
    """A panel for each data set: accuracy by symmetric noise as a line, and by pair flips beside it."""
    curves: dict[str, dict[str, list[tuple[float, Mean]]]] = {}
    for dataset, model in itertools.product(results.values_of("dataset"), results.values_of("model")):
        points = [(place, results.mean((dataset, noise, model), "accuracy")) for noise, place in places.items()]
        points += [(beside, Mean(math.nan, math.nan, 1)), (beside, results.mean((dataset, PAIRS, model), "accuracy"))]
        curves.setdefault(dataset, {})[model] = [(place, mean) for place, mean in points if mean]
    return curves


def pictures(results: Results, folder: Path) -> list[Path]:
    noises = results.values_of("noise")
    places = {noise: 100 * noise for noise in sorted(noises) if noise != PAIRS}
    beside = max(places.values(), default=0.0) + 12.0
    curves = accuracy_curves(results, places, beside)
    ticks = {place: f"{place:g}" for place in places.values()} | ({beside: "pairs"} if PAIRS in noises else {})
    axes = ("wrong training labels in %", "test accuracy in %")
    return [draw_curves(curves, folder / "label_noise_accuracy.png", axes, ticks)]


def rows(results: Results) -> list[dict[str, Any]]:
    """Rows of the CSV file, which have what was found of wrong labels, too."""

    def more(cell: tuple[Any, ...], own: list[Record]) -> dict[str, Any]:
        found: dict[str, Any] = {"wrong_share": statistics.fmean(record["wrong_share"] for record in own)}
        if rate := Rate.of(own):
            found |= {"rate": rate.estimate, "rate: largest error": rate.largest_error}
            found |= {"rate: intervals": rate.n, "rate: covered": rate.covered}
        for name in ("average_precision", "called_precision", "called_recall", "called_doubt"):
            if mean := results.mean(cell, name):
                found[name] = mean
        return found

    return study.numbers(results, SCORES, {BASELINE: ""}, study.TIMES[:2], more)


def sections(records: list[Record], results: Results) -> list[str]:
    """The report."""
    noises = [noise for noise in EXPERIMENT.noise if noise in results.values_of("noise")]
    models = [model for model in EXPERIMENT.models if model in results.values_of("model")]
    versions = ", ".join(dict.fromkeys(record["cleanlab"] for record in records if record.get("cleanlab")))

    def having(name: str) -> list[str]:
        """Models of which some run has a measurement."""
        return [m for m in models if any(r["model"] == m and r.get(name) is not None for r in records)]

    parts = [
        _introduction(),
        study.EARLIER,
        study.DISCLOSURE,
        "\n".join(f"- **{model}**: {ABOUT[model]}" for model in models),
        "## Better and worse",
        f"In how many cells, each a data set and a noise, a model is significantly better / worse than {BASELINE}.",
    ]
    groups = {**{noise_name(noise): study.cells_of(results, noise) for noise in noises}, "all": study.cells_of(results)}
    others = [model for model in models if model != BASELINE]
    for name in SCORES:
        lines = [
            [title, *(study.counts(results, cells, model, BASELINE, name) for model in others)]
            for title, cells in groups.items()
        ]
        parts += [f"{MEASURES[name].title.capitalize()}:", markdown_table(["wrong labels", *others], lines)]
    parts += [
        "![Accuracy by noise, a panel for each data set](label_noise_accuracy.png)",
        "Test accuracy by wrong training labels, mean over the splits.",
    ]
    for noise in noises:
        parts.append(f"## Wrong labels: {noise_name(noise)}" if noise else "## No wrong labels")
        for name, title in (("accuracy", "Accuracy in %:"), ("log_loss", "Log-loss:")):
            cells = study.cells_of(results, noise)
            parts += [title, study.scores_table(results, cells, models, [name], BASELINE, errors=True)]
    if with_rates := having("rate"):
        parts += [
            "## How many are wrong",
            "The estimated share of wrong labels, `noise_rate_`, in %: its mean over the splits, the largest error of an "
            "estimate from the true share of the same rows, in percentage points, and how many intervals hold the "
            "probability with which labels were made wrong.",
            rates_table(results, study.cells_of(results), with_rates),
        ]
    if with_doubts := having("average_precision"):
        parts += _doubts_section(results, [noise for noise in noises if noise], with_doubts)
    if paper := _paper_table(results, models):
        parts += [
            "## The paper's means",
            "The paper prints mean accuracies of LegendreTron over 20 splits with wrong training labels; these were not "
            "run again here. Its splits are others and not stratified. Bold: met, which is at most one combined standard "
            "error below. Data of which only a subset is at hand are left out.",
            paper,
        ]
    parts += [
        "## Times",
        "Median seconds of a fit without wrong labels, with all that the model does to choose its settings. Doubts "
        "in labels are not counted.",
        study.times_table(results, study.cells_of(results, 0.0), models),
        study.unconverged(records, models),
        f"Splits and their noise are seeded by the number of the split.{f' cleanlab {versions}.' if versions else ''}",
    ]
    return parts


def _doubts_section(results: Results, noises: Sequence[float], models: Sequence[str]) -> list[str]:
    reference = CLEANLAB if CLEANLAB in models else models[0]
    sections = [
        "## Which are wrong",
        f"The {MEASURES['average_precision'].title} of training labels, those first that are doubted most, against which "
        "labels were really made wrong. Labels are judged by models that did not see the row. Bold: better than "
        f"{reference} at 99 % in a paired t-test; italic: worse.",
        f"Figures of {FLOOR} and {FORWARD} in this section are of development versions before label quality was calibrated "
        "(see the changelog): predictions had a floor then, below which rows could not be told apart. On small tables, "
        f"accuracies and rates of {FLOOR} by later versions differ a little, too.",
    ]
    for noise in noises:
        cells = study.cells_of(results, noise)
        table = study.scores_table(results, cells, models, ["average_precision"], reference, errors=True)
        sections += [f"Wrong labels: {noise_name(noise)}", table]
    return [
        *sections,
        "Precision / recall of the labels that a method calls wrong, mean over the data sets. Ours calls a label "
        "wrong if that is more likely than not, cleanlab by `find_label_issues`.",
        _called_table(results, noises, models),
    ]


def _introduction() -> str:
    skipped = "; ".join(f"{dataset} at {noise_name(noise)}" for dataset, noise in HOPELESS)
    return (
        "Models are trained with labels of which some are wrong, and tested with right ones. Labels are made wrong "
        "with some probability: symmetric noise draws one of the other classes, and pairs turns each class into the "
        "next, the last into the first. All models have the same splits, stratified with 80 % of the rows to train on, "
        "and the same wrong labels. Features are as distributed, and each model standardizes them on its training rows. "
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
NOISES = (0.0, 0.2, 0.4, 0.5, PAIRS)
#: Where labels say nothing: of two classes, half are wrong.
HOPELESS = [("breast cancer", 0.5)]
Q = 0.7
FOLDS = 5
#: Doubts in training labels take as long as five fits, so not all splits have them, and no sparse data: hours for news20.
DOUBTED_SPLITS = 5


def transition(noise: float, n_classes: int) -> np.ndarray:
    """Row ``i`` has the probabilities of the label in the table given the right label ``i``."""
    return pair_transition(n_classes, noise) if noise == PAIRS else symmetric_transition(n_classes, noise)


#: How a model is built from a seed and the true matrix, and the settings of its runs.
Model = tuple[Callable[[int, np.ndarray], Any], dict[str, Any]]


def _ours(kind: type[Any], **parameters: Any) -> Model:
    return lambda seed, _: kind(**parameters, random_state=seed), make_recipe(kind(**parameters))


def _cleanlab(tuning: dict[str, Any] | None, C: Any) -> Model:
    return lambda seed, _: WithCleanlab(seed, tuning), {"estimator": "CleanLearning(LogisticRegression)", "C": C}


MODELS: dict[str, Model] = {
    BASELINE: (lambda *_: study.logistic(), {"estimator": "LogisticRegressionCV", **LOGISTIC}),
    OURS: _ours(LegendreTronClassifier),
    WITHOUT: _ours(LegendreTronClassifier, label_noise=None),
    FLOOR: _ours(MultinomialLogisticClassifier, label_noise="symmetric"),
    FORWARD: (
        lambda seed, matrix: MultinomialLogisticClassifier(label_noise=matrix, random_state=seed),
        {**make_recipe(MultinomialLogisticClassifier()), "label_noise": "the true matrix"},
    ),
    GENERALISED: (
        lambda seed, _: GeneralisedCrossEntropy(Q, STRENGTHS, seed),
        {"estimator": "GeneralisedCrossEntropy", "q": Q, "strengths": list(STRENGTHS)},
    ),
    CLEANLAB: _cleanlab(None, 1.0),
    TUNED_CLEANLAB: _cleanlab({**LOGISTIC, "l1_ratios": (0,)}, LOGISTIC),
}


def settings(model: str, dataset: str) -> dict[str, Any]:
    return {**MODELS[model][1], **SHARED}


def noisy_split(y: np.ndarray, noise: float, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows to train on, labels of these, of which some are wrong, and rows to test on."""
    train, test = train_test_split(np.arange(len(y)), test_size=0.2, random_state=seed, stratify=y)
    # a generator of another kind than the split's: which rows are flipped does not depend on where they are
    labels = flip_labels(y[train], transition(noise, int(y.max()) + 1), np.random.default_rng(seed))
    return train, labels, test


def measure(run: Run, X: Any, y: np.ndarray) -> dict[str, Any]:
    """Measure a run, and judge doubts in training labels where there is time for it."""
    return fit_noisy(run, X, y, doubted=run.seed < DOUBTED_SPLITS and not issparse(X))


def fit_noisy(run: Run, X: Any, y: np.ndarray, *, doubted: bool = False) -> dict[str, Any]:
    """Fit the model of a run to four fifths of the rows, with wrong labels among them, and test it on the others."""
    train, labels, test = noisy_split(y, run.noise, run.seed)
    wrong = labels != y[train]
    estimator = MODELS[run.model][0](run.seed, transition(run.noise, int(y.max()) + 1))
    found = study.fit_and_score(estimator, X[train], labels, X[test], y[test])
    found |= {"wrong_share": float(wrong.mean()), **estimated_rate(estimator)}
    if doubted:
        found |= judge_doubts(run.model, estimator, X[train], labels, wrong)
    if isinstance(estimator, LegendreTronClassifier):
        found |= study.chosen_strengths(estimator)
    if isinstance(estimator, WithCleanlab):
        found["cleanlab"] = estimator.version_
    return found


def estimated_rate(estimator: Any) -> dict[str, float]:
    """The share of wrong labels that a model has found, with its interval; nothing if it looks for none or was told."""
    if not isinstance(getattr(estimator, "label_noise", None), str):
        return {}
    low, high = estimator.noise_rate_interval_
    return {"rate": float(estimator.noise_rate_), "rate_low": float(low), "rate_high": float(high)}


def judge_doubts(model: str, estimator: Any, X: Any, labels: np.ndarray, wrong: np.ndarray) -> dict[str, Any]:
    """How well the doubts in training labels tell the wrong ones; nothing if the model has none or all are right.

    Labels are judged by models that did not see the row. Ours call a label wrong if that is more likely than not.
    """
    if model not in (OURS, FLOOR, FORWARD, CLEANLAB, TUNED_CLEANLAB) or not wrong.any():
        return {}
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        quality = np.asarray(estimator.label_quality(X, labels, cv=FOLDS), dtype=float)
    called = estimator.issues_ if isinstance(estimator, WithCleanlab) else quality < 0.5
    return {
        "doubt_seconds": time.perf_counter() - began,
        "average_precision": float(average_precision_score(wrong, 1.0 - quality)),
        "called": int(called.sum()),
        "called_precision": float(wrong[called].mean()) if called.any() else None,
        "called_recall": float(called[wrong].mean()),
        # as large as the precision if doubts are probabilities
        "called_doubt": float((1.0 - quality[called]).mean()) if called.any() else None,
    }


EXPERIMENT = study.declare(
    "label_noise",
    "Label noise",
    measure,
    sections,
    rows,
    pictures=pictures,
    datasets=DATASETS,
    models=tuple(MODELS),
    settings=settings,
    seeds=SPLITS,
    noise=NOISES,
    left_out=lambda run: (run.dataset, run.noise) in HOPELESS,
    cost=study.cost,
    find_data=study.find,
)

if __name__ == "__main__":
    study.main("label_noise")
