"""Classifiers of tables with text, dates and gaps: as scikit-learn's pipeline, in files, and as ONNX."""

import json
import sys
import warnings
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import parametrize_with_checks

import legendretron
from legendretron import (
    LegendreCalibrator,
    LegendreTronClassifier,
    MultinomialLogisticClassifier,
    TableClassifier,
    TableEncoder,
)
from legendretron._internal.artifacts import read_artifact, write_artifact
from legendretron.estimators import saved_table_classifier
from legendretron.estimators.saved_table_classifier import _KIND

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
import mixed_tables as benchmark

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


def test_tables_are_what_they_are_said_to_be():
    frame, y = benchmark.titanic()
    assert (len(frame), y.sum()) == (1309, 500)
    assert frame.isna().sum()["age"] == 263
    frame, _ = benchmark.made_up()
    assert frame.isna().any().tolist() == [True, False, True, True, False, False]


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
        assert np.array_equal(loaded.predict_proba(frame), model.predict_proba(frame))
        assert np.array_equal(loaded.decision_function(frame), model.decision_function(frame))
        assert loaded.feature_names_in_.tolist() == list(frame)
        assert loaded.encoder_.columns_ == model.encoder_.columns_
    assert clone(loaded).estimator.alpha == LOGISTIC.alpha  # the parameters are there, too


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


def test_names_of_coefficients_say_what_they_are(fitted):
    _, _, model = fitted
    names = model.estimator_.feature_names_in_.tolist()
    assert names == model.encoder_.get_feature_names_out().tolist()
    assert ("sex=female" in names and "age is missing" in names) or "paid by=card" in names
    assert model.estimator_.coef_.shape[1] == len(names)


def test_a_calibrator_around_it_is_saved_with_it(fitted, tmp_path):
    frame, y, model = fitted
    calibrator = LegendreCalibrator(FrozenEstimator(model)).fit(frame[-400:], y[-400:])
    calibrator.save(tmp_path / "c")
    loaded = legendretron.load(tmp_path / "c")
    assert isinstance(loaded, LegendreCalibrator)
    np.testing.assert_array_equal(loaded.predict_proba(frame), calibrator.predict_proba(frame))
    assert loaded.feature_names_in_.tolist() == list(frame)


def test_weights_and_groups_are_handed_on():
    frame = pd.DataFrame({"a": ["x", "y", "x", "y", "z", "z"]})
    y, weight = [0, 1, 1, 0, 0, 1], [1.0, 1.0, 0.0, 0.0, 1.0, 1.0]
    weighted = TableClassifier(LOGISTIC).fit(frame, y, sample_weight=weight)
    p = weighted.predict_proba(frame)[:, 0]
    assert p[0] > 0.9 > 0.6 > p[4] > 0.4 > 0.1 > p[1]


@pytest.mark.exhaustive
def test_the_default_is_the_default_classifier():
    frame, y = benchmark.made_up(120)
    model = TableClassifier().fit(frame, y)
    assert isinstance(model.estimator_, LegendreTronClassifier)
    assert isinstance(model.encoder_, TableEncoder)
    assert model.predict_log_proba(frame).shape == (120, 3)


def test_a_fit_that_fails_changes_nothing(fitted):
    frame, y, model = fitted
    before = model.predict_proba(frame)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "column 'name' is left out")
        warnings.filterwarnings("ignore", r"column 'home\.dest' has categories that differ only")
        with pytest.raises(ValueError, match="only one class"):
            model.fit(frame, ["one"] * len(y))
    assert np.array_equal(model.predict_proba(frame), before)


def test_labels_that_differ_only_by_case_or_white_space():
    frame = pd.DataFrame({"a": [1.0, 2.0, 3.0, 4.0]})
    with pytest.warns(UserWarning, match="y has labels that differ only by case or white space, .*: 'Yes' and 'yes '"):
        assert len(clone(TableClassifier(LOGISTIC)).fit(frame, ["Yes", "yes ", "No", "No"]).classes_) == 3


