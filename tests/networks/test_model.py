"""Networks side by side: gradients, compiled steps, dropout, what is folded for predictions."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from sklearn.exceptions import ConvergenceWarning

from legendretron.links import SymmetricNoise, TransitionNoise
from legendretron.networks.folds import LabeledTable, held_out_logits, leave_out_diverged, logits_of, train_folds
from legendretron.networks.inputs import NetworkInputs
from legendretron.networks.model import FoldSettings, NetworkModel
from legendretron.networks.predictor import NetworkScores
from legendretron.training import Sample, TrainingSettings, as_features, step, train

CPU = torch.device("cpu")
MATRIX = [[0.8, 0.2, 0.0], [0.1, 0.8, 0.1], [0.2, 0.0, 0.8]]
NOISES = {
    "none": None,
    "symmetric": SymmetricNoise(3, 0.3, learned=False, dtype=torch.float64),
    "matrix": TransitionNoise(MATRIX, dtype=torch.float64),
}


PLAIN = FoldSettings((8, 7), 1, 64, dropout=0.0, weight_decay=0.0, label_smoothing=0.0)
#: The first run, and every other one, does not see the last input.
UNITS = torch.tensor([[0.5, 0.6, 0.7, 0.0], [0.5, 0.4, 0.3, 0.2], [0.5, 0.6, 0.7, 0.0]], dtype=torch.float64)


def make_model(runs=2, noise=None, **options):
    generators = [torch.Generator().manual_seed(run) for run in range(runs)]
    model = NetworkModel(3, PLAIN._replace(**options), UNITS[:runs], generators, noise)
    model.flat += 0.3 * torch.randn(model.flat.shape, generator=torch.Generator().manual_seed(9), dtype=torch.float64)
    return model


@pytest.fixture
def batch():
    random = np.random.default_rng(0)
    features = as_features(random.normal(size=(20, 4)), torch.float64, CPU)
    rows, labels = (torch.as_tensor(random.integers(most, size=(2, 6))) for most in (20, 3))
    return Sample(features, rows, labels, torch.as_tensor(random.uniform(size=(2, 6))))


@pytest.mark.parametrize("noise", NOISES)
def test_gradient_is_that_of_autograd(batch, noise):
    features, rows, labels, weight = batch.features, batch.rows, batch.labels, batch.weights
    model = make_model(noise=NOISES[noise], label_smoothing=0.1)
    gradient = torch.zeros_like(model.flat)
    nll, hit = model.loss_gradient(batch, gradient)
    leaf = model.flat.clone().requires_grad_()
    model.weights, model.scale, model.biases, model.mixes = model._split(leaf)
    z = torch.baddbmm(0.1 * model.biases[0][:, None], features.x[rows], model._first_weight())
    for layer in (1, 2):
        z = model._layer(layer, torch.lerp(z, torch.selu(z), model._share(layer - 1)))
    log_q = torch.log(torch.softmax(z, -1) if model.noise is None else torch.softmax(z, -1) @ model.noise)
    own = -log_q.gather(-1, labels[..., None])[..., 0]
    ((0.9 * own - 0.1 * log_q.mean(-1)) * weight).sum().backward()
    torch.testing.assert_close(gradient, leaf.grad, atol=1e-10, rtol=1e-8)
    torch.testing.assert_close(nll, own.detach())
    assert torch.equal(hit, z.argmax(-1) == labels)


CASES = {
    "usual": {},
    "one layer": {"hidden": (9,)},
    "many rows": {"hidden": (32, 16, 8), "batch": 150},
    "symmetric": {"noise": "symmetric"},
    "matrix": {"noise": "matrix"},
    "confident": {
        "noise": "matrix",
        "bias": 2000.0,
    },  # losses of labels that are next to impossible are in the hundreds
}


@pytest.mark.parametrize("case", CASES)
def test_compiled_steps_equal_plain_ones(case, monkeypatch):
    options = {"hidden": (16, 24), "dropout": 0.2, "noise": "none", "batch": 50, "bias": 0.0, **CASES[case]}
    random = np.random.default_rng(1)
    n, runs = 200, 3
    features = as_features(random.normal(size=(n, 4)), torch.float64, CPU)
    rows = torch.as_tensor(np.stack([random.permutation(n)[:160] for _ in range(runs)]))
    labels = torch.as_tensor(random.integers(3, size=(runs, 160)))
    sample = Sample(features, rows, labels, torch.as_tensor(random.uniform(size=(runs, 160))))
    found = []
    for compiled in (True, False):
        if not compiled:
            monkeypatch.setattr(step, "compiled_applies", lambda tensor: False)
        generators = [torch.Generator().manual_seed(run) for run in range(runs)]
        how = FoldSettings(options["hidden"], 30, options["batch"], dropout=options["dropout"])
        model = NetworkModel(3, how, UNITS, generators, NOISES[options["noise"]])
        model.biases[-1][:, 0] += options["bias"]
        rates = torch.full((runs,), 0.04, dtype=torch.float64)
        settings = TrainingSettings(
            0 * rates, 0 * rates, rates, generators, schedule="waves", max_steps=30, batch_size=options["batch"],
            betas=(0.9, 0.95),
        )  # fmt: skip
        result = train(model, sample, settings)
        found.append((model.flat, torch.as_tensor(result.history["train_loss"])))
    torch.testing.assert_close(found[0], found[1], atol=1e-9, rtol=1e-7)


def table_of(n=300, seed=0):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 4))
    y = (np.hypot(X[:, 0], X[:, 1]) > 1.2).astype(int) + (X[:, 2] > 1.0)
    inputs = NetworkInputs.fit(X)
    features = as_features(inputs.transform(X, torch.float64), torch.float64, CPU)
    table = LabeledTable(features, inputs, torch.as_tensor(y), torch.ones(n, dtype=torch.float64), 3)
    folds = [(np.flatnonzero(np.arange(n) % 3 != k), np.flatnonzero(np.arange(n) % 3 == k)) for k in range(3)]
    return X, table, folds


SETTINGS = FoldSettings((32, 32), 300, 64, 0.04, 0.1, 0.02, 0.1, seed=0)


def test_held_out_logits_are_those_of_the_network_that_has_not_seen_the_row():
    X, table, folds = table_of()
    model, result, _ = train_folds(table, [folds], SETTINGS)
    logits = logits_of(model, table, [held for _, held in folds])
    assert np.isfinite(logits).all()
    row = int(folds[1][1][3])
    own = model.logits(table.features, torch.full((3, 1), row))[1, 0].numpy()
    np.testing.assert_allclose(logits[row], own, atol=1e-12)
    assert (logits.argmax(1) == table.labels.numpy()).mean() > 0.85
    assert int(result.n_iter.max()) <= 50
    partial = logits_of(model, table, [folds[0][1][:5], folds[1][1][:5], folds[2][1][:5]])
    assert np.isnan(partial).any(1).sum() == len(X) - 15


def test_held_out_rows_are_predicted_at_the_best_step_of_other_folds():
    _, table, folds = table_of(60)
    model, result, _ = train_folds(table, [folds], SETTINGS)
    honest = held_out_logits(model, result, table, [folds])
    assert honest.shape == (1, 60, 3)
    own = logits_of(model, table, [held for _, held in folds])

    def loss(logits):
        return float(torch.nn.functional.cross_entropy(torch.as_tensor(logits), table.labels))

    assert loss(own) < loss(honest[0]) + 1e-6  # its own best step was chosen on just these rows
    held, curves = folds[1][1], result.history["validation_loss"].reshape(-1, 3)
    best = int(np.argmin(curves[:, [0, 2]].mean(1)))
    np.testing.assert_allclose(honest[0, held], model.trail[best][1, : len(held)].numpy())
    curves = np.ones_like(curves)
    curves[0, 1], curves[1, [0, 2]] = -9.0, 0.5  # the fold's own best step, by far, and that of the others
    given = SimpleNamespace(history={"validation_loss": curves.ravel()}, n_iter=torch.full((3,), len(curves)))
    found = held_out_logits(model, given, table, [folds])[0]
    np.testing.assert_allclose(found[held], model.trail[1][1, : len(held)].numpy())
    model.trail = None  # as with very many rows
    np.testing.assert_array_equal(held_out_logits(model, result, table, [folds])[0], own)


def test_a_network_that_has_stopped_predicts_by_the_weights_that_it_keeps():
    _, table, folds = table_of(60)
    model, result, each = train_folds(table, [folds], SETTINGS._replace(hidden=(16,), n_steps=500, seed=1))
    own = logits_of(model, table, [held for _, held in folds])
    curves = result.history["validation_loss"].reshape(-1, 3)
    stopped = 0
    for run, (_, held) in enumerate(folds):
        best = np.delete(curves, run, 1).mean(1).argmin()
        if best >= result.n_iter[run]:
            stopped += 1
            np.testing.assert_allclose(each[0, held], own[held], atol=1e-6)
        else:
            np.testing.assert_allclose(each[0, held], model.trail[best][run, : len(held)].numpy())
    assert stopped


@pytest.mark.parametrize("rate", [1e20, 1e155], ids=["after a while", "at once"])
def test_a_network_that_diverges_is_left_out(rate):
    X, table, folds = table_of()
    sample, held_out = (table.sample([fold[part] for fold in folds]) for part in (0, 1))
    found = []
    for rates in ([0.04, 0.04, 0.04], [0.04, rate, 0.04]):
        generators = [torch.Generator().manual_seed(run) for run in range(3)]
        model = NetworkModel(3, SETTINGS._replace(hidden=(8,), n_steps=60), table.inputs.units(3), generators)
        model.trail = []
        rates = torch.tensor(rates, dtype=torch.float64)
        how = TrainingSettings(
            0 * rates, 0 * rates, rates, generators, schedule="waves", max_steps=60, n_iter_no_change=20,
            betas=(0.9, 0.95), tol=0.0, may_diverge=True,
        )  # fmt: skip
        result = train(model, sample, how, held_out)
        if len(found):
            with pytest.warns(ConvergenceWarning, match="1 of 3 networks have diverged.*lower learning_rate"):
                leave_out_diverged(model, result)
        parts = [held for _, held in folds]
        logits = logits_of(model, table, parts), held_out_logits(model, result, table, [folds])[0]
        found.append((logits, NetworkScores.from_model(model, table.inputs)(torch.as_tensor(X)), model))
    (plain, _, model), (left, mean, _) = found
    assert np.isnan(left).all((0, 2)).sum() == len(folds[1][1])
    for row in (0, 2):
        np.testing.assert_allclose(left[0][folds[row][1]], plain[0][folds[row][1]], atol=1e-9)
        assert np.isfinite(left[1][folds[row][1]]).all()
    each = model.logits(table.features, torch.arange(len(X)).expand(3, -1))
    torch.testing.assert_close(mean, each[[0, 2]].mean(0), atol=1e-9, rtol=1e-7)
    with pytest.raises(ValueError, match="the losses of all networks are infinite; lower learning_rate, got 1e\\+100"):
        train_folds(table, [folds], SETTINGS._replace(learning_rate=1e100, hidden=(8,)))


def test_seeds_that_follow_each_other_share_no_network():
    _, table, folds = table_of(60)
    starts = [
        train_folds(table, [folds, folds], SETTINGS._replace(hidden=(4,), n_steps=1, seed=seed)).model.flat
        for seed in (0, 1, 2**32 - 1)
    ]
    first = [tuple(run[:5].tolist()) for start in starts for run in start]
    assert len(set(first)) == len(first)


def test_folded_scores_are_the_mean_of_the_networks():
    X, table, folds = table_of()
    model = train_folds(table, [folds], SETTINGS).model
    scores = NetworkScores.from_model(model, table.inputs)
    mean = model.logits(table.features, torch.arange(len(X)).expand(3, -1)).mean(0)
    torch.testing.assert_close(scores(torch.as_tensor(X)), mean, atol=1e-9, rtol=1e-7)


def test_dropout_keeps_the_mean_and_fades():
    model = make_model(dropout=0.25, n_steps=100)
    like = torch.zeros(2, 400, 8, dtype=torch.float64)
    mask = model._mask(like, 0)
    assert abs(float(mask.mean()) - 1.0) < 0.05
    assert sorted(mask.unique().tolist()) == pytest.approx([0.0, 4 / 3])
    model.advance(75)  # half of it is left
    later = model._mask(like, 0)
    assert float(later.var()) == pytest.approx(0.125 / 0.875, rel=0.15)
    model.advance(25)
    torch.testing.assert_close(model._mask(like, 1), torch.ones_like(like))


def test_weight_decay_is_that_of_the_weights_alone():
    model = make_model(weight_decay=0.5)
    before = model.flat.clone()
    model.shrink(torch.tensor([[0.1], [0.2]]))
    torch.testing.assert_close(
        model.flat[:, : model.n_weights], before[:, : model.n_weights] * torch.tensor([[0.95], [0.9]])
    )
    assert torch.equal(model.flat[:, model.n_weights :], before[:, model.n_weights :])


def test_units_of_inputs_are_robust_and_constant_features_vanish():
    X = np.column_stack([np.r_[np.arange(99.0), 1e9], np.ones(100), np.r_[np.zeros(90), np.ones(10)]])
    inputs = NetworkInputs.fit(X).transform(X, torch.float64)
    assert np.abs(inputs).max() <= 3.0
    assert np.ptp(inputs[:99, 0]) > 1.0  # the outlier does not squeeze the others
    assert not inputs[:, 1].any()
    assert sorted(np.unique(inputs[:, 2]).round(6)) == [0.0, round(2 / math.sqrt(1 + 4 / 9), 6)]
    with pytest.raises(ValueError, match="too large"):
        NetworkInputs.fit(np.array([[-1.7e308], [1.7e308]]))


def test_parts_of_features_rise_between_quantiles():
    X = np.column_stack([np.arange(81.0), np.tile([0.0, 1.0, 1.0], 27), np.repeat([0.0, 1.0, 5.0], 27)])
    inputs = NetworkInputs.fit(X)
    assert inputs.feature.tolist() == [0] * 8 + [2] * 2  # two values have no parts
    parts = inputs.transform(X, torch.float64)[:, 3:]
    np.testing.assert_allclose(parts[15], [1.0, 0.0, *[-1.0] * 6, -1.0, -1.0])
    np.testing.assert_allclose(parts[:, 8:][[0, 40, 80]], [[-1.0, -1.0], [1.0, -1.0], [1.0, 1.0]])
    units = inputs.units(3).square()
    torch.testing.assert_close(units.sum(1), torch.ones(3, dtype=torch.float64))
    assert not units[::2, 3:].any()  # every other network sees them
    torch.testing.assert_close(units[1, 3:11].sum(), units[1, 0])  # together they count as their feature
    assert len(NetworkInputs.fit(np.zeros((9, 300)) + np.arange(9.0)[:, None]).feature) == 0  # of too many features
