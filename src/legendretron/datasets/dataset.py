"""A data set in memory, marked as complete, as a subset, or as a copy that differs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse

from legendretron.datasets.registry import DatasetInfo


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
    source: str = ""  #: where it is from if not from the file the paper names
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
        if self.source:
            return f"{self.name} ({self.source}, {self.n_rows:,} rows)"
        remarks = [] if self.complete else [f"{self.n_rows:,} of {self.info.rows:,} rows"]
        remarks += [self.prepared] if self.prepared else []
        return f"{self.name} ({', '.join(remarks)})" if remarks else self.name


def encode_labels(labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Labels as numbers from 0 without gaps, int64, and the label each number stands for."""
    classes, y = np.unique(labels, return_inverse=True)
    return y.astype(np.int64), classes
