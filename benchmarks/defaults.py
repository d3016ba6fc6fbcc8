"""LegendreTronClassifier() as it comes, against what one would use instead.

    python benchmarks/defaults.py --data DIR --out docs/results/defaults --jobs 2

For each data set and seed, 80 % of the rows are to train on and 20 % to test on. Features are as distributed; each model
standardizes on its training rows. A run is one fit and one test, in one process with one thread. Runs on the same split
follow each other, so that the ratio of two times is of the same minute. A sweep that was stopped goes on when started again.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline

import study
from legendretron import LegendreTronClassifier
from legendretron.experiments import Record, Run
from legendretron.experiments.recipes import make_recipe
from legendretron.experiments.rendering import markdown_table
from legendretron.experiments.results import Results
from study import BASELINE, MEASURES, NOT_RUN, OURS

SHARED = {"features": "as distributed", "splits": "stratified, a fifth to test on"}
#: Share of the training rows on which a temperature is fitted.
CALIBRATION_SHARE = 0.2
#: Variants of the default on dense data: the parameters that are not the default's, and constants of the library.
ABLATION: dict[str, tuple[dict[str, Any], dict[str, float]]] = {
    "penalty not centred": ({"link_params": {"init": "identity"}}, {}),
    "alpha = 0.1": ({"alpha": 0.1}, {}),
    "link_alpha = 1e-4, always a link": ({"link_alpha": 1e-4}, {}),
    "link if better at all": ({}, {"legendretron.tuning.tune._MUST_GAIN": 0.0}),
    "no doubt in held-out labels": ({}, {"legendretron.tuning.scores.DOUBTED_ROWS": 0.0}),
    "hidden = 2": ({"link_params": {"hidden": 2}}, {}),
    "hidden = 16": ({"link_params": {"hidden": 16}}, {}),
}
SEEDS, ABLATION_SEEDS = 20, 5
#: Fewer seeds where a fit takes long.
FEWER_SEEDS = {"news20": 5}
DATASETS = (*study.LIBSVM, *study.FROM_SKLEARN)
SCORES = ("accuracy", "log_loss", "brier", "calibration_error")


class WithTemperature(ClassifierMixin, BaseEstimator):
    """The baseline fitted to four fifths of the rows, and a temperature fitted to the others."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def fit(self, X: Any, y: np.ndarray) -> WithTemperature:
        parts = train_test_split(X, y, test_size=CALIBRATION_SHARE, random_state=self.seed, stratify=y)
        X_fit, X_held, y_fit, y_held = parts
        fitted = FrozenEstimator(study.logistic().fit(X_fit, y_fit))
        rows = np.arange(len(y_held))
        # one part with all rows: nothing is fitted but the temperature, and a rare class may have fewer rows than folds
        self.model_ = CalibratedClassifierCV(fitted, method="temperature", cv=[(rows, rows)]).fit(X_held, y_held)
        self.classes_ = self.model_.classes_
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        return self.model_.predict_proba(X)


#: How a model is built from a seed, and the settings that identify its runs.
Model = tuple[Callable[[int], Any], dict[str, Any]]


def _ours(parameters: dict[str, Any], constants: dict[str, float]) -> Model:
    settings = make_recipe(LegendreTronClassifier(**parameters)) | ({"constants": constants} if constants else {})
    return lambda seed: LegendreTronClassifier(**parameters, random_state=seed), settings


_BASE = {"estimator": "LogisticRegressionCV", **study.LOGISTIC}
BOOSTING = "HistGradientBoosting"
MAIN: dict[str, Model] = {
    BASELINE: (study.logistic, _BASE),
    OURS: _ours({}, {}),
    "LogisticRegressionCV + temperature": (WithTemperature, {**_BASE, "temperature_share": CALIBRATION_SHARE}),
    "MLPClassifier": (
        lambda seed: make_pipeline(study.Scaler(), MLPClassifier(early_stopping=True, random_state=seed)),
        {"estimator": "MLPClassifier", "early_stopping": True},
    ),
    BOOSTING: (
        lambda seed: HistGradientBoostingClassifier(random_state=seed),
        {"estimator": "HistGradientBoostingClassifier"},
    ),
}
MODELS = {**MAIN, **{name: _ours(*variant) for name, variant in ABLATION.items()}}


def settings(model: str, dataset: str) -> dict[str, Any]:
    return {**MODELS[model][1], **SHARED}


