"""LegendreTronClassifier() as it comes, against what one would use instead.

    python benchmarks/defaults.py --data DIR --out docs/results/defaults --jobs 2

For each data set and seed, 80 % of the rows are to train on and 20 % to test on. Features are as distributed; each model
standardises on its training rows. A run is one fit and one test, in one process with one thread. Runs on the same split
follow each other, so that the ratio of two times is of the same minute. A sweep that was stopped goes on when started again.
"""

from __future__ import annotations

import functools
import importlib
import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import study
from legendretron import LegendreTronClassifier
from legendretron.experiments import Batch, Experiment, Outcome, Record, Resources, Run
from legendretron.experiments.recipes import chosen_strengths, make_recipe
from legendretron.experiments.rendering import described, mark, markdown_table, panels_for, save_panels, write_report
from legendretron.experiments.results import Comparison, Results, mean_of
from study import BASELINE, LEVEL, MEASURES, NOT_RUN, OURS, geometric_mean

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
FEWER_SEEDS = {"news20": 2}
DATASETS = (*study.LIBSVM, *study.FROM_SKLEARN)
SCORES = ("accuracy", "log_loss", "brier", "calibration_error")


class WithTemperature(ClassifierMixin, BaseEstimator):
    """The baseline fitted to four fifths of the rows, and a temperature fitted to the others."""

    def __init__(self, seed: int, sparse: bool) -> None:
        self.seed = seed
        self.sparse = sparse

    def fit(self, X: Any, y: np.ndarray) -> WithTemperature:
        parts = train_test_split(X, y, test_size=CALIBRATION_SHARE, random_state=self.seed, stratify=y)
        X_fit, X_held, y_fit, y_held = parts
        fitted = FrozenEstimator(study.logistic(self.sparse).fit(X_fit, y_fit))
        rows = np.arange(len(y_held))
        # one part with all rows: nothing is fitted but the temperature, and a rare class may have fewer rows than folds
        self.model_ = CalibratedClassifierCV(fitted, method="temperature", cv=[(rows, rows)]).fit(X_held, y_held)
        self.classes_ = self.model_.classes_
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        return self.model_.predict_proba(X)


@dataclass(frozen=True)
class Model:
    """How a model is built from a seed and whether features are sparse, and the settings that identify its runs."""

    make: Callable[[int, bool], Any]
    settings: dict[str, Any]
    sparse: bool = True  #: whether it is run on sparse features
    constants: Mapping[str, float] = field(default_factory=dict)  #: of the library, with other values


def _ours(parameters: dict[str, Any], constants: dict[str, float], sparse: bool = True) -> Model:
    def make(seed: int, _: bool) -> LegendreTronClassifier:
        return LegendreTronClassifier(**parameters, random_state=seed)

    settings = make_recipe(LegendreTronClassifier(**parameters)) | ({"constants": constants} if constants else {})
    return Model(make, settings, sparse, constants)


_BASE = {"estimator": "LogisticRegressionCV", **study.LOGISTIC}
MAIN = {
    BASELINE: Model(lambda seed, sparse: study.logistic(sparse), _BASE),
    OURS: _ours({}, {}),
    "LogisticRegressionCV + temperature": Model(WithTemperature, {**_BASE, "temperature_share": CALIBRATION_SHARE}),
    "MLPClassifier": Model(
        lambda seed, sparse: make_pipeline(
            StandardScaler(with_mean=not sparse), MLPClassifier(early_stopping=True, random_state=seed)
        ),
        {"estimator": "MLPClassifier", "early_stopping": True},
    ),
    "HistGradientBoosting": Model(
        lambda seed, _: HistGradientBoostingClassifier(random_state=seed),
        {"estimator": "HistGradientBoostingClassifier"},
        sparse=False,
    ),
}
MODELS = {**MAIN, **{name: _ours(*variant, sparse=False) for name, variant in ABLATION.items()}}


def settings(model: str, dataset: str) -> dict[str, Any]:
    return {**MODELS[model].settings, **SHARED}


def left_out(run: Run) -> bool:
    most = ABLATION_SEEDS if run.model in ABLATION else splits_of(run.dataset)
    return run.seed >= most or (study.is_sparse(run.dataset) and not MODELS[run.model].sparse)


