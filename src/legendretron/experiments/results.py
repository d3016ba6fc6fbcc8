"""Results by cell, with means, standard errors and t-tests over repetitions."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from legendretron.experiments.experiment import Record
from legendretron.experiments.store import round_difference


@dataclass(frozen=True)
class Mean:
    """A mean over ``n`` repetitions with its standard error, which is NaN if there is only one."""

    value: float
    error: float
    n: int

    def minus(self, other: Mean) -> float:
        r"""Difference in combined standard errors, :math:`(a - b) / \sqrt{s_a^2 + s_b^2}`; 0 for equal means."""
        gap = round_difference(self.value - other.value)
        if gap == 0.0:
            return 0.0
        combined = math.hypot(self.error, other.error)
        return math.copysign(math.inf, gap) if combined == 0.0 else gap / combined

    def columns(self, name: str) -> dict[str, float]:
        """Two columns of a table: the mean, and its error."""
        return {name: self.value, f"{name}: standard error": self.error}


def mean_of(values: ArrayLike) -> Mean:
    r"""Mean and standard error :math:`s / \sqrt n`, with ``n - 1`` in the deviation.

    Sums are exact and rounded once, so that both are the same on every machine, and equal values have no error.
    """
    array = np.asarray(values, dtype=float)
    if array.ndim != 1 or array.size == 0 or not np.isfinite(array).all():
        raise ValueError(f"values must be a vector of finite numbers, not empty, got {array!r}.")
    numbers = array.tolist()
    error = statistics.stdev(numbers) / math.sqrt(len(numbers)) if len(numbers) > 1 else math.nan
    return Mean(statistics.mean(numbers), error, len(numbers))


def mean_difference(a: ArrayLike, b: ArrayLike) -> Mean:
    """Mean and standard error of ``a - b``, for paired measurements of order 1 to 100."""
    gap = mean_of(np.subtract(a, b))
    return Mean(round_difference(gap.value), round_difference(gap.error), gap.n)


def welch_from_means(a: Mean, b: Mean) -> float:
    """Two-sided p-value of Welch's t-test for equal means, of samples that need not have equal variances.

    For samples without any variance it is 1 if their means agree, and 0 otherwise.
    """
    if a.n < 2 or b.n < 2:
        return float("nan")
    if a.error == 0.0 and b.error == 0.0:
        return float(a.value == b.value)
    result = stats.ttest_ind_from_stats(
        a.value, a.error * np.sqrt(a.n), a.n, b.value, b.error * np.sqrt(b.n), b.n, equal_var=False
    )
    return float(result.pvalue)


def paired_test(a: ArrayLike, b: ArrayLike) -> float:
    """Two-sided p-value of the paired t-test: repetition ``i`` of both used the same split.

    For differences without any variance it is 1 if they are zero, and 0 otherwise.
    """
    first, second = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    if first.shape != second.shape:
        raise ValueError(f"a and b must be pairs, got {first.size} and {second.size} values.")
    if first.size < 2:
        return float("nan")
    gaps = first - second
    # rounding of sums that are equal leaves differences that are not quite zero
    if np.ptp(gaps) <= 1e-12 * max(np.abs(first).max(), np.abs(second).max()):
        return float(abs(gaps[0]) <= 1e-12 * np.abs(first).max())
    gap = mean_of(gaps)
    return float(2.0 * stats.t.sf(abs(gap.value / gap.error), gap.n - 1))


def holm(p_values: ArrayLike) -> np.ndarray:
    r"""Holm's adjusted p-values: rejecting those below a level bounds the family-wise error rate by that level.

    With :math:`p_{(1)} \le \ldots \le p_{(m)}`, the adjusted ones are
    :math:`\tilde p_{(i)} = \max_{j \le i} \min(1, (m - j + 1) p_{(j)})`. NaN stays NaN, and is not counted.

    References
    ----------
    Holm (1979), A simple sequentially rejective multiple test procedure, Scandinavian Journal of Statistics.
    """
    p = np.asarray(p_values, dtype=float)
    adjusted = np.full(p.shape, np.nan)
    known = np.flatnonzero(~np.isnan(p))
    if ((p[known] < 0.0) | (p[known] > 1.0)).any():
        raise ValueError(f"p_values must be between 0 and 1, got {p[known].tolist()}.")
    order = known[np.argsort(p[known], kind="stable")]
    scaled = np.minimum(1.0, p[order] * np.arange(len(order), 0, -1))
    adjusted[order] = np.maximum.accumulate(scaled)
    return adjusted


def verdict(
    difference: float,
    p: float,
    adjusted: float | None = None,
    *,
    level: float = 0.01,
    better: str = "better",
    worse: str = "worse",
) -> str:
    """Return the result of a test as a word: ``"better"``, ``"worse"``, or ``"="`` if there is no significant difference."""
    if not p < level:
        return "=" if p >= level else ""
    word = better if difference > 0 else worse
    return word if adjusted is None or adjusted < level else f"({word})"


def add_holm(rows: Sequence[dict[str, Any]], tests: Sequence[str]) -> None:
    """Add columns with Holm's p-values, ``"p, Holm"`` for ``"p"``, to a table whose columns ``tests`` are one family."""
    cells = [(row, test) for row in rows for test in tests if test in row]
    for (row, test), adjusted in zip(cells, holm([row[test] for row, test in cells]), strict=True):
        row[f"{test}, Holm"] = float(adjusted)


