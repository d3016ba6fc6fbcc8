"""Set-up of pytest for tests and for the examples in docstrings."""

import importlib.util
import os

import numpy as np
import pytest
import torch

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # before any kernel is defined: run them on the CPU

collect_ignore_glob = [] if importlib.util.find_spec("triton") else ["src/legendretron/accelerate/cuda/*"]


@pytest.hookimpl(tryfirst=True)  # before fixtures of a module, which may fit models
def pytest_runtest_setup():
    """Seed what estimators without ``random_state`` draw from: whether a test passes is no chance."""
    np.random.seed(0)  # noqa: NPY002 (scikit-learn draws from it)
    torch.manual_seed(0)
