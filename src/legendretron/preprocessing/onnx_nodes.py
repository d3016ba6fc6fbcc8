"""An encoder as nodes of an ONNX graph, an input for each column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from legendretron.preprocessing.column import FittedColumn


def prepend_columns(model: Any, columns: Sequence[FittedColumn], dtype: np.dtype, entry: str) -> None:
    """Put nodes before a model, so that it takes the columns of a table instead of the array that they become.

    Each column is an input of its name and of shape (n, 1): text for categories, where the empty text is a gap; numbers of
    ``dtype`` for all others, where NaN is a gap. Columns that are left out are no inputs.
    """
    from onnx import TensorProto, helper, numpy_helper

    graph = model.graph
    kept = [column for column in columns if not column.is_left_out]
    outputs = {output.name for output in graph.output}
    if taken := [column.name for column in kept if column.name in outputs or not column.name]:
        raise ValueError(f"column {taken[0]!r} has the name of an output of the ONNX model, or none; rename it.")
    hidden = {name: f"model/{name}" for name in _inner_names(graph) - outputs}
    _rename(graph, hidden)
    number = TensorProto.FLOAT if dtype == np.float32 else TensorProto.DOUBLE
    rows = graph.input[0].type.tensor_type.shape.dim[0].dim_param or "n"
    nodes, values, inputs, parts = [], [], [], []

    def constant(name: str, array: np.ndarray) -> str:
        values.append(numpy_helper.from_array(array, name))
        return name

    for place, column in enumerate(kept):
        own = f"encoder/{place}"
        is_text = column.kind == "categories"
        inputs.append(helper.make_tensor_value_info(column.name, TensorProto.STRING if is_text else number, [rows, 1]))
        if is_text:
            outputs_of = constant(f"{own}/outputs", np.arange(len(column.outputs), dtype=np.int64)[None])
            keys = ["" if text is None else text for text in column.categories]
            nodes += [
                helper.make_node(
                    "LabelEncoder", [column.name], [f"{own}/place"], domain="ai.onnx.ml",
                    keys_strings=keys, values_int64s=list(range(len(keys))), default_int64=column.elsewhere,
                ),
                helper.make_node("Equal", [f"{own}/place", outputs_of], [f"{own}/is"]),
                helper.make_node("Cast", [f"{own}/is"], [f"{own}/columns"], to=number),
            ]  # fmt: skip
            parts.append(f"{own}/columns")
            continue
        mean = constant(f"{own}/mean", np.array([[column.mean]], dtype=dtype))
        nodes.append(helper.make_node("IsNaN", [column.name], [f"{own}/gap"]))
        nodes.append(helper.make_node("Where", [f"{own}/gap", mean, column.name], [f"{own}/value"]))
        parts.append(f"{own}/value")
        if column.gaps:
            nodes.append(helper.make_node("Cast", [f"{own}/gap"], [f"{own}/missing"], to=number))
            parts.append(f"{own}/missing")
    nodes.append(helper.make_node("Concat", parts, [hidden[entry]], axis=1))
    after = list(graph.node)
    del graph.node[:], graph.input[:]
    graph.node.extend([*nodes, *after])
    graph.initializer.extend(values)
    graph.input.extend(inputs)
    if not any(used.domain == "ai.onnx.ml" for used in model.opset_import):
        model.opset_import.append(helper.make_opsetid("ai.onnx.ml", 3))
    del graph.value_info[:]  # shapes are inferred anew


def _inner_names(graph: Any) -> set[str]:
    values = {name for node in graph.node for name in [*node.input, *node.output]}
    return {name for name in values | {tensor.name for tensor in [*graph.initializer, *graph.input]} if name}


def _rename(graph: Any, names: dict[str, str]) -> None:
    """Rename values, so that columns can have any name."""
    for node in graph.node:
        for side in (node.input, node.output):
            for place, name in enumerate(side):
                side[place] = names.get(name, name)
        if any(attribute.HasField("g") for attribute in node.attribute):
            raise ValueError("a link whose ONNX graph has branches or loops cannot follow an encoder.")
    for tensor in [*graph.initializer, *graph.input]:
        tensor.name = names.get(tensor.name, tensor.name)
