"""Batches of rows that arrive in pieces, of which a window is in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from legendretron.training.features import DenseFeatures, Features, as_features
from legendretron.training.problem import Batches, Block, draw_order


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


class _Window:
    """Rows of one shard that are in memory, where they are mixed.

    It is filled, its rows are put into a random order, and the first half of them is trained on; then it is filled again. A
    pass that fits is shuffled as a whole, as rows in memory are.

    ``x``, ``labels`` and ``weights`` are the memory from row ``start`` on. Sparse rows are a list of parts instead of ``x``.
    """

    def __init__(
        self,
        passes: Passes,
        start: int,
        x: Tensor | list[scipy.sparse.csr_array],
        labels: Tensor,
        weights: Tensor,
        generator: torch.Generator,
        shuffle: bool,
    ) -> None:
        self._passes, self._start, self._generator, self._shuffle = passes, start, generator, shuffle
        self._x, self._labels, self._weights = x, labels, weights
        self._pass = -1
        self._reading: Iterator[Rows] | None = None
        self._piece: Rows | None = None
        self._filled = 0
        #: rows not trained on yet, in random order, and how many of them can be used before the window is filled again
        self._order = torch.zeros(0, dtype=torch.int64)
        self.ready = 0

    def prepare(self, least: int) -> bool:
        """Make sure that at least ``least`` rows are ready; return whether rows had to be read for that."""
        if self.ready >= least:
            return False
        while self.ready < least:
            self._advance()
        return True

    def stack(self) -> scipy.sparse.csr_array:
        """Return sparse rows as one matrix, with empty rows where the window is not filled."""
        rows = scipy.sparse.vstack(self._x, format="csr")
        rows.resize((len(self._labels), rows.shape[1]))
        return rows

    def take(self, n: int) -> Tensor:
        """Places of the next rows, of those that are ready."""
        places, self._order = self._start + self._order[:n], self._order[n:]
        self.ready -= n
        return places

    def close(self) -> None:
        """End reading."""
        if self._reading is not None and hasattr(self._reading, "close"):
            self._reading.close()
        self._reading = self._piece = None

    def _advance(self) -> None:
        """Leave out what has been trained on, fill the window, and draw the order of its rows."""
        order = self._order
        if isinstance(self._x, list):
            self._x = [scipy.sparse.vstack(self._x, format="csr")[order.numpy()]]
        else:
            self._x[: len(order)] = self._x[order.to(self._x.device)]
        for values in (self._labels, self._weights):
            values[: len(order)] = values[order]
        self._filled, first = len(order), 0
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
            place = slice(self._filled, self._filled + n)
            if isinstance(self._x, list):
                self._x.append(scipy.sparse.csr_array(rows.x))
            else:
                self._x[place].copy_(torch.from_numpy(rows.x))
            self._labels[place] = torch.from_numpy(rows.labels)
            self._weights[place] = torch.from_numpy(rows.weights)
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
        capacities = {}
        for shard in shards:
            most = -(-self.size * self._sizes[shard] // self.n_rows)
            # room for a whole pass, beside the rest of the pass before
            capacities[shard] = min(max(window, 4 * most), self._sizes[shard] + most)
        n_places = sum(capacities.values())
        self._labels, self._weights = torch.zeros(n_places, dtype=torch.int64), torch.zeros(n_places, dtype=dtype)
        self._features: Features | None = None
        if (
            not sparse
        ):  # they stay where they are, so that a step that was compiled or captured for them can be taken again
            x = torch.zeros(n_places, n_features, dtype=dtype, device=device)
            self._features = DenseFeatures(x)
        #: passes that are counted but not read
        self._unread = 0
        self._windows: dict[int, _Window] = {}
        start = 0
        for shard, passes in shards.items():
            place = slice(start, start + capacities[shard])
            self._windows[shard] = _Window(
                self._passes(shard, passes),
                start,
                [scipy.sparse.csr_array((0, n_features))] if sparse else x[place],
                self._labels[place],
                self._weights[place],
                generators[shard],
                shuffle,
            )
            start = place.stop
        self._step = 0

    @property
    def features(self) -> Features:
        """See :class:`Batches`."""
        if self._features is None:
            filled = [window.stack() for window in self._windows.values()]
            whole = scipy.sparse.vstack([scipy.sparse.csr_array((0, self._n_features)), *filled], format="csr")
            self._features = as_features(whole, self._dtype, self._device)
        return self._features

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
            if window.prepare(wanted[shard]) and self._sparse:
                self._features = None
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
