"""Training for a number of steps: which rows at which rate, and all that training by epochs has."""

import math

import numpy as np
import pytest
import torch

from legendretron.training import History, train
from legendretron.training.problem import SampleBatches
from legendretron.training.step import CompiledStep, Step
from tests.saved_files import read
from tests.training.conftest import LINKS


@pytest.fixture
def seen(monkeypatch):
    """Batches and rates of all steps that are taken."""
    taken = []
    for kind in (Step, CompiledStep):

        def watch(self, *given, take=kind.take_all):
            taken.append(given)
            take(self, *given)

        monkeypatch.setattr(kind, "take_all", watch)

    def joined():
        return [torch.cat(parts) for parts in zip(*taken, strict=True)]

    return joined


@pytest.mark.parametrize("steps", [1, 7, 50, 123])
@pytest.mark.parametrize("batch_size", [32, 1000])
@pytest.mark.parametrize("link", ["softmax", "cpflow"])
def test_steps_rows_and_rates(problem, seen, steps, batch_size, link):
    sample = problem.sample([1, 2])
    result = train(
        problem.model(link, [1, 2]), sample, problem.settings([1, 2], max_steps=steps, batch_size=batch_size)
    )
    rows, labels, weights, rates = seen()
    size = min(batch_size, 100)
    assert rows.shape == labels.shape == weights.shape == (steps, 2, size)
    for run in range(2):
        flat = rows[:, run].reshape(-1)
        for first in range(
            0, len(flat) - 99, 100
        ):  # every row once in a pass, also where a link has to see a batch first
            assert sorted(flat[first : first + 100].tolist()) == sorted(sample.rows[run].tolist())
    assert torch.equal(labels, problem.y[rows])
    assert torch.allclose(weights, torch.full_like(weights, 1.0 / size))
    expected = [0.02 * 0.5 * (1 + math.cos(math.pi * step / steps)) for step in range(steps)]
    assert rates[:, 0].tolist() == pytest.approx(expected, rel=1e-12)
    rounds = min(steps, 50)
    assert result.history["epoch"].tolist() == [r for r in range(1, rounds + 1) for _ in range(2)]
    assert result.n_iter.tolist() == [rounds, rounds]
    assert result.history["learning_rate"][-1] == pytest.approx(expected[-1], rel=1e-12)


class _Stop(Exception):
    pass


@pytest.mark.parametrize("changed", [{"max_steps": 130}, {"max_epochs": 24}], ids=["steps", "epochs"])
@pytest.mark.parametrize("link", LINKS)
def test_resumed_training_ends_as_if_it_had_not_been_stopped(problem, link, changed, tmp_path, monkeypatch):
    """Also in the middle of a pass: 2 or 3 steps a round, 3.1 a pass."""
    held_out = problem.sample([1, 2], held_out=True)
    whole = problem.model(link, [1, 2])
    whole_result = train(whole, problem.sample([1, 2]), problem.settings([1, 2], **changed), held_out)
    path = tmp_path / "training"

    def settings():
        return problem.settings([1, 2], checkpoint=path, checkpoint_every=4, fingerprint="same", **changed)

    append = History.append

    def die(self, epoch, *rest):
        if epoch == 23:
            raise _Stop
        append(self, epoch, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(History, "append", die)
        with pytest.raises(_Stop):
            train(problem.model(link, [1, 2]), problem.sample([1, 2]), settings(), held_out)
    notes = read(path)["state"]
    assert notes["epoch"] == 20
    assert "max_epochs" in changed or notes["step"] == 130 * 20 // 50
    resumed = problem.model(link, [1, 2])
    result = train(resumed, problem.sample([1, 2]), settings(), held_out)
    assert torch.equal(resumed.flat, whole.flat)
    assert np.array_equal(result.history["train_loss"], whole_result.history["train_loss"])
    assert np.array_equal(result.history["validation_loss"], whole_result.history["validation_loss"])
    assert not path.exists()


def test_the_loss_of_a_round_is_the_mean_over_its_steps(problem):
    sample = problem.sample([1])
    model = problem.model("composite", [1])
    before, accuracy = model.evaluate(sample)
    settings = problem.settings([1], max_steps=100, batch_size=50, learning_rate=torch.tensor([1e-12]))
    history = train(model, sample, settings).history
    assert history["train_loss"].tolist() == pytest.approx([before.item()] * 50, rel=1e-7)
    assert history["accuracy"].tolist() == pytest.approx([accuracy.item()] * 50, rel=1e-7)


@pytest.mark.parametrize("batch_size", [1, 64])
def test_links_that_have_to_see_a_batch_see_the_first_of_two_rows_at_least(problem, seen, monkeypatch, batch_size):
    model, given = problem.model("cpflow", [1]), []
    initialize = type(model).initialize_link
    monkeypatch.setattr(
        type(model), "initialize_link", lambda self, *args, **how: (given.append(args), initialize(self, *args, **how))
    )
    train(model, problem.sample([1]), problem.settings([1], max_steps=100, batch_size=batch_size))
    assert not model.link.needs_batch
    ((batch, _),) = given
    rows = batch.rows
    assert rows.shape == (1, max(2, batch_size))
    assert torch.equal(rows[0], seen()[0][:, 0].reshape(-1)[: rows.shape[1]])


def test_divergence_that_is_allowed_is_not_told(problem):
    settings = problem.settings(
        [1, 2], max_steps=20, learning_rate=torch.tensor([0.02, 1e200], dtype=torch.float64), may_diverge=True
    )
    train(model := problem.model("composite", [1, 2]), problem.sample([1, 2]), settings)
    assert model.flat.isfinite().all(1).tolist() == [True, False]
    settings.learning_rate.fill_(1e200)
    train(model := problem.model("composite", [1, 2]), problem.sample([1, 2]), settings)
    assert model.flat.isnan().all()


def test_rows_without_weight_change_nothing_but_the_order(problem):
    batches = SampleBatches(problem.sample([1]), 30, [torch.Generator().manual_seed(0)], endless=True)
    weights = batches.take(7).weights
    assert weights.sum((1, 2)).tolist() == pytest.approx([1.0] * 7)
