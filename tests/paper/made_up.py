"""Made-up sets of images for tests: ten blurred classes of 28 x 28 pixels in idx files."""

import gzip
from pathlib import Path

import numpy as np

TRAIN, TEST = 150, 80


def write_idx(path: Path, array: np.ndarray) -> None:
    header = bytes([0, 0, 8, array.ndim]) + b"".join(n.to_bytes(4, "big") for n in array.shape)
    path.write_bytes(gzip.compress(header + array.tobytes(), 1))


def write_images(
    folder: Path,
    rows: int = TRAIN,
    test_rows: int = TEST,
    *,
    declared_subset: bool = True,
    noise: float = 150.0,
    seed: int = 0,
) -> None:
    """Write the four files of a set; their names say that it is a subset, or not."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(seed)
    typical = rng.uniform(60, 190, (10, 28, 28))
    for part, n in (("train", rows), ("t10k", test_rows)):
        labels = np.arange(n) % 10
        images = np.clip(typical[labels] + rng.normal(0.0, noise, (n, 28, 28)), 0, 255)
        name = f"{part}{n}" if declared_subset else part
        write_idx(folder / f"{name}-images-idx3-ubyte.gz", images.astype(np.uint8))
        write_idx(folder / f"{name}-labels-idx1-ubyte.gz", labels.astype(np.uint8))
