"""Plots show what was computed."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.datasets import load_iris

from legendretron import LegendreTronClassifier
from legendretron.diagnostics import calibration_curve, expected_calibration_error
from legendretron.plots import LinkDisplay, ReliabilityDisplay, TrainingDisplay
from legendretron.trons import ISGPLinkgisticClassifier, SlIsotronClassifier


@pytest.fixture(scope="module")
def fitted():
    X, y = load_iris(return_X_y=True)
    clf = LegendreTronClassifier(early_stopping=True, max_epochs=20, random_state=0).fit(X, y)
    return clf, clf.predict_proba(X), y


def test_reliability_diagram(fitted):
    _, p, y = fitted
    display = ReliabilityDisplay.from_predictions(y, {"a": p, "b": np.full_like(p, 1 / 3)})
    labels = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert any(label.startswith("a (error of 10 bins ") for label in labels)
    assert len(display.figure_.axes) == 2
    _, ax = plt.subplots()
    assert ReliabilityDisplay.from_predictions(y, {"a": p}, kind="all", ax=ax).ax_ is ax
    assert ax.get_xlabel() == "predicted probability of any class"


def test_training_picture(fitted):
    clf, _, _ = fitted
    display = TrainingDisplay({"a": clf.history_}).plot()
    lines = {line.get_label(): line for line in display.ax_.lines}
    assert np.allclose(lines["a, training"].get_ydata(), clf.history_["train_loss"])
    assert np.allclose(lines["a, validation"].get_ydata(), clf.history_["validation_loss"])


def test_no_model_is_left_out(fitted):
    clf, p, y = fitted
    names = [f"model {number}" for number in range(9)]
    reliability = ReliabilityDisplay.from_predictions(y, dict.fromkeys(names, p))
    training = TrainingDisplay(dict.fromkeys(names, clf.history_)).plot()
    for display, extra in ((reliability, 1), (training, 9)):  # the diagonal; curves of validation
        texts = [text.get_text() for text in display.ax_.get_legend().get_texts()]
        assert len(texts) == 9 + extra
        assert all(any(text.startswith(name) for text in texts) for name in names)
        display.figure_.canvas.draw()
        # a legend so long is beside the curves, and within the picture
        legend, axes = (part.get_window_extent() for part in (display.ax_.get_legend(), display.ax_))
        assert legend.x0 >= axes.x1
        assert legend.x1 <= display.figure_.bbox.x1
        assert axes.width > 0.4 * display.figure_.bbox.width  # which is wider for it
    looks = [(bar.lines[0].get_color(), bar.lines[0].get_marker()) for bar in reliability.ax_.containers]
    assert len(set(looks)) == 9


def test_calibration_of_honest_and_of_boastful_predictions():
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(3), 50_000)
    y = (p.cumsum(1) < rng.random((50_000, 1))).sum(1)
    for kind in ("top", "all"):
        assert expected_calibration_error(y, p, kind=kind) < 0.01
        sharp = p**3 / (p**3).sum(1, keepdims=True)
        assert expected_calibration_error(y, sharp, kind=kind) > 0.1
    curve = calibration_curve(y, p, n_bins=7)
    assert curve.count.sum() == 50_000
    assert len(curve.edges) == 8


def test_calibration_errors():
    p = np.full((4, 2), 0.5)
    with pytest.raises(ValueError, match=r"p must have shape \(n, C\)"):
        calibration_curve([0], [0.5])
    with pytest.raises(ValueError, match="y must hold 4 labels from 0 to 1"):
        calibration_curve([0, 1, 2, 0], p)
    with pytest.raises(ValueError, match="p must hold probabilities"):
        calibration_curve([0, 1, 1, 0], 2 * p)
    with pytest.raises(ValueError, match="n_bins must be an integer of at least 1, got 0"):
        calibration_curve([0, 1, 1, 0], p, n_bins=0)
    with pytest.raises(ValueError, match="kind must be one of 'top', 'all', 'classwise', got 'each'"):
        calibration_curve([0, 1, 1, 0], p, kind="each")


def test_link_picture_has_curves_and_a_band():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    y = (X[:, 0] + 0.5 * rng.normal(size=400) > 0).astype(int)
    models = {
        "ISGP": ISGPLinkgisticClassifier(max_iter=3, random_state=0).fit(X, y),
        "SlIsotron": SlIsotronClassifier(max_iter=10).fit(X, y),
    }
    z = np.linspace(-3, 3, 50)
    display = LinkDisplay.from_estimator(models, z=z, unit="own")
    lines = {line.get_label(): line for line in display.ax_.lines}
    assert np.allclose(lines["SlIsotron"].get_ydata(), models["SlIsotron"].inverse_link(z))
    low, high = display.bands["ISGP"]
    assert ((low <= lines["ISGP"].get_ydata()) & (lines["ISGP"].get_ydata() <= high)).all()
    assert "SlIsotron" not in display.bands
    assert len(display.ax_.collections) == 1


def test_link_picture_draws_every_curve_apart():
    z = np.linspace(-1, 1, 5)
    display = LinkDisplay(z, {str(k): (z + k + 1) / 20 for k in range(16)}).plot()
    looks = [(line.get_color(), line.get_linestyle()) for line in display.ax_.lines]
    assert len(set(looks)) == 16
    assert display.ax_.get_title() == "Learned inverse links"
    assert display.ax_.get_ylabel() == "probability of the second class"
