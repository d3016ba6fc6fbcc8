"""Copies of the paper's data sets on OpenML; they differ from the paper's files and are labelled as such."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.error import URLError

import numpy as np
import scipy.sparse
from sklearn.datasets import fetch_openml

from legendretron.datasets.dataset import Dataset, encode_labels
from legendretron.datasets.registry import DATASETS, DatasetInfo, dataset_info


def load_openml(name_or_id: str | int, data_home: str | Path | None = None, n_retries: int = 3) -> Dataset:
    """Load OpenML's copy of a data set of the paper, through :func:`sklearn.datasets.fetch_openml`.

    OpenML's copies are not scaled, or also have test rows or further columns: only the LIBSVM files reproduce the paper's
    numbers. So ``complete`` is False and ``label`` names OpenML, whatever the number of rows.

    Parameters
    ----------
    name_or_id : str or int
        A name of :data:`DATASETS`, or the OpenML id of one.
    data_home : path or None, default=None
        Folder of the copies; None for scikit-learn's default.
    n_retries : int, default=3
        Number of attempts to connect, as in ``fetch_openml``.

    Returns
    -------
    Dataset
        ``X`` of shape (n, features) is dense, float64; nominal columns are encoded as numbers. ``classes`` are OpenML's.

    Examples
    --------
    >>> load_openml("sector")
    Traceback (most recent call last):
    ...
    ValueError: sector has no known copy on OpenML; use load_dataset('sector').
    """
    info = _info(name_or_id)
    try:
        bunch = fetch_openml(
            data_id=info.openml,
            data_home=None if data_home is None else str(data_home),
            as_frame=False,
            parser="liac-arff",  # the other one needs pandas
            n_retries=n_retries,
        )
    except (URLError, TimeoutError, ConnectionError) as error:
        raise ValueError(
            f"{info.name} (OpenML {info.openml}) could not be downloaded: {error}. Try again later, or get the published "
            f"file. {info.how_to_get}"
        ) from error
    X, labels = _numbers(info, bunch.data), np.asarray(bunch.target)
    if labels.ndim != 1 or len(labels) != len(X):
        raise ValueError(f"{info.name} (OpenML {info.openml}) has no column of labels. {info.how_to_get}")
    y, classes = encode_labels(labels)
    if len(classes) != info.classes:
        raise ValueError(
            f"{info.name} (OpenML {info.openml}) has {len(classes)} classes, but {info.classes} are expected: the id may "
            f"stand for another data set. {info.how_to_get}"
        )
    source = f"OpenML {info.openml}, not the published file"
    return Dataset(info.name, X, y, classes, False, None, info, source)


def _info(name_or_id: str | int) -> DatasetInfo:
    if isinstance(name_or_id, int) and not isinstance(name_or_id, bool):
        known = {info.openml: info for info in DATASETS.values() if info.openml is not None}
        if name_or_id not in known:
            ids = ", ".join(f"{number} ({info.name})" for number, info in known.items())
            raise ValueError(
                f"name_or_id must be one of {ids}, got {name_or_id}; others: sklearn.datasets.fetch_openml."
            )
        return known[name_or_id]
    info = dataset_info(str(name_or_id))
    if info.openml is None:
        raise ValueError(f"{info.name} has no known copy on OpenML; use load_dataset({info.name!r}).")
    return info


def _numbers(info: DatasetInfo, data: Any) -> np.ndarray:
    try:
        X = np.asarray(data.toarray() if scipy.sparse.issparse(data) else data, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{info.name} (OpenML {info.openml}) has columns that are not numbers: {error}.") from error
    if not np.isfinite(X).all():
        raise ValueError(f"{info.name} (OpenML {info.openml}) has missing or infinite values. {info.how_to_get}")
    return X
