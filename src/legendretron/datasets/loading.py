"""The paper's data sets by name, from a folder or from their publishers, checked against the registry."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.sparse

from legendretron.datasets.compressed import open_compressed
from legendretron.datasets.downloading import Progress
from legendretron.datasets.downloading import download as download_file
from legendretron.datasets.libsvm import read_libsvm
from legendretron.datasets.registry import (
    DatasetInfo,
    cache_folder,
    dataset_info,
    find_dataset,
)

#: Third byte of the magic number, and the big-endian type it stands for.
_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


class ImageSet(NamedTuple):
    """Training and test parts of a set of images.

    Examples
    --------
    >>> images, labels = np.zeros((2, 28, 28), dtype=np.uint8), np.array([3, 7])
    >>> parts = ImageSet(images, labels, images[:1], labels[:1], complete=False)
    >>> parts.train_images.shape, len(parts.test_labels)
    ((2, 28, 28), 1)
    """

    train_images: np.ndarray  #: (n, height, width), uint8
    train_labels: np.ndarray  #: (n,), int64
    test_images: np.ndarray
    test_labels: np.ndarray
    complete: bool  #: whether the training part has the 60,000 images of the published sets


def read_idx(path: str | Path) -> np.ndarray:
    """Read an idx file; a damaged or truncated one raises a ``ValueError``.

    Parameters
    ----------
    path : path
        The file; gzipped if its name ends in ``.gz``.

    Returns
    -------
    ndarray
        Shape and type are those of the header, in the machine's byte order.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "labels-idx1-ubyte"
    ...     _ = file.write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 3, 7, 2, 1]))
    ...     read_idx(file)
    array([7, 2, 1], dtype=uint8)
    """
    path = Path(path)
    with open_compressed(path) as file:
        content = file.read()
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] not in _TYPES or content[3] == 0:
        raise ValueError(f"{str(path)!r} is not an idx file: it begins with {content[:4]!r}.")
    dtype, axes = np.dtype(_TYPES[content[2]]), content[3]
    start = 4 + 4 * axes
    if len(content) < start:
        raise ValueError(f"{str(path)!r} breaks off within its header. Get it again.")
    shape = tuple(int(n) for n in np.frombuffer(content, ">u4", axes, 4))
    expected = start + math.prod(shape) * dtype.itemsize
    if len(content) != expected:
        raise ValueError(
            f"{str(path)!r} should hold an array of shape {shape}, {expected} bytes, but has {len(content)}. Get it again."
        )
    return np.frombuffer(content, dtype, offset=start).reshape(shape).astype(dtype.newbyteorder("="))


@dataclass(frozen=True, eq=False)
class Dataset:
    """Rows, labels from 0 without gaps, and their origin.

    Examples
    --------
    >>> from legendretron.datasets import dataset_info
    >>> data = Dataset("iris", np.zeros((2, 4)), np.array([0, 1]), np.array([1, 3]), False, None, dataset_info("iris"))
    >>> data.label
    'iris (2 of 150 rows)'
    >>> data.classes[data.y]
    array([1, 3])
    """

    name: str
    X: np.ndarray | scipy.sparse.csr_matrix  #: (n, features), float64
    y: np.ndarray  #: (n,), int64, from 0 without gaps
    classes: np.ndarray  #: (classes,), the label each number stands for
    complete: bool  #: whether it has all rows of the published file
    path: Path | None  #: the file it was read from
    info: DatasetInfo
    prepared: str = ""  #: what was done to the file's values

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.X.shape[0])

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return int(self.X.shape[1])

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.classes)

    @property
    def label(self) -> str:
        """The name for tables and plots; marked if this is not the published file."""
        remarks = [] if self.complete else [f"{self.n_rows:,} of {self.info.rows:,} rows"]
        remarks += [self.prepared] if self.prepared else []
        return f"{self.name} ({', '.join(remarks)})" if remarks else self.name


def load_dataset(
    name: str, data: str | Path | None = None, *, download: bool = True, progress: Progress | None = None
) -> Dataset:
    r"""Load a LIBSVM data set of the paper.

    Parameters
    ----------
    name : str
        One of :data:`DATASETS`, of kind ``"libsvm"``.
    data : path or None, default=None
        Folder with the file, directly or in ``libsvm/``; nothing is downloaded into it. None for :func:`cache_folder`.
    download : bool, default=True
        Whether to download a file that the cache folder does not have.
    progress : callable or None, default=None
        Called with the number of bytes received and the total (None if the server does not announce it).

    Returns
    -------
    Dataset
        ``X`` of shape (n, features) is dense, except for news20 and sector. ``complete`` is False for a file whose name
        declares a subset (``Sensorless.subset5500.scale``); a shorter file that does not raises a ``ValueError``.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "iris.subset3.scale").write_text("1 1:-0.5 4:-1\n2 1:0.2 2:1\n3 3:1 4:1\n")
    ...     iris = load_dataset("iris", folder)
    >>> iris.label, iris.X.shape, iris.y
    ('iris (3 of 150 rows)', (3, 4), array([0, 1, 2]))
    """
    info = dataset_info(name)
    if info.kind != "libsvm":
        raise ValueError(
            f"name must be a LIBSVM data set, got {name!r}, which has images; use load_images({info.name!r})."
        )
    _, found, state, declared = find_dataset(name, data)
    path = found or _download(info, data, cache_folder() / "libsvm", download, progress, state)[0]
    complete = declared is None
    try:
        X, labels = read_libsvm(path, info.features, dense=not info.sparse)
        _check_rows(path, len(labels), info.rows, declared, info.name)
        if complete:
            _check_columns(info, path, X)
        y, classes = _check_labels(info, labels, path)
    except ValueError as error:
        if found is None:  # otherwise the next call would find the wrong file
            path.unlink(missing_ok=True)
            raise ValueError(f"{error} It came from {info.addresses[0]!r} and was not kept.") from error
        raise ValueError(f"{error} {info.name} has {info.shape}. {info.how_to_get}") from error
    return Dataset(info.name, X, y, classes, complete, path, info)


def load_images(
    name: str, data: str | Path | None = None, *, download: bool = True, progress: Progress | None = None
) -> ImageSet:
    """Load MNIST, Fashion-MNIST or Kuzushiji-MNIST; parameters as in :func:`load_dataset`.

    The four files are in a folder of the set's name within ``data``. A part whose file declares a subset
    (``train7011-images-idx3-ubyte.gz``) makes the set incomplete; a shorter one that does not raises a ``ValueError``.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     load_images("kmnist", folder)
    Traceback (most recent call last):
    ...
    ValueError: kmnist (60,000 + 10,000 rows x 784 features, 10 classes) is missing ...
    """
    info = dataset_info(name)
    if info.kind != "images":
        raise ValueError(f"name must be a set of images, got {name!r}; use load_dataset({info.name!r}).")
    status = find_dataset(name, data)
    folder = status.path
    if folder is None or status.state == "incomplete":
        folder = cache_folder() / info.name if folder is None else folder
        _download(info, data, folder, download, progress, status.state)
    arrays: list[np.ndarray] = []
    complete = True
    for part, rows in (("train", info.rows), ("t10k", info.test_rows)):
        found = [_find_part(info, folder, f"{part}*-{kind}-ubyte.gz") for kind in ("images-idx3", "labels-idx1")]
        in_name = re.match(rf"{part}(\d+)-", found[0].name)
        declared = int(in_name[1]) if in_name else None
        try:
            pixels, labels = map(read_idx, found)
            if pixels.shape[1:] != (28, 28):
                raise ValueError(f"{str(found[0])!r} must contain images of 28 x 28 pixels, got {pixels.shape[1:]}.")
            if labels.shape != (len(pixels),):
                raise ValueError(f"{str(found[1])!r} must contain a label for each of {len(pixels)} images.")
            _check_rows(found[0], len(pixels), rows, declared, info.name)
            _check_labels(info, labels, found[1])
        except ValueError as error:
            raise ValueError(f"{error} {info.name} has {info.shape}. {info.how_to_get}") from error
        complete &= declared is None
        arrays += [pixels, labels.astype(np.int64)]
    return ImageSet(arrays[0], arrays[1], arrays[2], arrays[3], complete)


def _find_part(info: DatasetInfo, folder: Path, pattern: str) -> Path:
    files = sorted(folder.glob(pattern))
    if len(files) != 1:
        name = pattern.replace("*", "")
        raise ValueError(f"{str(folder)!r} must contain one file {name}, found {len(files)}. {info.how_to_get}")
    return files[0]


def _download(
    info: DatasetInfo, data: str | Path | None, folder: Path, allowed: bool, progress: Progress | None, state: str
) -> list[Path]:
    """Download the missing files of a set, or raise an error that says how to get them."""
    if data is not None or not allowed:
        searched = str(cache_folder() if data is None else data)
        need = f"the files {', '.join(info.files)}" if info.kind == "images" else f"one of {', '.join(info.files)}"
        where = f"its sub-folder {info.name}" if info.kind == "images" else "its sub-folder libsvm"
        raise ValueError(
            f"{info.name} ({info.shape}) is {state} in {searched!r}: it or {where} must contain {need}. {info.how_to_get}"
        )
    paths = [folder / file.name for file in info.remote_files]
    for file, path in zip(info.remote_files, paths, strict=True):
        if not path.is_file():
            download_file(file.address, path, file.sha256, progress)
    return paths


def _check_rows(path: Path, n: int, published: int, declared: int | None, name: str) -> None:
    """Raise a ``ValueError`` unless a file has as many rows as the published one, or as its name declares of a subset."""
    if n > published:
        raise ValueError(f"{str(path)!r} has {n:,} rows, more than the {published:,} of {name}; another file?")
    if declared is not None and n != declared:
        raise ValueError(
            f"{str(path)!r} has {n:,} rows, but its name declares a subset of {declared:,}. It is damaged or misnamed; get "
            "it again or rename it."
        )
    if declared is None and n != published:
        raise ValueError(
            f"{str(path)!r} has {n:,} rows, but {name} has {published:,}. It is damaged or breaks off: get it again. If it "
            f"is a subset on purpose, say so in its name, as in 'iris.subset{n}.scale' or 'train{n}-images-idx3-ubyte.gz'."
        )


def _check_columns(info: DatasetInfo, path: Path, X: np.ndarray | scipy.sparse.csr_matrix) -> None:
    # zeros are left out of the text, so a sparse file or a subset may lack the last columns
    if isinstance(X, np.ndarray) and not X[:, -1].any():
        used = int(np.flatnonzero(X.any(axis=0)).max(initial=-1)) + 1
        raise ValueError(f"{str(path)!r} has {used} features, but {info.name} has {info.features}; another file?")


def _check_labels(info: DatasetInfo, labels: np.ndarray, path: Path) -> tuple[np.ndarray, np.ndarray]:
    smallest, largest = info.labels
    outside = np.flatnonzero((labels < smallest) | (labels > largest))
    if len(outside):
        raise ValueError(
            f"{str(path)!r} has the label {labels[outside[0]]} in row {outside[0] + 1}, but those of {info.name} are from "
            f"{smallest} to {largest}; it is damaged or another file."
        )
    classes, y = np.unique(labels, return_inverse=True)
    if len(classes) != info.classes:
        raise ValueError(
            f"{str(path)!r} has labels of {len(classes)} classes, but {info.name} has {info.classes}; it is damaged, another "
            "file, or a subset that misses classes."
        )
    return y.astype(np.int64), classes
