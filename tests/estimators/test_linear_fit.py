"""The steps of a fit of rows in memory."""

import numpy as np
import pytest
import torch

from legendretron.estimators.linear_fit import make_sample, train_further
from legendretron.links import SoftmaxLink
from legendretron.training import LinearModel, TrainingSettings, as_features


@pytest.mark.parametrize(("rate", "is_kept"), [(1e-3, False), (50.0, True)])
def test_a_scored_model_does_not_become_worse(rate, is_kept):
    """Steps that are too large end with a higher loss: then the model stays as it was."""
    rng = np.random.default_rng(0)
    X, noise = rng.normal(size=(200, 3)), rng.logistic(size=200)
    y = (X[:, 0] + 0.3 * noise > 0).astype(int)
    weight = torch.zeros(1, 3, 1, dtype=torch.float64)
    weight[0, 0] = -2.0  # the second class is the reference
    model = LinearModel(weight, torch.zeros(1, 1, dtype=torch.float64), [SoftmaxLink(2)])
    features = as_features(X, torch.float64, torch.device("cpu"))
    sample = make_sample(features, np.arange(200), y, np.ones(200), torch.float64, torch.device("cpu"))
    penalty, steps = torch.zeros(1, dtype=torch.float64), {"max_steps": 3, "batch_size": 50}
    generators = [torch.Generator().manual_seed(0)]
    settings = TrainingSettings(penalty, penalty, torch.full_like(penalty, rate), generators, **steps)
    before, (loss, _) = model.flat.clone(), model.evaluate(sample)
    train_further(model, sample, settings, None)
    assert bool((model.flat == before).all()) == is_kept
    assert model.evaluate(sample)[0] <= loss
