"""What each number of the format of saved estimators means: files must outlive the code that wrote them.

When a test here fails because what is written has changed, or what the numbers in a file mean, raise the number in
``legendretron/estimators/persistence.py`` and describe the new one here. The description of a number is never changed once
files of it are in the world.
"""

import math

import numpy as np
import pytest
import torch

import legendretron
from legendretron import LegendreTronClassifier
from legendretron.datasets import symmetric_transition
from legendretron.estimators.loading import load_any_estimator
from legendretron.estimators.persistence import _KIND
from tests.estimators.tiny_models import FITTED, MATRIX, X, contents, sign

HEADER = {
    "estimator": "str",
    "parameters": "dict",
    "link": "dict",
    "given_link": "dict or null",
    "classes": {"dtype": "str", "values": "list"},
    "n_features_in": "int",
    "feature_names_in": "null",
    "n_iter": "int",
    "history": dict.fromkeys(
        ("epoch", "run", "train_loss", "validation_loss", "accuracy", "learning_rate", "seconds"), "list"
    ),
    "has_moments": "bool",
}
#: By number of the format.
HEADERS = {
    "legendretron-estimator-2": HEADER,
    "legendretron-estimator-3": {**HEADER, "strengths": "list", "tuning": "list or null"},
    "legendretron-estimator-4": {
        **HEADER,
        "strengths": "list",
        "tuning": "list or null",
        "label_noise": "dict or null",
    },
}
HEADERS["legendretron-estimator-5"] = {
    **HEADERS["legendretron-estimator-4"],
    "given_link_is_fixed": "bool",
    "gradient_norm": "float or null",
    "converged": "bool or null",
}
#: A row of the table of candidates; numbers that are not finite are words.
TUNING = {
    "model": "logistic regression",
    "alpha": 0.5,
    "link_alpha": "inf",
    "label_noise": 0.0625,
    "steps": None,
    "held_out_rows": 8,
    "log_loss": 0.25,
    "standard_error": 0.125,
    "difference": "nan",
    "difference_error": 0,
    "chosen": True,
}
SHARED_PARAMETERS = {
    *("alpha", "solver", "learning_rate", "schedule", "decay", "decay_every", "max_epochs", "batch_size", "tol"),
    *("early_stopping", "validation_fraction", "n_iter_no_change", "class_weight", "warm_start", "standardize", "init"),
    *("penalize_intercept", "device", "dtype", "random_state", "verbose", "checkpoint", "checkpoint_every"),
}
LINK_PARAMETERS = {"link", "n_blocks", "hidden", "depth", "network", "n_nests", "link_alpha"}
PARAMETERS = {
    "LegendreTronClassifier": SHARED_PARAMETERS | LINK_PARAMETERS,
    "MultinomialLogisticClassifier": SHARED_PARAMETERS | {"penalty"},
}
SOFTMAX = {"kind": "softmax", "n_classes": 3}
CANONICAL = {"kind": "canonical", "n_classes": 3, "n_nests": 2}
FICNN = {"kind": "composite", "n_classes": 3, "n_blocks": 2, "hidden": 2, "depth": 2, "network": "ficnn"}
CPFLOW = {**FICNN, "network": "cpflow"}
DOUBTED = {"kind": "noisy", "n_classes": 3, "link": {"kind": "softmax"}, "noise": "symmetric", "learned": False}
CPFLOW_OF_TWO = {**CPFLOW, "n_classes": 2, "depth": 4}


def linear(k):
    return {
        "coef": (k, 2),
        "intercept": (k,),
        "standardized.mean": (2,),
        "standardized.scale": (2,),
        "standardized.weight": (2, k),
        "standardized.bias": (k,),
    }


def nests(prefix):
    shapes = {"log_mu": (2,), "log_beta": (1,), "offsets": (2, 2), "reference_offset": (2,), "gate_bias": (2,)}
    return {f"{prefix}.nests.{name}": shape for name, shape in shapes.items()}


def blocks(prefix, **shapes):
    shapes |= {"raw_alpha": (1,), "raw_gamma": (1,)}
    return {f"{prefix}.blocks.{i}.{name}": shape for i in range(2) for name, shape in shapes.items()}


