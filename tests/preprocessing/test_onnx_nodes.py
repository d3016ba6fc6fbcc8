"""An encoder in an ONNX graph gives what it gives in Python, by ONNX Runtime, before a model that does nothing."""

import numpy as np
import onnxruntime
import pandas as pd
import pytest
from onnx import TensorProto, helper

from legendretron import TableEncoder
from legendretron.preprocessing.onnx_nodes import prepend_columns


def session(encoder, dtype):
    """The encoder before a model whose values have names that columns may have, too."""
    kind = TensorProto.FLOAT if dtype == np.float32 else TensorProto.DOUBLE
    width = len(encoder.get_feature_names_out())
    graph = helper.make_graph(
        [helper.make_node("Identity", ["X"], ["index"]), helper.make_node("Identity", ["index"], ["encoded"])],
        "nothing",
        [helper.make_tensor_value_info("X", kind, ["n", width])],
        [helper.make_tensor_value_info("encoded", kind, ["n", width])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    prepend_columns(model, encoder.columns_, np.dtype(dtype), "X")
    return onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])


TABLES = {
    "numbers with gaps": ({"a": [1.5, None, 3.0], "b": [1, 2, 3]}, {}, {"a": [None, 2.0], "b": [None, 5.0]}),
    "categories": ({"t": ["x", "y", None, "x"]}, {}, {"t": ["y", "", "new", "x"]}),
    "pooled": ({"t": ["x"] * 9 + ["y"] * 5 + ["z", "w", None]}, {"max_categories": 3}, {"t": ["x", "y", "z", "", "new"]}),
    "all but the gap pooled": ({"t": ["x", "y", "z", None, None]}, {"max_categories": 2}, {"t": ["x", "", "new"]}),
    "names of the graph": ({"X": [1.0, None], "index": ["a", "b"], "encoder/0": [3, 4]}, {}, {
        "X": [None, 5.0], "index": ["b", ""], "encoder/0": [7.0, 8.0]
    }),
    "letters": ({"größe 🌷": ["klein", "groß", "ß"] * 2}, {}, {"größe 🌷": ["groß", "", "ß"]}),
}  # fmt: skip


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_same_numbers(name, dtype):
    table, options, new = TABLES[name]
    encoder = TableEncoder(**options).fit(pd.DataFrame(table))
    new = pd.DataFrame(new)
    inputs = {
        column.name: new[column.name].to_numpy(dtype=object if column.kind == "categories" else dtype)[:, None]
        for column in encoder.columns_
    }
    (encoded,) = session(encoder, dtype).run(None, inputs)
    assert encoded.dtype == dtype
    np.testing.assert_array_equal(encoded, encoder.transform(new).astype(dtype))


def test_names_of_outputs_are_refused():
    encoder = TableEncoder().fit(pd.DataFrame({"encoded": [1.0, 2.0]}))
    with pytest.raises(ValueError, match="column 'encoded' has the name of an output of the ONNX model"):
        session(encoder, np.float64)
