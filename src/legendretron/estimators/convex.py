"""Fits by convex problems, which have solvers of their own: logistic regression, and links that are kept fixed.

A fixed link comes from another problem or a learned loss: **loss transfer** trains a linear predictor by its canonical loss.
"""

from __future__ import annotations

import copy
import math
import time
from contextlib import closing
from typing import Any

import torch

from legendretron._internal.parameters import ParameterError
from legendretron.links import LabelNoise, Link, NoisyLink, NotCanonicalError, SoftmaxLink, SymmetricNoise
from legendretron.links.persistence import blank_link, check_finite
from legendretron.links.runs import check_single_link
from legendretron.losses import CanonicalLoss, CompositeLoss
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


# --- fixed links ---


def get_link(given: Any) -> Any:
    """Return the link of a loss, and anything else unchanged."""
    return given._link if isinstance(given, CanonicalLoss | CompositeLoss) else given


def is_fixed(given: Any) -> bool:
    """Whether the parameter ``link`` asks to keep a link: it is a loss, or a link of which no parameter requires a gradient.

    A link whose class has no parameters is not: nothing was learned in it that could be kept.

    Examples
    --------
    >>> from legendretron.links import CanonicalLink
    >>> link = CanonicalLink(3)
    >>> is_fixed(link), is_fixed(link.requires_grad_(False)), is_fixed(CanonicalLoss(link)), is_fixed("canonical")
    (False, True, True, False)
    """
    if isinstance(given, CanonicalLoss | CompositeLoss):
        return True
    if not isinstance(given, Link) or isinstance(given, SoftmaxLink):  # softmax is logistic regression either way
        return False
    parameters = list(given.parameters())
    if parameters:
        return not any(p.requires_grad for p in parameters)
    # in the link of a loss, what would be parameters are buffers
    blank = blank_link(type(given), given.n_classes, given.settings(), torch.float32)
    return next(blank.parameters(), None) is not None


def fixed_link(given: Any, n_classes: int, dtype: torch.dtype, device: torch.device) -> Link:
    """Return a frozen copy of a link to be kept, or raise a ``ValueError`` if its canonical loss cannot be trained with."""
    if isinstance(given, CanonicalLoss | CompositeLoss):
        if given.weight is not None:
            raise ValueError("link is a loss with weights of the classes; give class_weight to the estimator instead.")
        if given.label_smoothing > 0.0:
            raise ValueError(
                f"link is a loss with label_smoothing={given.label_smoothing:g}, which does not apply here; give "
                "CanonicalLoss(link) without it."
            )
    link: Link = get_link(given)
    if isinstance(link, NoisyLink):
        raise ValueError(
            "link must be a link to the true labels, got a NoisyLink, whose canonical loss has no minimum for "
            "correctly classified rows; pass link.clean."
        )
    if check_single_link(link).n_classes != n_classes:
        raise ValueError(
            f"link must be for the {n_classes} classes of y, got a {type(link).__name__} for {link.n_classes}; a "
            "loss is transferred between problems with the same number of classes."
        )
    if not link.is_canonical:
        raise NotCanonicalError(
            f"link is a frozen {type(link).__name__} for {n_classes} classes, which is not canonical: it has no convex loss "
            "to train with. legendretron.distill(link, z).link, with predictors z such as linear_predictor(X), is the "
            "nearest canonical link. To start from this one and train it further, give it after link.requires_grad_(True)."
        )
    check_finite(link.state_dict())
    return copy.deepcopy(link).to(device=device, dtype=dtype).eval().requires_grad_(False)


def freeze(link: Link) -> Link | CanonicalLoss:
    """Return a frozen link, as read from a file, or its loss if it has no parameters to freeze."""
    return CanonicalLoss(link) if isinstance(link, SoftmaxLink) else link.eval().requires_grad_(False)


def check_fixed_fit(estimator: Any, online: bool) -> None:
    """Raise a ``ValueError`` if the other parameters ask for what a fit with a fixed link does not do."""
    why = "a link that is kept fixed is trained with by its convex canonical loss, to the minimum"
    if online:
        raise ValueError(f"partial_fit needs a link that is trained or softmax: {why}; call fit.")
    noise = estimator.label_noise
    unsuitable = {
        "solver": estimator.solver == "adam",
        "early_stopping": bool(estimator.early_stopping),
        "checkpoint": estimator.checkpoint is not None,
        "link_alpha": estimator.link_alpha not in ("auto", None),
        "label_noise": not (noise is None or (isinstance(noise, str) and noise == "auto")),
    }
    for name, is_unsuitable in unsuitable.items():
        if is_unsuitable:
            value = getattr(estimator, name)
            raise ParameterError(name, f"does not apply: {why}, without noise; leave it out, got {value!r}.")


def has_same_values(given: Link, fitted: Link) -> bool:
    """Whether a fitted link has the class and, in its own precision, the values of the one that is given."""
    of_given, of_fitted = given.state_dict(), fitted.state_dict()
    if type(given) is not type(fitted) or of_given.keys() != of_fitted.keys():
        return False
    return all(torch.equal(of_given[name].to(tensor), tensor) for name, tensor in of_fitted.items())
