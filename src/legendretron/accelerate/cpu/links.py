"""Links on the CPU by compiled functions, from tensors."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from legendretron.accelerate.forms import LinkForm
from legendretron.accelerate.support import VECTOR, addresses_of

if TYPE_CHECKING:
    from legendretron.accelerate.cpu.ridge_parameters import Sizes

__all__ = ["LIKE", "LinkOnCPU", "chain_sizes", "in_threads", "row_parts", "rows_at_once"]

T = TypeVar("T")

#: Rows that go through the link together: enough to fill vectors, and fewer where a row has many numbers, for the cache.
_WIDTH, _NARROW, _MANY_NUMBERS = 64, 32, 2048
_PART = 1_000_000  # multiplications that are worth a thread
#: Arrays that tell compiled functions the precision.
LIKE = {torch.float32: np.empty(0, np.float32), torch.float64: np.empty(0, np.float64)}


def _round_up(n: int, multiple: int = VECTOR) -> int:
    return -(-n // multiple) * multiple


def rows_at_once(n: int, most: int) -> int:
    """Rows that go through together: about as many in each part, filled up to whole vectors."""
    return max(VECTOR, _round_up(-(-n // max(1, -(-n // most)))))


def row_parts(n: int, work_of_row: int, width: int = 1) -> list[tuple[int, int]]:
    """First and last rows of the parts that are worth a thread, whole blocks of ``width`` rows each."""
    threads = min(torch.get_num_threads(), n * work_of_row // _PART) if n * work_of_row >= 2 * _PART else 1
    if threads == 1:
        return [(0, n)]
    rows = _round_up(-(-n // threads), width)
    return [(first, min(first + rows, n)) for first in range(0, n, rows)]


def in_threads(function: Callable[[int, int], T], parts: list[tuple[int, int]]) -> list[T]:
    """Call a function for the first and last rows of each part."""
    if len(parts) == 1:
        return [function(*parts[0])]
    # threads of this call only: those of a pool are missing in a forked process
    with ThreadPoolExecutor(len(parts)) as threads:
        return list(threads.map(lambda part: function(*part), parts))


def chain_sizes(form: LinkForm) -> Sizes:
    """Sizes of the chain of blocks of a link."""
    from legendretron.accelerate.cpu.ridge_parameters import Sizes

    n_out = form.n_classes - 1
    given = form.n_blocks, n_out, _round_up(n_out), form.hidden, form.depth, form.mixed_units
    return Sizes(*given, int(form.final_softplus), int(form.normalized))


class LinkOnCPU:
    """A link by compiled functions, from tensors; without blocks and nests it is softmax+.

    With ``all_classes``, rows of nests have an entry for each class, of which very low ones count as masked.
    """

    def __init__(self, form: LinkForm, all_classes: bool = False) -> None:
        self._n_classes = c = form.n_classes
        self.shapes = form.shapes
        self._n_parameters = sum(map(math.prod, self.shapes))
        self._sizes: tuple[Any, ...]
        if form.n_nests:
            from legendretron.accelerate.cpu.nests import nests_backward, nests_probabilities

            self._probabilities, self._backward = nests_probabilities, nests_backward
            self._sizes = (form.n_nests, c, all_classes)
            self._work = 10 * form.n_nests * c  # multiplications of a row: an exponential takes about ten
            numbers = (form.n_nests + 4) * c
        else:
            from legendretron.accelerate.cpu.chain import chain_backward, chain_probabilities

            self._probabilities, self._backward = chain_probabilities, chain_backward
            self._sizes = chain_sizes(form)
            self._work = max(10, 2 * form.n_blocks * form.rank) * c
            numbers = (form.n_blocks + 1) * c
        self._most_rows = _WIDTH if numbers <= _MANY_NUMBERS else _NARROW

    def saved_size(self, n: int) -> int:
        """Numbers that the forward pass keeps for the backward pass: none."""
        return 0

    def write_proba(self, z: Tensor, tensors: Sequence[Tensor], out: Tensor, log: bool) -> bool:
        """Write probabilities ``(n, C)`` of rows, or their logarithms; whether all logarithms are finite."""
        n, width = len(z), rows_at_once(len(z), self._most_rows)
        p_z, p_out, *of_link = addresses_of((z, out, *tensors))
        like, where, sizes = LIKE[z.dtype], np.array(of_link, np.int64), self._sizes

        def rows(first: int, last: int) -> bool:
            return bool(self._probabilities(like, where, first, last, width, sizes, p_z, log, p_out))

        return all(in_threads(rows, row_parts(n, self._work, width)))

    def forward(self, z: Tensor, tensors: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """Log-probabilities ``(n, C)`` of rows, and what to keep for the backward pass beside them."""
        log_p = torch.empty((len(z), self._n_classes), dtype=z.dtype)
        self.write_proba(z, tensors, log_p, True)
        return log_p, torch.empty(0, dtype=z.dtype)

    def backward(
        self, g: Tensor, z: Tensor, log_p: Tensor, saved: Tensor, tensors: Sequence[Tensor], wanted: tuple[bool, bool]
    ) -> tuple[Tensor, Tensor]:
        """Gradients of the rows, and of all parameters one after the other; empty where not wanted."""
        n, dtype, width = len(z), z.dtype, rows_at_once(len(z), self._most_rows)
        parts = row_parts(n, 2 * self._work, width)
        dz = torch.empty(z.shape if wanted[0] else 0, dtype=dtype)
        size = self._n_parameters if wanted[1] else 0
        gradients = torch.empty((len(parts), size), dtype=dtype)
        p_z, p_log_p, p_g, p_dz, p_gradient, *of_link = addresses_of((z, log_p, g, dz, gradients, *tensors))
        like, where, sizes = LIKE[dtype], np.array(of_link, np.int64), self._sizes

        def rows(first: int, last: int) -> None:
            at_gradient = p_gradient + size * parts.index((first, last)) * dtype.itemsize if p_gradient else 0
            self._backward(like, where, first, last, width, sizes, p_z, p_log_p, p_g, p_dz, at_gradient)

        in_threads(rows, parts)
        return dz, gradients.view(-1) if len(parts) == 1 else gradients.sum(0)
