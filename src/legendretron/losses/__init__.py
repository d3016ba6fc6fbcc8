"""Proper losses: the named ones, and the learned loss of a canonical link."""

from legendretron.losses.base import ProperLoss
from legendretron.losses.canonical import CanonicalLoss
from legendretron.losses.cost import AsymmetricBinaryLoss, CostLoss, ZeroOneLoss
from legendretron.losses.named import LogLoss, MatsushitaLoss, SphericalLoss, SquareLoss

__all__ = [
    "AsymmetricBinaryLoss",
    "CanonicalLoss",
    "CostLoss",
    "LogLoss",
    "MatsushitaLoss",
    "ProperLoss",
    "SphericalLoss",
    "SquareLoss",
    "ZeroOneLoss",
]
