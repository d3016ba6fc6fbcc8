"""Classifiers of tables with text, dates and gaps: as scikit-learn's pipeline, in files, and as ONNX."""

import json
import pickle
import warnings

import numpy as np
import onnx
import onnxruntime
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

import legendretron
import mixed_tables as benchmark
from legendretron import (
    MultinomialLogisticClassifier,
    TableClassifier,
    TableEncoder,
)
from tests.saved_files import forge

LOGISTIC = MultinomialLogisticClassifier(alpha=1e-3, tol=1e-10)


@pytest.mark.exhaustive
@parametrize_with_checks([TableClassifier(MultinomialLogisticClassifier(alpha=1e-3))])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module", params=benchmark.TABLES)
def fitted(request):
    """A table, its labels, and a classifier of the first two thirds of the rows."""
    frame, y = benchmark.TABLES[request.param]()
    n = 2 * len(y) // 3
    order = np.random.default_rng(1).permutation(len(y))
    frame, y = frame.iloc[order], y.iloc[order]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "column 'name' is left out")
        warnings.filterwarnings("ignore", r"column 'home\.dest' has categories that differ only")
        return frame, y, TableClassifier(LOGISTIC).fit(frame[:n], y[:n])


def test_probabilities_are_those_of_scikit_learns_pipeline(fitted):
    frame, y, model = fitted
    n = 2 * len(y) // 3
    pipeline = benchmark.by_hand(frame, model.encoder_, clone(LOGISTIC)).fit(frame[:n], y[:n])
    assert model.estimator_.n_features_in_ == pipeline[-1].n_features_in_
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Found unknown categories")
        expected = pipeline.predict_proba(frame[n:])
    np.testing.assert_allclose(model.predict_proba(frame[n:]), expected, atol=1e-9)
    assert model.score(frame[n:], y[n:]) == pipeline.score(frame[n:], y[n:])


def test_files(fitted, tmp_path):
    frame, _, model = fitted
    model.save(tmp_path / "m")
    for loaded in (legendretron.load(tmp_path / "m"), TableClassifier.load(tmp_path / "m")):
        np.testing.assert_allclose(loaded.predict_proba(frame), model.predict_proba(frame), rtol=1e-12)
        np.testing.assert_allclose(
            loaded.decision_function(frame), model.decision_function(frame), rtol=1e-12, atol=1e-12
        )
        assert loaded.feature_names_in_.tolist() == list(frame)
        assert loaded.encoder_.columns_ == model.encoder_.columns_
    assert clone(loaded).estimator.alpha == LOGISTIC.alpha  # the parameters are there, too
    assert loaded.encoder is None
    small = pd.DataFrame({"city": ["Bern", "Oslo", "Rome"] * 4})
    TableClassifier(LOGISTIC, TableEncoder(max_categories=2)).fit(small, [0, 1, 1] * 4).save(tmp_path / "m")
    assert TableClassifier.load(tmp_path / "m").encoder.max_categories == 2


