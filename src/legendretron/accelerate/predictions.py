r"""Probabilities of many rows by one compiled function, for links with closed forms: no graph, no tensors in between."""

from __future__ import annotations

from collections.abc import Sequence
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor

from legendretron._internal.tensor_cache import TensorCache
from legendretron.accelerate.cpu.links import LinkOnCPU
from legendretron.accelerate.forms import LinkForm, link_parts
from legendretron.accelerate.support import can_read, has_numba
from legendretron.links import Link

__all__ = ["RowProbabilities", "row_probabilities"]


class RowProbabilities:
    """A link with the parameters that it has now, for arrays: the forward pass of heads."""

    def __init__(self, form: LinkForm, tensors: Sequence[Tensor], like: Tensor) -> None:
        self._n_classes, self._like, self._link = form.n_classes, like, LinkOnCPU(form)
        self._tensors = [tensor.detach() for tensor in tensors]
        #: Whether all parameters of the link are finite.
        self.finite = all(bool(torch.isfinite(tensor).all()) for tensor in tensors)

    def __call__(self, z: np.ndarray, *, log: bool, out: np.ndarray) -> bool:
        """Write probabilities, or their logarithms; whether all logarithms are finite. If not, ``out`` is of no use.

        Predictors ``z`` (n, C - 1) and ``out`` (n, C) are contiguous and in the precision of the link; others are left to
        plain operations, too.
        """
        n, c = len(z), self._n_classes
        rows, result = torch.from_numpy(z), torch.from_numpy(out)
        if not can_read((rows, result), ((n, c - 1), (n, c)), self._like):
            return False
        return self._link.write_proba(rows, self._tensors, result, log)


#: Not attributes of the links, which are copied and saved.
_caches: WeakKeyDictionary[Link, TensorCache[RowProbabilities]] = WeakKeyDictionary()


def row_probabilities(link: Link, dtype: torch.dtype) -> RowProbabilities | None:
    """A compiled function for the probabilities of a link; None for links without one.

    It is made once, and again when a parameter has changed.

    Examples
    --------
    >>> from legendretron.links import SoftmaxLink
    >>> rows = row_probabilities(SoftmaxLink(3), torch.float64)
    >>> out = np.empty((1, 3))
    >>> rows(np.zeros((1, 2)), log=False, out=out), out
    (True, array([[0.33333333, 0.33333333, 0.33333333]]))
    """
    parts = link_parts(link)
    if parts is None or link.run_shape or (link.training and link.needs_batch) or not has_numba():
        return None
    form, tensors, _ = parts
    like = torch.empty(0, dtype=dtype, device="cpu")
    if not can_read(tensors, form.shapes, like):
        return None
    cache = _caches.get(link)
    if cache is None:
        cache = _caches.setdefault(link, TensorCache())
    return cache.get(lambda _: RowProbabilities(form, tensors, like), like, tensors)
