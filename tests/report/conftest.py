"""Small data with three classes, and reports on it that several tests look at."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import make_classification

from legendretron import LegendreTronClassifier

#: Fewer draws and folds than users get, for speed.
QUICK = {
    "diagnostics.intervals.DRAWS": 200,
    "diagnostics.decomposition._FOLDS": 2,
    "report.measured._CHANCES": 40,
    "report.sections.calibration._DRAWS": 20,
    "report.sections.calibration._CLASS_DRAWS": 5,
}
NAMES = np.array(["<script>alert('x')</script>", 'b & "c"', "d"])


def make_data(n=240, n_classes=3, seed=3):
    shape = {"n_samples": n, "n_features": 5, "n_informative": 5, "n_redundant": 0, "n_clusters_per_class": 1}
    X, y = make_classification(**shape, n_classes=n_classes, flip_y=0.05, random_state=seed)
    return X, NAMES[y]


class Given(ClassifierMixin, BaseEstimator):
    """A classifier whose features are log-probabilities, or anything that softmax makes such."""

    def __init__(self, classes=(0, 1), power=1.0):
        self.classes, self.power = classes, power

    def fit(self, X, y=None):
        return self

    @property
    def classes_(self):
        return np.asarray(self.classes)

    def predict_proba(self, X):
        p = np.exp(self.power * (X - X.max(1, keepdims=True)))
        return p / p.sum(1, keepdims=True)

    def __sklearn_is_fitted__(self):
        return True


def draw_labels(n=600, n_classes=3, seed=0, spread=1.5):
    """Log-probabilities, and labels drawn from them."""
    rng = np.random.default_rng(seed)
    log_p = spread * rng.normal(size=(n, n_classes))
    log_p -= np.log(np.exp(log_p).sum(1, keepdims=True))
    y = (np.exp(log_p).cumsum(1) < rng.random((n, 1))).sum(1).clip(max=n_classes - 1)
    return log_p, y


@pytest.fixture(scope="module")
def quick():
    with pytest.MonkeyPatch.context() as patch:
        for name, value in QUICK.items():
            patch.setattr(f"legendretron.{name}", value)
        yield


@pytest.fixture(scope="session")
def fitted():
    """A canonical link fitted to half of the data, and the other half."""
    X, y = make_data()
    settings = {"alpha": 1e-2, "link_alpha": 1e-2, "random_state": 0, "max_epochs": 20}
    return LegendreTronClassifier(link="canonical", **settings).fit(X[:120], y[:120]), X[120:], y[120:]
