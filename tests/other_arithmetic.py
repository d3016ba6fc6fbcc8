"""Run pytest as if on another processor: other vector instructions, other kernels of linear algebra, two threads.

``python -m tests.other_arithmetic [arguments of pytest]``. Sums come out in another order, so that a test which holds for the
last digit of one processor fails here already.
"""

import os
import platform
import sys

from numpy._core import _multiarray_umath as numpy_build

#: Kernels of OpenBLAS that every processor of a family can run.
OPENBLAS = {"x86_64": "Nehalem", "amd64": "Nehalem", "aarch64": "ARMV8", "arm64": "ARMV8"}


def settings() -> dict[str, str]:
    """Environment variables for the plainest arithmetic that this processor can do."""
    used = [name for name in numpy_build.__cpu_dispatch__ if numpy_build.__cpu_features__.get(name)]
    found = {
        "ATEN_CPU_CAPABILITY": "default",
        "MKL_CBWR": "COMPATIBLE",
        "NPY_DISABLE_CPU_FEATURES": " ".join(used),
        "OMP_NUM_THREADS": "2",
        "OMP_WAIT_POLICY": "PASSIVE",  # threads that wait leave the processor to the other workers of pytest
        "LEGENDRETRON_TEST_THREADS": "2",
    }
    kernels = OPENBLAS.get(platform.machine().lower())
    return found if kernels is None else found | {"OPENBLAS_CORETYPE": kernels}


if __name__ == "__main__":
    chosen = settings()
    print(" ".join(f"{name}={value!r}" for name, value in chosen.items()), flush=True)
    os.execve(sys.executable, [sys.executable, "-m", "pytest", *sys.argv[1:]], {**os.environ, **chosen})
