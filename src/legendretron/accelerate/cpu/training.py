"""The compiled steps with their buffers, for arrays of one shape."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from legendretron.accelerate.cpu.links import chain_sizes
from legendretron.accelerate.forms import LinkForm

__all__ = ["CompiledTraining", "Csr"]

Array = NDArray[Any]

#: Rows that go through the link together: enough to fill vectors, few enough for all of their units to stay in the cache.
_WIDTH = 64
#: Bytes of all exponentials of a mixture of nests for the rows that go through it together.
_MOST_BYTES = 1 << 19
_VECTOR = 16  # rows are filled up to a multiple of this, the entries of a vector


class Csr(NamedTuple):
    """A matrix in compressed sparse rows, with indices of 64 bits."""

    starts: Array
    columns: Array
    values: Array


class CompiledTraining:
    """Steps of Adam for linear models with a chain of ridge blocks or with nests, or with softmax+ if there are neither.

    Parameters
    ----------
    features : array of shape (N, d), or Csr
        The feature matrix.
    parameters : tuple of arrays
        Parameters and Adam's two moments, ``(R, P)``, and the number of steps so far, ``(1,)`` in float64; changed in place.
        A row of parameters holds ``W``, ``b``, the link's parameters in the order of ``link_tensors``, and the logit of a
        learned rate of noise.
    totals : array of shape (2, R)
        Weighted sums of losses and hits, added to.
    penalty : tuple of arrays
        Strengths on ``W``, ``b`` and the link, ``(R, 3)``; the factor of the sum of a feature's weights, ``(R,)``, see
        ``Penalty.shared``; and the centre of the penalty on the link, empty if that is 0.
    form : LinkForm
        Form of the link.
    n_rows : int
        Rows of a batch.
    numbers : tuple of float
        The two betas of Adam, and its epsilon.
    """

    def __init__(
        self,
        features: Array | Csr,
        parameters: tuple[Array, ...],
        totals: Array,
        penalty: tuple[Array, ...],
        form: LinkForm,
        n_rows: int,
        numbers: tuple[float, float, float],
    ) -> None:
        flat = parameters[0]
        # one type for dense and sparse features, so that the code is compiled once
        sparse = isinstance(features, Csr)
        no_index = np.zeros(1, np.int64)
        x = np.zeros(1, flat.dtype) if isinstance(features, Csr) else features.reshape(-1)
        csr = features if isinstance(features, Csr) else Csr(no_index, no_index, np.zeros(1, flat.dtype))
        self._features = (sparse, x, *csr)
        self._parameters, self._totals, self._penalty, self._numbers = parameters, totals, penalty, numbers
        matrix = np.zeros(1) if form.known_matrix is None else form.known_matrix.detach().numpy()
        noise = np.ascontiguousarray(matrix.reshape(-1), flat.dtype)
        self._noise = (form.learned_rate, form.known_rate, form.known_matrix is not None, noise)
        parts = -(-n_rows // _WIDTH)
        self._width = width = -(-n_rows // (parts * _VECTOR)) * _VECTOR
        self._sizes = chain_sizes(form)
        size = width * form.n_nests * form.n_classes * flat.itemsize
        self._nests = (form.n_nests, width if size <= _MOST_BYTES else _VECTOR)
        self._memory: tuple[Any, ...] | None = None

    def __call__(self, rows: Array, labels: Array, weights: Array, rates: Array) -> None:
        """Take ``S`` steps on rows with labels and weights of shape (S, R, n_rows), at rates of shape (S, R)."""
        from legendretron.accelerate.cpu.kernels import new_memory, train_steps

        if self._memory is None:
            sizes = self._sizes, self._nests, self._noise, self._width
            self._memory = new_memory(self._parameters[0], self._features[0], *sizes)
        train_steps(
            self._features,
            (rows, labels, weights, rates),
            self._parameters,
            self._totals,
            self._penalty,
            self._numbers,
            self._sizes,
            self._nests,
            self._noise,
            self._memory,
            self._width,
        )
