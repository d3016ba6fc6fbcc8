"""Loss transfer: links and losses that an estimator keeps fixed."""

from __future__ import annotations

import copy
from typing import Any

import torch

from legendretron._internal.parameters import ParameterError
from legendretron.links import Link, NoisyLink, NotCanonicalError, SoftmaxLink
from legendretron.links.persistence import blank_link, check_finite
from legendretron.links.runs import check_single_link
from legendretron.losses import CanonicalLoss, CompositeLoss


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
