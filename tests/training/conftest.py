import numpy as np
import pytest
import scipy.sparse
import torch

from legendretron.links import CanonicalLink, CompositeLink, SoftmaxLink
from legendretron.training import LinearModel, Sample, TrainingSettings, as_features

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

    def model(self, link, seeds, dtype=torch.float64):
        generators = [torch.Generator().manual_seed(seed) for seed in seeds]
        weight = torch.stack([0.1 * torch.randn(self.d, self.c - 1, generator=g, dtype=dtype) for g in generators])
        links = [LINKS[link](self.c, g).to(dtype) for g in generators]
        return LinearModel(weight, torch.zeros(len(seeds), self.c - 1, dtype=dtype), links)

    def sample(self, seeds, dtype=torch.float64, size=100, held_out=False):
        orders = [torch.randperm(self.n, generator=torch.Generator().manual_seed(1000 + s)) for s in seeds]
        rows = torch.stack([o[size:] if held_out else o[:size] for o in orders])
        features = as_features(self.x, dtype, torch.device("cpu"))
        return Sample(features, rows, self.y[rows], torch.ones(rows.shape, dtype=dtype))

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


@pytest.fixture
def problem():
    return Problem()


@pytest.fixture
def sparse_problem():
    return Problem(sparse=True, d=40)
