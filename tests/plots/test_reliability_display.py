"""Reliability diagrams of one and of several models, for labels of any kind."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from legendretron.diagnostics import calibration_curve, smooth_calibration_curve
from legendretron.plots import ClasswiseReliabilityDisplay, ReliabilityDisplay
from legendretron.plots.models import as_columns

RNG = np.random.default_rng(0)
P = RNG.dirichlet([1, 1, 1], 2000)
COLUMNS = (P.cumsum(1) < RNG.random((2000, 1))).sum(1)
NAMES = np.array(["cat", "dog", "eel"])
Y = NAMES[COLUMNS]
BOLD = P**3 / (P**3).sum(1, keepdims=True)


@pytest.mark.parametrize("kind", ["top", "all"])
def test_binned_curves(kind):
    display = ReliabilityDisplay.from_predictions(Y, {"honest": P, "bold": BOLD}, kind=kind, n_bins=7)
    for name, p in {"honest": P, "bold": BOLD}.items():
        curve = calibration_curve(COLUMNS, p, n_bins=7, kind=kind)
        filled = curve.count > 0
        assert np.allclose(display.lines_[name].get_ydata(), curve.frequency[filled])
        assert np.allclose(display.lines_[name].get_xdata(), curve.confidence[filled], atol=0.01)
        (bars,) = (line for line in display.chart().lines if line.name == name)
        assert np.allclose(bars.low, curve.frequency[filled] - 2 * curve.standard_error[filled])
        assert np.allclose(bars.high, curve.frequency[filled] + 2 * curve.standard_error[filled])
    assert display.line_ == list(display.lines_.values())


def test_smooth_curves_have_bands():
    display = ReliabilityDisplay.from_predictions(Y, {"honest": P, "bold": BOLD}, strategy="smooth", n_bootstrap=50)
    below = display.figure_.axes[1]
    for number, (name, p) in enumerate({"honest": P, "bold": BOLD}.items()):
        curve = smooth_calibration_curve(COLUMNS, p, n_bootstrap=50)
        line = display.lines_[name]
        assert np.allclose(line.get_ydata(), curve.frequency, equal_nan=True)
        band = display.ax_.collections[number].get_paths()[0].vertices
        shown = np.isfinite(curve.low)
        assert np.isclose(band[:, 1].min(), curve.low[shown].min())
        assert np.isclose(band[:, 1].max(), curve.high[shown].max())
        assert below.patches[number].get_data().values.sum() == 2000
        assert f"{name} (calibration error {curve.error:.3f})" == line.get_label()
    without = ReliabilityDisplay.from_predictions(Y, P, strategy="smooth", n_bootstrap=0, name="honest")
    assert len(without.ax_.collections) == 0
    assert list(without.lines_) == ["honest"]


@pytest.mark.parametrize(
    "labels", [Y, Y.astype(object), pd.Series(Y), pd.Categorical(Y), COLUMNS, COLUMNS + 5, COLUMNS * 0.5]
)
def test_labels_of_any_kind(labels):
    display = ReliabilityDisplay.from_predictions(labels, P)
    assert np.allclose(display.line_.get_ydata(), calibration_curve(COLUMNS, P, n_bins=10).frequency[3:])


def test_columns_in_another_order():
    display = ReliabilityDisplay.from_predictions(Y, P[:, ::-1], classes=NAMES[::-1])
    assert np.allclose(display.line_.get_ydata(), calibration_curve(COLUMNS, P, n_bins=10).frequency[3:])


def test_one_column_is_the_second_of_two_classes():
    y, p = np.where(COLUMNS == 1, "yes", "no"), P[:, 1]
    display = ReliabilityDisplay.from_predictions(y, p, kind="classwise")
    curve = calibration_curve((y == "yes").astype(int), np.stack([1 - p, p], 1), n_bins=10, kind="classwise", column=1)
    assert np.allclose(display.line_.get_ydata(), curve.frequency[curve.count > 0])
    assert display.ax_.get_xlabel() == ""  # below the histogram
    assert display.figure_.axes[1].get_xlabel() == "predicted probability of yes"
    assert ReliabilityDisplay.from_predictions(y == "yes", p).curves.keys() == {"model"}


def test_classwise_has_a_panel_for_each_class_with_all_models():
    display = ClasswiseReliabilityDisplay.from_predictions(Y, {"honest": P, "bold": BOLD}, n_bins=5)
    assert [panel.get_title() for panel in display.axes_] == list(NAMES)
    for k, label in enumerate(NAMES):
        curve = calibration_curve(COLUMNS, BOLD, n_bins=5, kind="classwise", column=k)
        assert np.allclose(display.lines_[label]["bold"].get_ydata(), curve.frequency)
        single = ReliabilityDisplay.from_predictions(Y, {"bold": BOLD}, kind="classwise", label=label, n_bins=5)
        assert np.allclose(single.line_.get_ydata(), curve.frequency)
    _, axes = plt.subplots(1, 2)
    some = ClasswiseReliabilityDisplay.from_predictions(Y, P, labels=["eel", "cat"], strategy="smooth", ax=axes)
    assert list(some.axes_) == list(axes)
    assert list(some.lines_) == ["eel", "cat"]


def test_from_estimators(three):
    X, y, composite, _ = three
    models = [composite, GaussianNB().fit(X, y), make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y)]
    display = ReliabilityDisplay.from_estimator(models, X, y)
    assert list(display.lines_) == ["LegendreTronClassifier", "GaussianNB", "LogisticRegression"]
    columns = np.searchsorted(composite.classes_, y)
    for name, model in zip(display.lines_, models, strict=True):
        curve = calibration_curve(columns, model.predict_proba(X), n_bins=10)
        assert np.allclose(display.lines_[name].get_ydata(), curve.frequency[curve.count > 0])
    # labels of a part of the classes are still those of the estimator
    part = y != "versicolor"
    some = ReliabilityDisplay.from_estimator(composite, X[part], y[part], name="part")
    curve = calibration_curve(columns[part], composite.predict_proba(X[part]), n_bins=10)
    assert np.allclose(some.lines_["part"].get_ydata(), curve.frequency[curve.count > 0])
    panels = ClasswiseReliabilityDisplay.from_estimator({"a": composite}, X, y)
    assert list(panels.lines_) == list(composite.classes_)


@pytest.mark.parametrize(("change", "message"), [
    ({"y": Y[:5]}, r"predictions of 'model' must have shape \(5, 3\), a row for each label.* got \(2000, 3\)"),
    ({"y": np.append(Y[:-1], "fox")}, "y holds 4 classes .*predictions have 3 columns; name the classes"),
    ({"y": Y, "classes": ["cat", "dog", "fox"]}, "y holds the label 'eel', which is not among the classes"),
    ({"y": np.append(Y[:-1], "zebra"), "classes": NAMES}, "y holds the label 'zebra', which is not among the classes"),
    ({"y": Y, "classes": ["cat", "dog"]}, "classes must name 3 different classes"),
    ({"y": Y[:, None]}, "y must contain one label for each row"),
    ({"predictions": {}}, "predictions must contain at least one model"),
    ({"predictions": 2 * P}, "p must contain probabilities"),
    ({"predictions": {"a": P, "b": P[:, :2]}}, r"predictions of 'b' must have shape \(2000, 3\)"),
    ({"predictions": {"a": P.astype(str)}}, "predictions of 'a' must be numbers"),
    ({"predictions": {"a": P[:, :1]}}, r"predictions of 'a' must have shape \(n, C\)"),
    ({"predictions": {"a": P}, "name": "b"}, "name is for a single model"),
    ({"kind": "each"}, "kind must be one of"),
    ({"label": "cat"}, "label is for kind='classwise'"),
    ({"kind": "classwise"}, "label must name a class"),
    ({"kind": "classwise", "label": "fox"}, r"label must be one of the classes \['cat', 'dog', 'eel'\], got 'fox'"),
    ({"strategy": "splines"}, "strategy must be one of 'binned', 'smooth', got 'splines'"),
    ({"strategy": "smooth", "bandwidth": 2.0}, "bandwidth must be 'auto' or a number strictly between 0 and 1, got 2.0"),
    ({"strategy": "smooth", "level": 1.0}, "level must be a number strictly between 0 and 1"),
    ({"strategy": "smooth", "n_bootstrap": -1}, "n_bootstrap must be an integer of at least 0"),
    ({"n_bins": 0}, "n_bins must be an integer of at least 1"),
])  # fmt: skip
def test_bad_input(change, message):
    with pytest.raises(ValueError, match=message):
        ReliabilityDisplay.from_predictions(**{"y": Y, "predictions": P, **change})


def test_bad_estimators_and_curves(three):
    X, y, composite, _ = three
    other = GaussianNB().fit(X, y == "setosa")
    with pytest.raises(ValueError, match="estimators must have the same classes"):
        ReliabilityDisplay.from_estimator([composite, other], X, y)
    with pytest.raises(ValueError, match="'StandardScaler' must be a classifier with predict_proba"):
        ReliabilityDisplay.from_estimator(StandardScaler().fit(X), X, y)
    with pytest.raises(ValueError, match="the curve of 'a' must come from calibration_curve"):
        ReliabilityDisplay({"a": 3})
    with pytest.raises(ValueError, match="ax must contain 3 axes"):
        ClasswiseReliabilityDisplay.from_estimator(composite, X, y, ax=plt.subplots()[1])
    with pytest.raises(ValueError, match="at least one class"):
        ClasswiseReliabilityDisplay.from_estimator(composite, X, y, labels=[])


def test_integers_that_may_count_from_one_need_names():
    p = np.full((4, 3), 1 / 3)
    for y in ([1, 2, 1, 2], [1, 3, 1, 3], [2, 3, 2, 3]):
        with pytest.raises(ValueError, match=r"y holds 2 classes .* by classes="):
            ReliabilityDisplay.from_predictions(np.array(y), p)
        ReliabilityDisplay.from_predictions(np.array(y), p, classes=[1, 2, 3])
    columns, classes = as_columns(np.array([0, 2, 0, 2]), 3)
    assert columns.tolist() == [0, 2, 0, 2]
    assert classes.tolist() == [0, 1, 2]


def test_errors_of_arguments_name_them():
    y, p = np.array([0, 1, 0, 1]), np.full((4, 2), 0.5)
    with pytest.raises(ValueError, match=r"n_bins is for strategy='binned', got n_bins=5 with strategy='smooth'"):
        ReliabilityDisplay.from_predictions(y, p, strategy="smooth", n_bins=5)
    with pytest.raises(ValueError, match="level is for strategy='smooth'"):
        ClasswiseReliabilityDisplay.from_predictions(y, p, level=0.5)
    with pytest.raises(TypeError, match=r"ReliabilityDisplay.* no argument 'bins'; .*n_bins"):
        ReliabilityDisplay.from_predictions(y, p, bins=5)
    for make, ax in ((ReliabilityDisplay, 3), (ClasswiseReliabilityDisplay, [3, 4])):
        with pytest.raises(ValueError, match=r"ax must be matplotlib axes.*got int: 3"):
            make.from_predictions(y, p, ax=ax)