def test_onnx(fitted, tmp_path):
    frame, _, model = fitted
    model.to_onnx(tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    kept = [column for column in model.encoder_.columns_ if not column.is_left_out]
    types = {"categories": "tensor(string)"}
    assert [(i.name, i.type) for i in session.get_inputs()] == [
        (column.name, types.get(column.kind, "tensor(double)")) for column in kept
    ]
    inputs = benchmark.onnx_inputs(model.encoder_, frame)
    inputs[kept[1].name][0] = "never seen" if kept[1].kind == "categories" else np.nan
    changed = frame.assign(**{kept[1].name: ["never seen", *frame[kept[1].name][1:]]})
    for rows in (slice(0, 1), slice(0, len(frame))):
        label, p = session.run(None, {name: values[rows] for name, values in inputs.items()})
        np.testing.assert_allclose(p, model.predict_proba(changed[rows]), atol=1e-12)
        assert label.tolist() == model.predict(changed[rows]).tolist()
    metadata = {entry.key: json.loads(entry.value) for entry in onnx.load(tmp_path / "m.onnx").metadata_props}
    assert metadata["feature_names"] == list(frame)


def test_weights_and_groups_are_handed_on():
    frame = pd.DataFrame({"a": ["x", "y", "x", "y", "z", "z"]})
    y, weight = [0, 1, 1, 0, 0, 1], [1.0, 1.0, 0.0, 0.0, 1.0, 1.0]
    weighted = TableClassifier(LOGISTIC).fit(frame, y, sample_weight=weight)
    p = weighted.predict_proba(frame)[:, 0]
    assert p[0] > 0.9 > 0.6 > p[4] > 0.4 > 0.1 > p[1]


def mixed(n=200):
    """A table with text and gaps, labels of which some are wrong, and the true ones."""
    rng = np.random.default_rng(0)
    city = rng.choice(["Rome", "Bern", "Oslo"], n)
    frame = pd.DataFrame({"age": np.where(rng.random(n) < 0.1, np.nan, rng.normal(40, 10, n)), "city": city})
    true = np.where(city == "Rome", "yes", "no")
    return frame, np.where(rng.random(n) < 0.1, np.where(true == "yes", "no", "yes"), true), true


@pytest.fixture(scope="module")
def noisy():
    frame, y, true = mixed()
    model = MultinomialLogisticClassifier(label_noise="symmetric", cv=2, random_state=0)
    return frame, y, true, TableClassifier(model).fit(frame, y)


def test_it_has_what_its_estimator_has(noisy):
    frame, y, true, model = noisy
    fitted = model.estimator_
    names = ["coef_", "intercept_", "alpha_", "link_alpha_", "link_", "link_classes_", "history_", "n_iter_"]
    for name in [*names, "noise_rate_", "noise_rate_interval_", "noise_matrix_"]:
        np.testing.assert_array_equal(getattr(model, name), getattr(fitted, name))
    assert model.coef_.shape[1] == len(model.get_feature_names_out())
    assert model.get_feature_names_out().tolist() == list(model.encode(frame)) == list(fitted.feature_names_in_)
    assert type(model.loss_) is type(fitted.loss_)
    pd.testing.assert_frame_equal(model.tuning_, fitted.tuning_)
    encoded = model.encode(frame)
    for name in ("label_quality", "label_posterior", "find_label_issues"):
        np.testing.assert_array_equal(getattr(model, name)(frame, y), getattr(fitted, name)(encoded, y))
    for name in ("predict_proba_observed", "linear_predictor", "decision_function"):
        np.testing.assert_array_equal(getattr(model, name)(frame), getattr(fitted, name)(encoded))
    assert (y != true)[model.find_label_issues(frame, y)].mean() > 0.9


def test_it_has_nothing_that_its_estimator_has_not(noisy, tmp_path):
    frame, y, _, _ = noisy
    unfitted = TableClassifier()
    assert hasattr(unfitted, "find_label_issues")
    assert not hasattr(unfitted, "coef_")
    with pytest.raises(AttributeError, match="this TableClassifier has no noise_rate_: it is not fitted"):
        _ = unfitted.noise_rate_
    given = TableClassifier(MultinomialLogisticClassifier(alpha=0.1)).fit(frame, y)
    with pytest.raises(AttributeError, match="has no tuning_: its penalties were given"):
        _ = given.tuning_
    other = TableClassifier(HistGradientBoostingClassifier(max_iter=5)).fit(frame, y, sample_weight=np.ones(len(y)))
    assert other.predict_proba(frame).shape == (200, 2)
    assert other.score(frame, y) > 0.8
    assert not [name for name in ("coef_", "loss_", "find_label_issues", "to_onnx") if hasattr(other, name)]
    with pytest.raises(ValueError, match="to be saved, got a HistGradientBoostingClassifier; use pickle"):
        other.save(tmp_path / "m")
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(other)).predict(frame), other.predict(frame))
    vectors = TableClassifier(LinearSVC()).fit(frame, y)
    assert not hasattr(vectors, "predict_proba")
    assert vectors.coef_.shape == (1, len(vectors.get_feature_names_out()))


def test_parameters_of_parts_that_are_none():
    model = TableClassifier()
    assert model.get_params()["encoder__max_categories"] == 32
    assert model.get_params(deep=False) == {"estimator": None, "encoder": None} == clone(model).get_params(deep=False)
    model.set_params(encoder__max_categories=2, estimator__alpha=0.1)
    assert (model.encoder.max_categories, model.estimator.alpha) == (2, 0.1)
    assert clone(model).encoder.max_categories == 2
    with pytest.raises(ValueError, match="Invalid parameter 'max_size'"):
        TableClassifier().set_params(encoder__max_size=2)
    frame, y, _ = mixed()
    search = GridSearchCV(TableClassifier(LOGISTIC), {"encoder__max_categories": [2, 3]}, cv=2).fit(frame, y)
    assert search.best_params_ == {"encoder__max_categories": 3}


SMALL = pd.DataFrame({"age": [30.0, None, 50.0, 40.0], "city": ["Rome", "Bern", None, "Rome"]})


@pytest.mark.parametrize(("estimator", "how", "message"), [
    (LinearRegression(), {}, r"estimator must be a classifier, got LinearRegression\(\)"),
    (GaussianNB(), {"groups": [0, 1, 0, 1]}, "groups is given, but fit of GaussianNB takes none"),
])  # fmt: skip
def test_what_cannot_be(estimator, how, message):
    with pytest.raises(NotFittedError):
        TableClassifier().predict_proba(SMALL)
    with pytest.raises(ValueError, match=message):
        TableClassifier(estimator).fit(SMALL, [0, 1, 1, 0], **how)
    encoder = TableEncoder().fit(SMALL[["age"]].fillna(0.0))
    with pytest.raises(ValueError, match="fitted to 2 features, but encoder returns 1"):
        TableClassifier.from_fitted(clone(LOGISTIC).fit([[0.0, 1.0], [1.0, 0.0]], [0, 1]), encoder)


@pytest.mark.parametrize(("change", "message"), [
    (lambda state: state.update(encoder=None), "encoder must be an object"),
    (lambda state: state["encoder"]["columns"][0].update(gaps=0), "must be what the encoder returns, age, city=B"),
    (lambda state: state["estimator"].update({"class": "os"}), "class must be one of LegendreTronClassifier, PaperLegendre"),
    (lambda state: state["estimator"].pop("class"), "the model inside must have the fields class, state"),
    (lambda state: state["estimator"]["state"].update(stray=torch.zeros(1)), "must have the fields"),
])  # fmt: skip
def test_forged_files(tmp_path, change, message):
    TableClassifier(LOGISTIC).fit(SMALL, [0, 1, 1, 0]).save(tmp_path / "m")
    forge(tmp_path / "m", change)
    with pytest.raises(ValueError, match=message):
        TableClassifier.load(tmp_path / "m")
