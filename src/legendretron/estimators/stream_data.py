"""Rows of a source as a fit needs them: labeled by number, weighted, held out or sampled by a hash of their number."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import scipy.sparse

from legendretron._internal.parameters import spell
from legendretron.estimators.fit_data import apply_class_weight, swap_labels
from legendretron.estimators.standardization import Standardizer
from legendretron.streaming import Source, Summary, scan
from legendretron.streaming.scan import merge_summaries
from legendretron.streaming.source import HELD_OUT, SAMPLE, BadRowError, RowCheck, read_ahead, row_share
from legendretron.training.layout import Layout
from legendretron.training.stream_batches import Rows

#: Expected rows of each class in a sample, if it has as many: no class must be missing.
_LEAST_OF_CLASS = 30
T = TypeVar("T")


def map_shards(function: Callable[[int], T], n_shards: int, layout: Layout) -> list[T]:
    """Results for all shards; every process calls the function for the shards that it reads."""
    results = layout.call(lambda: {shard: function(shard) for shard in layout.list_shards(n_shards)})
    everyone = {shard: result for part in layout.gather(results) for shard, result in part.items()}
    return [everyone[shard] for shard in range(n_shards)]


def scan_shards(
    source: Source, class_weight: Any, skip_bad_rows: int, n_shards: int, layout: Layout, dtype: Any = None
) -> tuple[list[Summary], dict[Any, float] | None]:
    """The first pass over all shards, and the factors on the weights of each class's rows.

    For balanced classes, it takes two passes.
    """

    def scan_all(factors: dict[Any, float] | None) -> list[Summary]:
        def scan_one(shard: int) -> Summary:
            return scan(source, factors=factors, skip_bad_rows=skip_bad_rows, shard=(shard, n_shards), dtype=dtype)

        summaries = map_shards(scan_one, n_shards, layout)
        n_skipped = sum(summary.n_skipped for summary in summaries)
        if n_skipped > skip_bad_rows:
            raise BadRowError(
                f"{n_skipped} rows are bad, but only {skip_bad_rows} may be left out; repair them, or raise "
                f"{spell('skip_bad_rows')}."
            )
        return summaries

    factors = None
    if class_weight == "balanced":
        counted = merge_summaries(scan_all(None))
        even = counted.n_rows / (len(counted.classes) * counted.class_rows)
        factors = dict(zip(counted.classes.tolist(), even.tolist(), strict=True))
    elif isinstance(class_weight, dict):
        factors = class_weight
        apply_class_weight(factors, np.array(list(factors), dtype=object), np.ones(len(factors)))  # checks the values
    return scan_all(factors), factors


def join_rows(parts: list[Rows]) -> Rows:
    """Concatenate one part or several."""
    x, labels, weights = zip(*parts, strict=True)
    stacked = scipy.sparse.vstack(x, format="csr") if scipy.sparse.issparse(x[0]) else np.concatenate(x)
    return Rows(stacked, np.concatenate(labels), np.concatenate(weights))


@dataclass(frozen=True)
class Shard:
    """A part of a source after the first pass, or all of it."""

    source: Source
    part: tuple[int, int]  #: which part of how many
    summary: Summary  #: of all rows of the source
    n_rows: int  #: rows of this part with positive weight
    n_skipped: int  #: its bad rows
    factors: dict[Any, float] | None  #: on the weights of each class's rows
    seed: int  #: of the order of rows, and of the choice of those held out and sampled
    held_out: float  #: share of the rows that is held out
    dtype: Any  #: of the features

    def _read(self, epoch: int | None) -> Iterator[tuple[np.ndarray, Rows]]:
        """Checked rows with positive weight and their numbers; labels are places among the classes."""
        summary, n_read = self.summary, 0
        check = RowCheck(summary.feature_names, self.n_skipped, self.dtype)
        class_factors = None
        if self.factors is not None:
            class_factors = np.array([self.factors.get(label, 1.0) for label in summary.classes.tolist()])
        for raw in self.source.batches(epoch, seed=self.seed, shard=self.part):
            batch = check(raw)
            if not len(batch):
                continue
            if batch.weight is not None:
                batch = batch.take(batch.weight > 0.0)
            if self.factors is not None and not all(self.factors.values()):
                left_out = [label for label, factor in self.factors.items() if factor == 0.0]
                batch = batch.take(~np.isin(batch.y, left_out))  # type: ignore[arg-type]
            places = summary.numbers(batch)
            weight = np.ones(len(batch)) if batch.weight is None else batch.weight
            n_read += len(batch)
            if n_read > self.n_rows:
                break
            weight = weight if class_factors is None else weight * class_factors[places]
            yield batch.row_numbers, Rows(batch.X, places, weight)
        if n_read != self.n_rows:
            more = "more than " if n_read > self.n_rows else ""
            raise ValueError(
                f"source had {self.n_rows} rows in the first pass, but {more}{min(n_read, self.n_rows)} in another; it "
                "must yield the same rows each time it is read."
            )

    def _is_held_out(self, numbers: np.ndarray) -> np.ndarray:
        return row_share(numbers, self.seed, HELD_OUT) < self.held_out

    def gather(self, sample_share: float) -> tuple[Rows, Rows]:
        """Read about this share of the rows into memory, and those that are held out, which are not among them.

        Classes with few rows have more of them in the sample, with less weight.
        """
        class_rates = np.clip(_LEAST_OF_CLASS / self.summary.class_rows, sample_share, 1.0) * (sample_share > 0.0)
        sampled, held = [], []
        for numbers, rows in read_ahead(self._read(None)):
            rates = class_rates[rows.labels]
            held_out = self._is_held_out(numbers)
            chosen = (row_share(numbers, self.seed, SAMPLE) < rates) & ~held_out
            some = rows.select(chosen)
            sampled.append(some._replace(weights=some.weights * sample_share / rates[chosen]))
            held.append(rows.select(held_out))
        return join_rows(sampled), join_rows(held)

    def read_passes(self, units: Standardizer, precision: Any, shuffle: bool) -> Callable[[int], Generator[Rows]]:
        """Passes over the rows that are not held out, in these units, read ahead in a thread."""
        summary, n_classes = self.summary, len(self.summary.classes)
        even = summary.n_rows / summary.total_weight

        def read_pass(number: int) -> Iterator[Rows]:
            for numbers, rows in self._read(number if shuffle else None):
                if self.held_out:
                    rows = rows.select(~self._is_held_out(numbers))
                x = units.transform(rows.x).astype(precision, copy=False)
                labels = swap_labels(rows.labels, n_classes)
                yield Rows(x, labels.astype(np.int64, copy=False), (rows.weights * even).astype(precision))

        return lambda number: read_ahead(read_pass(number))
