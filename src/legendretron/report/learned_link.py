"""Sections through a learned link and its loss, one class at a time, in the unit of the sigmoid."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from legendretron.estimators.label_noise import clean_link
from legendretron.links import Link, SoftmaxLink
from legendretron.plots.models import link_of
from legendretron.plots.values import inverse_link, partial_losses, scale_to_log

#: Scores in the sigmoid's unit at which links are drawn.
SCORES = np.linspace(-6.0, 6.0, 97)
#: Forecasts at which losses are drawn.
FORECASTS = (np.arange(99) + 1) / 100
#: Where the scores of probabilities 1/4 and 3/4 are looked for: from large steps to small and back, in any unit.
_FAR = np.sinh(np.linspace(-14.0, 14.0, 801))
#: Most classes that are looked at, the most frequent ones.
_MOST = 30


class LinkSection(NamedTuple):
    """Probability of a class as its score changes."""

    place: int  #: of the class in ``classes_``
    p: np.ndarray  #: at ``SCORES``

    @property
    def gap(self) -> float:
        """Largest distance from the sigmoid."""
        return float(np.abs(self.p - expit(SCORES)).max())


class LossSection(NamedTuple):
    """Loss of a class that is true, as its forecast changes."""

    place: int  #: of the class in ``classes_``
    loss: np.ndarray  #: at ``FORECASTS``


def is_softmax(model: Any) -> bool:
    """Whether the link of a model is the softmax, so that its loss is the log-loss."""
    link = getattr(model, "link_", None)
    return isinstance(link, Link) and isinstance(clean_link(link), SoftmaxLink)


def link_sections(model: Any, centre: np.ndarray, share: np.ndarray) -> list[LinkSection]:
    """Return how the probability of each class rises with its score, from the average row.

    Scores are shifted and scaled so that probabilities of 1/4 and 3/4 are where the sigmoid has them. Classes for which these
    are not reached are left out.

    Parameters
    ----------
    centre : array of shape (C - 1,)
        Predictor of the average row.
    share : array of shape (C,)
        Of the classes.
    """
    n_classes = len(model.classes_)
    if hasattr(model, "inverse_link") and n_classes == 2:
        found = _section(1, lambda t: np.asarray(model.inverse_link(t), dtype=float))
        return [] if found is None else [found]
    link = clean_link(link_of(model))
    if n_classes == 2:  # a link of two classes has the second first
        found = _section(1, lambda t: inverse_link(link, t[:, None])[:, 0])
        return [] if found is None else [found]
    sections = []
    for k in np.argsort(-share, kind="stable")[:_MOST].tolist():
        direction = -np.ones(n_classes - 1) if k == n_classes - 1 else np.eye(n_classes - 1)[k]
        found = _section(k, partial(_along, link, centre, direction, k))
        if found is not None:
            sections.append(found)
    return sorted(sections, key=lambda one: -one.gap)


def _along(link: Link, centre: np.ndarray, direction: np.ndarray, place: int, t: np.ndarray) -> np.ndarray:
    """Probability of a class at predictors on a line."""
    return inverse_link(link, centre + t[:, None] * direction)[:, place]


def _section(place: int, probability: Callable[[np.ndarray], np.ndarray]) -> LinkSection | None:
    far = np.maximum.accumulate(probability(_FAR))
    if not (far[0] < 0.25 and far[-1] > 0.75):
        return None
    quarter, three = np.interp([0.25, 0.75], far, _FAR)
    for _ in range(3):  # the first grid is coarse far away from zero
        near = np.linspace(quarter - 0.5 * (three - quarter), three + 0.5 * (three - quarter), 401)
        quarter, three = np.interp([0.25, 0.75], np.maximum.accumulate(probability(near)), near)
    if not three > quarter:
        return None
    scale = (three - quarter) / (2 * np.log(3))
    return LinkSection(place, probability((quarter + three) / 2 + scale * SCORES))


def loss_sections(model: Any, places: list[int], share: np.ndarray) -> list[LossSection] | None:
    """Return the canonical loss of classes, each if it is true, against its forecast; None if there is no canonical loss.

    The other classes share the rest of the forecast by their frequencies. Losses are scaled to the Bayes risk of the
    log-loss where all classes are equally probable.
    """
    link = getattr(model, "link_", None)
    if not isinstance(link, Link) or not clean_link(link).is_canonical:
        return None
    of, n = clean_link(link), len(share)
    order = [1, 0] if n == 2 else list(range(n))  # of the link
    forecasts = [np.full((1, n), 1.0 / n)]
    for k in places:
        others = np.maximum(share, 1e-3 / n)
        others[k] = 0.0
        q = (1 - FORECASTS)[:, None] * (others / others.sum())
        q[:, k] = FORECASTS
        forecasts.append(q)
    losses = partial_losses(of, np.concatenate(forecasts)[:, order])[:, order]
    factor = scale_to_log(float(losses[0].mean()), n)
    parts = np.split(losses[1:], len(places))
    return [LossSection(k, factor * part[:, k]) for k, part in zip(places, parts, strict=True)]