def splits_of(dataset: str) -> int:
    return FEWER_SEEDS.get(dataset, SEEDS)


@contextmanager
def change_constants(constants: Mapping[str, float]) -> Iterator[None]:
    """Inside, constants of the library, by their full names, have other values."""
    places = [(importlib.import_module(name.rpartition(".")[0]), name.rpartition(".")[2]) for name in constants]
    before = [getattr(*place) for place in places]
    try:
        for place, value in zip(places, constants.values(), strict=True):
            setattr(*place, value)
        yield
    finally:
        for place, value in zip(places, before, strict=True):
            setattr(*place, value)


@functools.cache
def warm_up(model: str, sparse: bool) -> None:
    study.warm_up(MODELS[model].make(0, sparse), sparse)


@study.one_thread(settings)
def execute(batch: Batch, resources: Resources) -> Outcome:
    X, y, facts = study.load(batch.dataset, resources.data)
    warm_up(batch.model, issparse(X))
    runs = []
    for run in batch.runs:
        train, test = train_test_split(np.arange(len(y)), test_size=0.2, random_state=run.seed, stratify=y)
        estimator = MODELS[batch.model].make(run.seed, issparse(X))
        with change_constants(MODELS[batch.model].constants):
            found = study.fit_and_score(estimator, X[train], y[train], X[test], y[test])
        runs.append(found | (chosen_strengths(estimator) if isinstance(estimator, LegendreTronClassifier) else {}))
    return Outcome(facts, runs)


# --- numbers of the report ---


def ours_against_baseline(results: Results, dataset: str, name: str) -> Comparison | None:
    return study.against(results, (dataset,), OURS, BASELINE, name)


def log_loss_ratio(results: Results, dataset: str, model: str, other: str) -> tuple[float, float] | None:
    """Ratio of mean log-losses on the splits that both have, and the factor from it to the ends of a 99 % interval.

    The standard error is that of a ratio of means of pairs, to first order.
    """
    a, b = results.pairs((dataset, model), (dataset, other), "log_loss")
    if not a:
        return None
    ratio = mean_of(a).value / mean_of(b).value
    if len(a) < 2:
        return ratio, 1.0
    error = mean_of(np.subtract(a, ratio * np.asarray(b))).error / mean_of(b).value
    return ratio, math.exp(float(stats.t.ppf(1 - LEVEL / 2, len(a) - 1)) * error / ratio)


def is_logistic(record: Record) -> bool:
    """Whether the fitted model is logistic regression: an infinite penalty on the link, or nothing in it to learn."""
    return record.get("link_alpha") == "inf" or record.get("link") == "SoftmaxLink"


def median_strength(records: Sequence[Record], name: str) -> float | None:
    """Median of the finite strengths; None if there are none."""
    numbers = [record[name] for record in records if isinstance(record.get(name), (int, float))]
    return statistics.median(numbers) if numbers else None


def table_of_numbers(results: Results) -> list[dict[str, Any]]:
    """A row for each data set and model, for the CSV file: means, tests against the baseline, times and strengths."""
    rows = []
    for dataset, model in results.cells:
        own, facts = results.records(dataset, model), results.facts(dataset)
        row: dict[str, Any] = {"dataset": dataset, **{name: facts[name] for name in study.FACTS}}
        row |= {"model": model, "seeds": len(own), **study.scored(results, (dataset,), model, SCORES, {BASELINE: ""})}
        for name in ("fit_seconds", "fit_cpu_seconds", "predict_seconds"):
            row[name] = results.median((dataset, model), name)
        row["unconverged"] = sum(not record["converged"] for record in own)
        if any("link" in record for record in own):
            row["logistic"] = sum(map(is_logistic, own))
            for name in ("alpha", "link_alpha"):
                median = median_strength(own, name)
                row[name] = "" if median is None else median
        rows.append(row)
    return rows


#: The promises: how far above the mean log-loss of the baseline ours may be, and how many times its fit may take.
EXCESS, MOST_TIMES, MEAN_TIMES = 0.02, 10.0, 5.0


