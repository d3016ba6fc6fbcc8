import numpy as np
import pytest
import scipy.sparse
import torch

from legendretron.links import CanonicalLink, CompositeLink, SoftmaxLink
from legendretron.training import LinearModel, Sample, TrainingSettings, as_features
from legendretron.training.model import Penalty

LINKS = {
    "softmax": lambda c, g: SoftmaxLink(c),
    "composite": lambda c, g: CompositeLink(c, generator=g, dtype=torch.float64),
    "cpflow": lambda c, g: CompositeLink(c, network="cpflow", init="paper", generator=g, dtype=torch.float64),
    "canonical": lambda c, g: CanonicalLink(c, generator=g, dtype=torch.float64),
}


class Problem:
    """A small classification problem for any number of runs, with all that training needs."""

    def __init__(self, n=120, d=5, c=3, sparse=False):
        rng = np.random.default_rng(0)
        x = rng.normal(size=(n, d))
        if sparse:
            x = x * (rng.random((n, d)) < 0.4)
        scores = x @ rng.normal(size=(d, c)) + 0.5 * rng.normal(size=(n, c))
        self.y = torch.as_tensor(scores.argmax(1))
        self.n, self.d, self.c = n, d, c
        self.x = scipy.sparse.csr_matrix(x) if sparse else x

    def model(self, link, seeds, device="cpu"):
        generators = [torch.Generator().manual_seed(seed) for seed in seeds]
        draws = [torch.randn(self.d, self.c - 1, generator=g, dtype=torch.float64) for g in generators]
        links = [LINKS[link](self.c, g).double() for g in generators]
        bias = torch.zeros(len(seeds), self.c - 1, dtype=torch.float64, device=device)
        return LinearModel(0.1 * torch.stack(draws).to(device), bias, links)

    def sample(self, seeds, held_out=False, device="cpu"):
        orders = [torch.randperm(self.n, generator=torch.Generator().manual_seed(1000 + s)) for s in seeds]
        rows = torch.stack([order[100:] if held_out else order[:100] for order in orders])
        features = as_features(self.x, torch.float64, torch.device(device))
        weights = torch.ones(rows.shape, dtype=torch.float64, device=device)
        return Sample(features, rows.to(device), self.y[rows].to(device), weights)

    def settings(self, seeds, **overrides):
        runs = len(seeds)
        base = {
            "alpha": torch.full((runs,), 1e-3, dtype=torch.float64),
            "link_alpha": torch.full((runs,), 1e-3, dtype=torch.float64),
            "learning_rate": torch.full((runs,), 0.02, dtype=torch.float64),
            "generators": [torch.Generator().manual_seed(seed) for seed in seeds],
            "max_epochs": 8,
            "batch_size": 32,
        }
        return TrainingSettings(**{**base, **overrides})


def make_penalty(model, alpha, link_alpha, *, intercept=True, symmetric=False, centred=False):
    settings = TrainingSettings(
        alpha, link_alpha, alpha, [], penalize_intercept=intercept, symmetric=symmetric, centred=centred
    )
    return Penalty(model, settings)


@pytest.fixture
def problem():
    return Problem()
