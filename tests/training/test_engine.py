"""The engine: what it minimizes, that runs do not see each other, and that it can be stopped and resumed."""

import threading
from dataclasses import replace

import numpy as np
import pytest
import torch

from legendretron.links import SoftmaxLink
from legendretron.training import DivergedError, train
from legendretron.training.step import _flush_subnormals
from tests.training.conftest import LINKS, make_penalty

every_link = pytest.mark.parametrize("link", LINKS)


@every_link
@pytest.mark.parametrize("how", [{}, {"solver": "lbfgs"}, {"max_steps": 40}], ids=["epochs", "lbfgs", "steps"])
def test_a_run_does_not_depend_on_the_runs_beside_it(problem, link, how):
    together = problem.model(link, [5, 6, 7])
    result = train(together, problem.sample([5, 6, 7]), problem.settings([5, 6, 7], **how))
    for r, seed in enumerate([5, 6, 7]):
        alone = problem.model(link, [seed])
        single = train(alone, problem.sample([seed]), problem.settings([seed], **how))
        assert torch.allclose(together.flat[r], alone.flat[0], rtol=1e-9, atol=1e-11)
        of_run = result.history.select_run(r)
        assert np.allclose(of_run["train_loss"], single.history["train_loss"], rtol=1e-10)


@pytest.mark.parametrize(("link", "symmetric", "centred"), [
    *((link, False, False) for link in LINKS),
    *((link, *penalty) for link in ("softmax", "canonical") for penalty in ((True, False), (False, True))),
])  # fmt: skip
def test_gradient_of_the_objective_against_finite_differences(problem, link, symmetric, centred):
    model = problem.model(link, [0])
    sample = problem.sample([0])
    if model.link.needs_batch:
        model.link.initialize(problem.model("softmax", [0]).log_proba(sample.features, sample.rows)[..., :-1])
    strengths = torch.tensor([0.3]).double(), torch.tensor([0.2]).double()
    penalty = make_penalty(model, *strengths, symmetric=symmetric, centred=centred)
    weight = torch.rand(1, 100, generator=torch.Generator().manual_seed(0)).double()
    gradient = torch.empty_like(model.flat)
    batch = replace(sample, weights=weight)

    def value():
        nll, _ = model.loss_gradient(batch, torch.empty_like(gradient))
        return float((nll * weight).sum() + penalty.value())

    model.loss_gradient(batch, gradient)
    penalty.add_gradient(gradient)
    start = model.flat.clone()
    for i in range(model.flat.shape[1]):
        values = []
        for sign in (1, -1):
            model.flat.copy_(start)
            model.flat[0, i] += sign * 1e-5
            values.append(value())
        assert gradient[0, i].item() == pytest.approx((values[0] - values[1]) / 2e-5, rel=1e-5, abs=1e-6)


def test_a_centered_penalty_vanishes_where_the_link_is_softmax(problem):
    model = problem.model("composite", [0])
    one = torch.ones(1, dtype=torch.float64)
    penalty = make_penalty(model, one, one, centred=True)
    model.flat.zero_()
    for name, value in model.link.penalty_centre().items():
        model.link.get_parameter(name).data.fill_(value)
    gradient = torch.zeros_like(model.flat)
    penalty.add_gradient(gradient)
    assert penalty.value().item() == pytest.approx(0.0, abs=1e-14)
    assert gradient.abs().max() < 1e-15
    z = torch.randn(1, 5, problem.c - 1, generator=torch.Generator().manual_seed(0)).double()
    softmax = SoftmaxLink(problem.c, run_shape=(1,))
    assert torch.allclose(model.link(z), softmax(z), rtol=1e-12)


def test_symmetric_penalty_does_not_depend_on_the_reference_class(problem):
    """The least penalty over all ways to write the same softmax."""
    model = problem.model("softmax", [0])
    one = torch.ones(1, dtype=torch.float64)
    symmetric = make_penalty(model, one, one, intercept=False, symmetric=True).value().item()
    full = torch.cat([model.weight[0], torch.zeros(problem.d, 1, dtype=torch.float64)], 1)
    centred = full - full.mean(1, keepdim=True)
    assert symmetric == pytest.approx(0.5 * centred.square().sum().item(), rel=1e-12)


