"""Learning curves of fitted estimators."""

import math

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from legendretron import LegendreTronClassifier, MultinomialLogisticClassifier
from legendretron.plots import TrainingDisplay, TuningDisplay
from legendretron.plots.chart import Chart, Line
from legendretron.training import History
from legendretron.tuning.table import COLUMNS


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


def test_of_several_runs_the_mean_is_drawn():
    history = History()
    for epoch in (1, 2):
        history.append(epoch, [1.0 / epoch, 0.5 / epoch], [0.9, 0.8 / epoch], [0.5, 0.5], [0.1, 0.1], float(epoch))
    display = TrainingDisplay({"a": history}).plot()
    np.testing.assert_allclose(display.line_.get_ydata(), [0.75, 0.375])
    np.testing.assert_allclose(display.validation_lines_["a"].get_ydata(), [0.85, 0.65])


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
    with pytest.raises(ValueError, match="tuning must be the data frame tuning_ of a fitted estimator, got list"):
        TuningDisplay([1])


# --- the picture of the strengths that were tried ---


def table(*rows):
    """Candidates: alpha, link_alpha, steps, log_loss, difference, and whether it was chosen."""
    names = ["alpha", "link_alpha", "steps", "log_loss", "difference", "chosen"]
    frame = pd.DataFrame(rows, columns=names).assign(standard_error=0.1, difference_error=0.02, label_noise=0.0)
    frame["held_out_rows"] = np.where(frame["steps"] == 100, 40, 100)
    frame["model"] = np.where(np.isinf(frame["link_alpha"]), "logistic regression", "learned link")
    return frame[list(COLUMNS)]


SEARCH = table(
    (0.1, 1e-4, 400.0, 0.40, -0.1, True),
    (0.01, math.inf, math.nan, 0.50, 0.0, False),
    (0.001, math.inf, math.nan, 0.55, 0.05, False),
    (0.1, 1e-4, 100.0, 0.30, -0.05, False),
    (1.0, 1e-4, 100.0, 0.35, 0.0, False),
    (1.0, 1e-2, 100.0, math.inf, math.inf, False),
    (0.1, 1e-2, 100.0, 0.37, 0.02, False),
)


def curves(display):
    return {bars.get_label(): bars.lines[0] for bars in display.ax_.containers}


def test_curves_are_relative_to_logistic_regression():
    """Candidates of some folds only stand where they would on all of them; those that diverged are left out."""
    display = TuningDisplay(SEARCH).plot()
    drawn = {name: np.column_stack(line.get_data()).tolist() for name, line in curves(display).items()}
    assert set(drawn) == {
        "logistic regression",
        "learned link, link_alpha 0.0001",
        "link_alpha 0.0001, after 100 of 400 steps",
        "link_alpha 0.01, after 100 of 400 steps",
    }
    assert np.allclose(drawn["logistic regression"], [[0.001, 0.55], [0.01, 0.5]])
    assert np.allclose(drawn["learned link, link_alpha 0.0001"], [[0.1, 0.4]])
    assert np.allclose(drawn["link_alpha 0.0001, after 100 of 400 steps"], [[0.1, 0.45], [1.0, 0.5]])
    assert np.allclose(drawn["link_alpha 0.01, after 100 of 400 steps"], [[0.1, 0.52]])
    opacity = {name: line.get_alpha() for name, line in curves(display).items()}
    name = "link_alpha 0.0001"
    assert opacity[f"{name}, after 100 of 400 steps"] < opacity[f"learned link, {name}"] == 1.0
    (ring,) = (line for line in display.ax_.lines if line.get_label() == "chosen")
    assert np.allclose(ring.get_data(), [[0.1], [0.4]])
    assert display.ax_.get_xscale() == "log"
    assert "difference" in display.ax_.get_title()
    assert display.ax_.get_legend().get_texts()[-1].get_text() == "chosen"


def test_bars_go_from_the_low_to_the_high_end():
    x, y = np.array([1.0, 2.0]), np.array([0.5, 0.6])
    _, ax = plt.subplots()
    Chart("x", "y", [Line(x, y, "a", 0, marker="o", low=y - 0.1, high=y + 0.3)]).draw(ax)
    (bars,) = ax.containers[0].lines[2]
    np.testing.assert_allclose([[*end[:, 1]] for end in bars.get_segments()], [[0.4, 0.8], [0.5, 0.9]])


def test_everything_is_within_the_picture():
    display = TuningDisplay(SEARCH).plot()
    display.figure_.canvas.draw()
    legend, axes = (part.get_window_extent() for part in (display.ax_.get_legend(), display.ax_))
    whole = display.figure_.bbox
    assert legend.y1 <= axes.y0
    assert whole.x0 <= legend.x0 <= legend.x1 <= whole.x1
    assert whole.y0 <= legend.y0


def test_a_strength_of_zero_has_a_place():
    free = SEARCH.assign(alpha=0.0)
    display = TuningDisplay(free).plot()
    display.figure_.canvas.draw()
    assert display.ax_.get_xscale() == "symlog"


@pytest.mark.parametrize("estimator", [LegendreTronClassifier(max_epochs=40), MultinomialLogisticClassifier()])
def test_of_a_fitted_estimator(estimator):
    X, y = load_iris(return_X_y=True)
    _, ax = plt.subplots()
    clf = clone(estimator).set_params(random_state=0).fit(X, y)
    display = TuningDisplay.from_estimator(clf, ax=ax)
    assert display.ax_ is ax
    assert display.figure_ is ax.figure
    (ring,) = (line for line in ax.lines if line.get_label() == "chosen")
    assert ring.get_xdata().tolist() == [clf.alpha_]
    assert np.allclose(ring.get_ydata(), clf.tuning_["log_loss"][0])


def test_nothing_was_tried():
    X, y = load_iris(return_X_y=True)
    clf = MultinomialLogisticClassifier(alpha=0.01).fit(X, y)
    with pytest.raises(AttributeError, match="no tuning_: its penalties were given"):
        TuningDisplay.from_estimator(clf)
    with pytest.raises(ValueError, match="too few rows to hold any out; fit to more rows, or give alpha"):
        TuningDisplay(SEARCH[:0])


def test_logistic_regression_on_all_folds_stands_for_that_on_one():
    """Where logistic regression was chosen on large data, some strengths were tried on one fold, then on all."""
    frame = table(
        (0.1, math.inf, math.nan, 0.50, 0.0, True),
        (0.1, math.inf, math.nan, 0.30, 0.0, False),
        (0.01, math.inf, math.nan, 0.40, 0.1, False),
    )
    frame["held_out_rows"] = [100, 20, 20]
    curve = curves(TuningDisplay(frame).plot())["logistic regression"]
    np.testing.assert_allclose(np.asarray(curve.get_xdata(), dtype=float), [0.01, 0.1])
    np.testing.assert_allclose(np.asarray(curve.get_ydata(), dtype=float), [0.6, 0.5])
