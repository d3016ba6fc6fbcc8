"""The methods of the paper's binary table, as recipes, and how one of them is trained and tested."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score
from sklearn.model_selection import train_test_split

from legendretron.datasets import load_images
from legendretron.estimators import LegendreTronClassifier, MultinomialLogisticClassifier
from legendretron.experiments.experiment import Batch, OnDownload, Record, Resources
from legendretron.experiments.recipes import make_estimator, make_recipe, unconverged_allowed
from legendretron.paper import data as paper_data
from legendretron.trons import (
    BregmanTronClassifier,
    GLMTronClassifier,
    GPLinkgisticClassifier,
    ISGPLinkgisticClassifier,
    SlIsotronClassifier,
)

#: Data set and positive classes by the problem's name. The paper names none; odd against even classes are the example of
#: its authors' public code for Fashion-MNIST.
PROBLEMS: dict[str, tuple[str, tuple[int, ...]]] = {
    "MNIST, class 0": ("mnist", (0,)),
    "Fashion-MNIST, odd against even": ("fashion-mnist", (1, 3, 5, 7, 9)),
    "Fashion-MNIST, class 0": ("fashion-mnist", (0,)),
}


def source_of(problem: str) -> str:
    """Name of the data set that a problem is about."""
    return PROBLEMS[problem][0]


def find_data(problem: str, resources: Resources, on_download: OnDownload) -> str:
    """As :func:`legendretron.paper.data.find_data`, for the data set of a problem."""
    return paper_data.find_data(source_of(problem), resources, on_download)


@dataclass(frozen=True, eq=False)
class BinaryImages:
    """Features and labels of a problem."""

    X: np.ndarray  #: (n, pixels), ``(x - pixel mean) / mean(pixel stds)``, both of the training images; float64
    y: np.ndarray  #: (n,), whether an image is of the positive classes
    X_test: np.ndarray
    y_test: np.ndarray
    facts: dict[str, Any]  #: for the records; ``label`` names the problem and, for a subset, the number of images


def load_problem(batch: Batch, resources: Resources) -> BinaryImages:
    """Load a batch's problem, one of :data:`PROBLEMS`, from the folder of data or from the cache."""
    source, positive = PROBLEMS[batch.dataset]
    images = load_images(source, resources.data)
    X, X_test = np.split(paper_data.pixel_features(source, images), [len(images.train_images)])
    y, y_test = (np.isin(part, positive) for part in (images.train_labels, images.test_labels))
    facts = {
        "label": batch.dataset if images.complete else f"{batch.dataset} ({len(X):,} images)",
        "train_rows": len(X),
        "test_rows": len(X_test),
        "features": X.shape[1],
        "train_positive": int(y.sum()),
        "test_positive": int(y_test.sum()),
        "fitted_on": "cpu",
    }
    return BinaryImages(X, y, X_test, y_test, facts)


_AS_THEY_ARE: dict[str, Any] = {"standardize": False}
# as recorded; not the defaults of the estimators
_BAYES: dict[str, Any] = {"standardize": False, "alpha": 1e-3, "max_iter": 20, "n_basis": 16, "length_scale": 0.1}

#: Settings by name; first the paper's nine, in its order.
METHODS: dict[str, dict[str, Any]] = {
    "LegendreTron": make_recipe(LegendreTronClassifier.from_paper("mnist")),
    "ISGP-Linkgistic": make_recipe(ISGPLinkgisticClassifier(**_BAYES)),
    "GP-Linkgistic": make_recipe(GPLinkgisticClassifier(**_BAYES)),
    "logistic regression": make_recipe(MultinomialLogisticClassifier.from_paper("mnist")),
    "GLMTron": make_recipe(GLMTronClassifier(max_iter=200, **_AS_THEY_ARE)),
    "BregmanTron": make_recipe(BregmanTronClassifier(max_iter=100, **_AS_THEY_ARE)),
    "BregmanTron_label": make_recipe(BregmanTronClassifier(variant="label", max_iter=100, **_AS_THEY_ARE)),
    "BregmanTron_approx": make_recipe(BregmanTronClassifier(variant="approx", max_iter=100, **_AS_THEY_ARE)),
    "SlIsotron": make_recipe(SlIsotronClassifier(max_iter=100, **_AS_THEY_ARE)),
    # as published: steps of one for features in the unit ball, and only a few of them
    "SlIsotron, published step": {
        **make_recipe(SlIsotronClassifier(max_iter=5, **_AS_THEY_ARE)),
        "learning_rate": "1 / largest squared norm",
    },
    # scikit-learn's; only what is not its default, since the list of its parameters changes with versions
    "logistic regression, tuned": {
        "estimator": "LogisticRegression",
        "solver": "newton-cholesky",
        "max_iter": 60,
        "tuning": {"C": [1e-4, 1e-3, 1e-2, 1e-1, 1.0], "share": 0.1},
    },
}

