"""What is trained in the end, once strengths and noise in the labels have been chosen."""

from __future__ import annotations

from typing import NamedTuple

import torch

from legendretron.estimators.label_noise import FittedNoise
from legendretron.links import LabelNoise, Link

__all__ = ["Plan"]


class Plan(NamedTuple):
    """What is trained.

    Attributes
    ----------
    link : Link
        The start of the link, with the noise.
    strengths : tuple of float
        On ``W`` and on the link, infinite for logistic regression.
    noise : LabelNoise or None
        Noise in the labels that is assumed in training.
    found : FittedNoise or None
        What is known of it; None if it was given, or is learned.
    precision : torch.dtype
        Of training.
    is_softmax : bool
        Whether the link, without noise, is softmax.
    is_logistic : bool
        Whether logistic regression is trained from the beginning, in the place of whatever link.
    """

    link: Link
    strengths: tuple[float, float]
    noise: LabelNoise | None
    found: FittedNoise | None
    precision: torch.dtype
    is_softmax: bool
    is_logistic: bool

    @property
    def temperature(self) -> float:
        """What weights of logistic regression, which are trained as they are, are multiplied by to predict."""
        return self.found.plan.temperature if self.is_softmax and self.found is not None else 1.0
