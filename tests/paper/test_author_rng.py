"""The paper's recipe, beside a training written with torch's own parts: same seed, same start, same batches, same model."""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn.functional import nll_loss
from torch.utils.data import DataLoader, TensorDataset

from legendretron import LegendreTronClassifier, MultinomialLogisticClassifier
from legendretron.paper.libsvm import noisy_labels

spec = spec_from_file_location("naive", Path(__file__).parents[2] / "benchmarks" / "naive.py")
naive = sys.modules["naive"] = module_from_spec(spec)
spec.loader.exec_module(naive)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(150, 6))
Y = (X @ RNG.normal(size=(6, 4)) + RNG.gumbel(size=(150, 4))).argmax(1)


@pytest.fixture
def double_precision():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def trained_by_torch(seed, epochs, with_link):
    """The probabilities of a plain training of the published kind: 2 blocks, 64 rows a batch, everything penalized."""
    torch.manual_seed(seed)
    model = naive.NaiveLegendreTron(6, 4)
    if not with_link:  # set up all the same, as in the authors' runs
        model.blocks = torch.nn.ModuleList()
    batches = DataLoader(TensorDataset(torch.tensor(X), torch.tensor(Y)), batch_size=64, shuffle=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 4 * len(batches), 0.95)
    for _ in range(epochs):
        for x, y in batches:
            optimizer.zero_grad()
            loss = nll_loss(model(x), y)
            penalty = sum(p.square().sum() for p in model.parameters() if p.requires_grad)
            (loss + 0.005 * penalty).backward()
            optimizer.step()
            schedule.step()
    return model(torch.tensor(X)).exp().detach().numpy()


@pytest.mark.parametrize("seed", [0, pytest.param(7, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("kind", [LegendreTronClassifier, MultinomialLogisticClassifier])
def test_the_same_seed_gives_the_same_model(kind, seed, double_precision):
    expected = trained_by_torch(seed, 12, with_link=kind is LegendreTronClassifier)
    ours = kind.from_paper("libsvm", max_epochs=12, random_state=seed).fit(X, Y).predict_proba(X)
    np.testing.assert_allclose(ours, expected, atol=1e-11)
    other = kind.from_paper("libsvm", max_epochs=12, random_state=seed + 1).fit(X, Y).predict_proba(X)
    assert np.abs(other - expected).max() > 1e-3


def test_labels_are_wrong_as_often_as_they_should_be():
    y = np.arange(6000) % 4
    wrong = noisy_labels(y, 0.3, 4, seed=0)
    moved = np.bincount((wrong - y) % 4, minlength=4) / 6000
    np.testing.assert_allclose(moved, [0.7, 0.1, 0.1, 0.1], atol=0.015)
    np.testing.assert_array_equal(noisy_labels(y, 0.3, 4, seed=0), wrong)