def left_out(run: Run) -> bool:
    """Whether there are fewer seeds; boosting and the ablation are not run on sparse features."""
    most = ABLATION_SEEDS if run.model in ABLATION else FEWER_SEEDS.get(run.dataset, SEEDS)
    return run.seed >= most or (study.is_sparse(run.dataset) and run.model in (BOOSTING, *ABLATION))


def measure(run: Run, X: Any, y: np.ndarray) -> dict[str, Any]:
    """Fit the model of a run to four fifths of the rows, and test it on the others."""
    train, test = train_test_split(np.arange(len(y)), test_size=0.2, random_state=run.seed, stratify=y)
    estimator = MODELS[run.model][0](run.seed)
    _, constants = ABLATION.get(run.model, ({}, {}))
    with ExitStack() as changed:
        for name, value in constants.items():
            changed.enter_context(patch(name, value))
        found = study.fit_and_score(estimator, X[train], y[train], X[test], y[test])
    return found | (study.chosen_strengths(estimator) if isinstance(estimator, LegendreTronClassifier) else {})


# --- the report ---


def is_logistic(record: Record) -> bool:
    """Whether the fitted model is logistic regression: an infinite penalty on the link, or nothing in it to learn."""
    return record.get("link_alpha") == "inf" or record.get("link") == "SoftmaxLink"


def chosen(own: Sequence[Record]) -> dict[str, Any]:
    """In how many runs logistic regression was chosen, and the medians of finite strengths; nothing of other models."""
    if not any("link" in record for record in own):
        return {}
    found: dict[str, Any] = {"logistic": sum(map(is_logistic, own))}
    for name in ("alpha", "link_alpha"):
        known = [record[name] for record in own if isinstance(record.get(name), (int, float))]
        found[name] = statistics.median(known) if known else ""
    return found


#: The promises: how far above the mean log-loss of the baseline ours may be, and how many times its fit may take.
EXCESS, MOST_TIMES, MEAN_TIMES = 0.02, 10.0, 5.0


def promises(results: Results, datasets: Sequence[str]) -> list[str]:
    """What the defaults promise against the baseline, a line for each, with what breaks it."""
    cells = [(dataset, name) for dataset in datasets for name in ("log_loss", "accuracy")]
    found = {cell: one for cell in cells if (one := study.against(results, cell[:1], OURS, BASELINE, cell[1]))}
    words = {cell: study.verdict(results, cell[:1], OURS, BASELINE, cell[1]) for cell in found}
    losses = {dataset: one for (dataset, name), one in found.items() if name == "log_loss"}
    excess = {dataset: one.difference.value / one.other.value for dataset, one in losses.items()}
    better = [dataset for dataset in losses if words[dataset, "log_loss"] == "better"]
    times = {dataset: ratio for dataset in datasets if (ratio := study.time_ratio(results, (dataset,))) is not None}
    mean = statistics.geometric_mean(times.values()) if times else math.nan

    def figures(cell: tuple[str, str]) -> str:
        one, what = found[cell], MEASURES[cell[1]].title
        return f"{what} on {cell[0]} is {one.mean.value:.4g} against {one.other.value:.4g}, p = {one.p:.2g}"

    def with_excess(dataset: str) -> str:
        one = losses[dataset]
        return f"{100 * excess[dataset]:+.1f} % on {dataset} ({one.mean.value:.4g} against {one.other.value:.4g})"

    def is_far(dataset: str) -> bool:
        gap, other = losses[dataset].difference, losses[dataset].other
        return gap.value > max(EXCESS * other.value, np.nan_to_num(gap.error))

    tested, said = [word for word in words.values() if word], list(words.values())
    listed = ", ".join(f"{dataset} ({100 * excess[dataset]:+.0f} %)" for dataset in better)
    most = max(times, key=times.__getitem__, default="")
    furthest = max(excess, key=excess.__getitem__, default="")
    lines = [
        ("Log-loss and accuracy significantly worse on no data set", tested,
         [figures(cell) for cell, word in words.items() if word == "worse"],
         f"Of {len(tested)} cells, {said.count('better')} are better and {said.count('=')} show no difference."),
        (f"Mean log-loss at most {100 * EXCESS:g} %, or one paired standard error, above on every data set", losses,
         [with_excess(dataset) for dataset in losses if is_far(dataset)],
         f"The largest difference is {furthest and with_excess(furthest)}."),
        ("Log-loss significantly better on some data sets", tested,
         [] if better else [f"on none of {len(losses)}"], f"On {len(better)} of {len(losses)}: {listed}."),
        (f"A fit takes at most {MOST_TIMES:g} times as long on every data set", times,
         [f"{ratio:.1f} times on {dataset}" for dataset, ratio in times.items() if ratio > MOST_TIMES],
         f"The most is {times.get(most, math.nan):.1f} times, on {most}."),
        (f"A fit takes at most {MEAN_TIMES:g} times as long in the geometric mean over the data sets", times,
         [f"{mean:.1f} times"] if mean > MEAN_TIMES else [], f"It takes {mean:.1f} times as long."),
    ]  # fmt: skip
    return [
        f"- {text}: not tested, too few splits."
        if not known
        else f"- {text}: **does not hold: {'; '.join(broken)}.**"
        if broken
        else f"- {text}: holds. {holds}"
        for text, known, broken, holds in lines
    ]


