"""Numbers of the comparison of defaults: paired tests, ratios, and which promises hold. See ``defaults.py``."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from legendretron.experiments import Record
from legendretron.experiments.grouping import paired_values
from legendretron.experiments.statistics import mean_difference, mean_of, paired_test, verdict

BASELINE = "LogisticRegressionCV"
OURS = "LegendreTronClassifier()"
#: Level of all tests: a confidence of 99 %.
LEVEL = 0.01
#: The promises: how far above the mean log-loss of the baseline ours may be, and how many times its fit may take.
EXCESS, MOST_TIMES, MEAN_TIMES = 0.02, 10.0, 5.0

#: The runs of a data set and model, by seed.
Cells = Mapping[tuple[Any, ...], Mapping[int, Record]]


@dataclass(frozen=True)
class Measure:
    """What is measured, the digits it is shown with, and 1 where more is better."""

    title: str
    digits: int
    sign: int


MEASURES = {
    "accuracy": Measure("accuracy", 2, 1),
    "log_loss": Measure("log-loss", 3, -1),
    "brier": Measure("Brier score", 4, -1),
    "calibration_error": Measure("expected calibration error", 4, -1),
}


@dataclass(frozen=True)
class Compared:
    """A measure of one model against another, on the splits that both have."""

    mean: float
    other: float
    error: float
    p: float
    verdict: str

    @property
    def difference(self) -> float:
        return self.mean - self.other

    @property
    def figures(self) -> str:
        """Such as ``0.412 against 0.398, p = 0.0021``."""
        p = "" if math.isnan(self.p) else f", p = {self.p:.2g}"
        return f"{self.mean:.4g} against {self.other:.4g}{p}"


def compared(cells: Cells, dataset: str, model: str, other: str, name: str) -> Compared | None:
    """Compare two models on a data set; None if there is no split that both have."""
    a, b = paired_values(dict(cells.get((dataset, model), {})), dict(cells.get((dataset, other), {})), name)
    return compared_pairs(a, b, MEASURES[name].sign) if a else None


def compared_pairs(a: Sequence[float], b: Sequence[float], sign: int) -> Compared:
    """Compare paired measurements, at least one; ``sign`` is 1 where more is better."""
    gap, p = mean_difference(a, b), paired_test(a, b)
    return Compared(mean_of(a).value, mean_of(b).value, gap.error, p, verdict(sign * gap.value, p, level=LEVEL))


def time_ratio(cells: Cells, dataset: str, name: str = "fit_seconds") -> float | None:
    """Median over the splits of our time as a multiple of the baseline's on the same split."""
    ours, theirs = paired_values(dict(cells.get((dataset, OURS), {})), dict(cells.get((dataset, BASELINE), {})), name)
    return statistics.median(a / b for a, b in zip(ours, theirs, strict=True)) if ours else None


def is_logistic(record: Record) -> bool:
    """Whether the fitted model is logistic regression: an infinite penalty on the link, or nothing in it to learn."""
    return record.get("link_alpha") == "inf" or record.get("link") == "SoftmaxLink"


def median_of(values: Iterable[Any]) -> float | None:
    """Median of the finite numbers; None if there are none."""
    numbers = [value for value in values if isinstance(value, (int, float))]
    return statistics.median(numbers) if numbers else None


def comparison(cells: Cells) -> list[dict[str, Any]]:
    """A row for each data set and model, for the CSV file: means, tests against the baseline, times and strengths."""
    rows = []
    for (dataset, model), own in cells.items():
        data = next(iter(own.values()))["data"]
        row: dict[str, Any] = {"dataset": dataset, **{n: data[n] for n in ("label", "rows", "features", "classes")}}
        row |= {"model": model, "seeds": len(own)}
        for name in MEASURES:
            mean = mean_of([record[name] for record in own.values()])
            found = None if model == BASELINE else compared(cells, dataset, model, BASELINE, name)
            row |= {name: mean.value, f"{name}: standard error": mean.error}
            row |= {f"{name}: p": found.p if found else "", f"{name}: verdict": found.verdict if found else ""}
        for name in ("fit_seconds", "fit_cpu_seconds", "predict_seconds"):
            row[name] = statistics.median(record[name] for record in own.values())
        row["unconverged"] = sum(not record["converged"] for record in own.values())
        if any("link" in record for record in own.values()):
            row["logistic"] = sum(is_logistic(record) for record in own.values())
            for name in ("alpha", "link_alpha"):
                median = median_of(record[name] for record in own.values())
                row[name] = "" if median is None else median
        rows.append(row)
    return rows


@dataclass(frozen=True)
class Promise:
    """A promise, what was found where it holds, and each finding that breaks it; ``tested`` if there was anything to test."""

    text: str
    broken: Sequence[str]
    found: str
    tested: bool = True

    @property
    def line(self) -> str:
        if self.broken:
            return f"- {self.text}: **does not hold: {'; '.join(self.broken)}.**"
        return f"- {self.text}: {f'holds. {self.found}' if self.tested else 'not tested, too few splits.'}"


