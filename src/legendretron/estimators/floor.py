"""A floor of predicted probabilities."""

from __future__ import annotations

import math

import numpy as np


def add_floor(values: np.ndarray, share: float, *, log: bool) -> np.ndarray:
    r"""Mix probabilities, or their logarithms, with a share of the uniform distribution, in place.

    .. math:: p \leftarrow (1 - u)\, p + u / C

    Examples
    --------
    >>> add_floor(np.array([[1.0, 0.0]]), 0.1, log=False)
    array([[0.95, 0.05]])
    """
    if share > 0.0:
        floor = share / values.shape[1]
        if log:
            np.logaddexp(values + math.log1p(-share), math.log(floor), out=values)
        else:
            values *= 1.0 - share
            values += floor
    return values
