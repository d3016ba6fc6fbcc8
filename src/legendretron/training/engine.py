"""Training of many models side by side."""

from __future__ import annotations

from torch import Tensor

from legendretron._internal.validation import check_choice
from legendretron.training.interrupt import stop_requests
from legendretron.training.lbfgs import train_lbfgs
from legendretron.training.minibatch import train_minibatch
from legendretron.training.model import LinearModel
from legendretron.training.problem import Sample, TrainingResult, TrainingSettings
from legendretron.training.stepwise import train_steps
from legendretron.training.threads import threads_for

__all__ = ["train"]


def train(
    model: LinearModel,
    sample: Sample,
    settings: TrainingSettings,
    validation: Sample | None = None,
    moments: tuple[Tensor, ...] | None = None,
) -> TrainingResult:
    r"""Minimise the mean log-loss plus penalties, in place, for all runs of a model.

    Runs share nothing but the feature matrix: each has rows, labels, weights, a seed, a learning rate and penalties of
    its own, and comes out as if it had been trained alone. With a validation sample each run keeps the weights of its best
    epoch by log-loss, and stops when it no longer improves.

    Ctrl-C raises ``KeyboardInterrupt``, unless ``keep_interrupted`` is set: then it ends training between two
    steps, with the best weights if there is a validation sample, and a second one interrupts as usual.

    Parameters
    ----------
    model : LinearModel
        The start, and afterwards the result.
    sample : Sample
        To train on.
    settings : TrainingSettings
        How.
    validation : Sample, optional
        To stop early on.
    moments : tuple of Tensor, optional
        State of Adam from an earlier call, to resume from.

    Returns
    -------
    TrainingResult
        History and counts.

    Examples
    --------
    A logistic regression, on twelve rows:

    >>> import numpy as np
    >>> import torch
    >>> from legendretron.links import SoftmaxLink
    >>> from legendretron.training import LinearModel, Sample, TrainingSettings, as_features
    >>> x = np.random.default_rng(0).normal(size=(12, 2))
    >>> y = torch.as_tensor(x[:, 0] > 0).long()
    >>> features = as_features(x, torch.float64, torch.device("cpu"))
    >>> one = torch.ones(1, dtype=torch.float64)
    >>> sample = Sample(features, torch.arange(12)[None], y[None], torch.ones(1, 12, dtype=torch.float64))
    >>> model = LinearModel(torch.zeros(1, 2, 1).double(), torch.zeros(1, 1).double(), [SoftmaxLink(2).double()])
    >>> settings = TrainingSettings(1e-3 * one, one, one, [torch.Generator()], solver="lbfgs")
    >>> result = train(model, sample, settings)
    >>> bool(result.converged[0])
    True
    """
    check_choice("solver", settings.solver, ("adam", "lbfgs"))
    rows = sample.rows.shape[1] if settings.solver == "lbfgs" else min(settings.batch_size, sample.rows.shape[1])
    work = 2.0 * model.n_runs * rows * model.n_features * model.n_outputs
    with threads_for(work), stop_requests(settings.keep_interrupted) as stop_requested:
        if settings.solver == "lbfgs":
            return train_lbfgs(model, sample, settings, validation, stop_requested)
        if settings.max_steps is not None:
            return train_steps(model, sample, settings, validation, stop_requested)
        return train_minibatch(model, sample, settings, validation, stop_requested, moments)
