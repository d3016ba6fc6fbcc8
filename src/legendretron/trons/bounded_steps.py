r"""Least squares with bounded steps, exactly.

The value function of a dynamic programme over the sorted points has a derivative that is piecewise linear and
increasing. Passing from one point to the next cuts it at its root and moves the right half away by the slack of the
constraint; adding an observation adds one straight line. Both halves therefore stay *fixed* up to an affine map that is
known in closed form, so that the next root is found by bisection. (Kakade et al., 2011, use the same derivative with a
balanced tree.)
"""

from __future__ import annotations

import numpy as np

#: What counts as a tie, and the most that rounding may have moved a block, beside targets of order one.
_TIE = 1e-14
_ROUNDING = 1e-8


def solve_steps(
    target: np.ndarray, weight: np.ndarray, slack: np.ndarray, low: float, top: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    r"""Minimise :math:`\sum_i w_i (s_i - t_i)^2` with :math:`0 \le s_{i+1} - s_i \le h_i` and ``low <= s <= top``.

    Returns the solution ``(n,)``, and for each step whether a bound holds it, and whether that is the upper one.
    """
    if low >= top:  # rounding has left just one solution
        steps = np.ones(len(slack), dtype=bool)
        return np.full(len(target), low), steps, ~steps
    # sums of products must neither overflow nor vanish, whatever the unit
    unit = float(np.abs(target).max()) or 1.0
    target, slack, low, top = target / unit, slack / unit, low / unit, top / unit
    from legendretron.trons.compiled_bounded_steps import backtrack, roots  # which imports Numba

    with np.errstate(all="ignore"):  # there is infinity at a wall
        values, held, up = backtrack(roots(target, weight, slack, float(low)), slack, float(top), _TIE)
    return unit * _polish(values, held, target, weight, low, top), held, up


def _polish(
    values: np.ndarray, linked: np.ndarray, target: np.ndarray, weight: np.ndarray, low: float, top: float
) -> np.ndarray:
    """Put every block of linked points at its own weighted mean, free of the rounding that long sums have gathered.

    Blocks at a bound stay where they are, and so does a block whose mean is further away than rounding.
    """
    first = np.concatenate([[True], ~linked])
    starts, block = np.flatnonzero(first), np.cumsum(first) - 1
    shift = np.add.reduceat(weight * (target - values), starts) / np.add.reduceat(weight, starts)
    shift[np.abs(shift) > _ROUNDING] = 0.0
    if values[0] <= low + _TIE:
        shift[0] = 0.0
    if values[-1] >= top - _TIE:
        shift[-1] = 0.0
    better: np.ndarray = values + shift[block]
    if (np.diff(better)[~linked] < 0).any():
        return values
    return np.clip(better, low, top)
