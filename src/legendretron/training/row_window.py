"""Batches from rows that arrive pass by pass, by way of a window of rows in memory, in which they are mixed."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from legendretron.training.features import DenseFeatures, Features, as_features
from legendretron.training.minibatch import shuffled

__all__ = ["Rows", "WindowBatches"]


class Rows(NamedTuple):
    """Some rows to train on.

    Attributes
    ----------
    x : ndarray or sparse matrix of shape (n, d)
        Features, as they are trained with.
    labels : ndarray of shape (n,)
        Classes, from 0.
    weights : ndarray of shape (n,)
        Weights, with a mean of one over all rows of a pass.
    """

    x: Any
    labels: np.ndarray
    weights: np.ndarray

    def take(self, rows: slice) -> Rows:
        """Some of them."""
        return Rows(self.x[rows], self.labels[rows], self.weights[rows])


class _DenseWindow:
    """Rows in memory that stays where it is, so that a step that was compiled or captured for it can be taken again."""

    def __init__(self, size: int, n_features: int, dtype: torch.dtype, device: torch.device) -> None:
        self.x = torch.zeros(size, n_features, dtype=dtype, device=device)
        self.features: Features = DenseFeatures(self.x)

    def put(self, start: int, x: Any) -> None:
        self.x[start : start + len(x)].copy_(torch.from_numpy(x))

    def keep(self, places: Tensor) -> None:
        self.x[: len(places)] = self.x[places.to(self.x.device)]

    def fix(self) -> None:
        """Make :attr:`features` hold what has been put in."""


class _SparseWindow:
    """Rows of sparse matrices, of which a new one is made each time the window has changed."""

    def __init__(self, dtype: torch.dtype, device: torch.device) -> None:
        self._parts: list[Any] = []
        self._dtype, self._device = dtype, device
        self.features: Features

    def put(self, start: int, x: Any) -> None:
        self._parts.append(scipy.sparse.csr_array(x))

    def keep(self, places: Tensor) -> None:
        self._parts = [self._parts[0][places.numpy()]]

    def fix(self) -> None:
        self._parts = [scipy.sparse.vstack(self._parts, format="csr")]
        self.features = as_features(self._parts[0], self._dtype, self._device)


class WindowBatches:
    """Batches of rows that arrive pass by pass.

    A window is filled, its rows are put into a random order, and the first half of them is trained on; then the window is
    filled again. A pass that fits into the window is shuffled as a whole, as rows in memory are. Whole batches are formed
    across the borders of what arrives.

    Parameters
    ----------
    passes : callable
        Given the number of a pass, from 0, returns an iterator over its :class:`Rows`. All passes have the same rows.
    n_rows, n_features : int
        Rows of a pass, and features.
    batch_size : int
        Rows of a batch.
    window : int
        Rows of the window, at least four batches; fewer if a pass has fewer.
    generator : torch.Generator
        Of the order of rows.
    shuffle : bool
        If not, rows are taken in the order in which they arrive.
    endless : bool
        Whether passes follow each other without an end: then a batch can begin in one pass and end in the next. If not, the
        last batch of a pass can be smaller.
    sparse : bool
        Whether rows come as sparse matrices.
    dtype, device
        Of features and weights on the device.
    """

    def __init__(
        self,
        passes: Callable[[int], Generator[Rows]],
        *,
        n_rows: int,
        n_features: int,
        batch_size: int,
        window: int,
        generator: torch.Generator,
        shuffle: bool,
        endless: bool,
        sparse: bool,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self._passes, self._generator = passes, generator
        self._shuffle, self._endless, self.sparse = shuffle, endless, sparse
        self.size = min(batch_size, n_rows)
        # a pass that fits must not be divided: beside it there can be the rest of the pass before
        self.capacity = min(max(window, 4 * self.size), n_rows + self.size)
        self._window: _DenseWindow | _SparseWindow = (
            _SparseWindow(dtype, device) if sparse else _DenseWindow(self.capacity, n_features, dtype, device)
        )
        self._labels = torch.zeros(self.capacity, dtype=torch.int64)
        self._weights = torch.zeros(self.capacity, dtype=dtype)
        self._device = device
        self._number = -1
        self._reading: Generator[Rows] | None = None
        self._piece: Rows | None = None
        #: rows in the window, and the order of them; how many of these are to be taken before the window is filled again, and
        #: how many have been
        self._filled = self._due = self._taken = 0
        self._order = torch.zeros(0, dtype=torch.int64)
        #: counts changes of the window, after each of which :attr:`features` may be others
        self.version = 0

    @property
    def features(self) -> Features:
        """Rows of the window, to which batches refer."""
        return self._window.features

    def begin(self, number: int) -> None:
        """Begin a pass."""
        self.close()
        self._reading, self._number = self._passes(number), number

    def close(self) -> None:
        """End reading."""
        if self._reading is not None:
            self._reading.close()
        self._reading = self._piece = None

    def _fill(self) -> None:
        while self._filled < self.capacity and self._reading is not None:
            if self._piece is None:
                self._piece = next(self._reading, None)
                if self._piece is None:
                    self.close()
                    break
            n = min(len(self._piece.labels), self.capacity - self._filled)
            now, rest = self._piece.take(slice(0, n)), self._piece.take(slice(n, None))
            own = slice(self._filled, self._filled + n)
            self._window.put(self._filled, now.x)
            self._labels[own] = torch.from_numpy(now.labels)
            self._weights[own] = torch.from_numpy(now.weights)
            self._filled += n
            self._piece = rest if len(rest.labels) else None
        self._window.fix()
        self.version += 1

    def _advance(self) -> bool:
        """Leave out what has been taken, fill the window, and draw the order of its rows; False at the end of a pass."""
        if self._due:
            left = self._order[self._due :]
            self._window.keep(left)
            for part in (self._labels, self._weights):
                part[: len(left)] = part[left]
            self._filled = len(left)
        self._due = self._taken = first = 0
        if self._reading is None:
            if not self._endless:
                return False
            first = self._filled  # less than a batch: it comes before the rows of the next pass
            self.begin(self._number + 1)
        self._fill()
        n, ended = self._filled, self._reading is None
        self._order = torch.arange(n)
        if self._shuffle:
            self._order[first:] = first + shuffled(n - first, self._generator)
        due = n if ended or not self._shuffle else n // 2
        self._due = due if ended and not self._endless else due // self.size * self.size
        return True

    def _prepare(self) -> bool:
        """Make sure that there is a batch to take; False at the end of a pass, unless passes are endless."""
        while self._taken == self._due:
            if not self._advance():
                return False
        return True

    def first(self) -> tuple[Tensor, Tensor]:
        """Rows and weights (1, m) of the first batch, of two rows at least, which :meth:`take` returns again."""
        self._prepare()
        places = self._order[: min(max(self.size, 2), self._filled)]
        return places.unsqueeze(0).to(self._device), self._weights[places].unsqueeze(0).to(self._device)

    def take(self, most: int | None = None) -> tuple[Tensor, Tensor, Tensor] | None:
        """Places in :attr:`features`, labels and weights (as shares of a batch) of the next batches, (S, 1, m).

        As many as the window has, or at most so many; None at the end of a pass, unless passes are endless.
        """
        if not self._prepare():
            return None
        whole = (self._due - self._taken) // self.size
        count, size = (1, self._due - self._taken) if whole == 0 else (whole, self.size)
        count = count if most is None else min(count, most)
        places = self._order[self._taken : self._taken + count * size]
        self._taken += count * size
        parts = (places, self._labels[places], self._weights[places] / size)
        rows, labels, weights = (part.view(count, 1, size).to(self._device) for part in parts)
        return rows, labels, weights
