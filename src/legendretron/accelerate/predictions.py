r"""Probabilities of many rows by one compiled function, for links with closed forms: no graph, no tensors in between."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor

from legendretron.accelerate.cpu.support import has_numba
from legendretron.accelerate.inverse import network_numbers
from legendretron.links.base import Link
from legendretron.links.binary_potential import KeptPotential
from legendretron.links.canonical import CanonicalLink
from legendretron.links.composite import CompositeLink
from legendretron.links.softmax import SoftmaxLink
from legendretron.potentials import FICNN, CPFlowNetwork, RidgePotential

__all__ = ["RowProbabilities", "row_probabilities"]

_VECTOR = 16  # rows of a block are a multiple of this
_WIDTH = 64
#: Numbers of a block of rows, so that it stays in the cache.
_BLOCK = 2**15
_PART = 250_000  # units of rows that are worth a thread


class RowProbabilities(ABC):
    """A link as numbers that a compiled function works with.

    Parameters
    ----------
    numbers : Tensor of shape (m,)
        All of its parameters, as the function takes them.
    n_classes : int
        ``C``.
    units : int
        Numbers that a row needs at once.
    """

    def __init__(self, numbers: Tensor, n_classes: int, units: int) -> None:
        self.numbers: np.ndarray = numbers.detach().contiguous().numpy()
        self.n_classes, self._units = n_classes, units
        #: Whether all parameters of the link are finite.
        self.finite = True
        #: Whether results are as accurate as those of the link itself.
        self.accurate = True

    @abstractmethod
    def _rows(
        self, z: np.ndarray, bias: np.ndarray, first: int, last: int, log: bool, swap: bool, out: np.ndarray, width: int
    ) -> int:
        """Rows from ``first`` to ``last``; the first one that is not finite, or -1."""

    def __call__(self, z: np.ndarray, bias: np.ndarray, *, log: bool, swap: bool, out: np.ndarray) -> bool:
        """Write probabilities, or their logarithms; whether all logarithms are finite. If not, ``out`` is of no use.

        Parameters
        ----------
        z : ndarray of shape (n, C - 1)
            Predictors without their intercepts, contiguous, in the precision of the link.
        bias : ndarray of shape (C - 1,)
            Intercepts.
        log : bool
            Whether logarithms are wanted.
        swap : bool
            Whether to write the classes in the reverse order.
        out : ndarray of shape (n, C)
            Contiguous.
        """
        n = len(z)
        z, out = z.reshape(-1), out.reshape(-1)
        most = max(_VECTOR, min(_WIDTH, _BLOCK // self._units // _VECTOR * _VECTOR))
        width = min(most, -(-n // _VECTOR) * _VECTOR)
        size = n * self._units
        parts = 1 if size < 2 * _PART else min(torch.get_num_threads(), size // _PART)
        if parts == 1:
            return self._rows(z, bias, 0, n, log, swap, out, width) < 0

        def part(i: int) -> int:
            return self._rows(z, bias, i * n // parts, (i + 1) * n // parts, log, swap, out, width)

        with ThreadPoolExecutor(parts) as threads:  # of this call only: those of a pool are missing in a forked process
            return max(threads.map(part, range(parts))) < 0


class _Chain(RowProbabilities):
    """Softmax+ after ridge blocks of one shape; after none, softmax+ itself."""

    def __init__(self, blocks: list[RidgePotential], n_classes: int, like: Tensor) -> None:
        self._n_blocks = len(blocks)
        self._hidden, self._depth = (blocks[0].hidden, blocks[0].depth) if blocks else (1, 1)
        self._final_softplus = not blocks or blocks[0].final_softplus
        numbers = torch.cat([_ridge_numbers(block).to(like) for block in blocks]) if blocks else like.new_zeros(1)
        rank = self._hidden * self._depth + 1
        super().__init__(numbers, n_classes, n_classes + (3 * rank if blocks else 0))

    def _rows(
        self, z: np.ndarray, bias: np.ndarray, first: int, last: int, log: bool, swap: bool, out: np.ndarray, width: int
    ) -> int:
        from legendretron.accelerate.cpu.prediction import chain_probabilities

        sizes = self._n_blocks, self._hidden, self._depth, self._final_softplus
        return int(
            chain_probabilities(z, bias, first, last, self.n_classes - 1, self.numbers, *sizes, log, swap, out, width)
        )


class _Nests(RowProbabilities):
    """The gradient of a nested log-sum-exp."""

    def __init__(self, link: CanonicalLink, like: Tensor) -> None:
        nests, self._n_nests = link.nests, link.nests.n_nests
        beta, mu, gate, offsets = (
            nests._numbers().double().split([1, *2 * [self._n_nests], self._n_nests * link.n_classes])
        )
        offsets = offsets.reshape(self._n_nests, -1)
        # what is taken off all offsets of a nest is added to its log-sum-exp
        highest = offsets.amax(-1)
        offsets, gate = offsets - highest.unsqueeze(-1), gate + beta / mu * highest
        numbers = torch.cat([beta, mu, gate, offsets.reshape(-1)]).to(like.dtype)
        super().__init__(numbers, link.n_classes, (2 + self._n_nests) * link.n_classes)
        # exponentials that become zero must not count beside what the class of the highest predictor adds to a nest
        limit, lost = (708.0, 40.0) if like.dtype == torch.float64 else (87.0, 20.0)
        spread = -float(offsets.min())
        self.accurate = spread < limit / 3
        self._smallest = self.numbers.dtype.type(math.exp(min(0.0, spread + lost - limit)))

    def _rows(
        self, z: np.ndarray, bias: np.ndarray, first: int, last: int, log: bool, swap: bool, out: np.ndarray, width: int
    ) -> int:
        from legendretron.accelerate.cpu.prediction import nested_probabilities

        sizes = self.n_classes - 1, self.numbers, self._n_nests, self._smallest
        return int(nested_probabilities(z, bias, first, last, *sizes, log, swap, out, width))


def _ridge_numbers(block: RidgePotential) -> Tensor:
    """``A``, then ``b``, the mixing weights, ``alpha`` and ``gamma`` in one dimension."""
    ridge = block.ridge()
    return torch.cat([ridge.weight.reshape(-1), network_numbers(ridge)])


#: By link, for as long as it lives: not in its attributes, which are copied and saved.
_kept: WeakKeyDictionary[Link, KeptPotential[RowProbabilities]] = WeakKeyDictionary()


def row_probabilities(link: Link, dtype: torch.dtype) -> RowProbabilities | None:
    """A compiled function for the link's probabilities, or None if there is none for it.

    It is made once, and again when a parameter has changed.

    Examples
    --------
    >>> rows = row_probabilities(SoftmaxLink(3), torch.float64)
    >>> out = np.empty((1, 3))
    >>> rows(np.zeros((1, 2)), np.zeros(2), log=False, swap=False, out=out), out
    (True, array([[0.33333333, 0.33333333, 0.33333333]]))
    """
    tensors = [*link.parameters(), *link.buffers()]
    kind = type(link)  # a subclass may define another map
    if (
        link.run_shape
        or kind not in (SoftmaxLink, CompositeLink, CanonicalLink)
        or (link.training and link.needs_batch)
    ):
        return None
    if dtype not in (torch.float32, torch.float64) or not has_numba():
        return None
    if any(t.is_floating_point() and (t.dtype != dtype or t.device.type != "cpu") for t in tensors):
        return None
    blocks = link._chain() if isinstance(link, CompositeLink) else []
    first = blocks[0] if blocks else None
    for block in blocks:  # users may exchange them
        if type(block) not in (FICNN, CPFlowNetwork) or type(block) is not type(first):
            return None
        if first is not None and (block.hidden, block.depth, block.dim) != (first.hidden, first.depth, first.dim):
            return None

    def make(like: Tensor) -> RowProbabilities:
        made = _Nests(link, like) if isinstance(link, CanonicalLink) else _Chain(blocks, link.n_classes, like)
        made.finite = all(bool(torch.isfinite(p).all()) for p in link.parameters())
        return made

    if link not in _kept:
        _kept[link] = KeptPotential()
    found = _kept[link].table(make, torch.empty(0, dtype=dtype), tensors)
    return found if found.accurate else None
