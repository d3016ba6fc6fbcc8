"""Proper losses: the named ones, and the learned loss of a link."""

from legendretron.losses.base import ProperLoss
from legendretron.losses.canonical import CanonicalLoss
from legendretron.losses.composite import CompositeLoss
from legendretron.losses.cost import AsymmetricBinaryLoss, CostLoss, ZeroOneLoss
from legendretron.losses.criterion import Criterion
from legendretron.losses.named import LogLoss, MatsushitaLoss, SphericalLoss, SquareLoss
from legendretron.losses.persistence import load_loss, save_loss

__all__ = [
    "AsymmetricBinaryLoss",
    "CanonicalLoss",
    "CompositeLoss",
    "CostLoss",
    "Criterion",
    "LogLoss",
    "MatsushitaLoss",
    "ProperLoss",
    "SphericalLoss",
    "SquareLoss",
    "ZeroOneLoss",
    "load_loss",
    "save_loss",
]
