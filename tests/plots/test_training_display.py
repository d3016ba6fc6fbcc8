"""Learning curves of fitted estimators."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from legendretron import LegendreTronClassifier, MultinomialLogisticClassifier
from legendretron.plots import TrainingDisplay, TuningDisplay
from legendretron.training import History


def test_from_estimators(two):
    X, y, clf = two
    stopped = LegendreTronClassifier(
        alpha=1e-3, link_alpha=1e-3, solver="adam", max_epochs=20, early_stopping=True, random_state=0
    )
    _, ax = plt.subplots()
    models = {"a": clf, "b": make_pipeline(StandardScaler(), stopped).fit(X, y)}
    display = TrainingDisplay.from_estimator(models, ax=ax)
    assert display.ax_ is ax
    history = models["b"][-1].history_
    assert np.allclose(display.lines_["a"].get_ydata(), clf.history_["train_loss"])
    assert np.allclose(display.lines_["b"].get_ydata(), history["train_loss"])
    assert list(display.validation_lines_) == ["b"]
    assert np.allclose(display.validation_lines_["b"].get_ydata(), history["validation_loss"])


def test_one_entry_is_a_point(two):
    X, y, _ = two
    logistic = MultinomialLogisticClassifier(alpha=1e-3).fit(X, y)
    display = TrainingDisplay.from_estimator(logistic)
    assert len(display.line_.get_xdata()) == 1
    assert display.line_.get_marker() == "o"


def test_bad_input(two):
    X, y, _ = two
    with pytest.raises(ValueError, match="'LogisticRegression' must have a history_"):
        TrainingDisplay.from_estimator(LogisticRegression().fit(X, y))
    with pytest.raises(ValueError, match="the history of 'a' must be a History, got list"):
        TrainingDisplay({"a": [1.0]})
    with pytest.raises(ValueError, match="the history of 'a' is empty"):
        TrainingDisplay({"a": History()})
    with pytest.raises(ValueError, match="histories must hold at least one model"):
        TrainingDisplay({}).plot()
    with pytest.raises(ValueError, match="tuning must be the data frame tuning_ of a fitted estimator, got list"):
        TuningDisplay([1])
