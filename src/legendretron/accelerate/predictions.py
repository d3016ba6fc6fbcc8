r"""Probabilities of many rows by one compiled function, for links with closed forms: no graph, no tensors in between."""

from __future__ import annotations

from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor

from legendretron._internal.tensor_cache import TensorCache
from legendretron.accelerate.cpu.links import LinkOnCPU
from legendretron.accelerate.forms import LinkForm, link_form, link_tensors
from legendretron.accelerate.support import has_numba
from legendretron.links import Link

__all__ = ["RowProbabilities", "row_probabilities"]


class RowProbabilities:
    """A link with the parameters that it has now, for arrays: the forward pass of heads."""

    def __init__(self, form: LinkForm, tensors: list[Tensor]) -> None:
        self._link = LinkOnCPU(form)
        self._tensors = [tensor.detach().contiguous() for tensor in tensors]
        #: Whether all parameters of the link are finite.
        self.finite = all(bool(torch.isfinite(tensor).all()) for tensor in tensors)

    def __call__(self, z: np.ndarray, *, log: bool, out: np.ndarray) -> bool:
        """Write probabilities, or their logarithms; whether all logarithms are finite. If not, ``out`` is of no use.

        Predictors ``z`` (n, C - 1) and ``out`` (n, C) are contiguous and in the precision of the link.
        """
        return self._link.write_proba(torch.from_numpy(z), self._tensors, torch.from_numpy(out), log)


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
    form = link_form(link)
    if form is None or form.is_noisy or link.run_shape or (link.training and link.needs_batch):
        return None
    tensors = [*link.parameters(), *link.buffers()]
    if dtype not in (torch.float32, torch.float64) or not has_numba():
        return None
    if any(t.is_floating_point() and (t.dtype != dtype or t.device.type != "cpu") for t in tensors):
        return None
    if link not in _caches:
        _caches[link] = TensorCache()
    new = lambda _: RowProbabilities(form, link_tensors(link))  # noqa: E731
    return _caches[link].get(new, torch.empty(0, dtype=dtype), tensors)
