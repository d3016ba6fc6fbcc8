"""Bad data and parameters are refused, with a message that says why, and warnings for fits that went wrong."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from legendretron import (
    EvaluationReport,
    LegendreCalibrator,
    LegendreTronClassifier,
    MultinomialLogisticClassifier,
    TableClassifier,
)
from legendretron.trons import GLMTronClassifier
from tests.estimators.cases import FAST, X2, X, of_both_classes, y, y2


def _nan():
    bad = X.copy()
    bad[3, 1] = np.nan
    return bad


def _inf():
    bad = X.copy()
    bad[3, 1] = np.inf
    return bad


@of_both_classes
@pytest.mark.parametrize(
    ("features", "labels", "weight", "message"),
    [
        (_nan(), y, None, "NaN"),
        (_inf(), y, None, "infinity"),
        (X, np.zeros(150), None, "only one class"),
        (X[:0], y[:0], None, "0 sample"),
        (X, y[:100], None, "inconsistent numbers of samples"),
        (X, y + 0.5, None, "Unknown label type"),
        (X, y, -np.ones(150), "Negative values"),
        (X, y, np.zeros(150), "(?i)sample.?weight"),
        (X, y, np.ones(3), "sample_weight.shape"),
        (X.reshape(-1), y, None, "Expected 2D array"),
    ],
)
def test_bad_data_is_refused_and_nothing_is_half_fitted(estimator, features, labels, weight, message):
    fresh = clone(estimator)
    with pytest.raises(ValueError, match=message):
        fresh.fit(features, labels, sample_weight=weight)
    assert not [name for name in vars(fresh) if name.endswith("_")]
    fitted = clone(estimator).fit(X2[::10, :7], y2[::10])
    before = fitted.predict_proba(X2[:, :7])
    with pytest.raises(ValueError, match=message):
        fitted.fit(features, labels, sample_weight=weight)
    assert fitted.n_features_in_ == 7
    assert np.array_equal(fitted.predict_proba(X2[:, :7]), before)


def _tables():
    n = len(y)
    yield pd.DataFrame({"age": X[:, 0], "city": ["Rome"] * n}), "column 'city' of X holds text, such as 'Rome'"
    yield pd.DataFrame({"city": ["Rome"] * n}, dtype="category"), "column 'city' of X holds text, such as 'Rome'"
    yield pd.DataFrame({"age": [None, *X[1:, 0]]}), "column 'age' of X contains NaN, a gap"
    yield pd.DataFrame({"age": pd.array([None, *range(1, n)], dtype="Int64")}), "column 'age' of X contains NaN, a gap"
    yield pd.DataFrame({"age": X[:, 0], "day": [pd.Timestamp("2024-05-31")] * n}), "column 'day' of X holds dates"
    days = pd.date_range("2024-05-31", periods=n)
    yield pd.DataFrame({"day": days}), "column 'day' of X holds dates"
    yield pd.DataFrame({"month": days.to_period("M")}), "column 'month' of X holds dates"
    yield days.to_numpy()[:, None], "column 0 of X holds dates"
    yield [[1.0, "Rome"]] * n, "column 1 of X holds text, such as 'Rome'"
    yield np.array([["Rome"]] * n), "column 0 of X holds text, such as 'Rome'"
    yield _nan(), "column 1 of X contains NaN, a gap"


@of_both_classes
def test_text_dates_and_gaps_are_sent_to_the_classifier_of_tables(estimator):
    name = type(estimator).__name__
    fitted = clone(estimator).fit(X, y)
    way_out = re.escape(f", but {name} takes numbers only. TableClassifier({name}()) takes tables with text")
    for table, reason in _tables():
        with pytest.raises(ValueError, match=re.escape(reason) + way_out):
            clone(estimator).fit(table, y)
    with pytest.raises(ValueError, match=rf"column 1 of X contains NaN, a gap, but {name} takes numbers only"):
        fitted.predict(_nan())


@of_both_classes
def test_more_features_at_predict(estimator):
    clf = clone(estimator).fit(X, y)
    with pytest.raises(ValueError, match=r"X has 5 features, but .* is expecting 4 features"):
        clf.predict(np.ones((2, 5)))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"alpha": -1}, "'alpha' parameter .* Got -1"),
        ({"link": "probit"}, "link must be one of .* got 'probit'"),
        ({"link_alpha": -0.1}, "'link_alpha' parameter"),
        ({"link_params": {"hidden": 0}}, "hidden must be .* 0"),
        ({"link_params": {"n_blocks": 0}}, "n_blocks must be"),
        ({"link_params": {"depth": 1.5}}, "depth must be"),
        ({"solver": "sgd"}, "'solver' parameter"),
        ({"learning_rate": 0}, "'learning_rate' parameter"),
        ({"batch_size": 0}, "'batch_size' parameter"),
        ({"early_stopping": 1.5}, "'early_stopping' parameter"),
        ({"dtype": "float16"}, "'dtype' parameter"),
        ({"device": "tpu"}, "device must be 'cpu', 'cuda', 'cuda:N' or 'auto', got 'tpu'"),
        ({"checkpoint": "x", "solver": "lbfgs"}, "checkpoint needs solver='adam'"),
    ],
)
def test_bad_parameters(parameters, message):
    with pytest.raises(ValueError, match=message):
        LegendreTronClassifier(**parameters).fit(X, y)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_cuda_where_there_is_none():
    with pytest.raises(ValueError, match="device must be 'cpu' or 'auto': torch sees no CUDA device here, got 'cuda'"):
        LegendreTronClassifier(device="cuda").fit(X, y)
    assert LegendreTronClassifier(device="auto", **FAST).fit(X, y).score(X, y) > 0.8


def test_warnings():
    with pytest.warns(ConvergenceWarning, match=r"has not converged in 3 iterations \(max_epochs=3\)"):
        MultinomialLogisticClassifier(alpha=1e-4, max_epochs=3).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        MultinomialLogisticClassifier().fit(X, y)


def test_lbfgs_says_when_it_gave_up():
    with pytest.warns(ConvergenceWarning, match="scale the features"):
        MultinomialLogisticClassifier(alpha=1e-4, solver="lbfgs", standardize=False, max_epochs=200).fit(X * 1e9, y)


def _some_missing(kind):
    labels = np.array(["a", "b", "c"], dtype=object)[y]
    labels[[4, 7, 9, 11]] = {"None": None, "NaN": np.nan, "NA": pd.NA}[kind]
    return labels


@pytest.mark.parametrize("labels", [
    _some_missing("None"), _some_missing("NaN"), _some_missing("None").tolist(), _some_missing("NaN").tolist(),
    pd.Series(_some_missing("NA")), pd.Series(_some_missing("None"), dtype="category"),
    np.where(np.isin(np.arange(150), [4, 7, 9, 11]), np.nan, y),
])  # fmt: skip
@pytest.mark.parametrize("estimator", [
    LegendreTronClassifier(**FAST), MultinomialLogisticClassifier(), TableClassifier(), LegendreCalibrator(),
    LegendreCalibrator(MultinomialLogisticClassifier()), GLMTronClassifier(),
], ids=lambda estimator: type(estimator).__name__)  # fmt: skip
def test_missing_labels(estimator, labels):
    message = (
        r"y contains NaN or None: 4 of 150 labels are missing, in rows 4, 7, 9, \.\.\. \(from 0\); leave those rows out"
    )
    table = pd.DataFrame(X[:, :3], columns=["p", "q", "r"])
    with pytest.raises(ValueError, match=message):
        clone(estimator).fit(table, labels)


def test_missing_labels_after_the_fit():
    clf = MultinomialLogisticClassifier(alpha=1e-3).fit(X, np.array(["a", "b", "c"])[y])
    scores = clf.decision_function(X)
    calibrator = LegendreCalibrator(strength=1.0).fit(scores, np.array(["a", "b", "c"])[y])
    table = TableClassifier(MultinomialLogisticClassifier(alpha=1e-3)).fit(X, np.array(["a", "b", "c"])[y])
    for method in (clf.label_quality, clf.find_label_issues, clf.label_posterior, clf.score, table.score):
        for labels in (_some_missing("None"), _some_missing("NaN").tolist(), _some_missing("NA")):
            with pytest.raises(ValueError, match="4 of 150 labels are missing"):
                method(X, labels)
    with pytest.raises(ValueError, match="4 of 150 labels are missing"):
        calibrator.score(scores, _some_missing("None"))
    with pytest.raises(ValueError, match="4 of 150 labels are missing"):
        EvaluationReport(clf, X, _some_missing("NaN"))
    with pytest.raises(ValueError, match="4 of 150 labels are missing"):
        clf.partial_fit(X, _some_missing("None"), classes=["a", "b", "c"])


@pytest.mark.parametrize("estimator", [
    LegendreTronClassifier(**FAST), MultinomialLogisticClassifier(), TableClassifier(), LegendreCalibrator(),
    GLMTronClassifier(),
], ids=lambda estimator: type(estimator).__name__)  # fmt: skip
def test_labels_of_which_some_are_text(estimator):
    labels = np.array(["a", "b", "c"], dtype=object)[y]
    labels[7] = 3
    for given in (labels, labels.tolist(), pd.Series(labels)):
        with pytest.raises(
            ValueError, match=r"y holds text, such as 'a' in row 0 \(from 0\), and .* such as 3 in row 7; write"
        ):
            clone(estimator).fit(pd.DataFrame(X[:, :3], columns=["p", "q", "r"]), given)


def test_a_link_too_large_for_memory():
    with pytest.raises(ValueError, match="more memory than there is for n_classes=3; give smaller settings"):
        LegendreTronClassifier(link_params={"hidden": 10**12}, alpha=0.01, link_alpha=0.01).fit(X, y)