Cell = tuple[Any, ...]


@dataclass(frozen=True)
class Comparison:
    """A measurement in one cell against that in another, on the seeds that both have."""

    mean: Mean  #: over these seeds
    other: Mean  #: over these seeds
    difference: Mean  #: of the pairs
    p: float  #: p-value of the paired t-test; NaN for one seed

    @property
    def welch(self) -> float:
        """p-value of Welch's t-test, which takes all runs as independent; NaN for one seed."""
        return welch_from_means(self.mean, self.other)

    def verdict(self, sign: int = 1, *, level: float = 0.01) -> str:
        """:func:`~legendretron.experiments.results.verdict` of the paired test; ``sign`` is -1 where less is better."""
        return verdict(sign * self.difference.value, self.p, level=level)


class Results:
    """Records of one experiment by some of their fields: those of each cell, by seed, are in ``cells``.

    Results of a data set with different numbers of rows, or a seed that occurs twice, for instance after a trial with fewer
    epochs in the same folder, raise a ``ValueError``.

    Examples
    --------
    >>> data = {"rows": 150}
    >>> runs = [("forest", 0, 94.0), ("forest", 1, 96.0), ("tree", 0, 91.0), ("tree", 1, 92.0)]
    >>> records = [{"dataset": "iris", "model": m, "seed": s, "data": data, "accuracy": a} for m, s, a in runs]
    >>> results = Results(records, "dataset", "model")
    >>> results.mean(("iris", "tree"), "accuracy")
    Mean(value=91.5, error=0.5, n=2)
    >>> results.compare(("iris", "forest"), ("iris", "tree"), "accuracy").difference.value
    3.5
    """

    def __init__(self, records: Sequence[Record], *names: str) -> None:
        self.names = names
        self.cells: dict[Cell, dict[int, Record]] = {}
        self._facts: dict[str, dict[str, Any]] = {}
        for record in records:
            data, dataset = record["data"], record["dataset"]
            known = self._facts.setdefault(dataset, data)
            rows, others = (facts.get("rows", facts.get("train_rows")) for facts in (known, data))
            if rows != others:
                raise ValueError(f"results on {dataset} are of {rows:,} rows and of {others:,}; use a folder for each.")
            cell = tuple(record[name] for name in names)
            seeds = self.cells.setdefault(cell, {})
            if record["seed"] in seeds:
                what = ", ".join(map(str, cell))
                raise ValueError(
                    f"results hold {what} twice for seed {record['seed']}, with different settings; use a folder for each."
                )
            seeds[record["seed"]] = record

    def facts(self, dataset: str) -> dict[str, Any]:
        """Facts about a data set, as ``execute`` returned them."""
        return self._facts[dataset]

    def values_of(self, name: str) -> list[Any]:
        """Values of one of the fields, in the order in which they occur."""
        place = self.names.index(name)
        return list(dict.fromkeys(cell[place] for cell in self.cells))

    def records(self, *cell: Any) -> list[Record]:
        """Records of a cell; none if it was not run."""
        return list(self.cells.get(cell, {}).values())

    def values(self, cell: Cell, name: str) -> dict[int, Any]:
        """A measurement by seed, where a run has it."""
        own = self.cells.get(cell, {})
        return {seed: record[name] for seed, record in own.items() if record.get(name) is not None}

    def mean(self, cell: Cell, name: str) -> Mean | None:
        """Mean of a measurement over the seeds; None if no run has it."""
        values = self.values(cell, name)
        return mean_of(list(values.values())) if values else None

    def median(self, cell: Cell, name: str) -> float | None:
        """Median of a measurement over the seeds; None if no run has it."""
        values = self.values(cell, name)
        return statistics.median(values.values()) if values else None

    def pairs(self, cell: Cell, other: Cell, name: str) -> tuple[list[float], list[float]]:
        """A measurement in two cells, on the seeds that both have."""
        a, b = self.values(cell, name), self.values(other, name)
        shared = sorted(a.keys() & b.keys())
        return [a[seed] for seed in shared], [b[seed] for seed in shared]

    def compare(self, cell: Cell, other: Cell, name: str) -> Comparison | None:
        """Compare two cells; None if they share no seed."""
        a, b = self.pairs(cell, other, name)
        if not a:
            return None
        return Comparison(mean_of(a), mean_of(b), mean_difference(a, b), paired_test(a, b))


def in_order(records: Iterable[Record], **axes: Sequence[Any]) -> list[Record]:
    """Records by the places of their values on some axes, then by seed: the same report in whatever order they come."""
    return sorted(
        records, key=lambda record: (*(axis.index(record[name]) for name, axis in axes.items()), record["seed"])
    )