def promises(results: Results, datasets: Sequence[str]) -> list[str]:
    """What the defaults promise against the baseline, a line for each, with what breaks it."""
    cells = [(dataset, name) for dataset in datasets for name in ("log_loss", "accuracy")]
    found = {cell: result for cell in cells if (result := ours_against_baseline(results, *cell))}
    words = {cell: study.verdict(results, cell[:1], OURS, BASELINE, cell[1]) for cell in found}
    words = {cell: word for cell, word in words.items() if word}
    losses = {dataset: result for (dataset, name), result in found.items() if name == "log_loss"}
    excess = {dataset: result.difference.value / result.other.value for dataset, result in losses.items()}
    tested = [dataset for dataset in losses if (dataset, "log_loss") in words]
    better = [dataset for dataset in tested if words[dataset, "log_loss"] == "better"]
    ratios = {dataset: ratio for dataset in datasets if (ratio := study.time_ratio(results, (dataset,))) is not None}
    mean = geometric_mean(ratios.values())

    def is_far(result: Comparison) -> bool:
        return result.difference.value > max(EXCESS * result.other.value, np.nan_to_num(result.difference.error))

    def figures(cell: tuple[str, str]) -> str:
        result = found[cell]
        return f"{result.mean.value:.4g} against {result.other.value:.4g}, p = {result.p:.2g}"

    def with_excess(dataset: str) -> str:
        mean, other, gap = losses[dataset].mean.value, losses[dataset].other.value, losses[dataset].difference
        errors = f", {gap.value / gap.error:+.1f} standard errors" if gap.error > 0 else ""
        return f"{100 * excess[dataset]:+.1f} % on {dataset} ({mean:.4g} against {other:.4g}{errors})"

    def line(text: str, is_tested: Any, broken: list[str], holds: Callable[[], str]) -> str:
        if broken:
            return f"- {text}: **does not hold: {'; '.join(broken)}.**"
        return f"- {text}: {f'holds. {holds()}' if is_tested else 'not tested, too few splits.'}"

    return [
        line(
            "Log-loss and accuracy significantly worse on no data set",
            words,
            [f"{MEASURES[c[1]].title} on {c[0]} is {figures(c)}" for c, word in words.items() if word == "worse"],
            lambda: (
                f"Of {len(words)} cells, {list(words.values()).count('better')} are better and "
                f"{list(words.values()).count('=')} show no difference."
            ),
        ),
        line(
            f"Mean log-loss at most {100 * EXCESS:g} %, or one paired standard error, above on every data set",
            losses,
            [with_excess(dataset) for dataset, result in losses.items() if is_far(result)],
            lambda: f"The largest difference is {with_excess(max(excess, key=excess.__getitem__))}.",
        ),
        line(
            "Log-loss significantly better on some data sets",
            tested,
            [] if better or not tested else [f"on none of {len(tested)}"],
            lambda: (
                f"On {len(better)} of {len(tested)}: "
                f"{', '.join(f'{dataset} ({100 * excess[dataset]:+.0f} %)' for dataset in better)}."
            ),
        ),
        line(
            f"A fit takes at most {MOST_TIMES:g} times as long on every data set",
            ratios,
            [f"{ratio:.1f} times on {dataset}" for dataset, ratio in ratios.items() if ratio > MOST_TIMES],
            lambda: "The most is {1:.1f} times, on {0}.".format(*max(ratios.items(), key=lambda pair: pair[1])),
        ),
        line(
            f"A fit takes at most {MEAN_TIMES:g} times as long in the geometric mean over the data sets",
            ratios,
            [f"{mean:.1f} times"] if mean > MEAN_TIMES else [],
            lambda: f"It takes {mean:.1f} times as long.",
        ),
    ]


# --- tables and picture ---


def _quality_table(results: Results, datasets: Sequence[str], models: Sequence[str], names: Sequence[str]) -> str:
    def cell(dataset: str, model: str) -> str:
        means = {name: results.mean((dataset, model), name) for name in names}
        if None in means.values():
            return NOT_RUN
        return " / ".join(
            mark(f"{mean.value:.{MEASURES[name].digits}f}", study.verdict(results, (dataset,), model, BASELINE, name))
            for name, mean in means.items()
        )

    lines = []
    for dataset in datasets:
        facts = results.facts(dataset)
        shape = f"{facts['rows']:,} x {facts['features']:,}, {facts['classes']}"
        lines.append([facts["label"], shape, *(cell(dataset, model) for model in models)])
    return markdown_table(["data set", "rows x features, classes", *models], lines)


