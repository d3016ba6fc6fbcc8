"""The compiled steps with their buffers, for arrays of one shape."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from legendretron.accelerate.cpu.arrays import Chain, Sizes, Units
from legendretron.accelerate.forms import LinkForm

__all__ = ["CompiledTraining", "Csr"]

Array = NDArray[Any]

#: Rows that go through the link together: enough to fill vectors, few enough for all of their units to stay in the cache.
_WIDTH = 64
#: Bytes of all exponentials of a mixture of nests for the rows that go through it together.
_MOST_BYTES = 1 << 19
#: Up to so many outputs, blocks are taken one by one.
_FEW_CLASSES = 100
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
    flat, first, second : array of shape (R, P)
        Parameters and moments, changed in place. A row holds ``W``, ``b``, and of each block ``A``, ``b``, the raw mixing
        weights, ``alpha`` and ``gamma``, and of CP-Flow's shifts, logarithms of scales and biases of the mixing; or of the
        nests ``log mu``, ``log beta``, the offsets of all classes but the last, those of the last, and the biases of the
        gate. With a rate of noise that is learned it ends in the logit of that.
    count : array of shape (1,)
        Steps so far, float64, changed in place.
    totals : array of shape (2, R)
        Weighted sums of losses and hits, added to.
    strengths : array of shape (R, 3)
        Of the penalty on ``W``, ``b`` and the link.
    shared : array of shape (R,)
        What the sum of a feature's weights is multiplied by, and subtracted from their gradients.
    centre : array of shape (P - (d + 1) K,) or (0,)
        Where the penalty on the link vanishes, if not at 0; without the rate, which has none.
    form : LinkForm
        Form of the link.
    n_rows : int
        Rows of a batch.
    betas, eps
        Of Adam.
    """

    def __init__(
        self,
        features: Array | Csr,
        *,
        flat: Array,
        first: Array,
        second: Array,
        count: Array,
        totals: Array,
        strengths: Array,
        shared: Array,
        centre: Array,
        n_features: int,
        form: LinkForm,
        n_rows: int,
        betas: tuple[float, float],
        eps: float,
    ) -> None:
        n_outputs, n_blocks, n_nests = form.n_classes - 1, form.n_blocks, form.n_nests
        hidden, depth, mixed = form.hidden, form.depth, form.mixed_units
        known_matrix = None if form.known_matrix is None else form.known_matrix.detach().numpy()
        # one type for dense and sparse features, so that the code is compiled once
        sparse = isinstance(features, Csr)
        no_index = np.zeros(1, np.int64)
        x = np.zeros(1, flat.dtype) if isinstance(features, Csr) else features.reshape(-1)
        csr = features if isinstance(features, Csr) else Csr(no_index, no_index, np.zeros(1, flat.dtype))
        self._features = (sparse, x, *csr)
        self._parameters = (flat, first, second, count)
        self._totals = totals
        self._penalty = (strengths, shared, centre)
        self._numbers = (*betas, eps)
        matrix = np.zeros(1, flat.dtype) if known_matrix is None else np.ascontiguousarray(known_matrix).reshape(-1)
        self._noise = (form.learned_rate, form.known_rate, known_matrix is not None, matrix.astype(flat.dtype))
        parts = -(-n_rows // _WIDTH)
        self._width = width = -(-n_rows // (parts * _VECTOR)) * _VECTOR
        stride = -(-n_outputs // _VECTOR) * _VECTOR
        group = max(1, n_blocks) if n_outputs > _FEW_CLASSES else 1
        self._sizes = Sizes(n_outputs, hidden, mixed, depth, int(form.normalised), stride, n_blocks, group)
        exponentials = n_nests * (n_outputs + 1)
        part = width if width * exponentials * flat.itemsize <= _MOST_BYTES else _VECTOR
        self._nests = (n_nests, part)

        def zeros(length: int) -> Array:
            return np.zeros(max(1, length), flat.dtype)

        rank, n_raw = hidden * depth + 1, ((depth - 1) * mixed + 1) * hidden + 2
        units, all_units = rank * width, n_blocks * rank * width
        self._chain = Chain(
            **{name: zeros(n_blocks * rank * stride) for name in ("stack", "stack_grad")},
            **{name: zeros(n_blocks * n_raw) for name in ("raw", "raw_slope", "mixing")},
            **{name: zeros(n_blocks * rank) for name in ("unit_scale", "bias")},
            **{name: zeros((n_blocks * rank) ** 2) for name in ("gram", "cross")},
            sums=zeros(3 * n_blocks),
            partial=zeros(_VECTOR * (rank + n_raw)),
        )
        self._units = Units(
            **{name: zeros(units if name in ("cot_d", "cot_w") else all_units) for name in Units._fields}
        )
        # the reference class has zeros after the others
        n_points = (n_blocks // group + 1) * n_outputs * width + width
        lengths = (
            n_outputs if sparse else (n_features + 1) * width,
            n_points,
            *(width, width, width, width),
            flat.shape[1],
            3 * n_nests + exponentials,
            (7 * n_nests + 4) * part,
            (n_outputs + 1) * width if known_matrix is not None else exponentials * part,
        )
        self._buffers = (np.ones(width, flat.dtype), *(zeros(length) for length in lengths))

    def __call__(self, rows: Array, labels: Array, weights: Array, rates: Array) -> None:
        """Take ``S`` steps on rows with labels and weights of shape (S, R, n_rows), at rates of shape (S, R)."""
        from legendretron.accelerate.cpu.kernels import train_steps

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
            self._chain,
            self._units,
            self._buffers,
            self._width,
        )
