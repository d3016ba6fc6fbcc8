"""Bad data and parameters are refused, with a message that says why, and warnings for fits that went wrong."""

import re
import warnings
from functools import partial
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
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
from tests.given import GIVEN


def _with(value):
    bad = X.copy()
    bad[3, 1] = value
    return bad


@of_both_classes
@pytest.mark.parametrize(
    ("features", "labels", "weight", "message"),
    [
        (_with(np.inf), y, None, "infinity"),
        (X, np.zeros(150), None, "only one class"),
        (X, y + 0.5, None, "Unknown label type"),
        (X, [pd.Timestamp(2024, 1, 1 + label) for label in y], None, "Unknown label type"),
        (X, y, -np.ones(150), "Negative values"),
        (X, y, np.zeros(150), "(?i)sample.?weight"),
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


@of_both_classes
@pytest.mark.parametrize("index", [10**7, -(10**7)])
@pytest.mark.parametrize("kind", [scipy.sparse.csr_matrix, scipy.sparse.csc_array])
def test_sparse_matrices_with_indices_of_no_entry(estimator, index, kind):
    clf, bad = clone(estimator).set_params(standardize=False), kind(X)
    bad.indices[5] = index
    for ask in (clf.fit, clone(clf).fit(scipy.sparse.csr_array(X), y).predict_proba):
        with pytest.raises(ValueError, match=r"X is not a valid sparse matrix: .*Build it again"):
            ask(bad, *[y] * (ask == clf.fit))


class LazyFrame:
    """As that of polars, which is no dependency of the tests: it has columns and can be collected."""

    columns: ClassVar = ["a", "b"]

    def collect(self):
        return pd.DataFrame(X[:, :2], columns=self.columns)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda lazy, clf: clone(clf).fit(lazy, y), "X"),
        (lambda lazy, clf: clf.predict(lazy), "X"),
        (lambda lazy, clf: clone(clf).fit(X, lazy), "y"),
        (lambda lazy, clf: clone(clf).fit_stream((lazy, y)), "X"),
        (lambda lazy, clf: clone(clf).fit_stream([(lazy, y)]), "X"),
        (lambda lazy, clf: TableClassifier(clf).fit(lazy, y), "X"),
        (lambda lazy, clf: LegendreCalibrator().fit(lazy, y), "X"),
        (lambda lazy, clf: EvaluationReport(clf, lazy, y), "X"),
    ],
)
def test_a_lazy_frame_is_to_be_collected(call, name):
    fitted = MultinomialLogisticClassifier(alpha=1.0).fit(LazyFrame().collect(), y)
    with pytest.raises(ValueError, match=rf"{name} is a lazy frame, .*; give {name}\.collect\(\)"):
        call(LazyFrame(), fitted)


def _tables():
    n = len(y)
    yield pd.DataFrame({"age": X[:, 0], "city": ["Rome"] * n}), "column 'city' of X holds text, such as 'Rome'"
    yield pd.DataFrame({"age": pd.array([None, *range(1, n)], dtype="Int64")}), "column 'age' of X contains NaN, a gap"
    yield pd.DataFrame({"age": X[:, 0], "day": [pd.Timestamp("2024-05-31")] * n}), "column 'day' of X holds dates"
    months = pd.date_range("2024-05-31", periods=n).to_period("M")
    yield pd.DataFrame({"month": months}), "column 'month' of X holds dates"
    yield [[1.0, "Rome"]] * n, "column 1 of X holds text, such as 'Rome'"
    yield _with(np.nan), "column 1 of X contains NaN, a gap"


