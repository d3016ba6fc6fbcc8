"""The three sets of images as experiments use them: what is there of them, and how tables call them."""

from __future__ import annotations

from typing import Any

import numpy as np

from legendretron.datasets import DATASETS, ImageSet, find_dataset, read_idx
from legendretron.experiments.experiment import Resources

__all__ = ["TITLES", "facts_of", "pixel_features", "training_images"]

#: Names for tables and plots.
TITLES = {"mnist": "MNIST", "fashion-mnist": "Fashion-MNIST", "kmnist": "Kuzushiji-MNIST"}


def training_images(dataset: str, resources: Resources) -> int:
    """How many training images of a set there are, without reading them."""
    found = find_dataset(dataset, resources.data)
    if found.state != "subset":  # what is missing is downloaded, and that is complete
        return DATASETS[dataset].rows
    assert found.path is not None
    return len(read_idx(next(found.path.glob("train*-labels-idx1-ubyte.gz"))))


def facts_of(dataset: str, images: ImageSet) -> dict[str, Any]:
    """What records say of the data: counts, and a label that tells a part from the whole.

    Examples
    --------
    >>> pixels, labels = np.zeros((3, 28, 28), np.uint8), np.arange(3)
    >>> facts_of("kmnist", ImageSet(pixels, labels, pixels, labels, False))["label"]
    'Kuzushiji-MNIST (3 of 60,000 images, 3 of 10,000 test images)'
    """
    info = DATASETS[dataset]
    rows, test_rows = len(images.train_labels), len(images.test_labels)
    parts = [f"{rows:,} of {info.rows:,} images"] if rows < info.rows else []
    parts += [f"{test_rows:,} of {info.test_rows:,} test images"] if test_rows < info.test_rows else []
    return {
        "rows": rows,
        "published_rows": info.rows,
        "test_rows": test_rows,
        "features": info.features,
        "classes": info.classes,
        "label": TITLES[dataset] + (f" ({', '.join(parts)})" if parts else ""),
    }


def pixel_features(images: ImageSet) -> np.ndarray:
    """Training and test images as rows ``(x - pixel mean) / mean(pixel deviations)``, in double precision.

    The means and the one scale are those of all training images that are there, as in the authors' code: a training on
    some of them uses the same features, and no label is involved.

    Examples
    --------
    >>> pixels = np.array([[[0, 8]], [[2, 10]]], np.uint8)
    >>> pixel_features(ImageSet(pixels, np.arange(2), pixels, np.arange(2), False))
    array([[-1., -1.],
           [ 1.,  1.],
           [-1., -1.],
           [ 1.,  1.]])
    """
    train, test = (part.reshape(len(part), -1).astype(np.float64) for part in (images.train_images, images.test_images))
    mean, scale = train.mean(0), train.std(0).mean()
    X: np.ndarray = np.concatenate([train, test])
    X -= mean
    X /= scale
    return X
