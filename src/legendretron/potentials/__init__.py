"""Strictly convex functions: value, gradient, Hessian, inverse gradient and conjugate, all in closed form."""

from legendretron.potentials.base import Potential
from legendretron.potentials.cpflow import CPFlowNetwork
from legendretron.potentials.ficnn import FICNN
from legendretron.potentials.nested_logsumexp import NestedLogSumExp

__all__ = [
    "FICNN",
    "CPFlowNetwork",
    "NestedLogSumExp",
    "Potential",
]
