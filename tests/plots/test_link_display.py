"""Learned inverse links of two classes."""

import numpy as np
import pytest
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from legendretron import LegendreTronClassifier, MultinomialLogisticClassifier
from legendretron.plots import LinkDisplay, ReliabilityDisplay, TrainingDisplay
from legendretron.trons import ISGPLinkgisticClassifier, SlIsotronClassifier


def test_the_curve_gives_the_predicted_probabilities(two):
    X, _, clf = two
    display = LinkDisplay.from_estimator(clf, X, unit="own", name="learned")
    z = clf.linear_predictor(X)[:, 0]
    order = np.argsort(z)
    p = clf.predict_proba(X)[order, 1]
    assert np.allclose(np.interp(z[order], *display.line_.get_data()), p, atol=1e-3)
    assert display.ax_.get_ylabel() == "probability of rain"
    (ticks,) = (line for line in display.ax_.lines if line.get_marker() == "|")
    assert np.allclose(ticks.get_xdata(), z)


def test_in_the_unit_of_the_sigmoid_curves_differ_in_shape_only(two):
    X, y, clf = two
    models = {
        "learned": clf,
        "logistic": make_pipeline(StandardScaler(), MultinomialLogisticClassifier(alpha=1e-3)).fit(X, y),
        "ISGP": ISGPLinkgisticClassifier(max_iter=3, random_state=0).fit(X, y),
        "SlIsotron": SlIsotronClassifier(max_iter=10).fit(X, y),
    }
    display = LinkDisplay.from_estimator(models, X)
    for line in display.line_:
        z = np.interp([0.25, 0.75], line.get_ydata(), line.get_xdata())
        assert np.allclose(expit(z), [0.25, 0.75], atol=1e-3)
    assert np.allclose(display.lines_["logistic"].get_ydata(), expit(display.z), atol=1e-6)
    assert np.abs(display.lines_["learned"].get_ydata() - expit(display.z)).max() > 0.01
    assert list(display.bands) == ["ISGP"]
    assert len(display.ax_.collections) == 1
    low, high = display.bands["ISGP"]
    assert ((low <= display.curves["ISGP"]) & (display.curves["ISGP"] <= high)).all()
    assert display.ax_.get_legend().get_texts()[0].get_text() == "sigmoid"


def test_without_data(two):
    clf = two[2]
    display = LinkDisplay.from_estimator(clf)
    assert display.z[[0, -1]].tolist() == [-7.0, 7.0]
    assert (np.diff(display.line_.get_ydata()) > 0).all()


def test_bad_input(two, three):
    X, y, clf = two
    with pytest.raises(ValueError, match="two classes, but 'LegendreTronClassifier' has 3; ProbabilityMapDisplay"):
        LinkDisplay.from_estimator(three[2])
    with pytest.raises(ValueError, match="must have a link"):
        LinkDisplay.from_estimator(LogisticRegression().fit(X, y))
    with pytest.raises(ValueError, match="z or X must be given with unit='own'"):
        LinkDisplay.from_estimator(clf, unit="own")
    with pytest.raises(ValueError, match="unit must be one of"):
        LinkDisplay.from_estimator(clf, unit="metre")
    with pytest.raises(ValueError, match="level must be a number strictly between 0 and 1"):
        LinkDisplay.from_estimator(clf, level=0.0)
    with pytest.raises(ValueError, match=r"the curve of 'a' must have shape \(2,\)"):
        LinkDisplay([0.0, 1.0], {"a": np.zeros(3)})
    with pytest.raises(ValueError, match="z must contain finite predictors"):
        LinkDisplay([0.0, np.nan], {"a": np.zeros(2)})

    class Flat(ClassifierMixin, BaseEstimator):
        def fit(self, X, y):
            self.classes_ = np.unique(y)
            return self

        def inverse_link(self, z):
            return np.full(np.shape(z), 0.6)

    with pytest.raises(ValueError, match="does not rise from a probability of 1/4 to 3/4"):
        LinkDisplay.from_estimator(Flat().fit(X, y))


# --- plots show what was computed ---


@pytest.fixture(scope="module")
def fitted():
    X, y = load_iris(return_X_y=True)
    clf = LegendreTronClassifier(early_stopping=True, max_epochs=20, random_state=0).fit(X, y)
    return clf, clf.predict_proba(X), y


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
