"""The paper's figure of test accuracy against training set size, on MNIST, Kuzushiji-MNIST and Fashion-MNIST."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import logsumexp
from sklearn.multiclass import OneVsRestClassifier

from legendretron.datasets import DATASETS, load_images
from legendretron.estimators import LegendreTronClassifier, MultinomialLogisticClassifier
from legendretron.experiments.experiment import Batch, Experiment, Outcome, Record, Resources, Run
from legendretron.experiments.recipes import fit_recipe, make_estimator, make_recipe
from legendretron.experiments.rendering import as_text, described, draw_curves, markdown_table, report_of
from legendretron.experiments.results import Mean, Results, add_holm, verdict
from legendretron.paper.data import facts_of, find_data, pixel_features, training_images
from legendretron.trons import ISGPLinkgisticClassifier

LEARNED, PLAIN = "LegendreTron", "logistic regression"
ISGP, TUNED = "ISGP-Linkgistic", "logistic regression, tuned"
#: Names short enough for heads of columns.
SHORT = {LEARNED: "LT", PLAIN: "LR", ISGP: "ISGP", TUNED: "LR tuned"}
#: What is tested: the first model against the second.
PAIRS = ((LEARNED, PLAIN), (LEARNED, TUNED), (LEARNED, ISGP), (PLAIN, ISGP))
LEVEL = 0.01


def comparison(records: Sequence[Record]) -> list[dict[str, Any]]:
    """One row for each data set and size: means of all models, differences of pairs of models, and their tests.

    Differences are those of the same seed, which has the same training images for all models. Holm's correction is over
    all tests of the report.
    """
    results = Results(records, "dataset", "size", "model")
    datasets = results.values_of("dataset")
    rows: list[dict[str, Any]] = []
    for dataset, size in sorted(
        {cell[:2] for cell in results.cells}, key=lambda cell: (datasets.index(cell[0]), cell[1])
    ):
        data = results.facts(dataset)
        row: dict[str, Any] = {"dataset": dataset, **{name: data[name] for name in ("label", "source", "rows")}}
        row["size"] = size
        for model in SHORT:
            for name in ("accuracy", "log_loss", "training_seconds"):
                if mean := results.mean((dataset, size, model), name):
                    row |= {f"{model}: seeds": mean.n, f"{model}: {name}": mean}
        for a, b in PAIRS:
            if found := results.compare((dataset, size, a), (dataset, size, b), "accuracy"):
                pair = f"{a} minus {b}"
                row |= {pair: found.difference, f"{pair}: seeds": found.difference.n}
                row |= {f"{pair}: p": found.p, f"{pair}: Welch": found.welch}
        rows.append(row)
    for name in ("p", "Welch"):
        add_holm(rows, [f"{a} minus {b}: {name}" for a, b in PAIRS])
    return rows


def _difference(row: dict[str, Any], a: str, b: str) -> str:
    """A difference, in bold where it is significant, in brackets where it is so only before the correction.

    With a W where Welch's test says so, with one in brackets where it does only before the correction.
    """
    pair = f"{a} minus {b}"
    if pair not in row:
        return ""
    text = as_text(row[pair], sign="+")
    if row[f"{pair}: p, Holm"] < LEVEL:
        text = f"**{text}**"
    elif row[f"{pair}: p"] < LEVEL:
        text = f"({text})"
    if row[f"{pair}: Welch, Holm"] < LEVEL:
        return f"{text} W"
    return f"{text} (W)" if row[f"{pair}: Welch"] < LEVEL else text


def _count_verdicts(rows: list[dict[str, Any]], a: str, b: str) -> str:
    """In how many cells the first model is better than the second, and worse, by the paired test with its correction."""
    pair = f"{a} minus {b}"
    said = [
        verdict(row[pair].value, row[f"{pair}: p"], row[f"{pair}: p, Holm"], level=LEVEL) for row in rows if pair in row
    ]
    words = [word for word in said if word]
    better, worse = words.count("better"), words.count("worse")
    return f"{SHORT[a]} is better than {SHORT[b]} in {better} and worse in {worse} of {len(words)}"


def _not_there(rows: list[dict[str, Any]]) -> list[str]:
    sizes = sorted({row["size"] for row in rows})
    labels = {row["label"]: row["rows"] for row in rows}
    return [
        f"{label}: no runs on {', '.join(f'{size:,}' for size in sizes if size > there)} images, which are not there."
        for label, there in labels.items()
        if sizes[-1] > there
    ]


def markdown(rows: list[dict[str, Any]], records: Sequence[Record]) -> list[str]:
    """The tables in Markdown, with explanations."""
    models = [model for model in SHORT if any(f"{model}: accuracy" in row for row in rows)]
    pairs = [pair for pair in PAIRS if any(f"{pair[0]} minus {pair[1]}" in row for row in rows)]

    def table(head: list[str], cells: Any) -> str:
        lines = [[row["label"], f"{row['size']:,}", *cells(row)] for row in rows]
        return markdown_table(["data set", "training images", *head], lines)

    def means(name: str, digits: int) -> str:
        return table([SHORT[m] for m in models], lambda row: [as_text(row.get(f"{m}: {name}"), digits) for m in models])

    def seconds(row: dict[str, Any]) -> list[str]:
        found = [row.get(f"{m}: training_seconds") for m in models]
        return ["" if mean is None else f"{mean.value:,.1f}" for mean in found]

    return [
        "# Test accuracy against training set size",
        "Test accuracy in % on all test images, mean ± standard error over seeds. LT is LegendreTron and LR multinomial "
        "logistic regression, both by the paper's recipe for these data sets; ISGP is ISGP-Linkgistic, ten models of one "
        "class against the rest whose probabilities are divided by their sum; LR tuned is logistic regression near its "
        "minimum, with a penalty chosen by the log-loss on a fifth of the training images. A seed draws its training images "
        "uniformly without replacement, the same for all models, and smaller sets are parts of larger ones: at all images "
        "that there are, seeds differ only in start and order of training. Pixels are centered by their means and divided by "
        "their mean deviation, both of all training images that are there.",
        means("accuracy", 2),
        *_not_there(rows),
        "## Differences",
        "In points, of the same seeds. Bold: significant at 99 % in a paired t-test with Holm's correction over all tests "
        "of this report; in brackets: only without the correction. W: significant at 99 % in Welch's t-test too, which takes "
        "the runs as independent, with the same correction; (W): only without it.",
        table([f"{SHORT[a]} - {SHORT[b]}" for a, b in pairs], lambda row: [_difference(row, a, b) for a, b in pairs]),
        "## What the paper says",
        "The paper prints this figure without numbers. Its text says that LT and LR outperform ISGP on all three data sets, "
        "and that LT matches or outperforms LR on all three, most notably on Kuzushiji-MNIST. By the paired tests with their "
        f"correction, over data sets and sizes: {'; '.join(_count_verdicts(rows, a, b) for a, b in pairs)}.",
        "## Log-loss",
        means("log_loss", 4),
        "## Seconds",
        "Of training, for one run; runs of LT, LR and LR tuned are trained side by side, and share the time equally.",
        table([SHORT[m] for m in models], seconds),
        described(records),
    ]


def picture(rows: list[dict[str, Any]], path: Path) -> Path:
    """Mean accuracies against the number of training images, a panel for every data set."""
    curves: dict[str, dict[str, list[tuple[float, Mean]]]] = {}
    for row in rows:
        for model in SHORT:
            if mean := row.get(f"{model}: accuracy"):
                curves.setdefault(row["label"], {}).setdefault(model, []).append((row["size"], mean))
    ticks = {size: f"{size:,}" for size in sorted({row["size"] for row in rows})}
    return draw_curves(curves, path, ("training images", "test accuracy (%)"), ticks, xscale="log")


#: Strengths of the penalty that the tuned model chooses from, and the share of the training images held out for it.
TUNING = {"strengths": [1e-4, 1e-3, 1e-2, 1e-1, 1.0], "share": 0.2}
#: Settings that all models share, so that other features or subsets have other keys.
SHARED = {
    "features": "(x - pixel mean) / mean(pixel deviations), of all training images that are there",
    "subset": "uniform, nested",
}


def recipe(model: str, dataset: str) -> dict[str, Any]:
    """Settings of a model: the paper's, or ours for the one-vs-rest and the tuned one."""
    if model == LEARNED:
        return {**make_recipe(LegendreTronClassifier.from_paper("mnist")), **SHARED}
    if model == PLAIN:
        return {**make_recipe(MultinomialLogisticClassifier.from_paper("mnist")), **SHARED}
    if model == ISGP:
        binary = make_recipe(ISGPLinkgisticClassifier(amplitude=1.0, alpha=1e-3, max_iter=20, standardize=False))
        return {**binary, "multiclass": "one against rest", **SHARED}
    # a learning rate that decays to zero ends near the minimum, and the whole grid is one training
    logistic = MultinomialLogisticClassifier(
        alpha=1e-4,
        solver="adam",
        learning_rate=0.005,
        max_epochs=100,
        batch_size=128,
        standardize=False,
        dtype="float64",
    )
    return {**make_recipe(logistic), "tuning": TUNING, **SHARED}