#: Approximate time of a run on 60,000 images on one core.
SECONDS: dict[str, float] = {
    "LegendreTron": 110.0,
    "ISGP-Linkgistic": 50.0,
    "GP-Linkgistic": 42.0,
    "logistic regression": 42.0,
    "GLMTron": 11.0,
    "BregmanTron": 28.0,
    "BregmanTron_label": 44.0,
    "BregmanTron_approx": 16.0,
    "SlIsotron": 42.0,
    "SlIsotron, published step": 2.0,
    "logistic regression, tuned": 65.0,
}


def recipe(model: str, problem: str) -> dict[str, Any]:
    """Settings of a method, the same for all problems."""
    return dict(METHODS[model])


def fit_method(settings: Mapping[str, Any], data: BinaryImages, seed: int) -> tuple[BaseEstimator, dict[str, Any]]:
    """Train by a recipe on all training images; also return CPU seconds, and parameters that were chosen from the data."""
    began = time.process_time()
    chosen: dict[str, Any] = {}
    settings = dict(settings)
    if settings.get("learning_rate") == "1 / largest squared norm":
        chosen["learning_rate"] = settings["learning_rate"] = 1.0 / float((data.X**2).sum(1).max())
    if tuning := settings.get("tuning"):
        chosen["C"] = settings["C"] = _tuned(settings, tuning["C"], tuning["share"], data, seed)
    estimator = make_estimator(settings, seed=seed)
    with unconverged_allowed():
        estimator.fit(data.X, data.y)
    return estimator, {"cpu_seconds": round(time.process_time() - began, 1), **chosen}


def _tuned(settings: Mapping[str, Any], values: list[float], share: float, data: BinaryImages, seed: int) -> float:
    learn, choose = train_test_split(np.arange(len(data.y)), test_size=share, stratify=data.y, random_state=seed)
    losses = []
    for value in values:
        with unconverged_allowed():
            estimator = make_estimator({**settings, "C": value}, seed=seed).fit(data.X[learn], data.y[learn])
        losses.append(log_loss(data.y[choose], estimator.predict_proba(data.X[choose])))
    return values[int(np.argmin(losses))]


def scores(estimator: BaseEstimator, data: BinaryImages) -> dict[str, Any]:
    """AUC in %, Brier score and log-loss on the test images, and the iterations of the training.

    The AUC is that of ``decision_function``: log-odds, or the probability where it may be 0 or 1. In the log-loss such
    probabilities count as one rounding away from that, as in scikit-learn.
    """
    p = estimator.predict_proba(data.X_test)[:, 1]
    return {
        "auc": round(100.0 * float(roc_auc_score(data.y_test, estimator.decision_function(data.X_test))), 4),
        "brier": round(float(brier_score_loss(data.y_test, p)), 6),
        "log_loss": round(float(log_loss(data.y_test, p)), 6),
        "n_iter": int(np.max(estimator.n_iter_)),
    }


def in_order(records: Iterable[Record]) -> list[Record]:
    """Records in the order of problems, methods and seeds."""
    problems, methods = list(PROBLEMS), list(METHODS)
    return sorted(
        records, key=lambda record: (problems.index(record["dataset"]), methods.index(record["model"]), record["seed"])
    )
