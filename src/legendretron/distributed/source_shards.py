"""A source in shards: the first pass over all of them, and their rows as they are trained on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from legendretron.distributed.layout import Layout
from legendretron.distributed.shards import Rows
from legendretron.streaming.batch import Batch
from legendretron.streaming.moments import Moments
from legendretron.streaming.read_ahead import read_ahead
from legendretron.streaming.row_check import BadRowError, RowCheck
from legendretron.streaming.row_hash import HELD_OUT, row_share
from legendretron.streaming.scan import Summary, scan
from legendretron.streaming.source import Source

__all__ = ["Shard", "SourceShards", "merged", "scan_shards"]

#: Rows of a shard that are shuffled among each other.
_WINDOW = 2**16


@dataclass(frozen=True)
class Shard:
    """One part of a source, without bad rows and those of weight zero.

    Attributes
    ----------
    source : Source
        The whole.
    number, n_shards : int
        Which part of how many.
    skip_bad_rows : int
        How many bad rows may be left out.
    factors : mapping, optional
        What the weights of a class's rows are multiplied by.
    held_out : float
        Share of the rows that is held out, to stop early on.
    seed : int
        Of the choice of these, and of the order of rows.
    """

    source: Source
    number: int
    n_shards: int
    skip_bad_rows: int = 0
    factors: Mapping[Any, float] | None = None
    held_out: float = 0.0
    seed: int = 0

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Of the source."""
        return self.source.feature_names

    def batches(self, epoch: int | None = None, *, seed: int = 0, shard: tuple[int, int] = (0, 1)) -> Iterator[Batch]:
        """Read the part once, in the order of an epoch; see :class:`~legendretron.streaming.Source`."""
        return self.checked(self.row_check(), epoch, seed)

    def row_check(self) -> RowCheck:
        """A check of the rows of one pass."""
        return RowCheck(self.feature_names, self.skip_bad_rows)

    def checked(self, check: RowCheck, epoch: int | None = None, seed: int = 0) -> Iterator[Batch]:
        """As :meth:`batches`, by a check that can be asked afterwards how many rows it has left out."""
        for batch in map(check, self.source.batches(epoch, seed=seed, shard=(self.number, self.n_shards))):
            weighted = self._weighted(batch)
            assert weighted.weight is not None
            yield weighted if (weighted.weight > 0.0).all() else weighted.take(weighted.weight > 0.0)

    def _weighted(self, batch: Batch) -> Batch:
        weight = np.ones(len(batch)) if batch.weight is None else batch.weight
        if self.factors is not None and batch.y is not None:
            labels, places = np.unique(batch.y, return_inverse=True)
            weight = weight * np.array([self.factors.get(label, 1.0) for label in labels.tolist()])[places]
        return replace(batch, weight=weight)

    def is_held_out(self, batch: Batch) -> np.ndarray:
        """Which rows of a batch are held out, shape (n,)."""
        if self.held_out == 0.0:
            return np.zeros(len(batch), dtype=bool)
        return row_share(batch.row_numbers, self.seed, HELD_OUT) < self.held_out


class _Counted:
    """A shard that counts, while it is read, the rows that are held out."""

    def __init__(self, shard: Shard) -> None:
        self._shard, self.feature_names = shard, shard.feature_names
        self.check = shard.row_check()
        self.n_held_out = 0

    def batches(self, epoch: int | None = None, *, seed: int = 0, shard: tuple[int, int] = (0, 1)) -> Iterator[Batch]:
        for batch in self._shard.checked(self.check, epoch, seed):
            self.n_held_out += int(self._shard.is_held_out(batch).sum())
            yield batch


def scan_shards(shards: list[Shard], layout: Layout) -> tuple[Summary, list[int], list[int]]:
    """Read all shards once, each in one process, and return what every process then knows.

    Returns the summary of all rows, and how many rows of each shard are to be trained on and how many are held out.
    """
    found: dict[int, tuple[Summary | None, int, str]] = {}
    for number in layout.shards(len(shards)):
        counted = _Counted(shards[number])
        # an error is told to the others, who would wait in vain
        try:
            summary = replace(scan(counted), n_skipped=counted.check.n_skipped)
            found[number] = summary, counted.n_held_out, ""
        except (ValueError, OSError) as error:
            found[number] = None, 0, str(error)
    everyone = {number: one for part in layout.everyone(found) for number, one in part.items()}
    in_order = [everyone[number] for number in range(len(shards))]
    for number, (_, _, error) in enumerate(in_order):
        if error:
            raise ValueError(error if len(shards) == 1 else f"shard {number + 1} of {len(shards)}: {error}")
    summaries = [summary for summary, _, _ in in_order if summary is not None]
    held_out = [count for _, count, _ in in_order]
    skipped, most = sum(summary.n_skipped for summary in summaries), shards[0].skip_bad_rows
    if skipped > most:
        raise BadRowError(f"{skipped} rows are bad, but only {most} may be left out; repair them, or raise skip_bad_rows.")
    return merged(summaries), [s.n_rows - n for s, n in zip(summaries, held_out, strict=True)], held_out


def merged(summaries: list[Summary]) -> Summary:
    """The summary of several parts of a source.

    Examples
    --------
    >>> from legendretron.streaming import as_source
    >>> parts = [scan(as_source((np.array([[0.0], [1.0]]), np.array(y)))) for y in (["a", "b"], ["b", "c"])]
    >>> both = merged(parts)
    >>> both.classes.tolist(), both.class_rows.tolist(), both.mean.tolist(), both.variance.tolist()
    (['a', 'b', 'c'], [1, 2, 1], [0.5], [0.25])
    """
    first = summaries[0]
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
    )


class SourceShards:
    """The rows of shards as they are trained on: see :class:`~legendretron.distributed.shards.ShardedRows`.

    Parameters
    ----------
    shards : list of Shard
        All of them.
    sizes, held_out : list of int
        From :func:`scan_shards`.
    prepare : callable
        Makes :class:`Rows` of a batch: standardised features, labels as numbers.
    window : int
        Rows that are shuffled among each other, beside the blocks that are read in another order in each epoch.
    """

    def __init__(
        self,
        shards: list[Shard],
        sizes: list[int],
        held_out: list[int],
        prepare: Callable[[Batch], Rows],
        window: int = _WINDOW,
    ) -> None:
        self.shards, self.sizes, self.held_out, self._prepare = shards, sizes, held_out, prepare
        self._window = window

    def training(self, shard: int, epoch: int) -> Iterator[Rows]:
        """The rows of a shard to train on, in the order of an epoch."""
        with closing(read_ahead(self._shuffled(shard, epoch))) as rows:
            yield from rows

    def validation(self, shard: int) -> Iterator[Rows]:
        """The rows of a shard to stop early on."""
        own = self.shards[shard]
        for batch in own.batches():
            if (held := own.is_held_out(batch)).any():
                yield self._prepare(batch.take(held))

    def _shuffled(self, shard: int, epoch: int) -> Iterator[Rows]:
        own, window, held = self.shards[shard], list[Rows](), 0
        random = np.random.default_rng((own.seed, shard, epoch))
        for batch in own.batches(epoch, seed=own.seed):
            kept = batch.take(~own.is_held_out(batch))
            window.append(self._prepare(kept))
            held += len(kept)
            if held >= self._window:
                yield _in_random_order(window, random)
                window, held = [], 0
        if held:
            yield _in_random_order(window, random)


def _in_random_order(parts: list[Rows], random: np.random.Generator) -> Rows:
    rows = Rows.joined(parts)
    order = random.permutation(len(rows))
    return Rows(rows.X[order], rows.labels[order], rows.weight[order])
