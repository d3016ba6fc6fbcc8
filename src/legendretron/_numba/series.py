"""Coefficients of polynomials that replace functions, with fewer terms than Taylor's."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache

__all__ = ["artanh_series", "exp_series"]

_MORE = 12  # terms of Taylor's series beyond those that are kept


@cache
def exp_series(degree: int) -> list[float]:
    """``exp(r)`` for ``|r| <= log(2) / 2``, from the highest power down."""
    taylor = [Fraction(1, math.factorial(k)) for k in range(degree + _MORE + 1)]
    half = Fraction(0.34657359027997264)  # a little more than log(2) / 2, as what rounds to an integer may be
    return _economized(taylor, -half, half, degree)


@cache
def artanh_series(degree: int) -> list[float]:
    """``2 artanh(s) / s`` for ``0 <= s <= 1/3``, in powers of ``s**2``, from the highest down."""
    taylor = [Fraction(2, 2 * k + 1) for k in range(degree + _MORE + 1)]
    return _economized(taylor, Fraction(0), Fraction(1, 9), degree)


def _economized(taylor: list[Fraction], low: Fraction, high: Fraction, degree: int) -> list[float]:
    """Lower the degree one by one: each time the highest power is replaced by the polynomial nearest to it.

    That is what is left of it when its multiple of Chebyshev's polynomial of the interval is subtracted. All of it is exact
    but for the last rounding.
    """
    terms = list(taylor)
    while len(terms) > degree + 1:
        nearest = _chebyshev(len(terms) - 1, low, high)
        factor = terms[-1] / nearest[-1]
        terms = [a - factor * b for a, b in zip(terms[:-1], nearest[:-1], strict=True)]
    return [float(a) for a in reversed(terms)]


def _chebyshev(n: int, low: Fraction, high: Fraction) -> list[Fraction]:
    """Coefficients of Chebyshev's polynomial of degree ``n`` on an interval, from the lowest power on."""
    slope, shift = 2 / (high - low), -(high + low) / (high - low)
    before, now = [Fraction(1)], [shift, slope]
    for _ in range(n - 1):
        after = [2 * shift * a for a in now] + [Fraction(0)]
        for k, a in enumerate(now):
            after[k + 1] += 2 * slope * a
        for k, a in enumerate(before):
            after[k] -= a
        before, now = now, after
    return now