def sections(records: list[Record], results: Results) -> list[str]:
    """The report."""
    cells, run = study.cells_of(results), results.values_of("model")
    main, variants = ([model for model in group if model in run] for group in (MAIN, ABLATION))
    strengths = []
    for (dataset,) in cells:
        if own := results.records(dataset, OURS):
            logistic, *medians = chosen(own).values()
            shown = [f"{median:.2g}" if median else NOT_RUN for median in medians]
            strengths.append([results.facts(dataset)["label"], f"{logistic} of {len(own)}", *shown])
    return [
        _INTRODUCTION,
        study.EARLIER,
        study.DISCLOSURE,
        study.scores_table(results, cells, main, ["accuracy", "log_loss"], BASELINE),
        study.unconverged(records, main),
        "## What was promised, and what holds",
        "\n".join(promises(results, results.values_of("dataset"))),
        "## Probabilities",
        "Brier score / expected calibration error. The Brier score is the mean over the rows of the sum over all classes "
        "of squared differences; the expected calibration error is that of the predicted class, in 15 bins of equal "
        "width.",
        study.scores_table(results, cells, main, ["brier", "calibration_error"], BASELINE),
        "## Times",
        "Median seconds of a fit, and the median over the splits of the ratio of both times on the same split. Before a "
        "process times a model for the first time, it fits the model to a few made-up rows, so that imports and "
        "compilation are not counted.",
        study.times_table(results, cells, main),
        "Median seconds of processor time of a fit, which do not count waiting for a core that others use:",
        study.times_table(results, cells, main, "fit_cpu_seconds"),
        "Median seconds to predict the probabilities of the test rows:",
        study.times_table(results, cells, main, "predict_seconds"),
        "## What the default chose",
        "In how many splits the fitted model is logistic regression, and the strengths of the penalties.",
        markdown_table(
            ["data set", "chose logistic regression", "median alpha_", "median link_alpha_, where finite"], strengths
        ),
        study.weak_links(results, cells),
        "## Ablation",
        f"Of {OURS} with one thing changed, on the same splits; better / worse at 99 % in a paired t-test. "
        "Those of letter, usps and Sensorless were run before learned links had a lower bound, which alone makes them worse.",
        markdown_table(
            study.VARIANTS, study.variants_table(results, cells, zip(variants, variants, strict=True), OURS)
        ),
    ]


def rows(results: Results) -> list[dict[str, Any]]:
    return study.numbers(results, SCORES, {BASELINE: ""}, study.TIMES, lambda cell, own: chosen(own))


_INTRODUCTION = (
    "Test accuracy in % / log-loss, mean over stratified splits with 80 % of the rows to train on. Features are as "
    "distributed, and each model standardizes them on its own training rows. Probabilities are clipped at the precision of "
    f"floating-point numbers. Bold: better than {BASELINE} at 99 % in a paired t-test; italic: worse; {NOT_RUN}: not run. "
    "HistGradientBoosting needs dense features and is not run on news20, nor is the ablation; there the splits are fewer. "
    "Every run has one thread."
)

EXPERIMENT = study.declare(
    "defaults",
    "Default settings compared with other classifiers",
    measure,
    sections,
    rows,
    datasets=DATASETS,
    models=tuple(MODELS),
    settings=settings,
    seeds=SEEDS,
    left_out=left_out,
    cost=study.cost,
    find_data=study.find,
)

if __name__ == "__main__":
    study.main("defaults")
