"""Data sets of the paper: downloads, readers of their file formats, and label noise."""

from legendretron.datasets.downloading import DownloadError, download
from legendretron.datasets.idx import ImageSet, load_image_set, read_idx
from legendretron.datasets.libsvm import read_libsvm
from legendretron.datasets.noise import flip_labels, symmetric_noise, symmetric_transition

__all__ = [
    "DownloadError",
    "ImageSet",
    "download",
    "flip_labels",
    "load_image_set",
    "read_idx",
    "read_libsvm",
    "symmetric_noise",
    "symmetric_transition",
]