def subset_rows(n_rows: int, size: int, seed: int) -> np.ndarray:
    """Rows to train on: the first of a random order, so that a seed's smaller sets are subsets of its larger ones."""
    if size > n_rows:
        raise ValueError(f"size must be at most the number of training images, {n_rows:,}, got {size:,}.")
    return np.random.default_rng(seed).permutation(n_rows)[:size]


def execute_sizes(batch: Batch, resources: Resources) -> Outcome:
    """Draw each run's training images, train, and test on all test images."""
    (size,) = {run.size for run in batch.runs}
    assert size is not None
    images = load_images(batch.dataset, resources.data)
    X = pixel_features(batch.dataset, images)
    y = np.concatenate([images.train_labels, images.test_labels])
    n_rows = len(images.train_labels)
    seeds = [run.seed for run in batch.runs]
    train = np.stack([subset_rows(n_rows, size, seed) for seed in seeds])
    test = np.arange(n_rows, len(y))
    if "multiclass" in batch.settings:
        device = "cpu"
        pairs = zip(train, seeds, strict=True)
        runs = [_one_against_rest(batch.settings, X, y, rows, test, seed) for rows, seed in pairs]
    else:
        device = resources.device
        runs = _side_by_side(batch.settings, device, X, y, train, test, seeds)
    for run, rows in zip(runs, train, strict=True):
        if not math.isfinite(run["log_loss"]):
            raise ArithmeticError(f"log-loss of {batch.model} on {batch.dataset} is {run['log_loss']}.")
        run["train_counts"] = np.bincount(y[rows], minlength=DATASETS[batch.dataset].classes).tolist()
    return Outcome({**facts_of(batch.dataset, images), "train_rows": size, "fitted_on": device}, runs)


