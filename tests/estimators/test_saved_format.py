"""What the number of the format means for estimators: files must outlive the code that wrote them.

When a test here fails because what is written has changed, or what the numbers in a file mean, raise the number in
``legendretron/_internal/artifacts.py``, and describe here what it means now.
"""

import math

import numpy as np
import pytest
import torch

from legendretron import LegendreTronClassifier, load
from legendretron.datasets import symmetric_transition
from tests.estimators.tiny_models import FITTED, MATRIX, X
from tests.saved_files import read, write

#: What is plain in the state of an estimator; the rest are tensors.
STATE = {
    "parameters": "dict",
    "given_link": "dict or null",
    "given_link_is_fixed": "bool",
    "classes": {"dtype": "str", "values": "list"},
    "feature_names_in": "null",
    "link": "dict",
    "units": "dict",
    "moments": "dict or null",
    "n_iter": "int",
    "history": dict.fromkeys(
        ("epoch", "run", "train_loss", "validation_loss", "accuracy", "learning_rate", "seconds"), "Tensor"
    ),
    "strengths": "list",
    "tuning": "dict or null",
    "label_noise": "dict or null",
    "gradient_norm": "float or null",
    "converged": "bool or null",
    "sets": "dict or null",
    "coef": "Tensor",
    "intercept": "Tensor",
}
#: A row of the table of candidates.
TUNING = {
    "model": "logistic regression",
    "alpha": 0.5,
    "link_alpha": math.inf,
    "label_noise": 0.0625,
    "steps": None,
    "held_out_rows": 8,
    "log_loss": 0.25,
    "standard_error": 0.125,
    "difference": math.nan,
    "difference_error": 0,
    "chosen": True,
}
LINK_TEST = {
    "statistic": 4.0,
    "df": 3,
    "p_value": 0.25,
    "gain": 0.5,
    "gain_error": 0.125,
    "class_p_values": [0.5, 0.25, 1],
}
SHARED_PARAMETERS = {
    *("alpha", "solver", "learning_rate", "max_epochs", "batch_size", "tol", "early_stopping", "class_weight"),
    *("warm_start", "standardize", "device", "dtype", "random_state", "verbose", "checkpoint", "cv", "label_noise"),
}
LINK_PARAMETERS = SHARED_PARAMETERS | {"link", "link_params", "link_alpha"}
PARAMETERS = {
    "LegendreTronClassifier": LINK_PARAMETERS,
    "PaperLegendreTronClassifier": LINK_PARAMETERS | {"schedule", "decay", "decay_every", "init", "penalize_intercept"},
    "MultinomialLogisticClassifier": SHARED_PARAMETERS,
}
SOFTMAX = ("softmax", 3, {})
CANONICAL = ("canonical", 3, {"n_nests": 2})
FICNN = ("composite", 3, {"n_blocks": 2, "hidden": 2, "depth": 2, "network": "ficnn"})
CPFLOW = ("composite", 3, {"n_blocks": 2, "hidden": 2, "depth": 2, "network": "cpflow"})
PAPERS = ("composite", 3, {"n_blocks": 2, "hidden": 2, "depth": 4, "network": "cpflow"})
CPFLOW_OF_TWO = ("composite", 2, {"n_blocks": 2, "hidden": 2, "depth": 4, "network": "cpflow"})
DOUBTED = ("noisy", 3, {"link": {"kind": "softmax"}, "noise": "symmetric", "learned": False})


def linear(k):
    return {
        "coef": (k, 2),
        "intercept": (k,),
        "units/mean": (2,),
        "units/scale": (2,),
        "units/weight": (2, k),
        "units/bias": (k,),
    }


def sets(n):
    return {"sets/proba": (n, 3), "sets/labels": (n,), "sets/weight": (n,)}


def nests(prefix):
    shapes = {"log_mu": (2,), "log_beta": (1,), "offsets": (2, 2), "reference_offset": (2,), "gate_bias": (2,)}
    return {f"{prefix}/tensors/nests.{name}": shape for name, shape in shapes.items()}