FICNN_BLOCKS = {"weight": (5, 2), "bias": (5,), "raw_mixing": (3, 2)}
CPFLOW_BLOCKS = {
    "weight": (5, 2),
    "bias": (5,),
    "raw_mixing": (2, 2),
    "shift": (1,),
    "log_scale": (2,),
    "mixing_bias": (1,),
    "initialized": (),
}
DEEP_BLOCKS = {
    "weight": (9, 1),
    "bias": (9,),
    "raw_mixing": (4, 2),
    "shift": (3,),
    "log_scale": (4,),
    "mixing_bias": (3,),
    "initialized": (),
}
_MODELS_OF_2 = {
    "logistic": ("MultinomialLogisticClassifier", SOFTMAX, None, linear(2)),
    "softmax": ("LegendreTronClassifier", SOFTMAX, None, linear(2)),
    "ficnn": ("LegendreTronClassifier", FICNN, None, linear(2) | blocks("link", **FICNN_BLOCKS)),
    "cpflow": ("LegendreTronClassifier", CPFLOW, None, linear(2) | blocks("link", **CPFLOW_BLOCKS)),
    "canonical": ("LegendreTronClassifier", CANONICAL, None, linear(2) | nests("link")),
    "given softmax": ("LegendreTronClassifier", SOFTMAX, {**SOFTMAX, "dtype": "float32"}, linear(2)),
    "given canonical": (
        *("LegendreTronClassifier", CANONICAL, {**CANONICAL, "dtype": "float32"}),
        linear(2) | nests("link") | nests("given_link"),
    ),
    "given composite": (
        *("LegendreTronClassifier", CPFLOW_OF_TWO, {**CPFLOW_OF_TWO, "dtype": "float16"}),
        linear(1) | blocks("link", **DEEP_BLOCKS) | blocks("given_link", **DEEP_BLOCKS),
    ),
    "online": (
        *("LegendreTronClassifier", FICNN, None),
        linear(2) | blocks("link", **FICNN_BLOCKS) | {"moments.0": (1, 52), "moments.1": (1, 52), "moments.2": ()},
    ),
}
#: By number of the format and by model: the estimator, the link, the link that was handed over, and the shapes of tensors.
FORMATS = {
    "legendretron-estimator-2": _MODELS_OF_2,
    "legendretron-estimator-3": {**_MODELS_OF_2, "tuned": ("LegendreTronClassifier", SOFTMAX, None, linear(2))},
}
FORMATS["legendretron-estimator-4"] = {
    **FORMATS["legendretron-estimator-3"],
    "rate": ("MultinomialLogisticClassifier", SOFTMAX, None, linear(2)),
    "matrix": ("MultinomialLogisticClassifier", SOFTMAX, None, linear(2) | {"label_noise.matrix": (3, 3)}),
    "doubted": ("MultinomialLogisticClassifier", DOUBTED, None, linear(2) | {"link.noise.raw_rate": (1,)}),
}
FORMATS["legendretron-estimator-5"] = {
    **FORMATS["legendretron-estimator-4"],
    "fixed": FORMATS["legendretron-estimator-4"]["given canonical"],
}
DESCRIBED = FORMATS[_KIND]
#: What is known of wrong labels: rate in training, temperature, doubt, rate, and its interval.
NOISE = {
    "rate": {"plan": [0.3, 1, 0, 0.3, 0.3, 0.3], "known": True, "has_matrix": False},
    "matrix": {"plan": [0.3, 1, 0, 0.3, 0.3, 0.3], "known": True, "has_matrix": True},
    "doubted": {"plan": [0.7, 2, 0.125, 0.25, 0.125, 0.5], "known": False, "has_matrix": False},
}


def dtype_of(name, given, model):
    """The dtype of a tensor, in all formats until now."""
    if name.endswith("initialized"):
        return torch.bool
    if name.startswith("given_link."):
        return getattr(torch, given["dtype"])
    if name == "label_noise.matrix":
        return torch.float64
    if name.startswith("standardized.") and name.endswith((".mean", ".scale")):
        return torch.float64
    return torch.float32 if model == "canonical" and name != "moments.2" else torch.float64


def kinds_of(header):
    """Names of the types of a header's fields."""
    kinds = {name: type(value).__name__ for name, value in header.items()}
    kinds |= {
        name: {part: type(value).__name__ for part, value in header[name].items()} for name in ("classes", "history")
    }
    return {
        **kinds,
        "feature_names_in": "null",
        "given_link": "dict or null",
        "tuning": "list or null",
        "label_noise": "dict or null",
        "gradient_norm": "float or null",
        "converged": "bool or null",
    }


def test_all_models_are_described():
    assert set(DESCRIBED) == set(FITTED)


@pytest.mark.parametrize("model", FITTED)
def test_what_is_written_is_what_the_number_says(model, tmp_path):
    FITTED[model]().save(tmp_path / "m")
    tensors, header = contents(tmp_path / "m")
    estimator, link, given, shapes = DESCRIBED[model]
    assert kinds_of(header) == HEADERS[_KIND]
    assert header["tuning"] is None or model in ("tuned", "doubted")
    assert (header["label_noise"] is None) == (model not in (*NOISE, "tuned"))
    fixed = (header["given_link_is_fixed"], type(header["gradient_norm"]), type(header["converged"]))
    assert fixed == ((True, float, bool) if model == "fixed" else (False, type(None), type(None)))
    assert header["label_noise"] is None or {*header["label_noise"]} == {"plan", "known", "has_matrix"}
    assert all([*row] == [*TUNING] for row in header["tuning"] or ())
    assert (header["estimator"], header["link"], header["given_link"]) == (estimator, link, given)
    # one more has a default, so that files without it can be read; one less, or another name, needs a new number
    assert set(header["parameters"]) >= PARAMETERS[estimator]
    assert {name: (tuple(tensor.shape), tensor.dtype) for name, tensor in tensors.items()} == {
        name: (shape, dtype_of(name, given, model)) for name, shape in shapes.items()
    }