def test_what_cannot_be():
    frame = pd.DataFrame({"a": [1.0, 2.0]})
    with pytest.raises(NotFittedError):
        TableClassifier().predict_proba(frame)
    with pytest.raises(ValueError, match="'estimator' parameter of TableClassifier"):
        TableClassifier(LogisticRegression()).fit(frame, [0, 1])
    encoder = TableEncoder().fit(frame)
    with pytest.raises(ValueError, match="fitted to 2 features, but encoder returns 1"):
        TableClassifier.from_fitted(clone(LOGISTIC).fit([[0.0, 1.0], [1.0, 0.0]], [0, 1]), encoder)


def test_the_class_of_the_file_is_told(fitted, tmp_path):
    _, _, model = fitted
    model.save(tmp_path / "m")
    with pytest.raises(ValueError, match=r"holds 'legendretron-table-1', but .* is needed; legendretron\.load reads"):
        LegendreTronClassifier.load(tmp_path / "m")


# --- what the number of the format means ---


def small():
    frame = pd.DataFrame({"age": [30.0, None, 50.0, 40.0], "city": ["Rome", "Bern", None, "Rome"]})
    return TableClassifier(LOGISTIC).fit(frame, [0, 1, 1, 0])


def test_what_is_written_is_what_the_number_says(tmp_path):
    small().save(tmp_path / "m")
    assert _KIND == "legendretron-table-1"
    tensors, header = read_artifact(tmp_path / "m", "legendretron-table-1")
    assert [*header] == ["estimator", "encoder", "inner"]
    assert header["inner"]["header"]["feature_names_in"][1] == "age is missing"
    assert all(name.startswith("estimator.") for name in tensors)
    number = {"categories": [], "pooled": 0, "constant": False}
    assert header["encoder"] == {
        "parameters": {"categorical": [], "max_categories": 32},
        "columns": [
            {"name": "age", "kind": "number", "gaps": 1, "mean": 40.0, **number},
            {"name": "city", "kind": "categories", "gaps": 1, "mean": 0.0, **number, "categories": ["Bern", "Rome", None]},
        ],
        "has_names": True,
        "single": False,
    }  # fmt: skip


@pytest.mark.parametrize(("change", "message"), [
    (lambda tensors, header: header.update(more=1), "the header must have the fields"),
    (lambda tensors, header: header.update(encoder=None), "encoder must be an object"),
    (lambda tensors, header: header["encoder"]["columns"][0].update(gaps=0), "must be what the encoder returns, age, city=B"),
    (lambda tensors, header: header["encoder"]["columns"][1].update(categories=["Bern", "Oslo", None]), "must be what the"),
    (lambda tensors, header: header["inner"].update(format="legendretron-estimator-1"), "in the format"),
    (lambda tensors, header: tensors.update(stray=tensors["estimator.coef"].clone()), "belong to nothing: stray"),
    (lambda tensors, header: tensors.pop("estimator.coef"), "coef"),
])  # fmt: skip
def test_forged_files(tmp_path, change, message):
    small().save(tmp_path / "m")
    tensors, header = read_artifact(tmp_path / "m", _KIND)
    change(tensors, header)
    write_artifact(tmp_path / "m", _KIND, tensors, header)
    with pytest.raises(ValueError, match=message):
        TableClassifier.load(tmp_path / "m")


def test_a_calibrator_refuses_a_forged_classifier(tmp_path):
    frame = pd.DataFrame({"age": [30.0, None, 50.0, 40.0], "city": ["Rome", "Bern", None, "Rome"]})
    LegendreCalibrator(FrozenEstimator(small())).fit(frame, [0, 1, 1, 0]).save(tmp_path / "c")
    kind = "legendretron-calibrator-2"
    tensors, header = read_artifact(tmp_path / "c", kind)
    assert header["inner"]["format"] == saved_table_classifier._KIND
    header["inner"]["format"] = "legendretron-table-9"
    write_artifact(tmp_path / "c", kind, tensors, header)
    with pytest.raises(ValueError, match="in the format 'legendretron-table-9', but this version reads"):
        legendretron.load(tmp_path / "c")