def blocks(prefix, **shapes):
    shapes |= {"raw_alpha": (1,), "raw_gamma": (1,)}
    return {f"{prefix}/tensors/blocks.{i}.{name}": shape for i in range(2) for name, shape in shapes.items()}


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
#: By model: the estimator, the link, the link that was handed over, and the shapes of tensors, by place.
MODELS = {
    "logistic": ("MultinomialLogisticClassifier", SOFTMAX, None, linear(2)),
    "softmax": ("LegendreTronClassifier", SOFTMAX, None, linear(2)),
    "tuned": ("LegendreTronClassifier", SOFTMAX, None, linear(2) | sets(12)),
    "ficnn": ("LegendreTronClassifier", FICNN, None, linear(2) | blocks("link", **FICNN_BLOCKS)),
    "cpflow": ("LegendreTronClassifier", CPFLOW, None, linear(2) | blocks("link", **CPFLOW_BLOCKS)),
    "paper": (
        *("PaperLegendreTronClassifier", PAPERS, None),
        linear(2) | blocks("link", **DEEP_BLOCKS | {"weight": (9, 2)}),
    ),
    "canonical": ("LegendreTronClassifier", CANONICAL, None, linear(2) | nests("link")),
    "given softmax": ("LegendreTronClassifier", SOFTMAX, SOFTMAX, linear(2)),
    "given canonical": (
        *("LegendreTronClassifier", CANONICAL, CANONICAL),
        linear(2) | nests("link") | nests("given_link"),
    ),
    "fixed": ("LegendreTronClassifier", CANONICAL, CANONICAL, linear(2) | nests("link") | nests("given_link")),
    "given composite": (
        *("LegendreTronClassifier", CPFLOW_OF_TWO, CPFLOW_OF_TWO),
        linear(1) | blocks("link", **DEEP_BLOCKS) | blocks("given_link", **DEEP_BLOCKS),
    ),
    "online": (
        *("LegendreTronClassifier", FICNN, None),
        linear(2)
        | blocks("link", **FICNN_BLOCKS)
        | {"moments/first": (1, 52), "moments/second": (1, 52), "moments/count": ()},
    ),
    "rate": ("MultinomialLogisticClassifier", SOFTMAX, None, linear(2)),
    "matrix": ("MultinomialLogisticClassifier", SOFTMAX, None, linear(2) | {"label_noise/matrix": (3, 3)}),
    "doubted": (
        *("MultinomialLogisticClassifier", DOUBTED, None),
        linear(2)
        | {"link/tensors/noise.raw_rate": (1,)}
        | sets(150)
        | {"sets/noise": (3, 3), "sets/least_noise": (3, 3)},
    ),
}
#: What is known of wrong labels: rate in training, temperature, doubt, rate, and its interval.
NOISE = {
    "rate": {"plan": [0.3, 1, 0, 0.3, 0.3, 0.3], "known": True},
    "matrix": {"plan": [0.3, 1, 0, 0.3, 0.3, 0.3], "known": True},
    "doubted": {"plan": [0.7, 2, 0.125, 0.25, 0.125, 0.5], "known": False},
}


def dtype_of(place, model):
    """The dtype of a tensor."""
    if place.endswith("initialized"):
        return torch.bool
    if place.startswith("sets/"):
        return {"sets/proba": torch.float32, "sets/labels": torch.int64}.get(place, torch.float64)
    if place.startswith("given_link/"):
        return torch.float16 if model == "given composite" else torch.float32
    if place in ("label_noise/matrix", "units/mean", "units/scale", "moments/count"):
        return torch.float64
    return torch.float32 if model == "canonical" else torch.float64


def tensors_of(tree, way=()):
    """Tensors of a tree by place, those of the history left aside."""
    found = {}
    for name, value in tree.items():
        if isinstance(value, dict) and name != "history":
            found |= tensors_of(value, (*way, name))
        elif isinstance(value, torch.Tensor):
            found["/".join((*way, name))] = value
    return found


def kinds_of(state):
    """Names of the types of a state's entries."""
    kinds = {name: type(value).__name__ for name, value in state.items()}
    kinds |= {
        name: {part: type(value).__name__ for part, value in state[name].items()} for name in ("classes", "history")
    }
    either = {name: wanted for name, wanted in STATE.items() if "or null" in wanted or wanted == "null"}
    return {**kinds, **either}


def described(link):
    return None if link is None else (link["kind"], link["n_classes"], link["settings"])


def test_all_models_are_described():
    assert set(MODELS) == set(FITTED)


