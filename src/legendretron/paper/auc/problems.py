"""The paper's binary problems: some classes of MNIST or Fashion-MNIST against the others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from legendretron.datasets import load_images
from legendretron.experiments.experiment import Batch, OnDownload, Resources
from legendretron.paper import data as paper_data

#: Data set and positive classes by the problem's name. The paper names none; odd against even classes are the example of
#: its authors' public code for Fashion-MNIST.
PROBLEMS: dict[str, tuple[str, tuple[int, ...]]] = {
    "MNIST, class 0": ("mnist", (0,)),
    "Fashion-MNIST, odd against even": ("fashion-mnist", (1, 3, 5, 7, 9)),
    "Fashion-MNIST, class 0": ("fashion-mnist", (0,)),
}


def source_of(problem: str) -> str:
    """Name of the data set that a problem is about.

    Examples
    --------
    >>> source_of("Fashion-MNIST, class 0")
    'fashion-mnist'
    """
    return PROBLEMS[problem][0]


def find_data(problem: str, resources: Resources, on_download: OnDownload) -> str:
    """As :func:`legendretron.paper.data.find_data`, for the data set of a problem."""
    return paper_data.find_data(source_of(problem), resources, on_download)


@dataclass(frozen=True, eq=False)
class BinaryImages:
    """Features and labels of a problem.

    Attributes
    ----------
    X, X_test : ndarray of shape (n, pixels)
        ``(x - pixel mean) / mean(pixel stds)``, both of the training images; float64.
    y, y_test : ndarray of bool, shape (n,)
        Whether an image is of the positive classes.
    facts : dict
        Facts about the data for the records; ``label`` names the problem and, for a subset, the number of images.
    """

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    facts: dict[str, Any]


def load_problem(batch: Batch, resources: Resources) -> BinaryImages:
    """Load a batch's problem, one of :data:`PROBLEMS`, from the folder of data or from the cache."""
    for run in batch.runs:
        if run.noise or run.size is not None:
            raise ValueError(
                f"noise and sizes are not for {batch.experiment}, which is about all training images and their own labels; "
                f"got noise {run.noise:g} and size {run.size}. Leave both out."
            )
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
