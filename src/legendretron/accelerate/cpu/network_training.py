"""The compiled steps of networks, for arrays of one shape; runs are divided over threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["CompiledNetworks"]

Array = NDArray[Any]

#: Rows that go through a network together, at most.
_WIDTH = 64
_VECTOR = 16


class CompiledNetworks:
    """Steps of Adam for networks, on the memory of their parameters.

    Parameters
    ----------
    features : array of shape (N, d)
        The inputs.
    parameters : tuple of arrays
        Parameters and Adam's two moments, ``(R, P)``, and the number of steps so far, ``(1,)``; changed in place.
    totals : array of shape (2, R)
        Weighted sums of losses and hits, added to.
    widths : sequence of int
        Inputs, units of the hidden layers, classes.
    units : array of shape (R, d)
        Factor of each input in each run; 0 for those that it does not see.
    matrix : array of shape (C, C), optional
        Of the noise in the labels.
    pool : array
        What masks of dropout are made of.
    numbers : tuple of float
        The two betas of Adam and its epsilon; label smoothing, rate of dropout and weight decay.
    factors : tuple
        Of scales, biases and shares, and the stride through the pool.
    progress : callable
        Steps so far, and all there will be.
    n_rows, n_threads : int
        Rows of a batch, and threads to use.
    """

    def __init__(
        self,
        features: Array,
        parameters: tuple[Array, ...],
        totals: Array,
        widths: Sequence[int],
        units: Array,
        matrix: Array | None,
        pool: Array,
        numbers: tuple[float, ...],
        factors: tuple[float, float, float, int],
        progress: Callable[[], tuple[int, int]],
        n_rows: int,
        n_threads: int,
    ) -> None:
        dtype = parameters[0].dtype
        self._features, self._parameters, self._totals = features.reshape(-1), parameters, totals
        self._widths, self._units = np.asarray(widths, dtype=np.int64), np.ascontiguousarray(units, dtype=np.float64)
        self._matrix = np.ascontiguousarray(np.zeros(0) if matrix is None else matrix.reshape(-1), dtype)
        self._pool, self._numbers, self._factors, self._progress = pool, numbers, factors, progress
        parts = -(-n_rows // _WIDTH)
        self._width = -(-n_rows // (parts * _VECTOR)) * _VECTOR
        self._n_threads = n_threads

    def __call__(self, rows: Array, labels: Array, weights: Array, rates: Array) -> None:
        """Take ``S`` steps on rows with labels and weights of shape (S, R, n_rows), at rates of shape (S, R)."""
        from legendretron.accelerate.cpu.network_steps import train_networks

        def train(run: int) -> None:
            train_networks(
                self._features,
                (rows, labels, weights, rates),
                self._parameters,
                self._totals,
                self._widths,
                self._units,
                self._matrix,
                self._pool,
                self._numbers,
                self._factors,
                self._progress(),
                run,
                self._width,
            )

        active = np.flatnonzero(rates.any(axis=0))  # runs that have stopped stay as they are
        if self._n_threads == 1 or len(active) < 2:
            for run in active:
                train(int(run))
        else:
            with ThreadPoolExecutor(min(self._n_threads, len(active))) as pool:
                list(pool.map(train, map(int, active)))
        self._parameters[3][0] += len(rows)
