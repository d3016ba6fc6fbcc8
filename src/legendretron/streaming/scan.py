"""The first pass over a source: classes, means, deviations and numbers of rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse

from legendretron._internal.columns import too_large
from legendretron.streaming.moments import SMALLEST_VARIANCE, Moments
from legendretron.streaming.source import Batch, RowCheck, Source, read_ahead

#: Kinds of labels, as numpy names them, that can be mixed.
_NUMBERS = {"i", "u", "f"}
_ALIKE = (_NUMBERS, {"U", "O"}, {"b"})


@dataclass(frozen=True)
class Summary:
    """What the first pass has found.

    Examples
    --------
    >>> from legendretron.streaming import as_source
    >>> summary = scan(as_source((np.array([[0.0], [2.0]]), np.array([0, 1]))))
    >>> summary.n_rows, summary.mean.tolist()
    (2, [1.0])
    """

    classes: np.ndarray  #: (C,), labels of rows with positive weight, sorted
    class_rows: np.ndarray  #: (C,), rows with positive weight of each class
    class_weight: np.ndarray  #: (C,), the sum of their weights
    n_rows: int  #: rows with positive weight; others are left out
    mean: np.ndarray  #: (d,), weighted means, float64
    variance: np.ndarray  #: (d,), weighted variances, float64
    dtype: Any  #: of the features: float32 if all batches are, else float64
    sparse: bool  #: whether batches are sparse matrices
    n_skipped: int  #: bad rows that were left out
    feature_names: tuple[str, ...] | None  #: of the source
    skipped: tuple[str, ...] = ()  #: what was wrong with the first bad rows, and where they are
    lost: tuple[Any, ...] = ()  #: labels that only bad rows have

    @property
    def n_features(self) -> int:
        """``d``."""
        return len(self.mean)

    @property
    def total_weight(self) -> float:
        """Sum of all weights."""
        return float(self.class_weight.sum())

    @property
    def scale(self) -> np.ndarray:
        """Standard deviations, shape (d,); of a feature that is constant up to rounding, its size, or 1 if it is 0."""
        if not np.isfinite(self.variance).all():
            raise too_large(~np.isfinite(self.variance), self.feature_names, "variance")
        tiny = (self.variance < SMALLEST_VARIANCE) & (self.mean != 0.0) & (self.mean**2 < SMALLEST_VARIANCE)
        if tiny.any():
            raise too_large(tiny, self.feature_names, "variance", "small")
        eps = np.finfo(np.float64).eps
        rounding = self.n_rows * eps * self.variance + (self.n_rows * self.mean * eps) ** 2
        size = np.where(self.mean == 0.0, 1.0, abs(self.mean))
        return np.where(self.variance <= rounding, size, np.sqrt(self.variance))

    def numbers(self, batch: Batch) -> np.ndarray:
        """Labels of a batch as places in ``classes``; a ``ValueError`` for one that is not among them."""
        assert batch.y is not None
        # in the type of the classes, so that labels can be looked up
        y = batch.y.astype(object) if self.classes.dtype.kind == "O" and batch.y.dtype.kind != "O" else batch.y
        places = np.searchsorted(self.classes, y).clip(max=len(self.classes) - 1)
        unknown = np.flatnonzero(self.classes[places] != y)
        if len(unknown):
            place = f"{batch.origin}: " if batch.origin else ""
            raise ValueError(
                f"{place}the label {y[unknown].tolist()[0]!r} was not seen in the first pass; a source must yield "
                "the same rows each time it is read."
            )
        return places


def scan(
    source: Source,
    *,
    factors: Mapping[Any, float] | None = None,
    skip_bad_rows: int = 0,
    shard: tuple[int, int] = (0, 1),
    dtype: Any = None,
) -> Summary:
    """Read a source once, in its order, and check every row.

    Parameters
    ----------
    source : Source
        With labels.
    factors : mapping, optional
        What the weights of a class's rows are multiplied by; 1 if it is not among them.
    skip_bad_rows : int
        How many bad rows may be left out.
    shard : tuple of int
        Which part to read, see :class:`Source`.
    dtype : numpy dtype, optional
        Of the features in the fit; a row with a number that is too large for it is a bad one.

    Examples
    --------
    >>> from legendretron.streaming import as_source
    >>> summary = scan(as_source((np.array([[1.0], [2.0], [3.0]]), np.array(["b", "a", "b"]))))
    >>> summary.classes.tolist(), summary.class_rows.tolist(), summary.mean.tolist()
    (['a', 'b'], [1, 2], [2.0])
    """
    check = RowCheck(source.feature_names, skip_bad_rows, dtype)
    rows: dict[Any, int] = {}
    weights: dict[Any, float] = {}
    moments: Moments | None = None
    single, sparse, kinds = True, False, dict[str, str]()  # of labels, and where each was met first
    for batch in read_ahead(map(check, source.batches(shard=shard))):
        if moments is None:
            moments = Moments(batch.X.shape[1])
            sparse = scipy.sparse.issparse(batch.X)
        if scipy.sparse.issparse(batch.X) != sparse:
            raise ValueError(
                f"{batch.origin or 'a batch'} is {'dense' if sparse else 'sparse'}, unlike those before it."
            )
        if batch.y is None:
            raise ValueError("source has no labels; name the column that is to be predicted by target.")
        if not len(batch):
            continue
        single &= batch.X.dtype == np.float32
        weight = np.ones(len(batch)) if batch.weight is None else batch.weight
        labels, inverse = np.unique(_plain_labels(batch), return_inverse=True)
        kinds.setdefault(labels.dtype.kind, batch.origin)
        if not any(kinds.keys() <= alike for alike in _ALIKE):
            raise ValueError(
                f"{batch.origin or 'a batch'} has labels of another type ({labels.dtype}) than "
                f"{next(iter(kinds.values())) or 'batches before it'}; use one."
            )
        if factors is not None:
            weight = weight * np.array([factors.get(label, 1.0) for label in labels.tolist()])[inverse]
        counts = np.bincount(inverse, weight > 0, len(labels))
        sums = np.bincount(inverse, weight, len(labels))
        for label, count, total in zip(labels.tolist(), counts, sums, strict=True):
            if count:
                rows[label] = rows.get(label, 0) + int(count)
                weights[label] = weights.get(label, 0.0) + float(total)
        if batch.moments is not None and batch.weight is None and factors is None:
            moments.merge(batch.moments.weight, batch.moments.mean, batch.moments.squares)
        else:
            moments.add(batch.X, weight)
    if moments is None or not rows:
        what = "no rows" if moments is None else "no row with a positive weight"
        raise ValueError(f"source has {what}.")
    classes = np.array(sorted(rows), dtype=object if "O" in kinds else None)
    if kinds.keys() <= _NUMBERS and kinds.keys() != {"f"}:
        classes = classes.astype(np.int64)
    in_order = classes.tolist()
    return Summary(
        classes=classes,
        class_rows=np.array([rows[label] for label in in_order]),
        class_weight=np.array([weights[label] for label in in_order]),
        n_rows=sum(rows.values()),
        mean=moments.mean,
        variance=moments.variance,
        dtype=np.dtype(np.float32 if single else np.float64),
        sparse=sparse,
        n_skipped=check.n_skipped,
        feature_names=source.feature_names,
        skipped=tuple(check.skipped),
        lost=tuple(sorted(check.labels - {*rows}, key=str)),
    )


def merge_summaries(summaries: list[Summary]) -> Summary:
    """The summary of several parts of a source.

    Examples
    --------
    >>> from legendretron.streaming import as_source
    >>> parts = [scan(as_source((np.array([[0.0], [1.0]]), np.array(y)))) for y in (["a", "b"], ["b", "c"])]
    >>> both = merge_summaries(parts)
    >>> both.classes.tolist(), both.class_rows.tolist(), both.mean.tolist(), both.variance.tolist()
    (['a', 'b', 'c'], [1, 2, 1], [0.5], [0.25])
    """
    first = summaries[0]
    if len(summaries) == 1:
        return first
    for other in summaries[1:]:
        if other.n_features != first.n_features or other.sparse != first.sparse:
            raise ValueError(
                f"parts of the data differ: {first.n_features} and {other.n_features} features"
                f"{', sparse and dense' if first.sparse != other.sparse else ''}."
            )
    kinds = {summary.classes.dtype.kind for summary in summaries}
    if len(kinds) > 1:
        raise ValueError(f"parts of the data have labels of different types, {sorted(kinds)}; use one type.")
    classes = np.unique(np.concatenate([summary.classes for summary in summaries]))
    rows, weight = np.zeros(len(classes), dtype=np.int64), np.zeros(len(classes))
    moments = Moments(first.n_features)
    for summary in summaries:
        places = np.searchsorted(classes, summary.classes)
        rows[places] += summary.class_rows
        weight[places] += summary.class_weight
        moments.merge(summary.total_weight, summary.mean, summary.variance * summary.total_weight)
    return replace(
        first,
        classes=classes,
        class_rows=rows,
        class_weight=weight,
        n_rows=int(rows.sum()),
        mean=moments.mean,
        variance=moments.variance,
        dtype=np.result_type(*(summary.dtype for summary in summaries)),
        n_skipped=sum(summary.n_skipped for summary in summaries),
        lost=tuple(sorted({label for part in summaries for label in part.lost} - {*classes.tolist()}, key=str)),
        skipped=tuple(place for summary in summaries for place in summary.skipped),
    )


def _plain_labels(batch: Batch) -> np.ndarray:
    """Labels as they are, after a check that they can be classes."""
    assert batch.y is not None
    y = batch.y
    if y.dtype.kind == "f" and (fractions := y[y != np.floor(y)]).size:
        raise ValueError(
            f"{batch.origin or 'y'} holds the label {fractions[0]}, which is not a whole number; this is classification: "
            "classes are whole numbers or text."
        )
    strange = [label for label in y if not isinstance(label, str)] if y.dtype.kind == "O" else y
    if y.dtype.kind not in "iubfU" and len(strange):
        raise ValueError(
            f"{batch.origin or 'y'} holds the label {strange[0]!r}, a {type(strange[0]).__name__}; labels are integers, "
            "booleans or strings."
        )
    return y
