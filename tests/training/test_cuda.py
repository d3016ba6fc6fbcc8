"""The engine on a GPU: captured steps do what plain ones do, and what the CPU does."""

import numpy as np
import pytest
import torch

from legendretron import LegendreTronClassifier, MultinomialLogisticClassifier
from legendretron.training import engine as engine_module
from legendretron.training import train
from tests.training.conftest import LINKS, Problem

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def trained(problem, link, device, seeds=(1, 2, 3), **changes):
    model = problem.model(link, seeds, device)
    sample, held_out = (problem.sample(seeds, held_out, device) for held_out in (False, True))
    result = train(model, sample, problem.settings(seeds, **changes), held_out)
    return model.flat.cpu(), result


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("link", LINKS)
def test_equals_the_cpu(link, sparse):
    problem = Problem(sparse=sparse, d=20 if sparse else 5)
    on_cpu, cpu_result = trained(problem, link, "cpu")
    on_gpu, gpu_result = trained(problem, link, "cuda")
    assert torch.allclose(on_cpu, on_gpu, rtol=1e-6, atol=1e-8)
    assert np.allclose(cpu_result.history["train_loss"], gpu_result.history["train_loss"], rtol=1e-8)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("link", LINKS)
def test_captured_steps_equal_plain_ones(link, sparse, monkeypatch):
    problem = Problem(sparse=sparse, d=20 if sparse else 5)
    captured, _ = trained(problem, link, "cuda")
    monkeypatch.setattr(engine_module, "make_step", lambda step: step)
    plain, _ = trained(problem, link, "cuda")
    # contributions of sparse rows are added up in any order
    rtol, atol = (1e-6, 1e-8) if sparse else (1e-9, 1e-11)
    assert torch.allclose(captured, plain, rtol=rtol, atol=atol)


@pytest.mark.skipif(
    torch.cuda.is_available() and torch.cuda.mem_get_info()[0] < 60 * 2**30, reason="needs 60 GiB on the device"
)
def test_more_parameters_than_32_bits_count():
    size = 2**30 + 7  # the second run starts before 2^31 and ends behind
    flat, gradient, first, second = (torch.zeros(2, size, device="cuda") for _ in range(4))
    gradient[:, -3:] = torch.tensor([1.0, -2.0, 3.0], device="cuda")
    count, rate = torch.zeros((), dtype=torch.float64, device="cuda"), torch.tensor([[0.1], [0.2]], device="cuda")
    pytest.importorskip("legendretron.accelerate.cuda.training").adam_step(
        flat, gradient, first, second, count, rate, betas=(0.9, 0.999), eps=1e-8, clear=True
    )
    expected = torch.tensor([[-0.1, 0.1, -0.1], [-0.2, 0.2, -0.2]], device="cuda")
    torch.testing.assert_close(flat[:, -3:], expected)
    assert not gradient.any()
    assert int(torch.count_nonzero(flat)) == 6


@pytest.mark.parametrize("solver", ["adam", "lbfgs"])
def test_estimators(solver):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 6))
    y = (X @ rng.normal(size=(6, 4))).argmax(1)
    # a strong penalty, so that there is one minimum, and L-BFGS reaches it
    for make, own in ((LegendreTronClassifier, {"link_alpha": 0.1}), (MultinomialLogisticClassifier, {})):
        settings = {"solver": solver, "max_epochs": 20 if solver == "adam" else 2000, "alpha": 0.1, "random_state": 0}
        settings |= own
        cpu = make(**settings).fit(X, y).predict_proba(X)
        gpu = make(device="cuda", **settings).fit(X, y).predict_proba(X)
        assert np.allclose(cpu, gpu, atol=1e-4)


def test_resume_on_cuda(tmp_path):
    problem = Problem()
    whole, _ = trained(problem, "cpflow", "cuda", max_epochs=8)
    kept, _ = trained(
        problem, "cpflow", "cuda", max_epochs=8, checkpoint=tmp_path / "c", checkpoint_every=3, fingerprint="f"
    )
    assert torch.equal(whole, kept)
