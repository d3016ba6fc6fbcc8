"""Compiled steps do what plain ones do."""

import numpy as np
import pytest
import scipy.sparse
import torch

from legendretron.links import CanonicalLink, CompositeLink, SoftmaxLink
from legendretron.training import LinearModel, as_features
from legendretron.training import step as step_module
from legendretron.training.adam import Adam
from legendretron.training.penalty import Penalty
from legendretron.training.step import CompiledStep, Step, make_step

RTOL = {torch.float64: 1e-10, torch.float32: 2e-4}


class Pair:
    """A plain and a compiled step on copies of the same model."""

    def __init__(
        self,
        *,
        runs=1,
        rows=24,
        d=5,
        c=3,
        link=None,
        sparse=False,
        scale=1.0,
        dtype=torch.float64,
        symmetric=False,
        centred=False,
        intercept=True,
    ):
        generator = torch.Generator().manual_seed(runs + 10 * c)
        self.runs, self.rows, self.c, self.dtype = runs, rows, c, dtype
        x = scale * torch.randn(50, d, generator=generator, dtype=torch.float64).numpy()
        if sparse:
            x = scipy.sparse.csr_array(x * (np.abs(x) > 0.7))
        features = as_features(x, dtype, torch.device("cpu"))
        weight = 0.5 * torch.randn(runs, d, c - 1, generator=generator, dtype=torch.float64)
        bias = torch.randn(runs, c - 1, generator=generator, dtype=torch.float64)
        links = [SoftmaxLink(c) if link is None else CompositeLink(c, **link, init="paper", generator=generator)]
        for _ in range(runs - 1):
            links.append(SoftmaxLink(c) if link is None else CompositeLink(c, **link, init="paper", generator=generator))
        alpha = torch.linspace(0.1, 0.3, runs, dtype=dtype)
        self.steps = []
        for _ in range(2):
            model = LinearModel(weight.to(dtype), bias.to(dtype), [one.to(dtype) for one in links])
            penalty = Penalty(model, alpha, 2 * alpha, intercept=intercept, symmetric=symmetric, centred=centred)
            rate, totals = torch.linspace(0.01, 0.02, runs, dtype=dtype)[:, None], torch.ones(2, runs, dtype=dtype)
            self.steps.append(Step(model, features, penalty, Adam(model.flat), rate, totals, rows))
        self.plain, state = self.steps
        self.compiled = make_step(state, [])
        assert isinstance(self.compiled, CompiledStep)

    def batches(self, steps, seed=0):
        generator = torch.Generator().manual_seed(seed)
        shape = (steps, self.runs, self.rows)
        weights = torch.rand(shape, generator=generator, dtype=self.dtype) / self.rows
        return [
            torch.randint(50, shape, generator=generator),
            torch.randint(self.c, shape, generator=generator),
            weights * (weights > 0.2 / self.rows),
        ]

    def compare(self, rtol=None):
        one, other = self.steps
        rtol = RTOL[self.dtype] if rtol is None else rtol
        assert float(one.optimiser.count) == float(other.optimiser.count) == other.optimiser._number
        pairs = zip(
            (one.totals, one.optimiser.first, one.optimiser.second, one.model.flat),
            (other.totals, other.optimiser.first, other.optimiser.second, other.model.flat),
            strict=True,
        )
        for a, b in pairs:
            torch.testing.assert_close(b, a, rtol=rtol, atol=rtol * float(a.abs().max()), equal_nan=True)


LINKS = [
    None,
    {"n_blocks": 1, "hidden": 1, "depth": 1},
    {"n_blocks": 2, "hidden": 2, "depth": 4},
    {"n_blocks": 2, "hidden": 8, "depth": 4},
    {"n_blocks": 1, "hidden": 8, "depth": 1},
    {"n_blocks": 3, "hidden": 5, "depth": 2},
]


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("c", [2, 3, 11])
@pytest.mark.parametrize("runs", [1, 3])
def test_one_step_is_that_of_plain_operations(link, c, runs):
    """The first moment after one step is a tenth of the gradient, so this compares the gradients of all parameters."""
    pair = Pair(link=link, c=c, runs=runs)
    batch = [part[0] for part in pair.batches(1)]
    for step in (pair.plain, pair.compiled):
        step(*batch)
    pair.compare()
    assert float(pair.plain.optimiser.first.abs().min(1).values.min()) > 0
