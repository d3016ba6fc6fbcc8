"""The probability that a label is right: whether it is one, on labels that were made wrong."""

import functools

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.metrics import average_precision_score

from legendretron import LegendreTronClassifier, MultinomialLogisticClassifier
from legendretron.datasets import symmetric_noise


def overlapping():
    """Two classes that even the true probabilities do not always tell apart."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 5))
    return X, (rng.random(400) < 1 / (1 + np.exp(-2 * X @ [2.0, -1.5, 1.0, 0.0, 0.0]))).astype(int)


TABLES = {
    "overlapping": overlapping,
    "wine": lambda: load_wine(return_X_y=True),
    "breast cancer": lambda: load_breast_cancer(return_X_y=True),
    "iris": lambda: load_iris(return_X_y=True),
}
QUICK = ["overlapping", "wine", "breast cancer"], (0.15, 0.3), "logistic"
LEARNED = ["overlapping", "wine", "iris"], (0.05, 0.1, 0.2, 0.3), "learned"


@functools.cache
def judged(name, share, kind):
    """Qualities of labels of which a share was made wrong, and whether each is right."""
    X, y = TABLES[name]()
    noisy = symmetric_noise(y, share, n_classes=len(np.unique(y)), random_state=0)
    logistic = MultinomialLogisticClassifier(label_noise="symmetric", random_state=0)
    clf = logistic if kind == "logistic" else LegendreTronClassifier(random_state=0)
    return clf.fit(X, noisy).label_quality(X, noisy), noisy == y


def pooled(names, shares, kind="logistic"):
    return map(np.concatenate, zip(*(judged(name, share, kind) for name in names for share in shares), strict=True))


@pytest.mark.parametrize("case", [QUICK, pytest.param(LEARNED, marks=pytest.mark.exhaustive)])
def test_quality_is_the_probability_that_a_label_is_right(case):
    quality, right = pooled(*case)
    for low, high in [(0.0, 1.0), (0.0, 0.5), (0.0, 0.1), (0.9, 1.0)]:
        own = (low <= quality) & (quality <= high)
        share = right[own].mean()
        error = np.sqrt(share * (1 - share) / own.sum())
        assert quality[own].mean() == pytest.approx(share, abs=0.05 + 2.5 * error), (low, high, own.sum())


def test_suspicious_rows_are_in_a_useful_order():
    names, shares, kind = QUICK
    for name in names:
        for share in shares:
            quality, right = judged(name, share, kind)
            suspicious = quality[quality < 0.5]
            assert len(np.unique(suspicious)) > 0.95 * len(suspicious)
            first = np.argsort(quality)[: len(suspicious) // 2]
            assert right[first].mean() < 0.1
    quality, right = pooled(*QUICK)
    assert average_precision_score(~right, 1 - quality) > 0.955  # 0.95 with a floor under the probabilities
    assert (quality < 0.5)[~right].mean() > 0.9
    assert right[quality < 0.5].mean() < 0.15
