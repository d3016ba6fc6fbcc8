"""Results by cell: records with the same data set, model and so on, one for each seed."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from legendretron.experiments.experiment import Record
from legendretron.experiments.statistics import Mean, mean_difference, mean_of, paired_test, verdict, welch_from_means

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
        """:func:`~legendretron.experiments.statistics.verdict` of the paired test; ``sign`` is -1 where less is better."""
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
