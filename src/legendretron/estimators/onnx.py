"""A fitted estimator as an ONNX file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from legendretron._internal.files import write_atomically
from legendretron.estimators.fit_data import swap_classes
from legendretron.export import onnx_model
from legendretron.links import Link


class _Predictor(nn.Module):
    """Map inputs to the index of the most probable class and all probabilities."""

    def __init__(self, log_proba: nn.Module) -> None:
        super().__init__()
        self.log_proba = log_proba

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        log_p = self.log_proba(x)
        return log_p.argmax(1), log_p.exp()


class LinearLink(nn.Module):
    """Map features to log-probabilities in the order of ``classes_``."""

    coef: Tensor
    intercept: Tensor

    def __init__(self, coef: np.ndarray, intercept: np.ndarray, link: Link) -> None:
        super().__init__()
        self.register_buffer("coef", torch.as_tensor(coef))
        self.register_buffer("intercept", torch.as_tensor(intercept))
        self.link = link

    def forward(self, x: Tensor) -> Tensor:
        """Log-probabilities of rows."""
        log_p: Tensor = swap_classes(self.link(nn.functional.linear(x, self.coef, self.intercept)))
        return log_p


def predictor_model(
    log_proba: nn.Module, example: Tensor, classes: np.ndarray, feature_names: np.ndarray | None = None
) -> Any:
    """Return the ``onnx.ModelProto`` with labels and probabilities, from a module that maps inputs to log-probabilities."""
    if classes.dtype.kind not in "iufbUSO":
        raise ValueError(
            f"ONNX has no labels of dtype {classes.dtype}; fit with numbers, booleans or strings, for example "
            "y.astype(str)."
        )
    model = onnx_model(_Predictor(log_proba), example, "X", ["index", "probabilities"])
    import onnx

    # torch has no strings, so the labels are looked up by an ONNX node
    kinds = {"i": onnx.TensorProto.INT64, "u": onnx.TensorProto.INT64, "f": onnx.TensorProto.DOUBLE}
    kinds["b"] = onnx.TensorProto.BOOL
    kind = kinds.get(classes.dtype.kind, onnx.TensorProto.STRING)
    values: Any = [str(label).encode() for label in classes] if kind == onnx.TensorProto.STRING else classes.tolist()
    graph = model.graph
    graph.initializer.append(onnx.helper.make_tensor("classes", kind, [len(classes)], values))
    graph.node.append(onnx.helper.make_node("Gather", ["classes", "index"], ["label"], axis=0))
    rows = graph.output[0].type.tensor_type.shape.dim[0].dim_param
    graph.output[0].CopyFrom(onnx.helper.make_tensor_value_info("label", kind, [rows]))
    for key, value in {
        "classes": [label.item() if isinstance(label, np.generic) else label for label in classes],
        "feature_names": None if feature_names is None else list(feature_names),
    }.items():
        entry = model.metadata_props.add()
        entry.key, entry.value = key, json.dumps(value, default=str)
    return model


def write_model(path: str | Path, model: Any) -> None:
    """Check a model, and write it to a file, atomically."""
    import onnx

    onnx.checker.check_model(model)
    write_atomically(Path(path), model.SerializeToString())