def _times_table(results: Results, datasets: Sequence[str], models: Sequence[str], name: str) -> str:
    """Median seconds of the models and, where both were run, how many times as long ours takes as the baseline."""

    def seconds(dataset: str, model: str) -> str:
        median = results.median((dataset, model), name)
        return NOT_RUN if median is None else f"{median:.3g}"

    pair = [model for model in (BASELINE, OURS) if model in models]
    others = [model for model in models if model not in pair]
    ratios = {
        dataset: ratio for dataset in datasets if (ratio := study.time_ratio(results, (dataset,), name)) is not None
    }
    lines = [
        [
            results.facts(dataset)["label"],
            *(seconds(dataset, model) for model in pair),
            f"{ratios[dataset]:.2f}" if dataset in ratios else NOT_RUN,
            *(seconds(dataset, model) for model in others),
        ]
        for dataset in datasets
    ]
    table = markdown_table(["data set", *pair, "ratio", *others], lines)
    if not ratios:
        return table
    worst = max(ratios, key=ratios.__getitem__)
    return (
        f"{table}\n\nGeometric mean of the ratios over {len(ratios)} data sets: {geometric_mean(ratios.values()):.2f}; "
        f"largest: {ratios[worst]:.2f}, on {worst}."
    )


def _strengths_table(results: Results, datasets: Sequence[str]) -> str:
    lines = []
    for dataset in datasets:
        if own := results.records(dataset, OURS):
            medians = [median_strength(own, name) for name in ("alpha", "link_alpha")]
            shown = [NOT_RUN if median is None else f"{median:.2g}" for median in medians]
            logistic = f"{sum(map(is_logistic, own))} of {len(own)}"
            lines.append([results.facts(dataset)["label"], logistic, *shown])
    head = ["data set", "chose logistic regression", "median alpha_", "median link_alpha_, where finite"]
    return markdown_table(head, lines)


def _ablation_table(results: Results, datasets: Sequence[str], variants: Sequence[str]) -> str:
    lines = []
    for dataset in datasets:
        tried = {seed for variant in variants for seed in results.values((dataset, variant), "log_loss")}
        if not tried:
            continue
        # means over the same splits: variants have fewer than the default
        full = [loss for seed, loss in results.values((dataset, OURS), "log_loss").items() if seed in tried]
        line = [results.facts(dataset)["label"], f"{mean_of(full).value:.3f}" if full else NOT_RUN]
        for variant in variants:
            mean = results.mean((dataset, variant), "log_loss")
            word = study.verdict(results, (dataset,), variant, OURS, "log_loss")
            line.append(mark(f"{mean.value:.3f}", word) if mean else NOT_RUN)
        lines.append(line)
    means = []
    for variant in variants:
        ratios = [ratio[0] for dataset in datasets if (ratio := log_loss_ratio(results, dataset, variant, OURS))]
        means.append(f"{geometric_mean(ratios):.3f} ({len(ratios)} sets)" if ratios else NOT_RUN)
    lines.append(["ratio to the default, geometric mean", "1", *means])
    return markdown_table(["data set", OURS, *variants], lines)


def _promises_section(results: Results, datasets: Sequence[str]) -> str:
    """The promises, after a remark on data sets on which ours or the baseline lacks splits."""
    both = {dataset: len(results.pairs((dataset, OURS), (dataset, BASELINE), "log_loss")[0]) for dataset in DATASETS}
    missing = [f"{dataset} {n} of {splits_of(dataset)}" for dataset, n in both.items() if n < splits_of(dataset)]
    remark = (
        f"**Incomplete: splits done are {', '.join(missing)}. What follows is about these.**\n\n" if missing else ""
    )
    return remark + "\n".join(promises(results, datasets))


def _unconverged(results: Results, models: Sequence[str]) -> str:
    """How many runs of each model stopped at its limit of iterations, as its warning says."""
    parts = []
    for model in models:
        own = [record for dataset, name in results.cells if name == model for record in results.records(dataset, name)]
        if stopped := sum(not record["converged"] for record in own):
            parts.append(f"{model} in {stopped:,} of {len(own):,} runs")
    return f"Stopped at its limit of iterations, with a warning: {'; '.join(parts) or 'none'}."


