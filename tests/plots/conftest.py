import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.datasets import load_iris

from legendretron import LegendreTronClassifier


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


@pytest.fixture(scope="session")
def two():
    """Two classes, and a classifier with a learned link."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    p = 1 - np.exp(-np.exp(1.5 * X @ [1.0, -1.0]))
    y = np.where(rng.random(400) < p, "rain", "dry")
    return X, y, LegendreTronClassifier(alpha=1e-3, link_alpha=1e-4, max_epochs=60, random_state=0).fit(X, y)


@pytest.fixture(scope="session")
def three():
    """Three classes that overlap, and classifiers with a composite and with a canonical link."""
    iris = load_iris()
    X, y = iris.data[:, :2], iris.target_names[iris.target]
    settings = {"alpha": 1e-3, "link_alpha": 1e-4, "max_epochs": 200, "random_state": 0}
    composite = LegendreTronClassifier(**settings).fit(X, y)
    return X, y, composite, LegendreTronClassifier(link="canonical", **settings).fit(X, y)
