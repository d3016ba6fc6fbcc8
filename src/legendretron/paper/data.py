"""Data sets as the paper's tables use them: finding them, LIBSVM's values, and images with scaled pixels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from scipy.ndimage import gaussian_filter

from legendretron.datasets import DATASETS, Dataset, ImageSet, load_dataset, load_images, read_idx
from legendretron.datasets.downloading import Progress
from legendretron.datasets.registry import find_dataset
from legendretron.experiments.experiment import MissingDataError, OnDownload, Resources

#: Values are written with six digits.
_PRECISION = 1e-5


def words_of_unit_length(X: scipy.sparse.csr_matrix) -> tuple[scipy.sparse.csr_matrix, bool]:
    r"""Replace counts by :math:`1/\sqrt{m}`, with :math:`m` the words of a document, and return whether that was done.

    That is what ``news20.scale`` holds; there are other files of the same documents, with counts, or with counts divided by
    the largest of their column. The practical guide in Fan, Chang, Hsieh, Wang and Lin (2008), LIBLINEAR: a library for large
    linear classification, JMLR 9, shows its first document.
    ``X`` itself is returned, if its values are the scaled ones already.
    """
    if X.nnz and X.data.min() < 0.0:
        raise ValueError(f"news20 has counts or shares of words, but here is {X.data.min():g}; get the published file.")
    scaled = scipy.sparse.csr_matrix(X, copy=True)
    scaled.eliminate_zeros()
    words = np.diff(scaled.indptr)
    expected = np.repeat(np.maximum(words, 1) ** -0.5, words)
    if np.allclose(scaled.data, expected, rtol=_PRECISION, atol=0.0):
        return X, False
    scaled.data = expected
    return scaled, True


#: Width of the Gaussian in pixels: the images of LIBSVM's file, brought to 0 .. 1 and to 8 bits, are widely quoted to have a
#: mean of 0.2469 and a standard deviation of 0.2989. Smoothing the original ones gives both figures with 0.75, not with 0.74
#: or 0.76.
WIDTH = 0.75
#: Steps from a pixel to the next beyond which images are not smoothed: the Gaussian leaves at most 1.07 of a step of 2.
_LARGEST_STEP = 1.2


def smooth_digits(X: np.ndarray) -> tuple[np.ndarray, bool]:
    """Smooth images that are not smooth yet, and return whether that was done.

    Images ``(n, 256)`` are of 16 x 16 pixels from -1 (background) to 1, else it is a ``ValueError``. They are convolved with
    a Gaussian of 0.75 pixels, with background beyond their edges.
    """
    if X.min() < -1.0 - 1e-6 or X.max() > 1.0 + 1e-6 or X.min() > -0.5:
        raise ValueError(
            f"usps has pixels from -1, the background, to 1, but here they are from {X.min():g} to {X.max():g}. Bring them "
            "to that range, or get the published file."
        )
    ink = (X + 1.0).reshape(-1, 16, 16)
    if np.abs(np.diff(ink, axis=2)).max() < _LARGEST_STEP:
        return X, False
    smooth = gaussian_filter(ink, (0.0, WIDTH, WIDTH), mode="constant", truncate=8.0)
    return smooth.reshape(X.shape) - 1.0, True


#: Names for tables and plots.
TITLES = {"mnist": "MNIST", "fashion-mnist": "Fashion-MNIST", "kmnist": "Kuzushiji-MNIST"}
#: Data sets with copies whose values differ from LIBSVM's, and how to convert those.
_PREPARATIONS: dict[str, tuple[Callable[[Any], tuple[Any, bool]], str]] = {
    "usps": (smooth_digits, "smoothed here"),
    "news20": (words_of_unit_length, "scaled here"),
}


def find_data(dataset: str, resources: Resources, on_download: OnDownload) -> str:
    """Find a data set of the registry, or download it where no folder is given; ``"complete"`` or ``"subset of n"``.

    See ``find_data`` of :class:`~legendretron.experiments.Experiment`.
    """
    found = find_dataset(dataset, resources.data)
    if found.state in ("missing", "incomplete"):
        info = found.info
        if resources.data is not None:
            raise MissingDataError(
                f"{info.name} ({info.shape}) is {found.state} in {str(resources.data)!r}. {info.how_to_get}"
            )
        load = load_images if info.kind == "images" else load_prepared
        try:
            load(info.name, progress=partial(on_download, info.name))
        except ValueError as error:
            raise MissingDataError(str(error)) from error
    return f"subset of {found.declared_rows}" if found.state == "subset" else "complete"


def load_prepared(name: str, data: str | Path | None = None, *, progress: Progress | None = None) -> Dataset:
    """Load a LIBSVM data set with the values of LIBSVM's file, also from a copy with other values.

    Images of usps are smoothed if they are not, counts of news20 are scaled, and ``prepared`` says so. Parameters are those
    of :func:`~legendretron.datasets.load_dataset`.
    """
    fresh = find_dataset(name, data).path is None
    found = load_dataset(name, data, progress=progress)
    info = found.info
    if info.name not in _PREPARATIONS:
        return found
    prepare, remark = _PREPARATIONS[info.name]
    try:
        X, changed = prepare(found.X)
    except ValueError as error:
        if fresh and found.path is not None:  # otherwise the next call would find the wrong file
            found.path.unlink(missing_ok=True)
            raise ValueError(f"{error} It came from {info.addresses[0]!r} and was not kept.") from error
        raise ValueError(f"{error} {info.name} has {info.shape}. {info.how_to_get}") from error
    return replace(found, X=X, prepared=remark) if changed else found


def training_images(dataset: str, resources: Resources) -> int:
    """Return the number of available training images of a set, without reading them."""
    found = find_dataset(dataset, resources.data)
    if found.state != "subset":  # what is missing is downloaded, and that is complete
        return DATASETS[dataset].rows
    assert found.path is not None
    return len(read_idx(next(found.path.glob("train*-labels-idx1-ubyte.gz"))))


def facts_of(dataset: str, images: ImageSet) -> dict[str, Any]:
    """Facts about the data for the records: counts, and a label that marks a subset."""
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


def pixel_features(dataset: str, images: ImageSet) -> np.ndarray:
    """Training images, then test images, as rows ``(x - pixel mean) / mean(pixel deviations)``, in double precision.

    The means and the one scale are those of all available training images, as in the authors' code: training on some of
    them uses the same features, and no label is involved.
    """
    train, test = (part.reshape(len(part), -1).astype(np.float64) for part in (images.train_images, images.test_images))
    mean, scale = train.mean(0), train.std(0).mean()
    if not scale > 0.0:
        raise ValueError(f"{dataset} must contain images that differ, got {len(train):,} equal ones.")
    X: np.ndarray = np.concatenate([train, test])
    X -= mean
    X /= scale
    return X