def draw(results: Results, datasets: Sequence[str], path: Path) -> Path | None:
    """Draw the ratio of log-losses by data set, sorted, with 99 % intervals; None if no data set has both models."""
    found = {d: pair for d in datasets if (pair := log_loss_ratio(results, d, OURS, BASELINE))}
    if not found:
        return None
    order = sorted(found, key=lambda dataset: -found[dataset][0])
    (panel,) = panels_for([f"Log-loss of {OURS} relative to {BASELINE}"], (7.0, 1.8 + 0.27 * len(order)))
    looks = {
        "better": ("#0072B2", "o", "significantly better"),
        "": ("#666666", "D", "no significant difference"),
        "worse": ("#D55E00", "s", "significantly worse"),
    }
    words = [study.verdict(results, (dataset,), OURS, BASELINE, "log_loss") for dataset in order]
    for word, (colour, marker, label) in looks.items():
        for place, dataset in enumerate(order):
            if (words[place] if words[place] in looks else "") == word:
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


def report(records: list[Record], folder: Path) -> list[Path]:
    """Write ``defaults.md``, ``.csv`` and ``.png``."""
    records = study.in_order(records, dataset=DATASETS, model=list(MODELS))
    results = Results(records, "dataset", "model")
    datasets, run = results.values_of("dataset"), results.values_of("model")
    main, variants = ([model for model in group if model in run] for group in (MAIN, ABLATION))
    picture = draw(results, datasets, folder / "defaults.png")
    sections = ["# LegendreTronClassifier() against what one would use instead", _INTRODUCTION, study.DISCLOSURE]
    if main:
        sections += [
            _quality_table(results, datasets, main, ["accuracy", "log_loss"]),
            _unconverged(results, main),
            "## What was promised, and what holds",
            _promises_section(results, datasets),
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
            _quality_table(results, datasets, main, ["brier", "calibration_error"]),
            "## Times",
            "Median seconds of a fit, and the median over the splits of the ratio of both times on the same split. Before a "
            "process times a model for the first time, it fits the model to a few made-up rows, so that imports and "
            "compilation are not counted.",
            _times_table(results, datasets, main, "fit_seconds"),
            "Median seconds of processor time of a fit, which do not count waiting for a core that others use:",
            _times_table(results, datasets, main, "fit_cpu_seconds"),
            "Median seconds to predict the probabilities of the test rows:",
            _times_table(results, datasets, main, "predict_seconds"),
        ]
    if OURS in main:
        sections += [
            "## What the default chose",
            "In how many splits the fitted model is logistic regression, and the strengths of the penalties.",
            _strengths_table(results, datasets),
            study.weak_links(results, [(dataset,) for dataset in datasets]),
        ]
    if variants:
        sections += [
            "## Ablation",
            f"Log-loss. Bold: better than {OURS} at 99 % in a paired t-test; italic: worse.",
            _ablation_table(results, datasets, variants),
        ]
    sections.append(described(records))
    return write_report(folder, "defaults", sections, table_of_numbers(results), *([picture] if picture else []))


_INTRODUCTION = (
    "Test accuracy in % / log-loss, mean over stratified splits with 80 % of the rows to train on. Features are as "
    "distributed, and each model standardises on its own training rows. Probabilities are clipped at the precision of "
    f"floating-point numbers. Bold: better than {BASELINE} at 99 % in a paired t-test; italic: worse; {NOT_RUN}: not run. "
    "HistGradientBoosting needs dense features and is not run on news20, nor is the ablation; there the splits are fewer. "
    "Every run has one thread."
)

EXPERIMENT = Experiment(
    name="defaults",
    title="LegendreTronClassifier() against what one would use instead",
    datasets=DATASETS,
    models=tuple(MODELS),
    settings=settings,
    execute=execute,
    report=report,
    seeds=SEEDS,
    by_split=True,
    left_out=left_out,
    cost=study.cost,
    find_data=study.find,
)

if __name__ == "__main__":
    study.main("defaults", groups={"main": list(MAIN), "ablation": list(ABLATION)})
