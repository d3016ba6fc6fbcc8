"""What a fitted model computes before its link: logits of rows, as torch modules that can be saved and exported."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from legendretron._internal.fields import array, check_fields
from legendretron.networks.inputs import InputUnits, clip_smoothly
from legendretron.networks.model import NetworkModel
from legendretron.simplex import append_reference

__all__ = ["LinearScores", "NetworkScores", "Scores"]


class Scores(nn.Module):
    """From features ``(n, d)`` to logits ``(n, C)`` in double precision."""

    n_features: int
    n_classes: int

    def to_state(self) -> dict[str, Any]:
        """All tensors, by name."""
        return dict(self.state_dict())


class LinearScores(Scores):
    """A linear predictor, and 0 for the last class.

    Parameters
    ----------
    coef : Tensor of shape (C - 1, d)
        ``W``.
    intercept : Tensor of shape (C - 1,)
        ``b``.
    """

    coef: Tensor
    intercept: Tensor

    def __init__(self, coef: Tensor, intercept: Tensor) -> None:
        super().__init__()
        self.n_features, self.n_classes = coef.shape[1], len(coef) + 1
        self.register_buffer("coef", coef.double())
        self.register_buffer("intercept", intercept.double())

    def forward(self, x: Tensor) -> Tensor:
        """Logits of rows."""
        return append_reference(functional.linear(x.double(), self.coef, self.intercept))

    @classmethod
    def from_state(cls, state: Mapping[str, Any], n_classes: int) -> Self:
        """Rebuild from :meth:`Scores.to_state`; anything else raises a ``ValueError``."""
        check_fields("scores", state, {"coef": array(n_classes - 1, None), "intercept": array(n_classes - 1)})
        return cls(state["coef"], state["intercept"])


class NetworkScores(Scores):
    """The mean logits of the networks of all folds.

    Parameters
    ----------
    centre, factor : Tensor of shape (d,)
        Medians of the features, and one over their scales.
    tensors : mapping of Tensor
        For each layer ``k``: ``weight_k`` (R, inputs, outputs), ``bias_k`` (R, 1, outputs) and, of hidden ones, ``share_k``
        (R, 1, outputs), with all factors multiplied out.
    """

    centre: Tensor
    factor: Tensor

    def __init__(self, centre: Tensor, factor: Tensor, tensors: Mapping[str, Tensor]) -> None:
        super().__init__()
        self.register_buffer("centre", centre)
        self.register_buffer("factor", factor)
        for name, tensor in tensors.items():
            self.register_buffer(name, tensor)
        self.n_layers = sum(name.startswith("weight") for name in tensors)
        self.n_features, self.n_classes = len(centre), tensors[f"weight_{self.n_layers - 1}"].shape[2]

    @classmethod
    def from_model(cls, model: NetworkModel, units: InputUnits) -> Self:
        """Of trained networks."""
        centre, factor = (torch.as_tensor(values) for values in (units.centre, 1.0 / units.scale))
        return cls(centre, factor, {name: tensor.cpu() for name, tensor in model.folded().items()})

    def forward(self, x: Tensor) -> Tensor:
        """Logits of rows."""
        inputs = clip_smoothly((x.double() - self.centre) * self.factor)
        layers = [[getattr(self, f"{part}_{k}") for part in ("weight", "bias")] for k in range(self.n_layers)]
        weight, bias = layers[0]
        z = torch.baddbmm(bias, inputs.to(weight.dtype).unsqueeze(0).expand(len(weight), -1, -1), weight)
        for k, (weight, bias) in enumerate(layers[1:]):
            z = torch.baddbmm(bias, torch.lerp(z, functional.selu(z), getattr(self, f"share_{k}")), weight)
        return z.double().mean(0)

    @classmethod
    def from_state(cls, state: Mapping[str, Any], n_classes: int) -> Self:
        """Rebuild from :meth:`Scores.to_state`; anything else raises a ``ValueError``."""
        n_layers = sum(str(name).startswith("weight_") for name in state)
        names = [f"{part}_{k}" for part in ("weight", "bias", "share") for k in range(n_layers)][:-1]
        floats = ("float32", "float64")
        fields = {name: array(None, None, None, dtype=floats) for name in names}
        check_fields("scores", state, {"centre": array(None), "factor": array(None), **fields})
        n_runs, inputs = (state["weight_0"].shape[0], len(state["centre"])) if n_layers else (0, 0)
        for k in range(n_layers):
            outputs = n_classes if k == n_layers - 1 else state[f"weight_{k}"].shape[2]
            dtype = str(state["weight_0"].dtype).removeprefix("torch.")
            row = array(n_runs, 1, outputs, dtype=dtype)
            shapes = {f"weight_{k}": array(n_runs, inputs, outputs, dtype=dtype), f"bias_{k}": row, f"share_{k}": row}
            shapes = {name: field for name, field in shapes.items() if name in names}
            check_fields("scores", {name: state[name] for name in shapes}, shapes)
            inputs = outputs
        if (
            n_layers < 1
            or n_runs < 1
            or len(state["factor"]) != len(state["centre"])
            or math.prod(state["centre"].shape) < 1
        ):
            raise ValueError("scores must be those of one network at least, with a factor for each of its inputs.")
        return cls(state["centre"], state["factor"], {name: state[name] for name in names})
