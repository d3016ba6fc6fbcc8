"""Files of ONNX, run by onnxruntime on inputs that the export has not seen."""

import json

import numpy as np
import onnxruntime
import pytest
import torch
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.exceptions import NotFittedError
from torch import nn

from legendretron import LegendreTronClassifier, MultinomialLogisticClassifier
from legendretron.export import export_onnx
from legendretron.nn import LegendreHead
from tests.given import GIVEN

LINKS = [
    {"link": "softmax"},
    {"init": "paper", "depth": 2},
    {"network": "cpflow", "init": "paper", "depth": 2},
    {"link": "canonical"},
]


def session(path):
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])


@pytest.mark.exhaustive
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("settings", LINKS, ids=str)
def test_heads(tmp_path, settings, dtype):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 6, dtype=dtype), nn.ReLU(), LegendreHead(6, 5, dtype=dtype, **settings))
    net(torch.randn(20, 4, dtype=dtype))  # the first batch of cpflow
    net.train()
    export_onnx(net, tmp_path / "net.onnx", torch.randn(1, 4, dtype=dtype))
    assert net.training
    run = session(tmp_path / "net.onnx")
    for n in (1, 3, 100):
        x = 10 * torch.randn(n, 4, dtype=dtype)
        (log_proba,) = run.run(None, {"input": x.numpy()})
        expected = net.eval()(x).detach().numpy()
        np.testing.assert_allclose(log_proba, expected, rtol=1e-5, atol=1e-4 if dtype == torch.float32 else 1e-10)


COMPOSITE = LegendreTronClassifier(link_params={"n_blocks": 1, "depth": 2}, max_epochs=5, random_state=0, **GIVEN)


@pytest.mark.parametrize(("clf", "load", "labels", "dtype"), [
    (COMPOSITE, load_iris, "strings", np.float32),
    *(pytest.param(*case, marks=pytest.mark.exhaustive) for case in (
        (COMPOSITE, load_breast_cancer, "numbers", np.float64),
        (COMPOSITE, load_iris, "floats", np.float64),
        (LegendreTronClassifier(link="canonical", max_epochs=3, **GIVEN), load_iris, "numbers", np.float64),
        (LegendreTronClassifier(link_params={"network": "cpflow"}, max_epochs=3, **GIVEN), load_iris, "numbers", np.float64),
        (MultinomialLogisticClassifier(), load_iris, "numbers", np.float64),
        # its predictions have a floor
        (MultinomialLogisticClassifier(label_noise="symmetric"), load_iris, "numbers", np.float64),
    )),
])  # fmt: skip
def test_estimators(tmp_path, clf, load, labels, dtype):
    X, y = load(return_X_y=True)
    X = X.astype(dtype)
    # scikit-learn takes whole numbers only
    y = {"numbers": y * 3 - 1, "strings": np.array(["äpfel", "b", "c"])[y], "floats": 2.0 * y + 1.0}[labels]
    clf.fit(X[::2], y[::2]).to_onnx(tmp_path / "clf.onnx")
    run = session(tmp_path / "clf.onnx")
    for new in (X[1::2], X[1:2]):
        label, p = run.run(["label", "probabilities"], {"X": new})
        np.testing.assert_array_equal(label, clf.predict(new))
        np.testing.assert_allclose(p, clf.predict_proba(new), atol=1e-5 if dtype == np.float32 else 1e-10)
    assert json.loads(run.get_modelmeta().custom_metadata_map["classes"]) == clf.classes_.tolist()


def test_an_example_without_rows(tmp_path):
    """As ``x[:0]`` of a table; only its shape counts."""
    head = LegendreHead(4, 3, link="softmax")
    export_onnx(head, tmp_path / "head.onnx", torch.zeros(0, 4))
    x = torch.randn(3, 4)
    (log_proba,) = session(tmp_path / "head.onnx").run(None, {"input": x.numpy()})
    np.testing.assert_allclose(log_proba, head(x).detach().numpy(), rtol=1e-5, atol=1e-6)


def test_errors(tmp_path):
    with pytest.raises(NotFittedError):
        LegendreTronClassifier().to_onnx(tmp_path / "clf.onnx")
    with pytest.raises(ValueError, match="first axis for the batch"):
        export_onnx(LegendreHead(4, 3), tmp_path / "net.onnx", torch.zeros(4))
    with pytest.raises(ValueError, match=r"module.float\(\)"):
        export_onnx(LegendreHead(4, 3).bfloat16(), tmp_path / "net.onnx", torch.zeros(2, 4))
    dates = np.array(["2020-01-01", "2021-01-01"], dtype="datetime64[D]")
    clf = MultinomialLogisticClassifier().fit(np.arange(8.0).reshape(4, 2), dates[[0, 1, 1, 0]])
    with pytest.raises(ValueError, match="datetime64"):
        clf.to_onnx(tmp_path / "clf.onnx")
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        export_onnx(LegendreHead(4, 3, link="softmax"), tmp_path / "file" / "net.onnx", torch.zeros(2, 4))
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
