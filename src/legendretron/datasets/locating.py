"""Which data sets are in a folder, judged by file names alone."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple

from legendretron.datasets.registry import DATASETS, DatasetInfo, dataset_info, spelling


class DatasetStatus(NamedTuple):
    """State of a data set in a folder, judged by file names.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     status = find_dataset("iris", folder)
    >>> status.info.name, status.path, status.state
    ('iris', None, 'missing')
    """

    info: DatasetInfo
    path: Path | None  #: the file, or the folder of images; None if missing
    state: str  #: ``"complete"``, ``"subset"``, ``"incomplete"`` (some files of images) or ``"missing"``
    declared_rows: int | None = None  #: number of rows that the name of a subset declares


def cache_folder() -> Path:
    """Where downloads are kept: ``$LEGENDRETRON_DATA``, or ``legendretron`` in the user's cache folder.

    Examples
    --------
    >>> os.environ["LEGENDRETRON_DATA"] = "/data/legendretron"
    >>> str(cache_folder())
    '/data/legendretron'
    >>> del os.environ["LEGENDRETRON_DATA"]
    """
    chosen = os.environ.get("LEGENDRETRON_DATA")
    if chosen:
        return Path(chosen).expanduser()
    cache = os.environ.get("XDG_CACHE_HOME", "")
    # the XDG specification ignores relative paths
    return (Path(cache) if os.path.isabs(cache) else Path.home() / ".cache") / "legendretron"


def find_dataset(name: str, data: str | Path | None = None) -> DatasetStatus:
    """Look for a data set without reading its files.

    Parameters
    ----------
    name : str
        One of :data:`DATASETS`.
    data : path or None, default=None
        A folder with the files, or with sub-folders such as ``libsvm/`` and ``mnist/``; None for :func:`cache_folder`.

    Returns
    -------
    DatasetStatus

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Path(folder, "Sensorless.subset5500.scale.bz2").touch()
    ...     find_dataset("Sensorless", folder).state, find_dataset("iris", folder).state
    ('subset', 'missing')
    """
    info = dataset_info(name)
    folder = cache_folder() if data is None else Path(data).expanduser()
    if data is not None and not folder.is_dir():
        raise ValueError(f"data must be a folder that exists, got {str(data)!r}; leave it out to download the files.")
    return _find_images(info, folder) if info.kind == "images" else _find_file(info, folder)


def dataset_status(data: str | Path | None = None) -> list[DatasetStatus]:
    """:func:`find_dataset` for every data set, in the order of the paper's tables.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Path(folder, "iris.scale").touch()
    ...     [status.info.name for status in dataset_status(folder) if status.state == "complete"]
    ['iris']
    """
    return [find_dataset(name, data) for name in DATASETS]


def _entries(folder: Path) -> dict[str, Path]:
    """Files of a folder by lower-case name; empty if there is no such folder."""
    try:
        return {path.name.lower(): path for path in sorted(folder.iterdir())}
    except (FileNotFoundError, NotADirectoryError):
        return {}


def _find_file(info: DatasetInfo, folder: Path) -> DatasetStatus:
    folders = [_entries(inner) for inner in (folder, folder / "libsvm", folder / info.name)]
    for entries in folders:
        for name in info.files:
            path = entries.get(name.lower())
            if path is not None and path.is_file():
                return DatasetStatus(info, path, "complete")
    first, dot, rest = info.stem.partition(".")
    pattern = re.compile(rf"{re.escape(first)}\.subset(\d+){re.escape(dot + rest)}(\.bz2|\.xz|\.gz)?", re.IGNORECASE)
    subsets = [
        (int(match[1]), path)
        for entries in folders
        for name, path in entries.items()
        if (match := pattern.fullmatch(name))
    ]
    if subsets:
        rows, path = max(subsets, key=lambda subset: subset[0])
        return DatasetStatus(info, path, "subset", rows)
    return DatasetStatus(info, None, "missing")


def _find_images(info: DatasetInfo, folder: Path) -> DatasetStatus:
    # file names are the same for all sets of images, so the folder's name must identify the set
    named = [path for path in (folder, *_entries(folder).values()) if spelling(path.name) == spelling(info.name)]
    best = DatasetStatus(info, None, "missing")
    for inner in (inner for path in named for inner in (path, path / "raw")):
        entries = _entries(inner)
        parts = [_part(name, entries) for name in info.files]
        if all(rows == 0 for rows in parts):
            return DatasetStatus(info, inner, "complete")
        if None not in parts:
            best = DatasetStatus(info, inner, "subset", max(rows for rows in parts if rows is not None))
        elif best.path is None and any(rows is not None for rows in parts):
            best = DatasetStatus(info, inner, "incomplete")
    return best


def _part(name: str, entries: dict[str, Path]) -> int | None:
    """0 if the file exists, the number in its name if it is a declared subset, None if it is missing."""
    if name in entries:
        return 0
    first, _, rest = name.partition("-")
    declared = [match[1] for entry in entries if (match := re.fullmatch(rf"{first}(\d+)-{re.escape(rest)}", entry))]
    return int(declared[0]) if declared else None
