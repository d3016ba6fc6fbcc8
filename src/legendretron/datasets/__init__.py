"""Data sets of the paper: readers of their file formats."""

from legendretron.datasets.idx import ImageSet, load_image_set, read_idx

__all__ = ["ImageSet", "load_image_set", "read_idx"]
