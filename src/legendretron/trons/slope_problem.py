r"""Convex problems with bounded steps, by Newton's method."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from legendretron.trons.bounded_steps import solve_steps

_MAX_ROUNDS = 50
_MAX_NEWTON = 60
_MAX_SECANTS = 8
#: A step this small is taken whole: the objective is too coarse to judge it.
_TRUSTED = 1e-6
#: A step this small is the last: Newton's method leaves an error of about its square.
_LAST = 1e-10


@dataclass(frozen=True)
class SlopeProblem:
    r"""Minimise :math:`\sum_i w_i (\varphi(s_i + r_i) - a_i s_i)` with :math:`0 \le s_{i+1} - s_i \le h_i`.

    Values also lie between ``low`` and ``top``. It is the Bregman projection less the rise ``r`` that every solution has.

    The quadratic model of the objective, under the same constraints, is a problem for
    :func:`~legendretron.trons.bounded_steps.solve_steps`; Newton's method with a line search solves one after another.
    As a problem of all points is expensive, every such step is followed by Newton's method on *blocks*: steps that the model
    holds at a bound are kept there, so that points between free steps move as one unknown, until this smaller problem is
    solved.
    If the multipliers of all held steps then have the right sign, or the next full step is zero, the problem is solved.
    """

    value: Callable[[np.ndarray], np.ndarray]
    slope: Callable[[np.ndarray], np.ndarray]
    curvature: Callable[[np.ndarray], np.ndarray]
    rise: np.ndarray
    pull: np.ndarray
    weight: np.ndarray
    slack: np.ndarray
    low: float
    top: float

    def solve(self, start: np.ndarray) -> np.ndarray:
        """Solution ``s`` from any values."""
        s, _, _ = solve_steps(start, self.weight, self.slack, self.low, self.top)
        nothing = np.zeros(len(self.slack), dtype=bool)
        for _ in range(_MAX_ROUNDS):
            new, held, up, largest = self._step(s, nothing, nothing)
            if largest <= _LAST:
                return new
            s = self._newton(new, held, up)
            if self._signs_are_right(s, held, up):
                return s
        warnings.warn(
            f"bregman_projection has not converged in {_MAX_ROUNDS} rounds.", ConvergenceWarning, stacklevel=4
        )
        return s

    def _newton(self, s: np.ndarray, held: np.ndarray, up: np.ndarray) -> np.ndarray:
        """Minimise with the held steps kept at their bounds."""
        for _ in range(_MAX_NEWTON):
            s, _, _, largest = self._step(s, held, up)
            if largest <= _LAST:
                break
        return s

    def _step(
        self, s: np.ndarray, held: np.ndarray, up: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
        """One Newton step with the held steps kept; also what is held after it, and its largest entry."""
        first = np.concatenate([[True], ~held])
        starts = np.flatnonzero(first)
        block = np.cumsum(first) - 1
        # less what held steps climb, every block is one number
        climbed = np.concatenate([[0.0], np.cumsum(np.where(held & up, self.slack, 0.0))])
        d = (s - climbed)[starts]
        derivative, curvature = self._derivative(s), self.curvature(s + self.rise)
        total = np.add.reduceat(derivative, starts)
        for _ in range(_MAX_SECANTS):
            mass = np.add.reduceat(self.weight * curvature, starts)
            new, now_held, now_up = solve_steps(
                d - total / mass, mass / mass.max(), self.slack[~held], self.low, self.top - climbed[-1]
            )
            step = (new - d)[block]
            largest = float(np.abs(step).max())
            size = 1.0
            if largest <= _TRUSTED or self._descends(s, step, derivative):
                break
            # the derivative bends upwards along the step, as at a kink: take its mean slope up to there instead
            rise = self.slope(s + step + self.rise) - self.slope(s + self.rise)
            moved = np.abs(step) > 1e-14
            secant = np.where(moved, rise / np.where(moved, step, 1.0), 0.0)
            curvature = np.fmax(curvature, secant)
        else:
            while size > 1e-10 and not self._descends(s, size * step, derivative):
                size /= 2.0
        held, up = held.copy(), up.copy()
        if size < 1.0:  # of a partial step, only what is held at both ends stays held: at a bound that s has too
            now_held &= np.where(now_up, np.diff(s)[~held] >= self.slack[~held], np.diff(s)[~held] <= 0.0)
        up[~held] = now_up
        held[~held] = now_held
        after = new[block] + climbed if size == 1.0 else s + size * step
        return after, held, up, largest

    def _descends(self, s: np.ndarray, step: np.ndarray, derivative: np.ndarray) -> bool:
        """Whether a step lowers the objective by some of what it promises; never where the objective is NaN."""
        return self._objective(s + step) <= self._objective(s) + 1e-4 * float(derivative @ step)

    def _objective(self, s: np.ndarray) -> float:
        return float((self.weight * (self.value(s + self.rise) - self.pull * s)).sum())

    def _derivative(self, s: np.ndarray) -> np.ndarray:
        derivative: np.ndarray = self.weight * (self.slope(s + self.rise) - self.pull)
        return derivative

    def _signs_are_right(self, s: np.ndarray, held: np.ndarray, up: np.ndarray) -> bool:
        """Whether no held step wants to be free: a certificate that the solution of the smaller problem solves the larger.

        The multiplier of a step is minus the sum of all derivatives before it, from below not negative, from above not
        positive. What a bound on the first value takes up is not counted.
        """
        derivative = self._derivative(s)
        before = np.cumsum(derivative)
        if s[0] <= self.low:
            before = before - before[-1]
        noise = 1e-13 * float((np.abs(derivative) + np.abs(self.weight * self.pull)).sum())
        return not bool((held & np.where(up, before[:-1] < -noise, before[:-1] > noise)).any())