def promises(cells: Cells, datasets: Sequence[str]) -> list[Promise]:
    """What the defaults promise against the baseline, each checked on the records."""
    found = {
        (dataset, name): result
        for dataset in datasets
        for name in ("log_loss", "accuracy")
        if (result := compared(cells, dataset, OURS, BASELINE, name))
    }
    losses = {dataset: result for (dataset, name), result in found.items() if name == "log_loss"}
    ratios = {dataset: ratio for dataset in datasets if (ratio := time_ratio(cells, dataset)) is not None}
    return [
        _nowhere_worse(found),
        _close(losses),
        _somewhere_better(losses),
        *_fast(ratios),
    ]


def _nowhere_worse(found: Mapping[tuple[str, str], Compared]) -> Promise:
    tested = {cell: result for cell, result in found.items() if result.verdict}
    words = [result.verdict for result in tested.values()]
    return Promise(
        "Log-loss and accuracy significantly worse on no data set",
        [
            f"{MEASURES[name].title} on {dataset} is {result.figures}"
            for (dataset, name), result in tested.items()
            if result.verdict == "worse"
        ],
        f"Of {len(tested)} cells, {words.count('better')} are better and {words.count('=')} show no difference.",
        bool(tested),
    )


def _close(losses: Mapping[str, Compared]) -> Promise:
    def far(result: Compared) -> bool:
        error = 0.0 if math.isnan(result.error) else result.error  # one split has none
        return result.difference > max(EXCESS * result.other, error)

    def described_excess(dataset: str) -> str:
        result = losses[dataset]
        excess = f"{100 * result.difference / result.other:+.1f} %"
        errors = f", {result.difference / result.error:+.1f} standard errors" if result.error > 0 else ""
        return f"{excess} on {dataset} ({result.mean:.4g} against {result.other:.4g}{errors})"

    largest = max(losses, key=lambda dataset: losses[dataset].difference / losses[dataset].other, default=None)
    return Promise(
        f"Mean log-loss at most {100 * EXCESS:g} %, or one paired standard error, above on every data set",
        [described_excess(dataset) for dataset, result in losses.items() if far(result)],
        f"The largest difference is {described_excess(largest)}." if largest else "",
        bool(losses),
    )


def _somewhere_better(losses: Mapping[str, Compared]) -> Promise:
    tested = {dataset: result for dataset, result in losses.items() if result.verdict}
    better = {dataset: result for dataset, result in tested.items() if result.verdict == "better"}
    sets = ", ".join(f"{name} ({100 * r.difference / r.other:+.0f} %)" for name, r in better.items())
    return Promise(
        "Log-loss significantly better on some data sets",
        [] if better or not tested else [f"on none of {len(tested)}"],
        f"On {len(better)} of {len(tested)}: {sets}.",
        bool(tested),
    )


def _fast(ratios: Mapping[str, float]) -> list[Promise]:
    slow = {dataset: ratio for dataset, ratio in ratios.items() if ratio > MOST_TIMES}
    worst = max(ratios, key=lambda dataset: ratios[dataset], default=None)
    mean = geometric_mean(ratios.values())
    return [
        Promise(
            f"A fit takes at most {MOST_TIMES:g} times as long on every data set",
            [f"{ratio:.1f} times on {dataset}" for dataset, ratio in slow.items()],
            f"The most is {ratios[worst]:.1f} times, on {worst}." if worst else "",
            bool(ratios),
        ),
        Promise(
            f"A fit takes at most {MEAN_TIMES:g} times as long in the geometric mean over the data sets",
            [f"{mean:.1f} times"] if mean > MEAN_TIMES else [],
            f"It takes {mean:.1f} times as long.",
            bool(ratios),
        ),
    ]


def geometric_mean(values: Iterable[float]) -> float:
    """Geometric mean; NaN of nothing."""
    logs = [math.log(value) for value in values]
    return math.exp(statistics.fmean(logs)) if logs else math.nan


def log_loss_ratio(cells: Cells, dataset: str, model: str, other: str) -> tuple[float, float] | None:
    """Ratio of mean log-losses on the splits that both have, and the factor from it to the ends of a 99 % interval.

    The standard error is that of a ratio of means of pairs, to first order.
    """
    a, b = paired_values(dict(cells.get((dataset, model), {})), dict(cells.get((dataset, other), {})), "log_loss")
    if not a:
        return None
    ratio = mean_of(a).value / mean_of(b).value
    if len(a) < 2:
        return ratio, 1.0
    error = mean_of(np.subtract(a, ratio * np.asarray(b))).error / mean_of(b).value
    return ratio, math.exp(float(stats.t.ppf(1 - LEVEL / 2, len(a) - 1)) * error / ratio)
