"""Small made-up sets of images, written as the published ones are."""

import gzip
import struct

import numpy as np


def write_idx(path, array):
    head = struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape)
    path.write_bytes(gzip.compress(head + array.astype(np.uint8).tobytes(), compresslevel=1))


def write_images(folder, name, rows, test_rows, seed=0):
    """Ten classes, each a pattern of its own under noise; files say in their names how many images they have."""
    rng = np.random.default_rng(seed)
    patterns = rng.integers(0, 120, (10, 28, 28))
    folder = folder / name
    folder.mkdir()
    for part, n in (("train", rows), ("t10k", test_rows)):
        labels = rng.permutation(np.arange(n) % 10)
        pixels = np.clip(patterns[labels] + rng.integers(0, 136, (n, 28, 28)), 0, 255)
        write_idx(folder / f"{part}{n}-images-idx3-ubyte.gz", pixels)
        write_idx(folder / f"{part}{n}-labels-idx1-ubyte.gz", labels)
