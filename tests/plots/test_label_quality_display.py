"""The picture of suspicious labels."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.datasets import load_iris

from legendretron import MultinomialLogisticClassifier
from legendretron.plots import LabelQualityDisplay

QUALITY = np.array([0.9, 0.1, 0.7, 0.3, 1.0])


def curves(display):
    return {line.get_label(): line for line in display.ax_.lines}


def texts(display):
    return [text.get_text() for text in display.ax_.get_legend().get_texts()]


def test_rows_are_in_order_of_doubt():
    display = LabelQualityDisplay(QUALITY).plot()
    assert display.order_.tolist() == [1, 3, 2, 0, 4]
    assert display.n_suspicious_ == 2
    assert np.allclose(curves(display)["doubt"].get_ydata(), [0.9, 0.7, 0.3, 0.1, 0.0])
    assert texts(display) == ["doubt", "2 of 5 rows (40.0%) beyond 0.5"]
    assert not hasattr(display, "precision_")


def test_wrong_labels_are_marked():
    _, ax = plt.subplots()
    display = LabelQualityDisplay(QUALITY, 0.8, [False, True, False, True, True]).plot(ax)
    assert display.ax_ is ax
    assert (display.n_suspicious_, display.precision_) == (3, 2 / 3)
    assert texts(display)[2:] == [
        "precision of the first rows (of those rows: 67%)",
        "wrong labels: 2 of 3 among those rows",
    ]
    marked = curves(display)["wrong labels: 2 of 3 among those rows"]
    assert marked.get_xdata().tolist() == [1, 2, 5]
    precision = curves(display)["precision of the first rows (of those rows: 67%)"]
    assert np.allclose(precision.get_ydata(), [1, 1, 2 / 3, 1 / 2, 3 / 5])


def test_nothing_is_suspicious():
    display = LabelQualityDisplay(QUALITY, 0.0, np.zeros(5, dtype=bool)).plot()
    assert display.n_suspicious_ == 0
    assert np.isnan(display.precision_)
    assert texts(display)[2:] == ["precision of the first rows", "wrong labels: 0 of 0 among those rows"]
    display.figure_.canvas.draw()


def test_from_an_estimator():
    X, y = load_iris(return_X_y=True)
    rng = np.random.default_rng(0)
    wrong = rng.random(150) < 0.15
    y = np.where(wrong, (y + rng.integers(1, 3, 150)) % 3, y)
    clf = MultinomialLogisticClassifier(alpha=1e-3, label_noise=0.15).fit(X, y)
    display = LabelQualityDisplay.from_estimator(clf, X, y, wrong=wrong)
    assert np.array_equal(display.quality, clf.label_quality(X, y, cv=5))
    assert display.n_suspicious_ == len(clf.find_label_issues(X, y))
    assert display.precision_ > 0.8
    itself = LabelQualityDisplay.from_estimator(clf, X, y, cv=None, threshold=0.1)
    assert np.array_equal(itself.quality, clf.label_quality(X, y, cv=None))
    assert itself.threshold == 0.1


@pytest.mark.parametrize(("settings", "message"), [
    ({"quality": []}, "quality must contain one probability per row, got shape"),
    ({"quality": [[0.1]]}, "quality must contain one probability per row, got shape"),
    ({"quality": [0.1, np.nan]}, "quality must contain probabilities"),
    ({"quality": [0.1], "threshold": 2.0}, "threshold must be a probability, from 0 to 1, got 2.0"),
    ({"quality": [0.1], "wrong": [True, False]}, "wrong must contain True or False for each of 1 rows"),
    ({"quality": [0.1], "wrong": [1]}, "wrong must contain True or False for each of 1 rows, got int"),
])  # fmt: skip
def test_bad_input(settings, message):
    with pytest.raises(ValueError, match=message):
        LabelQualityDisplay(**settings)
