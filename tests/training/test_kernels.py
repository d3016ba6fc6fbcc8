"""The Triton kernels of training against plain operations: on the CPU by Triton's interpreter, on a GPU as they are."""

import numpy as np
import pytest
import scipy.sparse
import torch

from legendretron.links import CompositeLink, SoftmaxLink
from legendretron.training import LinearModel, as_features, train
from legendretron.training import features as features_module
from legendretron.training import step as step_module
from legendretron.training.features import SparseFeatures
from legendretron.training.step import Adam, CapturedStep, Step, make_step
from tests.training.conftest import Problem, make_penalty

pytest.importorskip("triton")
from legendretron.accelerate.cuda.training import sparse_gradient, sparse_product

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
DTYPES = [(torch.float64, 1e-12), (torch.float32, 2e-5)]

#: Strengths on weights and link of two runs, whether the bias is penalized, and whether classes are alike.
PENALTIES = {
    "a strength a run": ([0.3, 0.0], [0.3, 0.0], True, False),
    "parts": ([0.3, 0.1], [0.0, 0.7], False, False),
    "symmetric": ([0.3, 0.1], [0.2, 0.7], True, True),
    "symmetric, without bias": ([0.3, 0.3], [0.3, 0.3], False, True),
}


def random(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(DEVICE, dtype)


def optimizer(parameters, fused):
    adam = Adam(parameters)
    adam.fused = fused
    return adam


def pair_of_models(d, k, dtype, link):
    """The same two runs twice, once for plain operations and once for the kernels."""
    links = [CompositeLink(k + 1, generator=torch.Generator().manual_seed(s)) if link else SoftmaxLink(k + 1)
             for s in range(2)]  # fmt: skip
    return [LinearModel(random(2, d, k, dtype=dtype), random(2, k, seed=1, dtype=dtype), links) for _ in range(2)]


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize(("dtype", "tolerance"), DTYPES)
@pytest.mark.parametrize(("d", "k", "link"), [(5, 3, True), (7, 1, False)])
def test_adam_with_penalties(penalty, dtype, tolerance, d, k, link):
    alpha, link_alpha, intercept, symmetric = PENALTIES[penalty]
    models = pair_of_models(d, k, dtype, link)
    adams, penalties = [], []
    for model, fused in zip(models, (False, True), strict=True):
        adams.append(optimizer(model.flat, fused))
        strengths = [torch.tensor(values, dtype=dtype, device=DEVICE) for values in (alpha, link_alpha)]
        penalties.append(make_penalty(model, *strengths, intercept=intercept, symmetric=symmetric, centred=link))
    for i in range(6):
        gradient = random(*models[0].flat.shape, seed=i, dtype=dtype)
        rate = torch.tensor([[0.03], [0.01 * i]], dtype=dtype, device=DEVICE)
        for adam, of in zip(adams, penalties, strict=True):
            given = gradient.clone()
            adam.step(given, rate, of, clear=i % 2 == 0)
            if i % 2 == 0:
                assert not given.any()
            elif adam.fused and not link:  # a center is added to the gradient beforehand
                assert torch.equal(given, gradient)
    torch.testing.assert_close(models[1].flat, models[0].flat, rtol=tolerance, atol=tolerance)
    for mine, other in zip(adams[1].moments(), adams[0].moments(), strict=True):
        torch.testing.assert_close(mine, other, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("dtype", "sizes", "tolerance"), [
    (torch.float32, [0.0, 1e-30, 1e-18, 1e-8, 1.0, 1e8, 1e18], 2e-5),
    (torch.float64, [0.0, 1e-200, 1e-150, 1e-8, 1.0, 1e100, 1e150], 1e-12),
])  # fmt: skip
def test_extreme_gradients(dtype, sizes, tolerance):
    plain, kernel = random(2, len(sizes), dtype=dtype), random(2, len(sizes), dtype=dtype)
    adams = optimizer(plain, False), optimizer(kernel, True)
    for i in range(5):
        gradient = random(2, len(sizes), seed=i, dtype=dtype) * torch.tensor(sizes, dtype=dtype, device=DEVICE)
        for adam in adams:
            adam.step(gradient.clone(), torch.full((2, 1), 0.05, dtype=dtype, device=DEVICE))
    assert torch.isfinite(kernel).all()
    assert torch.equal(kernel[:, 0], random(2, len(sizes), dtype=dtype)[:, 0])  # no gradient, no second moment
    torch.testing.assert_close(kernel, plain, rtol=tolerance, atol=tolerance)


def test_a_run_of_nan_leaves_others_alone_and_no_trace_in_the_gradient():
    parameters, gradient = random(2, 6), random(2, 6, seed=1)
    gradient[0] = torch.nan
    adam = optimizer(parameters, True)
    adam.step(gradient, torch.full((2, 1), 0.1, dtype=torch.float64, device=DEVICE), clear=True)
    assert torch.isnan(parameters[0]).all()
    assert torch.isfinite(parameters[1]).all()
    assert (gradient == 0.0).all()


def sparse_matrix(n, d, dtype, wide=False):
    """Rows of all lengths: the first empty, then one with one entry, then one that is full."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, d)) * (rng.random((n, d)) < rng.random((n, 1)))
    x[:3] = 0.0
    x[1, d // 2] = 2.0
    x[2] = rng.normal(size=d)
    features = as_features(scipy.sparse.csr_array(x), dtype, torch.device(DEVICE))
    columns = features.columns.to(torch.int64 if wide else torch.int32)
    return torch.as_tensor(x).to(DEVICE, dtype), (features.starts, columns, features.values)


ROWS = [[2, 0, 5, 1, 5, 5, 9], [7, 3, 1, 2, 2, 0, 0]]  # some of them more than once


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize(("dtype", "tolerance"), DTYPES)
@pytest.mark.parametrize(("d", "k"), [(1, 1), (70, 3), (11, 300), pytest.param(5, 1100, marks=pytest.mark.exhaustive)])
def test_sparse_products_and_gradients(d, k, dtype, tolerance, wide):
    x, csr = sparse_matrix(10, d, dtype, wide)
    rows = torch.tensor(ROWS, device=DEVICE)
    flat = random(2, d * k + k + 5, dtype=dtype)  # weights, bias and more, as in a model
    weight, bias = flat[:, : d * k].view(2, d, k), flat[:, d * k : d * k + k].unsqueeze(1)
    z = sparse_product(*csr, rows, weight, bias)
    torch.testing.assert_close(z, torch.baddbmm(bias, x[rows], weight), rtol=tolerance, atol=10 * tolerance)
    dz = random(2, rows.shape[1], k, seed=1, dtype=dtype)
    gradient = torch.ones_like(flat)
    sparse_gradient(*csr, rows, dz, gradient[:, : d * k].view(2, d, k))
    expected = 1.0 + (x[rows].mT @ dz).reshape(2, -1)
    torch.testing.assert_close(gradient[:, : d * k], expected, rtol=tolerance, atol=10 * tolerance)
    assert (gradient[:, d * k :] == 1.0).all()


def test_sparse_arguments_of_any_layout():
    x, csr = sparse_matrix(10, 8, torch.float64)
    rows = torch.tensor(ROWS, device=DEVICE).repeat_interleave(2, dim=1)[:, ::2]
    weight, bias = random(2, 3, 8).mT, random(2, 3, 1).mT
    dz, out = random(2, 3, 7).mT, torch.zeros(2, 8, 3, dtype=torch.float64, device=DEVICE)
    torch.testing.assert_close(sparse_product(*csr, rows, weight, bias), torch.baddbmm(bias, x[rows], weight))
    sparse_gradient(*csr, rows, dz, out)
    torch.testing.assert_close(out, x[rows].mT @ dz)


def choose(monkeypatch, kernels):
    for module in (step_module, features_module):
        monkeypatch.setattr(module, "kernels_apply", lambda tensor: kernels)


@pytest.mark.parametrize(("link", "sparse"), [("cpflow", False), ("softmax", True)])
def test_training_with_kernels_equals_training_without(link, sparse, monkeypatch):
    problem = Problem(sparse=sparse, d=20 if sparse else 5)
    trained = []
    for kernels in (False, True):
        choose(monkeypatch, kernels)
        model = problem.model(link, [1, 2], DEVICE)
        settings = problem.settings([1, 2], max_epochs=2, symmetric=link == "softmax")
        sample, held_out = (problem.sample([1, 2], held_out, DEVICE) for held_out in (False, True))
        result = train(model, sample, settings, held_out)
        trained.append((model.flat, result.history["validation_loss"]))
    (plain_flat, plain_loss), (flat, loss) = trained
    assert torch.allclose(flat, plain_flat, rtol=1e-6, atol=1e-8)
    assert np.allclose(loss, plain_loss, rtol=1e-8)


def test_gradients_in_any_order_only_if_allowed(monkeypatch):
    choose(monkeypatch, True)
    problem = Problem(sparse=True, d=20)
    features = as_features(problem.x, torch.float64, torch.device(DEVICE))
    assert isinstance(features, SparseFeatures)
    assert features.by_kernels(torch.zeros(1, device=DEVICE))
    torch.use_deterministic_algorithms(True)
    try:
        assert not features.by_kernels(torch.zeros(1, device=DEVICE))
    finally:
        torch.use_deterministic_algorithms(False)


@pytest.mark.skipif(DEVICE == "cpu", reason="captures on CUDA")
@pytest.mark.parametrize("kernels", [False, True])
def test_sparse_steps_are_captured_with_kernels(kernels, monkeypatch):
    choose(monkeypatch, kernels)
    model = LinearModel(random(2, 20, 2), random(2, 2), [SoftmaxLink(3)] * 2)
    features = as_features(Problem(sparse=True, d=20).x, torch.float64, torch.device(DEVICE))
    strength = torch.ones(2, dtype=torch.float64, device=DEVICE)
    penalty = make_penalty(model, strength, strength)
    adam, totals = Adam(model.flat), torch.zeros(2, 2, dtype=torch.float64, device=DEVICE)
    step = Step(model, features, penalty, adam, torch.ones_like(strength)[:, None], totals, 4)
    made = make_step(step)
    assert isinstance(made, CapturedStep) == kernels
    assert not totals.any()
    assert not step.gradient.any() or not kernels
