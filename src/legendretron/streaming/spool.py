"""Rows that are slow to read, such as those of text, in temporary files after they were read once."""

from __future__ import annotations

import errno
import os
import pickle
import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import joblib
import numpy as np

from legendretron._internal.extras import pandas
from legendretron.streaming.source import Batch, BlockSource, Source

#: The environment variable that names the folder for temporary files; if it is not set, the system's is taken.
SPOOL_FOLDER = "LEGENDRETRON_SPOOL"
#: Files that are parsed at once, at most: each takes some tens of megabytes.
_MOST_THREADS = 4


class Spool(BlockSource):
    """A copy of a source in temporary files, which can be read quickly, and in any order; each batch is a block.

    The files are deleted by :meth:`close`, when nothing refers to the copy any more, and when the program ends, after an
    error or Ctrl-C too. They are in the folder that the environment variable ``LEGENDRETRON_SPOOL`` names, or else where
    temporary files go; there must be room for 8 bytes for each number.
    """

    def __init__(self, source: Source, type_labels: Callable[[list[Any]], np.ndarray]) -> None:
        self.feature_names = source.feature_names
        asked = os.environ.get(SPOOL_FOLDER) or None
        try:
            folder = tempfile.mkdtemp(prefix="legendretron-", dir=asked)
        except OSError as error:
            raise ValueError(f"no temporary files can be written to {asked!r}: {error}; set {SPOOL_FOLDER}.") from error
        self.close = weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        labels, stopped = _Labels(), threading.Event()

        def write_all(batches: Iterator[Batch], number: int) -> list[tuple[Path, int]]:
            path, starts = Path(folder, str(number)), []
            with path.open("wb") as file:
                for batch in batches:
                    if stopped.is_set():
                        break
                    starts.append(file.tell())
                    y = None if batch.y is None else labels.find(batch.y)
                    # as it is in memory: nothing has to be decoded in the passes to come
                    pickle.dump(replace(batch, y=y), file, protocol=5)
            return [(path, start) for start in starts]

        try:
            if isinstance(source, BlockSource):
                # parsing text takes most of the time, and files can be parsed side by side
                with ThreadPoolExecutor(min(_MOST_THREADS, joblib.cpu_count())) as pool:
                    try:
                        blocks = range(source.n_blocks)
                        parts = list(pool.map(lambda block: write_all(source.read_block(block), block), blocks))
                    except BaseException:
                        stopped.set()
                        raise
            else:
                parts = [write_all(source.batches(), 0)]
            self._blocks = [block for part in parts for block in part]
            self.n_blocks = len(self._blocks)
            self._labels = type_labels(list(labels.places)) if labels.places else np.empty(0)
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
        path, start = self._blocks[block]
        with path.open("rb") as file:
            file.seek(start)
            batch: Batch = pickle.load(file)  # which this process has written, where no one else may write
        yield batch if batch.y is None else replace(batch, y=self._type_labels(batch.y))

    def _type_labels(self, places: np.ndarray) -> np.ndarray:
        """Labels by their places; missing ones, at -1, are NaN among numbers, and None among others."""
        missing = places < 0
        if not missing.any():
            return self._labels[places]
        kind: Any = np.float64 if self._labels.dtype.kind == "i" else object
        y = np.full(len(places), None, dtype=kind)
        y[~missing] = self._labels[places[~missing]]
        return y


class _Labels:
    """Labels in the order in which they were met, by several threads."""

    def __init__(self) -> None:
        self.places: dict[Any, int] = {}
        self._lock = threading.Lock()

    def find(self, labels: np.ndarray) -> np.ndarray:
        """Places of labels, to which new ones are added; -1 for those that are missing."""
        codes, different = pandas.factorize(labels)
        with self._lock:
            places = [self.places.setdefault(label, len(self.places)) for label in different.tolist()]
        return np.array([*places, -1], dtype=np.int32)[codes]
