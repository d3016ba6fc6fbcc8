"""How functions are compiled."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from numba import njit

__all__ = ["cached", "compiled", "exact"]

# sums may be reordered, but NaN and infinity must survive: they show that a run has diverged
_OPTIONS = {"fastmath": {"reassoc", "contract", "nsz"}, "error_model": "numpy", "nogil": True}
# without wrappers for Python, which take long to compile
compiled = njit(no_cpython_wrapper=True, no_cfunc_wrapper=True, **_OPTIONS)
# where the order of sums matters
exact = njit(no_cpython_wrapper=True, no_cfunc_wrapper=True, error_model="numpy", nogil=True)


@cache
def _sources() -> str:
    """A digest of all files with compiled functions."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def cached(function):
    """Compile, and keep the result on disk for later processes where there is a place for it.

    Numba finds what it has kept by the code of the function alone. It also depends on the functions that it calls, so that
    after an upgrade code of the old version would be run; therefore the key has all sources in it, too.
    """
    try:
        made = njit(cache=True, **_OPTIONS)(function)
        kept = made._cache
        of_function = kept._index_key
    except (RuntimeError, AttributeError):  # no place to write to; or a version of Numba that keeps it in another way
        return njit(**_OPTIONS)(function)
    kept._index_key = lambda *given: (*of_function(*given), _sources())
    load = kept.load_overload

    def load_if_whole(*given):
        try:
            return load(*given)
        except Exception:  # a file that was cut short: begin again, else no call would ever succeed
            kept.flush()
            return None

    kept.load_overload = load_if_whole
    return made