def _side_by_side(
    settings: Any, device: str, X: np.ndarray, y: np.ndarray, train: np.ndarray, test: np.ndarray, seeds: list[int]
) -> list[dict[str, Any]]:
    began = time.perf_counter()
    fitted, further = fit_recipe(settings, device, X, y, train, seeds)
    seconds = (time.perf_counter() - began) / len(seeds)
    log_loss, accuracy = fitted.evaluate(np.tile(test, (len(seeds), 1)))
    return [{**_round_scores(accuracy[r], log_loss[r], seconds), **further[r]} for r in range(len(seeds))]


def _one_against_rest(
    settings: Any, X: np.ndarray, y: np.ndarray, train: np.ndarray, test: np.ndarray, seed: int
) -> dict[str, Any]:
    """One binary model per class; the probabilities of the classes are theirs, normalized to sum to one."""
    if len(np.unique(y[train])) < len(np.unique(y)):
        raise ValueError(f"the {len(train)} training images drawn with seed {seed} miss a class; use a larger size.")
    began = time.perf_counter()
    fitted = OneVsRestClassifier(make_estimator(settings, seed=seed)).fit(X[train], y[train])
    seconds = time.perf_counter() - began
    log_p = -np.logaddexp(0.0, -fitted.decision_function(X[test]))
    log_p -= logsumexp(log_p, axis=1, keepdims=True)
    right = log_p.argmax(1) == y[test]
    return _round_scores(right.mean(), -log_p[np.arange(len(test)), y[test]].mean(), seconds)


def _round_scores(accuracy: float, log_loss: float, seconds: float) -> dict[str, Any]:
    return {
        "accuracy": round(100.0 * float(accuracy), 6),
        "log_loss": round(float(log_loss), 6),
        "training_seconds": round(seconds, 3),
    }


def bytes_per_run(model: str, dataset: str) -> float:
    """Memory of a run: rows gathered for evaluation, which the tuned model needs for each strength."""
    info = DATASETS[dataset]
    rows = float(info.test_rows)
    if model == TUNED:
        rows = len(TUNING["strengths"]) * TUNING["share"] * info.rows  # type: ignore[arg-type,operator]
    return 8.0 * info.features * rows


def cost(run: Run) -> float:
    """Milliseconds on one processor, roughly."""
    assert run.size is not None
    return {LEARNED: 2.8, PLAIN: 1.3, TUNED: 4.0, ISGP: 9.0}[run.model] * (run.size + 1000)


FIGURE_TRAINING_SIZE = Experiment(
    name="figure_training_size",
    title="Test accuracy against training set size on MNIST, Kuzushiji-MNIST and Fashion-MNIST",
    datasets=("mnist", "kmnist", "fashion-mnist"),
    models=(LEARNED, PLAIN, ISGP, TUNED),
    settings=recipe,
    execute=execute_sizes,
    report=report_of("figure_training_size", comparison, markdown, picture),
    seeds=5,
    # 7,000, since that many images of Kuzushiji-MNIST are available where the rest is missing
    sizes=(500, 2000, 7000, 20000, 60000),
    side_by_side=(LEARNED, PLAIN, TUNED),
    bytes_per_run=bytes_per_run,
    cost=cost,
    find_data=find_data,
    available_rows=training_images,
)
