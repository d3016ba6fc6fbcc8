"""Exponential, softplus and sigmoid without calls to a library, so that loops over them become vector instructions.

The compiler has no vector version of ``exp``. The ones here are polynomials after a reduction of the range, in the
precision of their argument, with an error of a few units in the last place; which one a call means is decided by its type.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit, types
from numba.extending import overload

__all__ = ["activated", "exp_of_negative"]

# No reassociation: adding and subtracting a large number rounds here, and a part of log 2 is subtracted after the other.
_OPTIONS = {"fastmath": {"contract"}, "error_model": "numpy", "forceinline": True}
_compiled = njit(**_OPTIONS)


def exp_of_negative(x):
    """``exp(x)`` for ``x <= 0``; 0 where the result would not be a normal number, NaN for NaN."""
    raise NotImplementedError


def activated(x):
    """Softplus and sigmoid of ``x``, from one exponential and one division."""
    raise NotImplementedError


def _constants(kind, terms):
    """``1 / k!``, from the highest power down."""
    return tuple(kind(1.0 / math.factorial(k)) for k in range(terms, -1, -1))


def _odd_reciprocals(kind, terms):
    """``2 / (2 k + 1)``, from the highest power down: the series of ``2 artanh(s) / s`` in powers of the square."""
    return tuple(kind(2.0 / (2 * k + 1)) for k in range(terms, -1, -1))


def _polynomial(coefficients):
    """Compile ``x -> sum_k c_k x^k``, given from the highest power down, with the constants written into the code."""
    names = [f"c{k}" for k in range(len(coefficients) - 1, -1, -1)]
    scope = dict(zip(names, coefficients, strict=True))
    # even and odd powers apart: two chains of half the length, which run side by side
    even, odd = (_horner([name for name in names if int(name[1:]) % 2 == part]) for part in (0, 1))
    exec(f"def polynomial(x):\n    y = x * x\n    return {even} + x * ({odd})", scope)
    return _compiled(scope["polynomial"])


def _horner(names):
    """Text of a polynomial in ``y``."""
    text = names[0]
    for name in names[1:]:
        text = f"({text}) * y + {name}"
    return text


class _Single:
    kind, integer = np.float32, np.int32
    exp_terms, log_terms = 7, 7
    low = np.float32(-87.3)
    high_log2, low_log2 = np.float32(0.693359375), np.float32(-2.12194440e-4)
    rounder = np.float32(1.5 * 2**23)
    bias, shift = np.int32(127), np.int32(23)


class _Double:
    kind, integer = np.float64, np.int64
    exp_terms, log_terms = 13, 16
    low = np.float64(-708.3)
    high_log2, low_log2 = np.float64(6.93147180369123816490e-01), np.float64(1.90821492927058770002e-10)
    rounder = np.float64(1.5 * 2**52)
    bias, shift = np.int64(1023), np.int64(52)


def _functions(of):
    kind, integer = of.kind, of.integer
    low, high_log2, low_log2, rounder, bias, shift = of.low, of.high_log2, of.low_log2, of.rounder, of.bias, of.shift
    per_log2 = kind(1.0 / math.log(2.0))
    zero, one, two = kind(0.0), kind(1.0), kind(2.0)
    exp_series = _polynomial(_constants(kind, of.exp_terms))
    log_series = _polynomial(_odd_reciprocals(kind, of.log_terms))

    @_compiled
    def exp_of_negative(x):
        rounded = x * per_log2 + rounder  # the last bits are now the nearest integer
        n = rounded - rounder
        rest = (x - n * high_log2) - n * low_log2
        power = integer((kind(rounded).view(integer) + bias) << shift)
        return zero if x < low else exp_series(rest) * integer(power).view(kind)

    @_compiled
    def activated(x):
        e = exp_of_negative(-abs(x))
        q = one / ((one + e) * (two + e))
        s = e * (one + e) * q  # e / (2 + e), and log(1 + e) = 2 artanh(s)
        positive = (x if x > zero else zero) + s * log_series(s * s)
        slope = (two + e) * q * (one if x >= zero else e)
        return positive, slope

    return exp_of_negative, activated


_OF_TYPE = {types.float32: _functions(_Single), types.float64: _functions(_Double)}


@overload(exp_of_negative, jit_options=_OPTIONS)
def _exp_of(x):
    return _OF_TYPE[x][0].py_func


@overload(activated, jit_options=_OPTIONS)
def _activated_of(x):
    return _OF_TYPE[x][1].py_func
