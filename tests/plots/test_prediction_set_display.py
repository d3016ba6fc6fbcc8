"""Pictures of prediction sets."""

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression

from legendretron import MultinomialLogisticClassifier
from legendretron.plots import PredictionSetDisplay

X, Y = make_classification(900, 5, n_informative=5, n_redundant=0, n_classes=3, random_state=0)


def test_what_is_drawn_is_what_sets_hold():
    model = MultinomialLogisticClassifier(random_state=0).fit(X[:600], Y[:600])
    display = PredictionSetDisplay.from_estimator(model, X[600:], Y[600:], score="probability")
    place = int(np.flatnonzero(display.asked == 0.9)[0])
    sets = model.predict_set(X[600:], 0.9, score="probability")
    assert display.coverage[place] == sets[np.arange(300), Y[600:]].mean()
    assert display.size[place] == sets.sum(1).mean()
    np.testing.assert_array_equal(display.lines_["coverage"].get_ydata(), display.coverage)
    with pytest.raises(ValueError, match="labels that the model does not know"):
        PredictionSetDisplay.from_estimator(model, X, Y + 1)
    with pytest.raises(ValueError, match="how must be one of 'score'"):
        PredictionSetDisplay.from_estimator(model, X, Y, kind="lac")


def test_what_cannot_be_drawn():
    with pytest.raises(ValueError, match="estimator must have predict_set"):
        PredictionSetDisplay.from_estimator(LogisticRegression().fit(X, Y), X, Y)
    with pytest.raises(ValueError, match="asked, coverage and size must have one entry"):
        PredictionSetDisplay([0.9], [0.9, 0.8], [1.0])
