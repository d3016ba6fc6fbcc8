"""The idx format of MNIST and its relatives, plain or gzipped."""

from __future__ import annotations

import gzip
import math
import zlib
from pathlib import Path
from typing import NamedTuple

import numpy as np

#: Third byte of the magic number, and the big-endian type it stands for.
_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_FULL_SIZE = 60_000


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
    try:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except FileNotFoundError as error:
        raise ValueError(f"{str(path)!r} does not exist.") from error
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"{str(path)!r} is damaged or not gzipped: {error}. Get it again.") from error
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


def load_image_set(folder: str | Path) -> ImageSet:
    """Read a folder with the four files of MNIST, Fashion-MNIST or Kuzushiji-MNIST.

    Their names begin with ``train`` and ``t10k`` (``train7011`` for a part of 7,011 images, say) and end as the published
    ones do, in ``-images-idx3-ubyte.gz`` and ``-labels-idx1-ubyte.gz``.

    Examples
    --------
    >>> import gzip
    >>> import tempfile
    >>> image = bytes([0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 28, 0, 0, 0, 28]) + bytes(28 * 28)
    >>> label = bytes([0, 0, 8, 1, 0, 0, 0, 1, 7])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for part in ("train1", "t10k1"):
    ...         _ = Path(folder, f"{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(image))
    ...         _ = Path(folder, f"{part}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(label))
    ...     load_image_set(folder).train_labels.tolist()
    [7]
    """
    folder = Path(folder)
    parts: list[np.ndarray] = []
    for part in ("train", "t10k"):
        for kind, axes in (("images-idx3", 3), ("labels-idx1", 1)):
            files = sorted(folder.glob(f"{part}*-{kind}-ubyte.gz"))
            if len(files) != 1:
                raise ValueError(
                    f"{str(folder)!r} must hold one file {part}-{kind}-ubyte.gz, found {len(files)}; the set's own site has "
                    "it, and OpenML has the set as mnist_784, Fashion-MNIST or Kuzushiji-MNIST."
                )
            array = read_idx(files[0])
            if array.ndim != axes:
                raise ValueError(f"{str(files[0])!r} must hold an array with {axes} axes, got shape {array.shape}.")
            parts.append(array if axes == 3 else array.astype(np.int64))
    for images, labels in (parts[:2], parts[2:]):
        if len(images) != len(labels):
            raise ValueError(f"{str(folder)!r} has {len(images)} images but {len(labels)} labels in one part.")
    return ImageSet(parts[0], parts[1], parts[2], parts[3], len(parts[0]) == _FULL_SIZE)
