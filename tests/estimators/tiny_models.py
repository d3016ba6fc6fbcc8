"""Tiny fitted estimators of every kind."""

import numpy as np

from legendretron import (
    CanonicalLink,
    CanonicalLoss,
    CompositeLink,
    LegendreTronClassifier,
    MultinomialLogisticClassifier,
    SoftmaxLink,
)
from tests.given import GIVEN

X = np.random.default_rng(0).normal(size=(12, 2))
y = np.arange(12) % 3
_FAST = {**GIVEN, "max_epochs": 1, "random_state": 0}
_SMALL = {**_FAST, "link_params": {"hidden": 2, "depth": 2}}


MATRIX = [[0.8, 0.2, 0.0], [0.0, 0.8, 0.2], [0.2, 0.0, 0.8]]


def _doubted():
    generator = np.random.default_rng(1)
    many = generator.normal(size=(150, 2))
    labels = np.argmax(many @ [[3.0, -3.0, 0.0], [0.0, 3.0, -3.0]], axis=1)
    wrong = generator.uniform(size=150) < 0.2
    labels[wrong] = generator.integers(3, size=wrong.sum())
    return MultinomialLogisticClassifier(label_noise="symmetric", cv=2, random_state=0).fit(many, labels)


def _online():
    return LegendreTronClassifier(**_SMALL).partial_fit(X, y, classes=[0, 1, 2])


FITTED = {
    "softmax": lambda: LegendreTronClassifier("softmax", solver="adam", **_FAST).fit(X, y),
    "ficnn": lambda: LegendreTronClassifier(**_SMALL).fit(X, y),
    "cpflow": lambda: LegendreTronClassifier(
        link_params={"network": "cpflow", "hidden": 2, "depth": 2}, class_weight={0: 2.0, 1: 1, 2: 1}, **_FAST
    ).fit(X, y),
    "canonical": lambda: LegendreTronClassifier("canonical", link_params={"n_nests": 2}, **_FAST).fit(
        X.astype(np.float32), np.array(["a", "b", "c"])[y]
    ),
    "given canonical": lambda: LegendreTronClassifier(CanonicalLink(3, n_nests=2), **_FAST).fit(X, y),
    "fixed": lambda: LegendreTronClassifier(CanonicalLoss(CanonicalLink(3, n_nests=2)), alpha=0.1, tol=0.1).fit(X, y),
    "given composite": lambda: LegendreTronClassifier(CompositeLink(2, network="cpflow").half(), **_FAST).fit(X, y > 0),
    "given softmax": lambda: LegendreTronClassifier(SoftmaxLink(3), solver="adam", **_FAST).fit(X, y.astype(float)),
    "paper": lambda: LegendreTronClassifier.from_paper("libsvm", max_epochs=1, random_state=0).fit(X, y),
    "online": _online,
    "logistic": lambda: MultinomialLogisticClassifier(alpha=1e-4, tol=0.1).fit(X, y),
    "rate": lambda: MultinomialLogisticClassifier(alpha=1e-2, tol=0.1, label_noise=0.2).fit(X, y),
    "matrix": lambda: MultinomialLogisticClassifier(alpha=1e-2, tol=0.1, label_noise=MATRIX).fit(X, y),
    "doubted": _doubted,
    "tuned": lambda: LegendreTronClassifier(**{**_SMALL, "alpha": "auto", "link_alpha": "auto"}).fit(X, y),
}
