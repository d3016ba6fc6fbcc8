"""What a fitted model computes before its link: logits of rows, as torch modules that can be saved and exported."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from legendretron._internal.fields import array, check_fields
from legendretron.networks.inputs import NetworkInputs, encode
from legendretron.networks.model import SELU, NetworkModel
from legendretron.simplex import append_reference

#: How features become inputs.
_INPUTS = {
    "centre": array(None),
    "factor": array(None),
    "feature": array(None, dtype="int64"),
    "low": array(None),
    "slope": array(None),
}


def _selu(z: Tensor) -> Tensor:
    """SELU; ONNX Runtime has none in double precision."""
    if z.dtype != torch.float64:
        return functional.selu(z)
    below, above = SELU
    return above * (z.clamp(min=0.0) + below * (z.clamp(max=0.0).exp() - 1.0))


class Scores(nn.Module):
    """From features ``(n, d)`` to logits ``(n, C)`` in double precision."""

    n_features: int
    n_classes: int

    def to_state(self) -> dict[str, Any]:
        """All tensors, by name."""
        return dict(self.state_dict())


class LinearScores(Scores):
    """A linear predictor with coefficients (C - 1, d) and intercepts (C - 1,), and 0 for the last class."""

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

    ``inputs`` say how features become inputs, see :class:`~legendretron.networks.inputs.NetworkInputs`. ``tensors`` has for
    each layer ``k``: ``weight_k`` (R, inputs, outputs), ``bias_k`` (R, 1, outputs) and, of hidden ones, ``share_k``
    (R, 1, outputs), with all factors multiplied out.
    """

    def __init__(self, inputs: Mapping[str, Tensor], tensors: Mapping[str, Tensor]) -> None:
        super().__init__()
        for name, tensor in {**inputs, **tensors}.items():
            self.register_buffer(name, tensor)
        self.n_layers = sum(name.startswith("weight") for name in tensors)
        self.n_features, self.n_classes = len(inputs["centre"]), tensors[f"weight_{self.n_layers - 1}"].shape[2]

    @classmethod
    def from_model(cls, model: NetworkModel, inputs: NetworkInputs) -> Self:
        """Of trained networks."""
        return cls(inputs.tensors(), {name: tensor.cpu() for name, tensor in model.folded().items()})

    def forward(self, x: Tensor) -> Tensor:
        """Logits of rows."""
        inputs = encode(x.double(), **{name: getattr(self, name) for name in _INPUTS})
        layers = [[getattr(self, f"{part}_{k}") for part in ("weight", "bias")] for k in range(self.n_layers)]
        weight, bias = layers[0]
        z = torch.baddbmm(bias, inputs.to(weight.dtype).unsqueeze(0).expand(len(weight), -1, -1), weight)
        for k, (weight, bias) in enumerate(layers[1:]):
            z = torch.baddbmm(bias, torch.lerp(z, _selu(z), getattr(self, f"share_{k}")), weight)
        return z.double().mean(0)

    @classmethod
    def from_state(cls, state: Mapping[str, Any], n_classes: int) -> Self:
        """Rebuild from :meth:`Scores.to_state`; anything else raises a ``ValueError``."""
        n_layers = sum(str(name).startswith("weight_") for name in state)
        names = [f"{part}_{k}" for part in ("weight", "bias", "share") for k in range(n_layers)][:-1]
        any_size = {name: array(None, None, None, dtype=("float32", "float64")) for name in names}
        check_fields("scores", state, {**_INPUTS, **any_size})
        d, m = len(state["centre"]), len(state["feature"])
        n_runs = len(state["weight_0"]) if n_layers else 0
        if n_runs < 1 or d < 1 or not ((state["feature"] >= 0) & (state["feature"] < d)).all():
            raise ValueError("scores must be those of one network at least, and parts those of its features.")
        dtype = str(state["weight_0"].dtype).removeprefix("torch.")
        widths = [d + m, *(state[f"weight_{k}"].shape[2] for k in range(n_layers - 1)), n_classes]
        sizes = {"centre": (d,), "factor": (d,), "low": (m,), "slope": (m,)}
        fields = {**_INPUTS, **{name: array(*size) for name, size in sizes.items()}}
        for k, (inputs, outputs) in enumerate(pairwise(widths)):
            row = array(n_runs, 1, outputs, dtype=dtype)
            fields[f"weight_{k}"] = array(n_runs, inputs, outputs, dtype=dtype)
            fields |= {f"bias_{k}": row, f"share_{k}": row}
        del fields[f"share_{n_layers - 1}"]
        check_fields("scores", state, fields)
        return cls({name: state[name] for name in _INPUTS}, {name: state[name] for name in names})
