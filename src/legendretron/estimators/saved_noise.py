"""What is known of wrong labels, in the header of a saved estimator."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from legendretron.estimators.label_noise import FittedNoise
from legendretron.tuning import FoundNoise

__all__ = ["decode_noise", "encode_noise", "encode_plan", "is_noise", "is_plan"]


def encode_plan(plan: FoundNoise | None) -> list[float] | None:
    """The numbers of symmetric noise."""
    return None if plan is None else [float(value) for value in plan]


def is_plan(value: Any) -> bool:
    """Whether this is what :func:`encode_plan` returns for noise."""
    if not (isinstance(value, list) and len(value) == len(FoundNoise._fields)):
        return False
    if not all(type(number) in (int, float) for number in value):
        return False
    training, temperature, doubt, rate, low, high = value
    shares = all(0.0 <= share < 1.0 for share in (training, doubt)) and 0.0 <= rate <= 2.0  # a matrix may go beyond 1
    return shares and 0.0 <= low <= high <= 2.0 and 1e-3 <= temperature <= 1e3


def encode_noise(noise: FittedNoise | None) -> dict[str, Any] | None:
    """All but the matrix, which is a tensor."""
    if noise is None:
        return None
    return {"plan": encode_plan(noise.plan), "known": noise.known, "has_matrix": noise.matrix is not None}


def is_noise(value: Any) -> bool:
    """Whether this is what :func:`encode_noise` returns."""
    if value is None:
        return True
    names = isinstance(value, dict) and set(value) == {"plan", "known", "has_matrix"}
    return names and is_plan(value["plan"]) and all(isinstance(value[name], bool) for name in ("known", "has_matrix"))


def decode_noise(value: dict[str, Any] | None, n_classes: int, matrix: Tensor | None) -> FittedNoise | None:
    """The reverse of :func:`encode_noise`."""
    if value is None:
        return None
    plan = FoundNoise(*(float(number) for number in value["plan"]))
    return FittedNoise(n_classes, plan, value["known"], None if matrix is None else matrix.numpy())
