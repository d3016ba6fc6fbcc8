"""Rows of a source as a fit needs them: labelled by number, weighted, held out or sampled by a hash of their number."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from legendretron.estimators.classes import swap_labels, with_class_weight
from legendretron.estimators.standardization import Standardizer
from legendretron.streaming import Batch, Source, Summary, scan
from legendretron.streaming.read_ahead import read_ahead
from legendretron.streaming.row_check import RowCheck
from legendretron.streaming.row_hash import HELD_OUT, SAMPLE, row_share
from legendretron.training.row_window import Rows

__all__ = ["StreamData", "Taken", "balanced_factors", "given_factors", "scan_with_class_weight"]

#: Rows of each class that a sample has in the mean, if there are so many: classes must not be missing in it.
_LEAST_OF_CLASS = 30


def scan_with_class_weight(
    source: Source, class_weight: Any, skip_bad_rows: int
) -> tuple[Summary, dict[Any, float] | None]:
    """The first pass, and the factors on the weights of each class's rows; for balanced classes, it takes two passes."""
    factors = given_factors(class_weight)
    if class_weight == "balanced":
        factors = balanced_factors(scan(source, skip_bad_rows=skip_bad_rows))
    return scan(source, factors=factors, skip_bad_rows=skip_bad_rows), factors


def given_factors(class_weight: Any) -> dict[Any, float] | None:
    """Factors on the weights of each class's rows that are given, after a check."""
    if not isinstance(class_weight, dict):
        return None
    with_class_weight(class_weight, np.array(list(class_weight), dtype=object), np.ones(len(class_weight)))
    return class_weight


def balanced_factors(counted: Summary) -> dict[Any, float]:
    """Factors by which all classes count alike."""
    even = counted.n_rows / (len(counted.classes) * counted.class_rows)
    return dict(zip(counted.classes.tolist(), even.tolist(), strict=True))


class Taken(NamedTuple):
    """Rows in memory: features (n, d), places of their labels among the classes, and weights."""

    X: Any
    places: np.ndarray
    weight: np.ndarray


@dataclass(frozen=True)
class StreamData:
    """A source after its first pass.

    Attributes
    ----------
    source, summary
        The rows, and what is known of them.
    factors : dict or None
        Factors on the weights of each class's rows.
    seed : int
        Of the order of rows, and of the choice of those held out and sampled.
    held_out : float
        Share of the rows that is held out.
    dtype : dtype
        Of the features.
    """

    source: Source
    summary: Summary
    factors: dict[Any, float] | None
    seed: int
    held_out: float
    dtype: Any

    def _batches(self, epoch: int | None) -> Iterator[tuple[Batch, np.ndarray, np.ndarray]]:
        """Checked batches of rows with positive weight, with the places of their labels and their weights."""
        summary, seen = self.summary, 0
        check = RowCheck(summary.feature_names, summary.n_skipped)
        of_class = None
        if self.factors is not None:
            of_class = np.array([self.factors.get(label, 1.0) for label in summary.classes.tolist()])
        for raw in self.source.batches(epoch, seed=self.seed):
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
            seen += len(batch)
            if seen > summary.n_rows:
                break
            yield batch, places, weight if of_class is None else weight * of_class[places]
        if seen != summary.n_rows:
            more = "more than " if seen > summary.n_rows else ""
            raise ValueError(
                f"source had {summary.n_rows} rows in the first pass, but {more}{min(seen, summary.n_rows)} in another; it "
                "must yield the same rows each time it is read."
            )

    def _is_held_out(self, batch: Batch) -> np.ndarray:
        return row_share(batch.row_numbers, self.seed, HELD_OUT) < self.held_out

    def gather(self, sample_rows: int | None) -> tuple[Taken | None, Taken | None]:
        """Read a sample of about so many rows into memory, and those that are held out.

        Classes with few rows have more of them in the sample, with less weight.
        """
        summary = self.summary
        share = 0.0 if sample_rows is None else min(1.0, sample_rows / summary.n_rows)
        of_class = np.clip(_LEAST_OF_CLASS / summary.class_rows, share, 1.0) if share else np.zeros(1)
        sampled: list[Taken] = []
        held: list[Taken] = []
        for batch, places, weight in read_ahead(self._batches(None)):
            if share:
                rates = of_class[places]
                own = row_share(batch.row_numbers, self.seed, SAMPLE) < rates
                sampled.append(Taken(batch.X[own], places[own], (weight * share / rates)[own]))
            if self.held_out:
                out = self._is_held_out(batch)
                held.append(Taken(batch.X[out], places[out], weight[out]))
        return self.joined(sampled), self.joined(held)

    def joined(self, parts: list[Taken]) -> Taken | None:
        """Several parts as one; None if there is none."""
        if not parts:
            return None
        X, places, weight = zip(*parts, strict=True)
        stacked = scipy.sparse.vstack(X, format="csr") if self.summary.sparse else np.concatenate(X)
        return Taken(stacked.astype(self.dtype, copy=False), np.concatenate(places), np.concatenate(weight))

    def passes(self, units: Standardizer, precision: Any, shuffle: bool) -> Callable[[int], Generator[Rows]]:
        """Passes over the rows that are not held out, in these units, read ahead in a thread."""
        summary, n_classes = self.summary, len(self.summary.classes)
        even = summary.n_rows / summary.total_weight

        def prepared(number: int) -> Iterator[Rows]:
            for batch, places, weight in self._batches(number if shuffle else None):
                X = batch.X.astype(self.dtype, copy=False)
                if self.held_out:
                    kept = ~self._is_held_out(batch)
                    X, places, weight = X[kept], places[kept], weight[kept]
                x = units.transform(X).astype(precision, copy=False)
                labels = swap_labels(places, n_classes)
                yield Rows(x, labels.astype(np.int64, copy=False), (weight * even).astype(precision))

        return lambda number: read_ahead(prepared(number))