@pytest.mark.parametrize("model", FITTED)
def test_what_is_written_is_what_the_number_says(model, tmp_path):
    fitted = FITTED[model]()
    fitted.save(tmp_path / "m")
    state = read(tmp_path / "m")
    estimator, link, given, shapes = MODELS[model]
    assert kinds_of(state) == STATE
    assert state["tuning"] is None or model in ("tuned", "doubted")
    assert (state["label_noise"] is None) == (model not in (*NOISE, "tuned"))
    fixed = (state["given_link_is_fixed"], type(state["gradient_norm"]), type(state["converged"]))
    assert fixed == ((True, float, bool) if model == "fixed" else (False, type(None), type(None)))
    assert state["label_noise"] is None or {*state["label_noise"]} == {"plan", "known", "matrix"}
    tuned = {"chosen", "rows", "noise", "noise_matrix", "link_test", "held_out"}
    assert state["tuning"] is None or ({*state["tuning"]} == tuned and state["tuning"]["held_out"] is None)
    assert all([*row] == [*TUNING] for row in (state["tuning"] or {"rows": []})["rows"])
    assert (type(fitted).__name__, described(state["link"]), described(state["given_link"])) == (estimator, link, given)
    # one more has a default, so that files without it can be read; one less, or another name, needs a new number
    assert set(state["parameters"]) >= PARAMETERS[estimator]
    assert {place: (tuple(tensor.shape), tensor.dtype) for place, tensor in tensors_of(state).items()} == {
        place: (shape, dtype_of(place, model)) for place, shape in shapes.items()
    }


def test_names_of_features_are_a_list(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=["one", "two"])
    clf = LegendreTronClassifier("softmax", alpha=0.1).fit(frame, np.arange(12) % 3)
    clf.save(tmp_path / "m")
    assert read(tmp_path / "m")["feature_names_in"] == ["one", "two"]
    assert list(LegendreTronClassifier.load(tmp_path / "m").feature_names_in_) == ["one", "two"]


#: Probabilities by a file whose tensors hold sines; see the test.
PROBABILITIES = {
    "softmax": [0.136162, 0.656452, 0.207386],
    "ficnn": [0.069601, 0.85048, 0.079919],
    "cpflow": [0.21314, 0.46068, 0.32618],
    "paper": [0.296629, 0.384032, 0.319339],
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


def _column_dtype(name):
    return torch.int64 if name in ("epoch", "run") else torch.float64


@pytest.mark.parametrize("model", FITTED)
def test_what_the_numbers_in_a_file_mean(model, tmp_path):
    estimator, link, given, shapes = MODELS[model]
    names = ("kind", "n_classes", "settings")
    state = {
        "parameters": {"alpha": 0.5} if given is None else {"link": "object"},
        "link": {**dict(zip(names, link, strict=True)), "tensors": {}},
        "given_link": None if given is None else {**dict(zip(names, given, strict=True)), "tensors": {}},
        "given_link_is_fixed": model == "fixed",
        "gradient_norm": 0.125 if model == "fixed" else None,
        "converged": False if model == "fixed" else None,
        "classes": {"dtype": "int64", "values": list(range(link[1]))},
        "feature_names_in": None,
        "units": {},
        "moments": {} if model == "online" else None,
        "n_iter": 1,
        "history": {name: torch.zeros(0).to(_column_dtype(name)) for name in STATE["history"]},
        "strengths": [0.5, math.inf] if model == "tuned" else [1, 0.25],
        "tuning": {
            "chosen": [0.5, math.inf],
            "rows": [TUNING],
            "noise": None,
            "noise_matrix": None,
            "link_test": LINK_TEST,
            "held_out": None,
        }
        if model == "tuned"
        else None,
        "label_noise": {**NOISE[model], "matrix": None} if model in NOISE else None,
        "sets": {"out_of_fold": True, "noise": None, "least_noise": None} if "sets/proba" in shapes else None,
    }
    for i, (place, shape) in enumerate(shapes.items()):
        values = torch.sin(i + torch.arange(float(np.prod(shape)), dtype=torch.float64)).reshape(shape)
        if place == "sets/labels":
            values = values.zero_()
        positive = place.startswith(("moments/", "sets/proba", "sets/weight")) or place == "units/scale"
        *way, last = place.split("/")
        parent = state
        for key in way:
            parent = parent[key]
        parent[last] = (values.abs() + 1.0 if positive else values).to(dtype_of(place, model))
    if model == "matrix":
        state["label_noise"]["matrix"] = torch.tensor(MATRIX, dtype=torch.float64)
    write(tmp_path / "m", estimator, state)
    clf = load(tmp_path / "m")
    assert (clf.alpha_, clf.link_alpha_) == ((0.5, math.inf) if model == "tuned" else (1.0, 0.25))
    if model == "tuned":
        row = clf.tuning_.iloc[0]
        assert (row["alpha"], row["link_alpha"], row["log_loss"], row["chosen"]) == (0.5, math.inf, 0.25, True)
        assert math.isnan(row["difference"])
        assert (clf.link_test_.df, clf.link_test_.p_value, clf.link_test_.gain) == (3, 0.25, 0.5)
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
