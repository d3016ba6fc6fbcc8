"""Vector code that other processors need: registers decide how long vectors are."""

import numpy as np
import pytest

pytest.importorskip("numba")
from numba import njit

from legendretron.accelerate.cpu.vector_code import vector_function


@pytest.mark.parametrize(("number", "lanes"), [(4, 2), (2, 8), (4, 4)])
def test_sums_of_several_vectors(number, lanes):
    """Also of more vectors than each has entries."""

    def write(code, x, out):
        start = code.index(0)
        out.store(start, code.sums_of([x.load(start + place * lanes, lanes) for place in range(number)]))

    write.__name__ = f"sums_of_{number}_vectors_of_{lanes}"  # functions of one name are one function
    write_sums = vector_function(write)

    @njit
    def apply(x, out):
        write_sums(x, out)

    x, out = np.arange(float(number * lanes)), np.zeros(number)
    apply(x, out)
    np.testing.assert_array_equal(out, x.reshape(number, lanes).sum(1))
