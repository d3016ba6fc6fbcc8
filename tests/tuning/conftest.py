import dataclasses

import numpy as np
import pytest
import torch

from legendretron.links import CompositeLink
from legendretron.training import as_features
from legendretron.tuning.folds import make_folds
from legendretron.tuning.problem import TuningProblem


def logistic_data(n=150, d=3, c=3, seed=0):
    """Features and labels of a logistic model."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    return x, (x @ rng.normal(size=(d, c)) + rng.gumbel(size=(n, c))).argmax(1)


def bent_data(n=600, seed=0):
    """Two classes whose log-odds are far from linear: the probability jumps, and then stays at 0.05 or 0.95."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    p = np.where(x.sum(1) > 0, 0.95, 0.05)
    return x, (rng.random(n) < p).astype(int)


@pytest.fixture
def make_problem():
    """A function that makes a problem of choosing strengths, small and quick."""

    def make(x, y, cv=3, **changes):
        c = int(y.max()) + 1
        rows = np.arange(len(y))
        problem = TuningProblem(
            as_features(x, torch.float64, torch.device("cpu")),
            torch.as_tensor(y),
            c,
            np.ones(len(y)),
            make_folds(cv, x, y, rows, None, 0),
            False,
            lambda generator, dtype: CompositeLink(
                c, hidden=2, depth=2, init="centred", generator=generator, dtype=dtype
            ),
            batch_size=32,
            steps=40,
            learning_rate=0.05,
            seed=0,
        )
        return dataclasses.replace(problem, **changes)

    return make
