"""Probabilities to be calibrated: of public networks, of models trained here, and some that need a temperature only."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.special import softmax
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
#: Numbers of classes of made-up predictions: logits are normal, and labels drawn from them.
MADE_UP = (3, 10, 30, 100, 200)
#: Standard deviation of the logits, the factor by which predictions are then too certain, and rows.
SPREAD, TOO_CERTAIN, MADE_UP_ROWS = 2.0, 2.0, 6000
DRAWN = ", labels drawn"
SIZES = (200, 1000, 5000)
RIGHT_SIZES = (300, 1000)
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


REAL = (*NETWORKS, *(f"{data} {kind}" for data in TRAINING_ROWS for kind in CLASSIFIERS))
#: Cases in which temperature scaling is exactly right.
RIGHT = (*(f"made up, {c} classes" for c in MADE_UP), *(f"{name}{DRAWN}" for name in NETWORKS))
#: Half of the classifiers, drawn by seed, on which the constants of ``LegendreCalibrator`` were chosen, with other splits.
CHOSEN_ON = frozenset(np.random.default_rng(0).permutation(REAL)[: len(REAL) // 2].tolist())


def names() -> tuple[str, ...]:
    return (*REAL, *RIGHT)


def sizes_of(name: str) -> tuple[int, ...]:
    if name in RIGHT:
        return RIGHT_SIZES
    return (5000,) if name in NETWORKS else SIZES_OF.get(name.split()[0], SIZES)


def find(name: str, resources: Resources, on_download: OnDownload) -> str:
    name = name.removesuffix(DRAWN)
    if name in RIGHT:
        return "complete"
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
    if name.endswith(DRAWN):
        p = _load_network(name.removesuffix(DRAWN), folder).proba
        return Case(p, _draw_labels(np.log(np.maximum(p, 1e-300)), np.random.default_rng(0)))
    if name in RIGHT:
        rng, n_classes = np.random.default_rng(0), int(name.split()[2])
        logits = SPREAD * rng.normal(size=(MADE_UP_ROWS, n_classes))
        return Case(softmax(TOO_CERTAIN * logits, axis=1), _draw_labels(logits, rng))
    if name in NETWORKS:
        return _load_network(name, folder)
    data, kind = name.split()
    X, y = _table(data, folder)
    train, rest = train_test_split(np.arange(len(y)), train_size=TRAINING_ROWS[data], random_state=0, stratify=y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # good enough to be calibrated
        model = CLASSIFIERS[kind]().fit(X[train], y[train])
    return Case(model.predict_proba(X[rest]), y[rest])


def _draw_labels(logits: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    labels: np.ndarray = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    return labels


def _load_network(name: str, folder: Path | None) -> Case:
    path = _network_file(name, folder)
    assert path is not None
    with np.load(path) as file:
        p, y = file["predictions"].astype(np.float64), file["ground_truth"].ravel().astype(int)
    return Case(p / p.sum(axis=1, keepdims=True), y)


def split(case: Case, size: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows to calibrate and rows to test."""
    order = np.random.default_rng(seed).permutation(len(case.y))
    return order[:size], order[size:][-TEST_ROWS:]