def test_adam_is_torch_adam(problem):
    from legendretron.training.step import Adam

    generator = torch.Generator().manual_seed(0)
    start = torch.randn(1, 7, generator=generator, dtype=torch.float64)
    ours, theirs = start.clone(), torch.nn.Parameter(start.clone())
    adam, reference = Adam(ours), torch.optim.Adam([theirs], lr=0.03)
    pair = torch.cat([start, start])
    pair_adam = Adam(pair)
    for _ in range(20):
        gradient = torch.randn(1, 7, generator=generator, dtype=torch.float64)
        adam.step(gradient, torch.full((1, 1), 0.03, dtype=torch.float64))
        pair_adam.step(gradient.expand(2, -1), torch.tensor([[0.03], [0.0]], dtype=torch.float64))
        theirs.grad = gradient.clone()
        reference.step()
    assert torch.allclose(ours, theirs.detach(), rtol=1e-12)
    assert torch.allclose(pair[0], ours[0], rtol=1e-12)
    assert torch.equal(pair[1], start[0])  # a rate of zero leaves a run as it is


@pytest.mark.parametrize("solver", ["adam", "lbfgs"])
def test_early_stopping_keeps_the_best_weights(problem, solver):
    model = problem.model("composite", [1, 2])
    held_out = problem.sample([1, 2], held_out=True)
    settings = problem.settings(
        [1, 2], solver=solver, max_epochs=300, n_iter_no_change=5, alpha=torch.zeros(2), link_alpha=torch.zeros(2)
    )
    result = train(model, problem.sample([1, 2]), settings, held_out)
    loss, _ = model.evaluate(held_out)
    for run in range(2):
        of_run = result.history.select_run(run)["validation_loss"][: int(result.n_iter[run])]
        assert loss[run].item() == pytest.approx(of_run.min(), rel=1e-10)
        assert int(result.n_iter[run]) < 300
        best = int(of_run.argmin())
        assert len(of_run) - 1 - best >= 5 or solver == "lbfgs"


def test_training_works_outside_the_main_thread(problem):
    model = problem.model("softmax", [1])
    thread = threading.Thread(target=train, args=(model, problem.sample([1]), problem.settings([1])))
    thread.start()
    thread.join()
    assert not torch.equal(model.flat, problem.model("softmax", [1]).flat)


def test_threads_are_given_back(problem):
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        train(problem.model("softmax", [1]), problem.sample([1]), problem.settings([1]))
        assert torch.get_num_threads() == 2
        with pytest.raises(DivergedError):
            _diverge(problem)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def _diverge(problem):
    problem.x = problem.x * 1e200
    train(
        problem.model("composite", [1]), problem.sample([1]), problem.settings([1], learning_rate=torch.tensor([1e100]))
    )


def test_a_run_that_diverges_does_not_take_the_others_with_it(problem):
    model = problem.model("composite", [1, 2])
    settings = problem.settings([1, 2], learning_rate=torch.tensor([0.02, 1e200], dtype=torch.float64))
    with pytest.warns(RuntimeWarning, match="training diverged: the loss of run 1"):
        train(model, problem.sample([1, 2]), settings)
    alone = problem.model("composite", [1])
    train(alone, problem.sample([1]), problem.settings([1]))
    assert torch.allclose(model.flat[0], alone.flat[0], rtol=1e-8, atol=1e-10)
    assert model.flat[1].isnan().all()


def test_compiled_steps_flush_subnormal_numbers_and_restore_what_was_set():
    tiny = torch.full((8,), 1e-40)
    with _flush_subnormals(torch.float32):
        inside = float((tiny * 1.0).sum())
    assert inside == 0.0 or not torch.set_flush_denormal(False)  # not every processor can
    with _flush_subnormals(torch.float64):
        assert float((tiny * 1.0).sum()) > 0.0
    assert float((tiny * 1.0).sum()) > 0.0
    if torch.set_flush_denormal(True):
        with _flush_subnormals(torch.float32):
            pass
        flushed = float((tiny * 1.0).sum()) == 0.0
        torch.set_flush_denormal(False)
        assert flushed
