"""Convex problems by their own solvers, in the place of training by minibatches: logistic regression, and fixed links."""

from __future__ import annotations

import math
import time
from contextlib import closing

import torch

from legendretron.links import LabelNoise, Link, SymmetricNoise
from legendretron.training import History, LinearModel, Sample, TrainingResult, TrainingSettings
from legendretron.training.history import Progress
from legendretron.training.layout import threads_for
from legendretron.training.logistic import Logistic, fit_logistic, logistic_scores

#: The gradient above which it has not converged, which is scikit-learn's.
_CONVERGED = 1e-4


def has_convex_solver(noise: LabelNoise | None) -> bool:
    """Whether logistic regression with this noise in the labels has a solver of its own: not if a matrix is learned."""
    return noise is None or isinstance(noise, SymmetricNoise) or not noise.learned


def fit_convex(
    model: LinearModel,
    sample: Sample,
    settings: TrainingSettings,
    guess: Logistic | None,
    noise: LabelNoise | None,
    *,
    max_iter: int,
    fixed: Link | None = None,
) -> TrainingResult:
    """Fit a model of one run, whose link is softmax with or without noise, in place; a guess has one run per fold.

    A fixed canonical link takes the place of softmax, and its canonical loss that of the log-loss. Then it has converged only
    if the gradient is at the tolerance.
    """
    began = time.monotonic()
    flat, n_classes = model.flat, model.n_outputs + 1
    features, rows = sample.features, sample.rows[0]
    labels = torch.zeros(features.n_rows, dtype=torch.int64, device=flat.device)
    labels[rows] = sample.labels[0]
    share = torch.zeros(features.n_rows, 1, dtype=flat.dtype, device=flat.device)
    share[rows, 0] = sample.normalized_weights()[0] / rows.numel()
    start = model.weight, model.bias
    if guess is not None:
        start = guess.weight.mean(0, keepdim=True), guess.bias.mean(0, keepdim=True)
    rate = noise.rate().detach().reshape(1).to(flat) if isinstance(noise, SymmetricNoise) else None
    tol = max(settings.tol, 100 * torch.finfo(flat.dtype).eps)  # as small as the sum of many rows can be
    progress = Progress(max_iter, settings.verbose)
    with closing(progress), threads_for(2.0 * features.n_rows * model.n_features * model.n_outputs):
        fitted = fit_logistic(
            features, labels, n_classes, share, settings.alpha.to(flat), start,
            symmetric=settings.symmetric, penalize_intercept=settings.penalize_intercept,
            rate=rate, learn_rate=rate is not None and noise is not None and noise.learned,
            transition=None if noise is None or rate is not None else noise.matrix().detach().to(flat),
            link=fixed, tol=tol, max_iter=max_iter,
            after_iteration=lambda iteration, _, value, __: progress.update(iteration, float(value[0]), None),
        )  # fmt: skip
    model.weight.copy_(fitted.weight)
    model.bias.copy_(fitted.bias)
    if isinstance(noise, SymmetricNoise) and noise.learned:
        model.flat[:, -1] = torch.logit(fitted.rate.to(flat), eps=1e-12)
    if noise is None:
        loss, accuracy = logistic_scores(fitted, features, labels, share, n_classes, fixed)
    else:
        loss, accuracy = model.evaluate(sample)
    history, n_iter = History(), fitted.n_iter.clamp(min=1)
    seconds = time.monotonic() - began
    history.append(int(n_iter), loss.tolist(), [math.nan], accuracy.tolist(), [math.nan], seconds)
    largest = fitted.largest_gradient
    converged = fitted.converged | (largest <= _CONVERGED) if fixed is None else largest <= tol
    diverged = torch.zeros(1, dtype=torch.bool)
    return TrainingResult(history, n_iter, converged, diverged, largest_gradient=largest)
