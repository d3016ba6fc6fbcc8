"""Numbers of the comparison on wrong labels: paired tests, rates, and the paper's means. See ``label_noise.py``."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from defaults_numbers import BASELINE, Compared, Measure, compared_pairs
from legendretron.experiments import Record
from legendretron.experiments.grouping import by_seed
from legendretron.experiments.statistics import Mean, mean_of
from legendretron.paper.libsvm.report import published_accuracies

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
#: The paper's model, as its table calls it.
PAPERS = "LegendreTron"
PAPERS_NOISES = (0.2, 0.5)

MEASURES = {
    "accuracy": Measure("accuracy", 2, 1),
    "log_loss": Measure("log-loss", 3, -1),
    "brier": Measure("Brier score", 4, -1),
}
AVERAGE_PRECISION = Measure("area under the precision-recall curve", 3, 1)

#: Records by data set, noise and model, then by split.
Results = Mapping[tuple[Any, ...], Mapping[int, Record]]


def results_of(records: Sequence[Record]) -> Results:
    return by_seed(records, "dataset", "noise", "model")


def noise_name(noise: float) -> str:
    """Such as ``20 %``, and ``30 % pairs`` for pair flips.

    Examples
    --------
    >>> noise_name(0.2), noise_name(PAIRS)
    ('20 %', '30 % pairs')
    """
    return f"{100 * noise:g} %" + (" pairs" if noise == PAIRS else "")


def shared_values(
    results: Results, dataset: str, noise: float, model: str, other: str, name: str
) -> tuple[list[float], list[float]]:
    """A measurement of two models on the splits where both have it."""
    a, b = (results.get((dataset, noise, which), {}) for which in (model, other))
    seeds = [seed for seed in sorted(set(a) & set(b)) if a[seed].get(name) is not None is not b[seed].get(name)]
    return [a[seed][name] for seed in seeds], [b[seed][name] for seed in seeds]


def compared(results: Results, dataset: str, noise: float, model: str, other: str, name: str) -> Compared | None:
    """Compare two models in a cell; None if there is no split that both have."""
    a, b = shared_values(results, dataset, noise, model, other, name)
    measure = AVERAGE_PRECISION if name == "average_precision" else MEASURES[name]
    return compared_pairs(a, b, measure.sign) if a else None


def mean_in(results: Results, dataset: str, noise: float, model: str, name: str) -> Mean | None:
    """Mean of a measurement over the splits that have it; None if there is none."""
    values = [
        record[name] for record in results.get((dataset, noise, model), {}).values() if record.get(name) is not None
    ]
    return mean_of(values) if values else None


@dataclass(frozen=True)
class Tally:
    """Cells in which a model was tested against another, and those where it is significantly better, or worse."""

    tested: int
    better: Sequence[tuple[str, float]]
    worse: Sequence[tuple[str, float]]

    @property
    def text(self) -> str:
        """Such as ``5 / 1 of 13``."""
        return f"{len(self.better)} / {len(self.worse)} of {self.tested}" if self.tested else "-"


def tally(results: Results, cells: Iterable[tuple[str, float]], model: str, other: str, name: str) -> Tally:
    """Count cells, each a data set and a noise."""
    words = {
        cell: result.verdict
        for cell in cells
        if (result := compared(results, *cell, model, other, name)) and result.verdict
    }
    better, worse = ([cell for cell, word in words.items() if word == asked] for asked in ("better", "worse"))
    return Tally(len(words), better, worse)


@dataclass(frozen=True)
class Rate:
    """Estimates of the share of wrong labels in a cell, against the share there was and the probability it was drawn with."""

    true: float
    estimate: float
    largest_error: float  #: of an estimate, from the share there was in the same training rows
    covered: int  #: intervals that hold the probability
    covered_share: int  #: intervals that hold the share there was
    n: int


def rate_in(results: Results, dataset: str, noise: float, model: str) -> Rate | None:
    own = [record for record in results.get((dataset, noise, model), {}).values() if record.get("rate") is not None]
    return rate_of(own) if own else None


def rate_of(own: Sequence[Record]) -> Rate:
    """The rates of some runs, at least one."""

    def holds(record: Record, value: float) -> bool:
        return bool(record["rate_low"] - 1e-9 <= value <= record["rate_high"] + 1e-9)

    return Rate(
        statistics.fmean(record["wrong_share"] for record in own),
        statistics.fmean(record["rate"] for record in own),
        max(abs(record["rate"] - record["wrong_share"]) for record in own),
        sum(holds(record, record["noise"]) for record in own),
        sum(holds(record, record["wrong_share"]) for record in own),
        len(own),
    )


@dataclass(frozen=True)
class AgainstPaper:
    """The paper's mean accuracy in a cell and a model's; the difference counts combined standard errors."""

    published: Mean
    found: Mean

    @property
    def errors(self) -> float:
        return self.found.minus(self.published)

    @property
    def met(self) -> bool:
        """Whether the model is at most one combined standard error below the paper's mean."""
        return self.errors >= -1.0


def against_paper(results: Results, dataset: str, noise: float, model: str) -> AgainstPaper | None:
    """None where the paper has no mean, the data are a subset, or fewer than two splits were run."""
    published = published_accuracies().get((dataset, noise, PAPERS))
    own = results.get((dataset, noise, model), {})
    if published is None or len(own) < 2 or next(iter(own.values()))["data"]["source"] != "complete":
        return None
    return AgainstPaper(published, mean_of([record["accuracy"] for record in own.values()]))


def comparison(results: Results) -> list[dict[str, Any]]:
    """A row for each data set, noise and model, for the CSV file."""
    rows = []
    for (dataset, noise, model), own in results.items():
        runs = list(own.values())
        data = runs[0]["data"]
        row: dict[str, Any] = {"dataset": dataset, **{n: data[n] for n in ("label", "rows", "features", "classes")}}
        row |= {"noise": noise, "kind": "pairs" if noise == PAIRS else "symmetric", "model": model, "splits": len(own)}
        row["wrong_share"] = statistics.fmean(record["wrong_share"] for record in runs)
        for name in MEASURES:
            mean = mean_of([record[name] for record in runs])
            found = None if model == BASELINE else compared(results, dataset, noise, model, BASELINE, name)
            row |= {name: mean.value, f"{name}: standard error": mean.error}
            row |= {f"{name}: p": found.p if found else "", f"{name}: verdict": found.verdict if found else ""}
        for name in ("fit_seconds", "fit_cpu_seconds"):
            row[name] = statistics.median(record[name] for record in runs)
        row["unconverged"] = sum(not record["converged"] for record in runs)
        if rate := rate_in(results, dataset, noise, model):
            row |= {"rate": rate.estimate, "rate: largest error": rate.largest_error}
            row |= {"rate: intervals": rate.n, "rate: covered": rate.covered, "rate: share covered": rate.covered_share}
        for name in ("average_precision", "called_precision", "called_recall", "called_doubt"):
            if mean_found := mean_in(results, dataset, noise, model, name):
                row |= {name: mean_found.value, f"{name}: standard error": mean_found.error}
        if paper := against_paper(results, dataset, noise, model):
            row |= {"paper": paper.published.value, "paper: standard error": paper.published.error, "met": paper.met}
        rows.append(row)
    return rows


def cells_of(results: Results, noises: Iterable[float], datasets: Iterable[str]) -> list[tuple[str, float]]:
    """Data sets and noises with results, in order."""
    known = {(dataset, noise) for dataset, noise, _ in results}
    datasets = list(datasets)
    return [(dataset, noise) for noise in noises for dataset in datasets if (dataset, noise) in known]
