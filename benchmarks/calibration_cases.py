"""Classifiers whose probabilities are to be calibrated: predictions of public networks, and of models trained here."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import load_digits
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from legendretron.datasets import load_images
from legendretron.experiments import Resources
from legendretron.experiments.experiment import MissingDataError, OnDownload
from legendretron.paper.data import find_data, load_prepared

NETWORKS = ("lenet-5-cifar-10", "wideresnet-16-4-cifar-10", "lenet-5-cifar-100")
#: Rows to train on; all others are to calibrate and to test.
TRAINING_ROWS = {"letter": 4000, "mnist": 4000, "fashion-mnist": 4000, "usps": 2000, "digits": 600, "vehicle": 300}
IMAGES = ("mnist", "fashion-mnist")
#: Of the images, the last so many.
IMAGE_ROWS = 14_000
SIZES = (200, 1000, 5000)
TEST_ROWS = 5000
#: Of each data set, sizes of calibration sets that leave enough rows to test on.
SIZES_OF = {"digits": (200,), "vehicle": (200,), "usps": (200, 1000)}

CLASSIFIERS: dict[str, Callable[[], Any]] = {
    "logistic": lambda: make_pipeline(StandardScaler(), LogisticRegression(max_iter=300)),
    # trained without a penalty until it is sure of everything
    "mlp": lambda: make_pipeline(StandardScaler(), MLPClassifier((100,), alpha=0.0, max_iter=60, random_state=0)),
    "boosting": lambda: HistGradientBoostingClassifier(max_iter=40, random_state=0),
    "forest": lambda: RandomForestClassifier(100, random_state=0),
}


class Case(NamedTuple):
    """Predictions on rows that the classifier was not trained on."""

    proba: np.ndarray  #: shape (n, C)
    y: np.ndarray  #: from 0


def names() -> tuple[str, ...]:
    return (*NETWORKS, *(f"{data} {kind}" for data in TRAINING_ROWS for kind in CLASSIFIERS))


def sizes_of(name: str) -> tuple[int, ...]:
    return (5000,) if name in NETWORKS else SIZES_OF.get(name.split()[0], SIZES)


def find(name: str, resources: Resources, on_download: OnDownload) -> str:
    if name in NETWORKS:
        if _network_file(name, resources.data) is None:
            raise MissingDataError(
                f"{name} needs {name}.npz with predictions and ground_truth, of EFS-OpenSource/calibration-framework, in "
                "logits/ of the folder given by --data."
            )
        return "complete"
    data = name.split()[0]
    return "complete" if data == "digits" else find_data(data, resources, on_download)


def _network_file(name: str, folder: Path | None) -> Path | None:
    path = None if folder is None else folder / "logits" / f"{name}.npz"
    return path if path is not None and path.exists() else None


def _table(data: str, folder: Path | None) -> tuple[np.ndarray, np.ndarray]:
    if data == "digits":
        X, y = load_digits(return_X_y=True)
        return X / 16.0, y
    if data in IMAGES:
        images = load_images(data, folder)
        X = np.concatenate([images.train_images, images.test_images])[-IMAGE_ROWS:]
        return X.reshape(len(X), -1) / 255.0, np.concatenate([images.train_labels, images.test_labels])[-IMAGE_ROWS:]
    found = load_prepared(data, folder)
    return np.asarray(found.X, dtype=float), found.y


@functools.lru_cache(maxsize=1)  # the next run is of the same case
def load(name: str, folder: Path | None) -> Case:
    if name in NETWORKS:
        path = _network_file(name, folder)
        assert path is not None
        with np.load(path) as file:
            p, y = file["predictions"].astype(np.float64), file["ground_truth"].ravel().astype(int)
        return Case(p / p.sum(axis=1, keepdims=True), y)
    data, kind = name.split()
    X, y = _table(data, folder)
    train, rest = train_test_split(np.arange(len(y)), train_size=TRAINING_ROWS[data], random_state=0, stratify=y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # good enough to be calibrated
        model = CLASSIFIERS[kind]().fit(X[train], y[train])
    return Case(model.predict_proba(X[rest]), y[rest])


def split(case: Case, size: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows to calibrate and rows to test."""
    order = np.random.default_rng(seed).permutation(len(case.y))
    return order[:size], order[size:][-TEST_ROWS:]
