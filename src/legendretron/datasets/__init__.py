"""Your own tables; the paper's data sets: locating, downloading and reading them; label noise."""

from __future__ import annotations

from typing import TYPE_CHECKING

from legendretron._internal.extras import lazy_names

if TYPE_CHECKING:
    from legendretron.datasets.libsvm import read_libsvm
    from legendretron.datasets.loading import Dataset, ImageSet, load_dataset, load_images, read_idx
    from legendretron.datasets.noise import flip_labels, pair_transition, symmetric_noise, symmetric_transition
    from legendretron.datasets.registry import (
        DATASETS,
        DatasetInfo,
        dataset_info,
    )
    from legendretron.datasets.tables import Table, read_table
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "libsvm": ("read_libsvm",),
            "loading": ("Dataset", "ImageSet", "load_dataset", "load_images", "read_idx"),
            "noise": ("flip_labels", "pair_transition", "symmetric_noise", "symmetric_transition"),
            "registry": (
                "DATASETS",
                "DatasetInfo",
                "dataset_info",
            ),
            "tables": ("Table", "read_table"),
        },
    )

__all__ = [
    "DATASETS",
    "Dataset",
    "DatasetInfo",
    "ImageSet",
    "Table",
    "dataset_info",
    "flip_labels",
    "load_dataset",
    "load_images",
    "pair_transition",
    "read_idx",
    "read_libsvm",
    "read_table",
    "symmetric_noise",
    "symmetric_transition",
]
