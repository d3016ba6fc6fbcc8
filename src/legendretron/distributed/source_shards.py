"""A source in shards: the first pass over all of them, and their rows as they are trained on."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from legendretron.distributed.layout import Layout
from legendretron.distributed.shards import joined_rows
from legendretron.estimators.stream_data import StreamData, Taken
from legendretron.streaming.batch import Batch
from legendretron.streaming.moments import Moments
from legendretron.streaming.read_ahead import read_ahead
from legendretron.streaming.row_check import BadRowError
from legendretron.streaming.scan import Summary, scan
from legendretron.streaming.source import Source
from legendretron.training.row_window import Rows

__all__ = ["Shard", "SourceShards", "merged", "of_shards", "scan_shards", "window_for"]

#: Bytes of the features that are shuffled among each other in a shard, and rows of them at most.
_WINDOW_BYTES, _WINDOW_ROWS = 2**26, 2**16
T = TypeVar("T")


class Shard:
    """One part of a source, as a source."""

    def __init__(self, source: Source, number: int, n_shards: int) -> None:
        self.source, self.number, self.n_shards = source, number, n_shards
        self.feature_names = source.feature_names

    def batches(self, epoch: int | None = None, *, seed: int = 0, shard: tuple[int, int] = (0, 1)) -> Iterator[Batch]:
        """See :class:`~legendretron.streaming.Source`; there are no parts of a part."""
        return self.source.batches(epoch, seed=seed, shard=(self.number, self.n_shards))


def of_shards(work: Callable[[int], T], n_shards: int, layout: Layout) -> list[T]:
    """What a function returns for each shard; every process calls it for its own, and has all results.

    A ``ValueError`` of one process is raised on all of them: the others would wait in vain.
    """
    found: dict[int, tuple[T | None, str]] = {}
    for number in layout.shards(n_shards):
        try:
            found[number] = work(number), ""
        except (ValueError, OSError) as problem:
            found[number] = None, str(problem) or repr(problem)
    everyone = {number: one for part in layout.everyone(found) for number, one in part.items()}
    for number in range(n_shards):
        if error := everyone[number][1]:
            raise ValueError(error)
    return [everyone[number][0] for number in range(n_shards)]


def scan_shards(
    source: Source, n_shards: int, layout: Layout, factors: Mapping[Any, float] | None, skip_bad_rows: int
) -> list[Summary]:
    """The first pass over all shards, each in one process; all processes have all summaries afterwards."""

    def first_pass(number: int) -> Summary:
        return scan(source, factors=factors, skip_bad_rows=skip_bad_rows, shard=(number, n_shards))

    found = of_shards(first_pass, n_shards, layout)
    skipped = sum(summary.n_skipped for summary in found)
    if skipped > skip_bad_rows:
        raise BadRowError(
            f"{skipped} rows are bad, but only {skip_bad_rows} may be left out; repair them, or raise skip_bad_rows."
        )
    return found


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
        skipped=tuple(place for summary in summaries for place in summary.skipped),
    )


class SourceShards:
    """The rows of shards as they are trained on: see :class:`~legendretron.distributed.shards.ShardedRows`.

    Parameters
    ----------
    shards : list of StreamData
        All of them; each with the summary of all rows, but its own number of rows.
    sizes : list of int
        Rows of each shard to train on; the others are held out.
    held : dict of int to Taken
        Rows held out of the shards that this process reads.
    rows_of : callable
        Makes rows to train on of these.
    passes : callable
        From a shard to its passes, see :meth:`~legendretron.estimators.stream_data.StreamData.passes`.
    window : int
        Rows that are shuffled among each other, beside row groups that are read in another order in each epoch.
    """

    def __init__(
        self,
        shards: list[StreamData],
        sizes: list[int],
        held: dict[int, Taken],
        rows_of: Callable[[Taken], Rows],
        passes: Callable[[StreamData], Callable[[int], Generator[Rows]]],
        window: int,
    ) -> None:
        self.shards, self.sizes = shards, sizes
        self.held_out = [data.summary.n_rows - size for data, size in zip(shards, sizes, strict=True)]
        self._held, self._rows_of, self._passes, self._window = held, rows_of, passes, window
        self._n_rows = sum(data.summary.n_rows for data in shards)

    def training(self, shard: int, epoch: int) -> Iterator[Rows]:
        """The rows of a shard to train on, in the order of an epoch."""
        with closing(read_ahead(self._shuffled(shard, epoch), depth=2)) as rows:
            yield from rows

    def validation(self, shard: int) -> Iterator[Rows]:
        """The rows of a shard to stop early on."""
        if shard in self._held:
            yield self._rows_of(self._held[shard])

    def _shuffled(self, shard: int, epoch: int) -> Iterator[Rows]:
        data, window, n_held = self.shards[shard], list[Rows](), 0
        random = np.random.default_rng((data.seed, shard, epoch))
        even = self._n_rows / data.summary.n_rows  # weights are to have a mean of one over all shards
        with closing(self._passes(data)(epoch)) as batches:
            for rows in batches:
                window.append(rows._replace(weights=rows.weights * even))
                n_held += len(rows.labels)
                if n_held >= self._window:
                    yield _in_random_order(window, random)
                    window, n_held = [], 0
        if n_held:
            yield _in_random_order(window, random)


def window_for(summary: Summary, precision: np.dtype[Any]) -> int:
    """Rows of a shard that are shuffled among each other."""
    return min(_WINDOW_ROWS, max(1, _WINDOW_BYTES // (summary.n_features * precision.itemsize)))


def _in_random_order(parts: list[Rows], random: np.random.Generator) -> Rows:
    rows = joined_rows(parts)
    order = random.permutation(len(rows.labels))
    return Rows(rows.x[order], rows.labels[order], rows.weights[order])
