"""Batches of rows in random order, pass after pass: of rows in memory, and of rows that arrive in pieces."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from legendretron.training.features import DenseFeatures, Features, as_features
from legendretron.training.problem import Sample

#: Batches drawn at once to skip those before a checkpoint.
_SKIPPED_AT_ONCE = 1000


def draw_order(n: int, generator: torch.Generator) -> Tensor:
    """Draw the order in which ``torch.utils.data.DataLoader(shuffle=True)`` goes through ``n`` rows.

    So a run sees the batches that the same seed gives to a training loop with torch's own loader.
    """

    def draw() -> int:
        return int(torch.empty((), dtype=torch.int64).random_(generator=generator).item())

    draw()  # a loader draws a seed for its workers first
    return torch.randperm(n, generator=torch.Generator().manual_seed(draw()))


class Block(NamedTuple):
    """``S`` batches of ``m`` rows for each of ``R`` runs."""

    rows: Tensor  #: rows of the features, shape (S, R, m)
    labels: Tensor  #: classes from 0, shape (S, R, m)
    weights: Tensor  #: shares of a batch, shape (S, R, m)
    n_rows: int  #: rows of a batch on all processes together


class Batches(ABC):
    """A source of batches."""

    n_rows: int  #: rows of a pass
    size: int  #: rows of a batch
    endless: bool  #: whether a batch can begin in one pass and end in the next; if not, the last one of a pass can be smaller

    @property
    @abstractmethod
    def features(self) -> Features:
        """The rows that the blocks refer to, until the next one is taken."""

    @property
    def n_steps(self) -> int:
        """Batches of a pass that is not endless."""
        return math.ceil(self.n_rows / self.size)

    @abstractmethod
    def take(self, most: int) -> Block:
        """The next batches, from one to ``most``."""

    def skip(self, n_batches: int) -> None:
        """Skip batches that were trained on before a checkpoint."""
        while n_batches:
            n_batches -= len(self.take(min(n_batches, _SKIPPED_AT_ONCE)).rows)

    def close(self) -> None:  # noqa: B027
        """End reading, if there is something to end."""


class SampleBatches(Batches):
    """Batches of rows in memory. Each run shuffles its rows with its own generator.

    If runs differ in length, batches must be endless. They are smaller than ``batch_size`` if a run has fewer rows.
    """

    def __init__(self, sample: Sample, batch_size: int, generators: list[torch.Generator], *, endless: bool) -> None:
        self._sample, self._weights = sample, sample.normalized_weights()
        self._generators, self.endless = generators, endless
        n_runs, self.n_rows = sample.rows.shape
        self._lengths = sample.lengths or [self.n_rows] * n_runs
        self.size = min([batch_size, *self._lengths])
        #: places in the sample that each run has drawn, but not trained on
        self._drawn = [torch.zeros(0, dtype=torch.int64)] * n_runs

    @property
    def features(self) -> Features:
        """See :class:`Batches`."""
        return self._sample.features

    def _draw(self, least: int) -> None:
        """Draw passes until each run has ``least`` places."""
        for run, (generator, length) in enumerate(zip(self._generators, self._lengths, strict=True)):
            parts = [self._drawn[run]]
            drawn = len(parts[0])
            while drawn < least:
                one_batch = self.size == length and not self.endless  # needs no order
                parts.append(torch.arange(length) if one_batch else draw_order(length, generator))
                drawn += length
            self._drawn[run] = torch.cat(parts)

    def take(self, most: int) -> Block:
        """See :class:`Batches`."""
        self._draw(most * self.size if self.endless else 1)
        left = len(self._drawn[0])
        count, size = min(most, left // self.size), self.size
        if self.endless:
            count = most
        elif count == 0:  # the rest of a pass
            count, size = 1, left
        places = torch.stack([places[: count * size] for places in self._drawn]).to(self._weights.device)
        self._drawn = [places[count * size :] for places in self._drawn]
        # batches first, so that each is contiguous
        rows, labels, weights = (
            torch.gather(part, 1, places).view(-1, count, size).transpose(0, 1).contiguous()
            for part in (self._sample.rows, self._sample.labels, self._weights)
        )
        return Block(rows, labels, weights / size, size)


class Rows(NamedTuple):
    """Some rows to train on."""

    x: Any  #: features, an array or a sparse matrix of shape (n, d)
    labels: np.ndarray  #: classes from 0, shape (n,)
    weights: np.ndarray  #: with a mean of one over all rows of a pass, shape (n,)

    def select(self, rows: slice | np.ndarray) -> Rows:
        """Some of them."""
        return Rows(self.x[rows], self.labels[rows], self.weights[rows])


#: From the number of a pass, from 0, to its rows in pieces of any size. All passes have the same rows.
Passes = Callable[[int], Iterator[Rows]]


class _DenseStore:
    """Features in memory that stays where it is, so that a step that was compiled or captured for it can be taken again."""

    def __init__(self, windows: list[slice], n_features: int, dtype: torch.dtype, device: torch.device) -> None:
        self._x = torch.zeros(windows[-1].stop, n_features, dtype=dtype, device=device)
        self._features = DenseFeatures(self._x)

    def features(self) -> Features:
        return self._features

    def put(self, window: slice, filled: int, x: Any) -> None:
        """Write rows after those that have been filled into a window."""
        start = window.start + filled
        self._x[start : start + len(x)].copy_(torch.from_numpy(x))

    def keep(self, window: slice, order: Tensor) -> None:
        """Move these rows of a window to its first places."""
        start = window.start
        self._x[start : start + len(order)] = self._x[(start + order).to(self._x.device)]


class _SparseStore:
    """Sparse rows, of which a new matrix is made each time a window has changed."""

    def __init__(self, windows: list[slice], n_features: int, dtype: torch.dtype, device: torch.device) -> None:
        self._windows, self._n_features, self._dtype, self._device = windows, n_features, dtype, device
        #: by the start of their window, in the order of their places
        self._parts = {window.start: [scipy.sparse.csr_array((0, n_features))] for window in windows}
        self._features: Features | None = None

    def features(self) -> Features:
        if self._features is None:
            filled = [scipy.sparse.vstack(self._parts[window.start], format="csr") for window in self._windows]
            for rows, window in zip(filled, self._windows, strict=True):
                rows.resize((window.stop - window.start, self._n_features))  # adds empty rows
            whole = filled[0] if len(filled) == 1 else scipy.sparse.vstack(filled, format="csr")
            self._features = as_features(whole, self._dtype, self._device)
        return self._features

    def put(self, window: slice, filled: int, x: Any) -> None:
        self._parts[window.start].append(scipy.sparse.csr_array(x))
        self._features = None

    def keep(self, window: slice, order: Tensor) -> None:
        self._parts[window.start] = [scipy.sparse.vstack(self._parts[window.start], format="csr")[order.numpy()]]
        self._features = None


class _Window:
    """Rows of one shard that are in memory, where they are mixed.

    It is filled, its rows are put into a random order, and the first half of them is trained on; then it is filled again. A
    pass that fits is shuffled as a whole, as rows in memory are.
    """

    def __init__(
        self, passes: Passes, batches: StreamBatches, place: slice, generator: torch.Generator, shuffle: bool
    ) -> None:
        self._passes, self._generator, self._shuffle = passes, generator, shuffle
        self._store, self._place = batches._store, place
        self._labels, self._weights = batches._labels[place], batches._weights[place]
        self._pass = -1
        self._reading: Iterator[Rows] | None = None
        self._piece: Rows | None = None
        self._filled = 0
        #: rows not trained on yet, in random order, and how many of them can be used before the window is filled again
        self._order = torch.zeros(0, dtype=torch.int64)
        self.ready = 0

    def prepare(self, least: int) -> None:
        """Make sure that at least ``least`` rows are ready."""
        while self.ready < least:
            self._advance()

    def take(self, n: int) -> Tensor:
        """Places of the next rows, of those that are ready."""
        places, self._order = self._place.start + self._order[:n], self._order[n:]
        self.ready -= n
        return places

    def close(self) -> None:
        """End reading."""
        if self._reading is not None and hasattr(self._reading, "close"):
            self._reading.close()
        self._reading = self._piece = None

    def _advance(self) -> None:
        """Leave out what has been trained on, fill the window, and draw the order of its rows."""
        self._store.keep(self._place, self._order)
        for values in (self._labels, self._weights):
            values[: len(self._order)] = values[self._order]
        self._filled, first = len(self._order), 0
        if self._reading is None:
            first = self._filled  # the rest of a pass comes before the rows of the next one
            self._pass += 1
            self._reading = self._passes(self._pass)
        self._fill()
        n, ended = self._filled, self._reading is None
        self._order = torch.arange(n)
        if self._shuffle:
            self._order[first:] = first + draw_order(n - first, self._generator)
        self.ready = n if ended or not self._shuffle else n // 2

    def _fill(self) -> None:
        while self._filled < len(self._labels) and self._reading is not None:
            if self._piece is None:
                self._piece = next(self._reading, None)
                if self._piece is None:
                    self.close()
                    break
            n = min(len(self._piece.labels), len(self._labels) - self._filled)
            rows, rest = self._piece.select(slice(0, n)), self._piece.select(slice(n, None))
            self._store.put(self._place, self._filled, rows.x)
            self._labels[self._filled : self._filled + n] = torch.from_numpy(rows.labels)
            self._weights[self._filled : self._filled + n] = torch.from_numpy(rows.weights)
            self._filled += n
            self._piece = rest if len(rest.labels) else None


class StreamBatches(Batches):
    """Batches of rows that arrive pass by pass, by way of a window in memory for each shard; of one run.

    With ``N`` rows in shards of ``n_s``, the first ``M`` rows of a pass are the first ``floor(M n_s / N)`` of each shard. So
    every row is used once, and every process knows how many rows the others have without asking.

    Parameters
    ----------
    shards : mapping of int to callable
        The passes of the shards that this process reads, by their numbers.
    sizes : sequence of int
        Rows of each shard, also of those that other processes read.
    batch_size : int
        Rows of a batch, on all processes together.
    window : int
        Rows of a window, at least four times what a batch takes of the shard; fewer if a pass has fewer.
    generators : sequence of torch.Generator
        Of the order of rows, one for each shard.
    shuffle, endless, n_features, sparse, dtype, device
        Whether rows are shuffled, or taken as they arrive; see :class:`Batches`; of the features.
    """

    def __init__(
        self,
        shards: Mapping[int, Passes],
        sizes: Sequence[int],
        batch_size: int,
        *,
        window: int,
        generators: Sequence[torch.Generator],
        shuffle: bool,
        endless: bool,
        n_features: int,
        sparse: bool,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self._sizes, self.n_rows = list(sizes), sum(sizes)
        self.size, self.endless = min(batch_size, self.n_rows), endless
        self._n_features, self._sparse, self._dtype, self._device = n_features, sparse, dtype, device
        places, start = {}, 0
        for shard in shards:
            most = -(-self.size * self._sizes[shard] // self.n_rows)
            # room for a whole pass, beside the rest of the pass before
            capacity = min(max(window, 4 * most), self._sizes[shard] + most)
            places[shard] = slice(start, start + capacity)
            start += capacity
        store = _SparseStore if sparse else _DenseStore
        self._store = store([*places.values()] or [slice(0, 0)], n_features, dtype, device)
        self._labels = torch.zeros(start, dtype=torch.int64)
        self._weights = torch.zeros(start, dtype=dtype)
        #: passes that are counted but not read
        self._unread = 0
        self._windows = {
            shard: _Window(self._passes(shard, passes), self, places[shard], generators[shard], shuffle)
            for shard, passes in shards.items()
        }
        self._step = 0

    @property
    def features(self) -> Features:
        """See :class:`Batches`."""
        return self._store.features()

    def _passes(self, shard: int, passes: Passes) -> Passes:
        return lambda number: self._blank_pass(shard) if number < self._unread else passes(number)

    def _blank_pass(self, shard: int) -> Iterator[Rows]:
        """Placeholder rows, as many as a pass has."""
        left = self._sizes[shard]
        while left:
            shape = min(left, len(self._labels)), self._n_features
            x = scipy.sparse.csr_array(shape) if self._sparse else np.zeros(shape)
            yield Rows(x, np.zeros(shape[0], dtype=np.int64), np.zeros(shape[0]))
            left -= shape[0]

    def _count_used(self, shard: int, step: int) -> int:
        """Rows of a shard that the steps before this one use, in a pass or, if endless, in all of them."""
        joint = step * self.size if self.endless else min(step * self.size, self.n_rows)
        return joint * self._sizes[shard] // self.n_rows

    def _next_rows(self) -> list[int]:
        """Rows of each shard in the next batch."""
        step = self._step if self.endless else self._step % self.n_steps
        return [self._count_used(shard, step + 1) - self._count_used(shard, step) for shard in range(len(self._sizes))]

    def take(self, most: int) -> Block:
        """See :class:`Batches`."""
        wanted, count = self._next_rows(), 1
        for shard, window in self._windows.items():
            window.prepare(wanted[shard])
            if len(wanted) == 1 and wanted[0] == self.size:  # batches of several shards differ in size
                count = min(most, window.ready // self.size)
        places = torch.cat([window.take(count * wanted[shard]) for shard, window in self._windows.items()])
        self._step += count
        shape = count, 1, len(places) // count
        parts = (places, self._labels[places], self._weights[places] / sum(wanted))
        rows, labels, weights = (part.view(shape).to(self._device) for part in parts)
        return Block(rows, labels, weights, sum(wanted))

    def skip(self, n_batches: int) -> None:
        """See :class:`Batches`; passes of which no row is needed any more are not read."""
        # the last rows of the pass before can be in the next batch
        self._unread = n_batches * self.size // self.n_rows - 1 if self.endless else n_batches // self.n_steps
        super().skip(n_batches)

    def close(self) -> None:
        """See :class:`Batches`."""
        for window in self._windows.values():
            window.close()