def test_names_of_features_are_a_list(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=["one", "two"])
    clf = LegendreTronClassifier("softmax", alpha=0.1).fit(frame, np.arange(12) % 3)
    clf.save(tmp_path / "m")
    assert contents(tmp_path / "m")[1]["feature_names_in"] == ["one", "two"]
    assert list(LegendreTronClassifier.load(tmp_path / "m").feature_names_in_) == ["one", "two"]


#: Probabilities by a file whose tensors hold sines; see the test.
PROBABILITIES = {
    "softmax": [0.136162, 0.656452, 0.207386],
    "ficnn": [0.069601, 0.85048, 0.079919],
    "cpflow": [0.21314, 0.46068, 0.32618],
    "canonical": [0.27265, 0.515312, 0.212038],
    "given canonical": [0.27265, 0.515312, 0.212038],
    "fixed": [0.27265, 0.515312, 0.212038],
    "given composite": [0.278795, 0.721205],
    "given softmax": [0.136162, 0.656452, 0.207386],
    "online": [0.069601, 0.85048, 0.079919],
    "logistic": [0.136162, 0.656452, 0.207386],
    "tuned": [0.136162, 0.656452, 0.207386],
    "rate": [0.136162, 0.656452, 0.207386],
    "matrix": [0.136162, 0.656452, 0.207386],
    "doubted": [0.221064, 0.517318, 0.261619],
}


@pytest.mark.parametrize("model", FITTED)
def test_what_the_numbers_in_a_file_mean(model, tmp_path):
    estimator, link, given, shapes = DESCRIBED[model]
    tensors = {}
    for i, (name, shape) in enumerate(shapes.items()):
        values = torch.sin(i + torch.arange(float(np.prod(shape)), dtype=torch.float64)).reshape(shape)
        positive = name.startswith("moments.") or name == "standardized.scale"
        tensors[name] = (values.abs() + 1.0 if positive else values).to(dtype_of(name, given, model))
    header = {
        "estimator": estimator,
        "parameters": {"alpha": 0.5} if given is None else {"link": "object"},
        "link": link,
        "given_link": given,
        "given_link_is_fixed": model == "fixed",
        "gradient_norm": 0.125 if model == "fixed" else None,
        "converged": False if model == "fixed" else None,
        "classes": {"dtype": "int64", "values": list(range(link["n_classes"]))},
        "n_features_in": 2,
        "feature_names_in": None,
        "n_iter": 1,
        "history": {name: [] for name in HEADER["history"]},
        "has_moments": model == "online",
        "strengths": [0.5, "inf"] if model == "tuned" else [1, 0.25],
        "tuning": [TUNING] if model == "tuned" else None,
        "label_noise": NOISE.get(model),
    }
    if model == "matrix":
        tensors["label_noise.matrix"] = torch.tensor(MATRIX, dtype=torch.float64)
    sign(tmp_path / "m", tensors, header)
    clf = load_any_estimator(tmp_path / "m")
    assert (clf.alpha_, clf.link_alpha_) == ((0.5, math.inf) if model == "tuned" else (1.0, 0.25))
    if model == "tuned":
        row = clf.tuning_.iloc[0]
        assert (row["alpha"], row["link_alpha"], row["log_loss"], row["chosen"]) == (0.5, math.inf, 0.25, True)
        assert math.isnan(row["difference"])
    if model == "fixed":
        assert (clf.gradient_norm_, clf.converged_) == (0.125, False)
        assert not any(p.requires_grad for p in clf.link.parameters())
    if model in NOISE:
        assert clf.noise_rate_ == pytest.approx({"rate": 0.2, "matrix": 0.2, "doubted": 1 / 6}[model])
        assert clf.noise_rate_interval_ == pytest.approx({"doubted": (1 / 12, 1 / 3)}.get(model, (0.2, 0.2)))
        expected = MATRIX if model == "matrix" else symmetric_transition(3, clf.noise_rate_)
        np.testing.assert_allclose(clf.noise_matrix_, expected)
    p = clf.predict_proba([[0.5, -1.5]])
    np.testing.assert_allclose(p[0], PROBABILITIES[model], rtol=1e-4)


@pytest.mark.parametrize(
    ("metadata", "writer"),
    [
        ({"format": "legendretron-estimator-1", "notes": "{}", "sha256": "0"}, "an early version of legendretron"),
        ({"format": "legendretron-estimator-99", "library": "7.8.9", "more": ""}, "legendretron 7.8.9"),
    ],
)
def test_a_file_in_another_format_tells_who_can_read_it(metadata, writer, tmp_path):
    from safetensors.torch import save_file

    save_file({"coef": torch.zeros(2)}, tmp_path / "m", metadata)
    number, readable = metadata["format"].rpartition("-")[2], _KIND.rpartition("-")[2]
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - all of the message matters
        LegendreTronClassifier.load(tmp_path / "m")
    assert str(caught.value) == (
        f"{str(tmp_path / 'm')!r} was written by {writer} in format {number} of legendretron-estimator, but this version, "
        f"{legendretron.__version__}, reads format {readable}. Use it with the version that wrote it, or fit again."
    )
