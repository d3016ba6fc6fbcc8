"""Rows that are slow to read, such as those of text, in temporary Parquet files after they were read once."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import joblib
import numpy as np

from legendretron._internal.extras import arrow, pandas, parquet
from legendretron._internal.labels import missing_labels
from legendretron.streaming.source import Batch, BlockSource, Source, read_ahead

#: The environment variable that names the folder for temporary files; if it is not set, the system's is taken.
SPOOL_FOLDER = "LEGENDRETRON_SPOOL"
_BLOCK_BYTES, _BLOCK_ROWS = 2**24, 2**16  # of a file, at most
_BATCH_ROWS = 2**14
#: Files that are parsed at once, at most: each takes some tens of megabytes.
_MOST_THREADS = 4


class Spool(BlockSource):
    """A copy of a source in temporary files, which can be read quickly, and in any order.

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

        def write_all(batches: Iterator[Batch], block: int) -> list[tuple[Path, str]]:
            files: list[tuple[Path, str]] = []
            for batch in _join(read_ahead(batches)):
                if stopped.is_set():
                    break
                path = Path(folder, f"{block:06}-{len(files):06}.parquet")
                _write(path, batch, labels)
                files.append((path, batch.origin))
            return files

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
            self._files = [file for part in parts for file in part]
            self.n_blocks = len(self._files)
            self._labels = type_labels(list(labels.places)) if labels.places else np.empty(0)
        except BaseException as error:
            self.close()
            if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise ValueError(
                    f"the disk of {folder!r} is full, where the table is kept while it is read; make room, or name a folder "
                    f"on another disk by the environment variable {SPOOL_FOLDER}."
                ) from error
            raise

    def read_block(self, block: int) -> Iterator[Batch]:
        """One file, in batches."""
        path, origin = self._files[block]
        with parquet.ParquetFile(path, pre_buffer=False) as file:
            for records in file.iter_batches(_BATCH_ROWS, use_threads=False):
                columns = dict(zip(records.schema.names, records.columns, strict=True))
                rows = columns.pop("row").to_numpy()
                labels, weight, faults = (columns.pop(name, None) for name in ("label", "weight", "fault"))
                single = all(str(column.type) == "float" for column in columns.values())
                X = np.empty((len(rows), len(columns)), dtype=np.float32 if single else np.float64)
                for place, column in enumerate(columns.values()):
                    X[:, place] = column.to_numpy()
                found = [None] * len(rows) if faults is None else faults.to_pylist()
                yield Batch(
                    X,
                    None if labels is None else self._type_labels(labels.to_numpy()),
                    None if weight is None else weight.to_numpy(),
                    rows,
                    origin,
                    {number: fault for number, fault in zip(rows.tolist(), found, strict=True) if fault is not None},
                )

    def _type_labels(self, places: np.ndarray) -> np.ndarray:
        """Labels by their places; missing ones, at -1, are NaN among numbers, and None among others."""
        missing = places < 0
        if not missing.any():
            return self._labels[places]
        kind: Any = np.float64 if self._labels.dtype.kind == "i" else object
        y = np.full(len(places), None, dtype=kind)
        y[~missing] = self._labels[places[~missing]]
        return y


def _join(batches: Iterator[Batch]) -> Iterator[Batch]:
    """The same rows in fewer batches, each for a file."""
    held: list[Batch] = []
    n = 0
    for batch in batches:
        if held and batch.origin != held[0].origin:
            yield _join_batches(held)
            held, n = [], 0
        held.append(batch)
        n += len(batch)
        if n >= min(_BLOCK_ROWS, _BLOCK_BYTES // (8 * batch.X.shape[1])):
            yield _join_batches(held)
            held, n = [], 0
    if held:
        yield _join_batches(held)


def _join_batches(batches: list[Batch]) -> Batch:
    first = batches[0]
    return Batch(
        np.concatenate([batch.X for batch in batches]),
        None if first.y is None else np.concatenate([batch.y for batch in batches if batch.y is not None]),
        None if first.weight is None else np.concatenate([b.weight for b in batches if b.weight is not None]),
        np.concatenate([batch.row_numbers for batch in batches]),
        first.origin,
        {number: fault for batch in batches for number, fault in batch.faults.items()},
    )


class _Labels:
    """Labels in the order in which they were met, by several threads."""

    def __init__(self) -> None:
        self.places: dict[Any, int] = {}
        self._lock = threading.Lock()

    def find(self, labels: np.ndarray) -> np.ndarray:
        """Places of labels, to which new ones are added."""
        codes, found = pandas.factorize(labels)
        with self._lock:
            places = [self.places.setdefault(label, len(self.places)) for label in found.tolist()]
        return np.array(places, dtype=np.int32)[codes]


def _write(path: Path, batch: Batch, labels: _Labels) -> None:
    """Write a batch, with the places of its labels."""
    columns = {str(place): arrow.array(column) for place, column in enumerate(np.ascontiguousarray(batch.X.T))}
    columns["row"] = arrow.array(batch.row_numbers)
    if batch.y is not None:
        own = np.full(len(batch), -1, dtype=np.int32)
        there = ~missing_labels(batch.y)
        if there.any():
            own[there] = labels.find(batch.y[there])
        columns["label"] = arrow.array(own)
    if batch.weight is not None:
        columns["weight"] = arrow.array(batch.weight)
    if batch.faults:
        columns["fault"] = arrow.array([batch.faults.get(number) for number in batch.row_numbers.tolist()])
    # compressing numbers, or looking for those that are alike, takes longer than reading all of them
    parquet.write_table(arrow.table(columns), path, compression="none", use_dictionary=False, write_statistics=False)
