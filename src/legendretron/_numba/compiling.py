"""How functions are compiled."""

from __future__ import annotations

from numba import njit

__all__ = ["cached", "compiled", "exact"]

# sums may be reordered; NaN and infinity keep their meaning, as they tell that a run has diverged
_OPTIONS = {"fastmath": {"reassoc", "contract", "nsz"}, "error_model": "numpy", "nogil": True}
# not called from Python: what makes that possible takes long to compile
compiled = njit(no_cpython_wrapper=True, no_cfunc_wrapper=True, **_OPTIONS)
# where the order of sums matters
exact = njit(no_cpython_wrapper=True, no_cfunc_wrapper=True, error_model="numpy", nogil=True)


def cached(function):
    """Compile, and keep the result on disk for later processes where there is a place for it."""
    try:
        return njit(cache=True, **_OPTIONS)(function)
    except RuntimeError:  # the library and the home directory can both be read-only
        return njit(**_OPTIONS)(function)