@of_both_classes
def test_text_dates_and_gaps_are_sent_to_the_classifier_of_tables(estimator):
    name = type(estimator).__name__
    fitted = clone(estimator).fit(X, y)
    way_out = re.escape(f", but {name} takes numbers only. TableClassifier({name}()) takes tables with text")
    for table, reason in _tables():
        with pytest.raises(ValueError, match=re.escape(reason) + way_out):
            clone(estimator).fit(table, y)
    with pytest.raises(ValueError, match=rf"column 1 of X contains NaN, a gap, but {name} takes numbers only"):
        fitted.predict(_with(np.nan))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"alpha": -1}, "'alpha' parameter .* Got -1"),
        ({"link": "probit"}, "link must be one of .* got 'probit'"),
        ({"link_alpha": -0.1}, "'link_alpha' parameter"),
        ({"link_params": {"hidden": 0}}, "hidden must be .* 0"),
        ({"link_params": {"depth": 1.5}}, "depth must be"),
        ({"solver": "sgd"}, "'solver' parameter"),
        ({"learning_rate": 0}, "'learning_rate' parameter"),
        ({"early_stopping": 1.5}, "'early_stopping' parameter"),
        ({"early_stopping": 0.001, **GIVEN}, "early_stopping cannot hold out a share of 0.001"),
        ({"early_stopping": 0.999, **GIVEN}, "early_stopping cannot hold out a share of 0.999"),
        ({"class_weight": {0: 1, 1: 1, 2: -1.0}}, "class_weight must contain finite, non-negative weights"),
        ({"class_weight": {0: 1, 1: 1, 2: float("inf")}}, "class_weight must contain finite, non-negative weights"),
        ({"class_weight": {0: 0, 1: 0, 2: 0}}, "leaves no sample with a positive weight"),
        ({"checkpoint": "x"}, "checkpoint needs random_state"),
        ({"dtype": "float16"}, "'dtype' parameter"),
        ({"device": "tpu"}, "device must be 'cpu', 'cuda', 'cuda:N' or 'auto', got 'tpu'"),
        pytest.param(
            {"device": "cuda"},
            "torch sees no CUDA device here, got 'cuda'",
            marks=pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device"),
        ),
        ({"link_params": {"hidden": 10**12}, **GIVEN}, "more memory than there is for n_classes=3"),
        ({"checkpoint": "x", "solver": "lbfgs"}, "checkpoint needs solver='adam'"),
    ],
)
def test_bad_parameters(parameters, message):
    with pytest.raises(ValueError, match=message):
        LegendreTronClassifier(**parameters).fit(X, y)


def test_warnings():
    with pytest.warns(ConvergenceWarning, match=r"has not converged in 3 iterations \(max_epochs=3\)"):
        MultinomialLogisticClassifier(alpha=1e-4, max_epochs=3).fit(X, y)
    with pytest.warns(ConvergenceWarning, match="scale the features"):
        MultinomialLogisticClassifier(alpha=1e-4, solver="lbfgs", standardize=False, max_epochs=200).fit(X * 1e9, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        MultinomialLogisticClassifier().fit(X, y)


LABELS = np.array(["a", "b", "c"], dtype=object)[y]


def labels_with(value, rows=(4, 7, 9, 11)):
    labels = LABELS.copy()
    labels[list(rows)] = value
    return labels


BAD_LABELS = {
    "None": labels_with(None), "NaN": labels_with(np.nan), "list of None": labels_with(None).tolist(),
    "list of NaN": labels_with(np.nan).tolist(), "NA": pd.Series(labels_with(pd.NA)),
    "category": pd.Series(labels_with(None), dtype="category"),
    "float": np.where(np.isin(np.arange(150), [4, 7, 9, 11]), np.nan, y),
    "mixed": labels_with(3, [7]), "mixed list": labels_with(3, [7]).tolist(), "mixed series": pd.Series(labels_with(3, [7])),
}  # fmt: skip
MISSING = (
    r"y contains NaN or None: 4 of 150 labels are missing, in rows 4, 7, 9, \.\.\. \(from 0\); leave those rows out"
)
MIXED = r"y holds text, such as 'a' in row 0 \(from 0\), and .* such as 3 in row 7; write"


@pytest.mark.parametrize("labels", BAD_LABELS)
@pytest.mark.parametrize("estimator", [
    LegendreTronClassifier(**FAST), MultinomialLogisticClassifier(), TableClassifier(), LegendreCalibrator(),
    LegendreCalibrator(MultinomialLogisticClassifier()), GLMTronClassifier(),
], ids=lambda estimator: type(estimator).__name__)  # fmt: skip
def test_missing_and_mixed_labels(estimator, labels):
    with pytest.raises(ValueError, match=MIXED if "mixed" in labels else MISSING):
        clone(estimator).fit(pd.DataFrame(X[:, :3], columns=["p", "q", "r"]), BAD_LABELS[labels])


def test_missing_labels_after_the_fit():
    clf = MultinomialLogisticClassifier(alpha=1e-3).fit(X, LABELS)
    calibrator = LegendreCalibrator(clf, strength=1.0).fit(X, LABELS)
    table = TableClassifier(MultinomialLogisticClassifier(alpha=1e-3)).fit(X, LABELS)
    methods = (clf.label_quality, clf.find_label_issues, clf.label_posterior, clf.score, table.score, calibrator.score)
    for method in (*methods, partial(EvaluationReport, clf), partial(clf.partial_fit, classes=["a", "b", "c"])):
        with pytest.raises(ValueError, match="4 of 150 labels are missing"):
            method(X, labels_with(pd.NA))
