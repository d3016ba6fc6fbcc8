"""A fitted estimator as an ONNX file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from legendretron._internal.files import write_atomically
from legendretron.estimators.classes import swap_classes
from legendretron.export import onnx_model
from legendretron.links import Link

__all__ = ["estimator_model", "export_estimator", "export_predictor", "write_model"]


class _Predictor(nn.Module):
    """Map features to the index of the most probable class and all probabilities, in the order of ``classes_``."""

    coef: Tensor
    intercept: Tensor

    def __init__(self, coef: np.ndarray, intercept: np.ndarray, link: Link) -> None:
        super().__init__()
        self.register_buffer("coef", torch.as_tensor(coef))
        self.register_buffer("intercept", torch.as_tensor(intercept))
        self.link = link

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        log_p = swap_classes(self.link(nn.functional.linear(x, self.coef, self.intercept)))
        return log_p.argmax(1), log_p.exp()


def export_estimator(
    path: str | Path,
    coef: np.ndarray,
    intercept: np.ndarray,
    link: Link,
    classes: np.ndarray,
    feature_names: np.ndarray | None = None,
) -> None:
    """Write the file that an estimator's ``to_onnx`` describes; arguments are its attributes after ``fit``."""
    write_model(path, estimator_model(coef, intercept, link, classes, feature_names))


def estimator_model(
    coef: np.ndarray, intercept: np.ndarray, link: Link, classes: np.ndarray, feature_names: np.ndarray | None
) -> Any:
    """Return the ``onnx.ModelProto`` that :func:`export_estimator` writes."""
    predictor = _Predictor(coef, intercept, link)
    example = torch.zeros(2, coef.shape[1], dtype=predictor.coef.dtype)
    return _predictor_model(predictor, example, classes, feature_names)


def export_predictor(
    path: str | Path,
    predictor: nn.Module,
    example: Tensor,
    classes: np.ndarray,
    feature_names: np.ndarray | None = None,
) -> None:
    """Write a module that maps features to the index of a class and to probabilities, with labels in place of the index."""
    write_model(path, _predictor_model(predictor, example, classes, feature_names))


def _predictor_model(
    predictor: nn.Module, example: Tensor, classes: np.ndarray, feature_names: np.ndarray | None
) -> Any:
    if classes.dtype.kind not in "iufbUSO":
        raise ValueError(
            f"ONNX has no labels of dtype {classes.dtype}; fit with numbers, booleans or strings, for example "
            "y.astype(str)."
        )
    model = onnx_model(predictor, example, "X", ["index", "probabilities"])
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
