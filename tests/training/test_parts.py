"""Schedules, history, progress, threads, files, hits."""

import io
import itertools

import numpy as np
import pytest
import torch

from legendretron.accelerate.steps import autograd_step, nll_step
from legendretron.links import SoftmaxLink
from legendretron.training import History, LinearModel, Sample, as_features
from legendretron.training.engine import rate_factor
from legendretron.training.history import Progress


def test_schedules():
    assert [rate_factor("constant", e, 10) for e in range(3)] == [1.0, 1.0, 1.0]
    assert [rate_factor("step", e, 100, decay=0.5, decay_every=2) for e in range(5)] == [1.0, 1.0, 0.5, 0.5, 0.25]
    cosine = [rate_factor("cosine", e, 10) for e in range(10)]
    assert cosine[0] == 1.0
    assert all(a > b for a, b in itertools.pairwise(cosine))
    assert 0 < cosine[-1] < 0.05
    with pytest.raises(ValueError, match="schedule must be one of"):
        rate_factor("linear", 0, 10)


def test_history_becomes_a_data_frame():
    history = History()
    history.append(1, [0.5, 0.6], [0.7, 0.8], [0.9, 0.8], [0.1, 0.1], 1.0)
    history.append(2, [0.4, 0.5], [0.6, 0.7], [0.9, 0.9], [0.1, 0.1], 2.0)
    frame = history.to_frame()
    expected = ["epoch", "run", "train_loss", "validation_loss", "accuracy", "learning_rate", "seconds"]
    assert list(frame.columns) == expected
    assert len(frame) == len(history) == 4
    assert history.select_run(1)["train_loss"].tolist() == [0.6, 0.5]
    again = History.from_state(history.to_state())
    assert np.array_equal(again["seconds"], history["seconds"])
    assert "2 epochs, 2 runs" in repr(history)
    assert repr(History()) == "History(empty)"


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(("verbose", "stream", "shown"), [
    (0, Terminal(), False),
    (1, Terminal(), True),
    (1, io.StringIO(), False),
    (2, io.StringIO(), True),
])  # fmt: skip
def test_progress_on_a_terminal_and_silence_in_a_log(verbose, stream, shown):
    progress = Progress(3, verbose, stream, label="networks", unit="step")
    for epoch in (1, 2, 3):
        progress.update(epoch, 0.5, 0.4)
    progress.close()
    text = stream.getvalue()
    assert bool(text) == shown
    if shown:
        assert ("networks step 3/3" if verbose == 2 else "3/3") in text
        assert "validation 0.4000" in text


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_a_tie_is_a_hit_for_one_class_only_as_in_predict(n_classes):
    labels = torch.arange(n_classes).repeat(2).unsqueeze(0)
    z = torch.zeros(1, 2 * n_classes, n_classes - 1, dtype=torch.float64)
    # the estimators' order of two classes is the other way round, and among equals they predict the first
    expected = labels == (1 if n_classes == 2 else 0)
    for step in (nll_step(SoftmaxLink(n_classes), z), autograd_step(SoftmaxLink(n_classes))):
        _, hit, _, _ = step(z, labels, torch.ones_like(z[..., 0]))
        assert torch.equal(hit, expected)
    weight, rows = torch.zeros(1, 3, n_classes - 1, dtype=torch.float64), torch.arange(2 * n_classes).unsqueeze(0)
    model = LinearModel(weight, weight[:, 0], [SoftmaxLink(n_classes)])
    features = as_features(np.ones((2 * n_classes, 3)), torch.float64, torch.device("cpu"))
    _, accuracy = model.evaluate(Sample(features, rows, labels, torch.ones(rows.shape, dtype=torch.float64)))
    assert float(accuracy) == pytest.approx(1 / n_classes)
