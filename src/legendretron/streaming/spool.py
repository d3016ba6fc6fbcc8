"""Rows that are slow to read, such as those of text, in temporary files after they were read once."""

from __future__ import annotations

import errno
import math
import mmap
import os
import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import joblib
import numpy as np

from legendretron._internal.extras import pandas
from legendretron.streaming.moments import Moments
from legendretron.streaming.source import Batch, BlockSource, in_precision

#: The environment variable that names the folder for temporary files; if it is not set, the system's is taken.
SPOOL_FOLDER = "LEGENDRETRON_SPOOL"
#: Files that are parsed at once, at most: each takes some tens of megabytes.
_MOST_THREADS = 4


class Spool(BlockSource):
    """A copy of a source in temporary files, which can be read quickly, and in any order; each batch is a block.

    The files are deleted by :meth:`close`, when nothing refers to the copy any more, and when the program ends, after an
    error or Ctrl-C too. They are in the folder that the environment variable ``LEGENDRETRON_SPOOL`` names, or else where
    temporary files go; there must be room for 8 bytes for each number, or for 4 if ``dtype``, that of the fit, is float32.
    """

    def __init__(
        self, source: BlockSource, type_labels: Callable[[list[Any], list[str]], np.ndarray], dtype: Any = None
    ) -> None:
        self.feature_names = source.feature_names
        asked = os.environ.get(SPOOL_FOLDER) or None
        try:
            folder = tempfile.mkdtemp(prefix="legendretron-", dir=asked)
        except OSError as error:
            raise ValueError(f"no temporary files can be written to {asked!r}: {error}; set {SPOOL_FOLDER}.") from error
        self.close = weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        labels, stopped = _Labels(), threading.Event()

        def write_all(number: int) -> list[_Block]:
            path, blocks = Path(folder, str(number)), []
            with path.open("wb") as file:
                for batch in source.read_block(number):
                    if stopped.is_set():
                        break
                    if len(batch):
                        y = None if batch.y is None else labels.find(batch.y, batch.origin)
                        kept = in_precision(replace(batch, y=y), dtype, source.feature_names)
                        blocks.append(_write(file, path, kept))
            return blocks

        try:
            # parsing text takes most of the time, and files can be parsed side by side
            with ThreadPoolExecutor(min(_MOST_THREADS, joblib.cpu_count())) as pool:
                try:
                    parts = list(pool.map(write_all, range(source.n_blocks)))
                except BaseException:
                    stopped.set()
                    raise
            self._blocks = [block for part in parts for block in part]
            self.n_blocks = len(self._blocks)
            known = [label for _, label in labels.places]
            self._labels = type_labels(known, labels.origins) if known else np.empty(0)
        except BaseException as error:
            self.close()
            if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise ValueError(
                    f"the disk of {folder!r}, which holds temporary copies of the table, is full; free some space, or set "
                    f"the environment variable {SPOOL_FOLDER} to a folder on another disk."
                ) from error
            raise

    def read_block(self, block: int) -> Iterator[Batch]:
        """One batch."""
        path, start, size, forms, rest = self._blocks[block]
        with path.open("rb") as file:
            # a map of this batch alone: pages of others would count as memory that is used
            raw = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_COPY, offset=start)
        arrays, place = dict[str, np.ndarray](), 0
        for name, (dtype, shape) in forms.items():
            arrays[name] = np.frombuffer(raw, dtype, math.prod(shape), place).reshape(shape)
            place += arrays[name].nbytes
        if "y" in arrays:
            arrays["y"] = self._type_labels(arrays["y"])
        yield replace(rest, **arrays)  # type: ignore[arg-type]

    def _type_labels(self, places: np.ndarray) -> np.ndarray:
        """Labels by their places; missing ones, at -1, are NaN among numbers, and None among others."""
        missing = places < 0
        if not missing.any():
            return self._labels[places]
        kind: Any = np.float64 if self._labels.dtype.kind == "i" else object
        y = np.full(len(places), None, dtype=kind)
        y[~missing] = self._labels[places[~missing]]
        return y


class _Block(NamedTuple):
    """Where the arrays of a batch are."""

    path: Path
    start: int
    size: int  #: in bytes
    forms: dict[str, tuple[np.dtype[Any], tuple[int, ...]]]  #: types and shapes of the arrays, one after the other
    rest: Batch  #: the batch without its arrays


def _write(file: BinaryIO, path: Path, batch: Batch) -> _Block:
    """Write the arrays of a batch as they are in memory, so that later passes neither decode nor copy them.

    Means and deviations are taken while the rows are near.
    """
    names = "row_numbers", "weight", "X", "y"  # no array's entries are longer than those before
    arrays = {name: np.ascontiguousarray(part) for name in names if (part := getattr(batch, name)) is not None}
    start = file.seek(-file.tell() % mmap.ALLOCATIONGRANULARITY, os.SEEK_CUR)
    for part in arrays.values():
        file.write(part.data)
    moments = Moments(batch.X.shape[1])
    moments.add(batch.X, np.ones(len(batch)))
    known = np.isfinite(moments.squares).all()
    return _Block(
        path,
        start,
        file.tell() - start,
        {name: (part.dtype, part.shape) for name, part in arrays.items()},
        replace(batch, moments=moments if known else None, **dict.fromkeys(names)),  # type: ignore[arg-type]
    )


class _Labels:
    """Labels in the order in which they were met, by several threads."""

    def __init__(self) -> None:
        self.places: dict[tuple[bool, Any], int] = {}  #: by whether they are true or false, which equal 1 and 0
        self.origins: list[str] = []  #: where each was met first
        self._lock = threading.Lock()

    def find(self, labels: np.ndarray, origin: str) -> np.ndarray:
        """Places of labels, to which new ones are added; -1 for those that are missing."""
        codes, different = pandas.factorize(labels)
        with self._lock:
            keys = [(isinstance(label, bool), label) for label in different.tolist()]
            places = [self.places.setdefault(key, len(self.places)) for key in keys]
            self.origins += [origin] * (len(self.places) - len(self.origins))
        return np.array([*places, -1], dtype=np.int32)[codes]
