"""Your own tables; the paper's data sets: locating, downloading and reading them; label noise."""

from __future__ import annotations

from typing import TYPE_CHECKING

from legendretron._internal.lazy import lazy_names

if TYPE_CHECKING:
    from legendretron.datasets.downloading import DownloadError, download
    from legendretron.datasets.libsvm import read_libsvm
    from legendretron.datasets.loading import Dataset, ImageSet, load_dataset, load_image_set, load_images, read_idx
    from legendretron.datasets.noise import flip_labels, pair_transition, symmetric_noise, symmetric_transition
    from legendretron.datasets.registry import (
        DATASETS,
        DatasetInfo,
        DatasetStatus,
        RemoteFile,
        cache_folder,
        dataset_info,
        dataset_status,
        find_dataset,
    )
    from legendretron.datasets.tables import Table, read_table
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "downloading": ("DownloadError", "download"),
            "libsvm": ("read_libsvm",),
            "loading": ("Dataset", "ImageSet", "load_dataset", "load_image_set", "load_images", "read_idx"),
            "noise": ("flip_labels", "pair_transition", "symmetric_noise", "symmetric_transition"),
            "registry": (
                "DATASETS",
                "DatasetInfo",
                "DatasetStatus",
                "RemoteFile",
                "cache_folder",
                "dataset_info",
                "dataset_status",
                "find_dataset",
            ),
            "tables": ("Table", "read_table"),
        },
    )

__all__ = [
    "DATASETS",
    "Dataset",
    "DatasetInfo",
    "DatasetStatus",
    "DownloadError",
    "ImageSet",
    "RemoteFile",
    "Table",
    "cache_folder",
    "dataset_info",
    "dataset_status",
    "download",
    "find_dataset",
    "flip_labels",
    "load_dataset",
    "load_image_set",
    "load_images",
    "pair_transition",
    "read_idx",
    "read_libsvm",
    "read_table",
    "symmetric_noise",
    "symmetric_transition",
]
