"""A table in files as a source that is read in batches."""

from __future__ import annotations

import functools
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from legendretron._internal.extras import arrow, arrow_datasets, import_extra
from legendretron._internal.parameters import spell
from legendretron.datasets.json_lines import find_json_fault, json_kind
from legendretron.datasets.libsvm import LibsvmSource
from legendretron.datasets.table_files import TYPED, header_of, refuse_codes
from legendretron.datasets.tables import TableParts, check_no_names, choose_columns, find_parts, type_labels
from legendretron.datasets.text_file import TextFile, join_batches, place_of_row
from legendretron.datasets.text_form import (
    GUESS,
    TextForm,
    TextOptions,
    cast_numbers,
    clean_texts,
    marks_for,
    numbers_and_words,
    truth_values,
    without_marks,
    without_written_marks,
)
from legendretron.streaming import Batch, BlockSource, Source, as_source
from legendretron.streaming.as_source import ArrowSource
from legendretron.streaming.source import ROWS_OF_A_FILE, CompleteRows
from legendretron.streaming.spool import Spool

#: Most rows of a batch of text, and most numbers.
_ROWS, _NUMBERS = 2**14, 2**20


def are_paths(data: Any) -> bool:
    """Whether data is given by the path of a file or folder, or by several."""
    if isinstance(data, list | tuple):
        return bool(data) and all(isinstance(path, str | os.PathLike) for path in data)
    return isinstance(data, str | os.PathLike)


@contextmanager
def open_rows(data: Any, **how: Any) -> Iterator[Source]:
    """Make a source as :func:`source_of` does; temporary files that it needs are deleted at the end of the block."""
    source = source_of(data, **how)
    try:
        yield source
    finally:
        if source is not data and isinstance(source, Spool):
            source.close()


def source_of(
    data: Any,
    *,
    target: str | None = None,
    weight: str | None = None,
    features: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    skip_bad_rows: int = 0,
    dtype: Any = None,
) -> Source:
    """Make a source of paths, or of anything that :func:`~legendretron.streaming.as_source` takes.

    Paths may be files, folders and patterns on this machine, or addresses such as ``s3://bucket/folder`` of Parquet files.
    """
    if target is not None and not isinstance(target, str):
        raise ValueError(
            f"target must be the name of one column of labels, got {target!r}; shares of classes are for fit."
        )
    columns: dict[str, Any] = {"target": target, "weight": weight, "features": features, "drop": tuple(drop)}
    if not are_paths(data):
        return as_source(data, **columns)
    paths = [os.fspath(path) for path in (data if isinstance(data, list | tuple) else [data])]
    if any("://" in path for path in paths):
        return as_source(_remote(paths), **columns)
    found = [find_parts(path) for path in paths]
    if len({parts.format for parts in found}) > 1:
        raise ValueError(f"data must be files of one format, got {sorted({parts.format for parts in found})}.")
    parts = TableParts(tuple(file for part in found for file in part.files), found[0].format)
    return open_source(
        parts, target, weight=weight, features=features, drop=list(drop), skip_bad_rows=skip_bad_rows, dtype=dtype
    )


def _remote(paths: list[str]) -> Any:
    """A data set of Parquet files elsewhere."""
    if len(paths) == 1:
        return arrow_datasets.dataset(paths[0], format="parquet")
    systems = import_extra("pyarrow.fs", "reading Parquet", "tables")
    found = [systems.FileSystem.from_uri(path) for path in paths]
    return arrow_datasets.dataset([path for _, path in found], format="parquet", filesystem=found[0][0])


class TextSource(BlockSource):
    """Rows of text files; labels are the texts that stand there, since only all of them tell what they are."""

    def __init__(
        self,
        files: Sequence[TextFile],
        target: str | None,
        features: Sequence[str],
        missing: Collection[str],
        *,
        skip_bad_rows: int = 0,
        whole: Sequence[str] = (),
    ) -> None:
        self._files, self._target, self._missing, self._skips = list(files), target, missing, skip_bad_rows > 0
        self._whole = frozenset(whole).intersection(features)
        self.feature_names, self.n_blocks = tuple(features), len(files)
        self._hold_truth: dict[str, bool] = {}  # whether a column holds true and false, not numbers

    def read_block(self, block: int) -> Iterator[Batch]:
        """One file, in batches; lines that are no rows come last."""
        file, bad_lines, first = self._files[block], dict[int, str](), block * ROWS_OF_A_FILE
        names = list(self.feature_names or ())
        columns = [*names, *([] if self._target is None else [self._target])]
        done = 0
        batches = file.batches(
            columns,
            numbers=[name for name in names if name not in self._whole],
            missing=self._missing,
            bad_lines=bad_lines if self._skips else None,
        )
        # the batches of the parser are small, and each takes its time, here and in every pass that follows
        for table in join_batches(batches, max(1, min(_ROWS, _NUMBERS // len(columns)))):
            (records,) = table.combine_chunks().to_batches()
            X, words = self._features(records.select(names), file, done)
            faults = {first + done + row: word for row, word in words.items()}
            y = None
            if self._target is not None:
                texts = records.column(self._target).dictionary_encode()
                clean = without_written_marks(clean_texts(texts.dictionary, self._missing), self._missing, file.form)
                different = clean.to_numpy(zero_copy_only=False)
                y = different[texts.indices.to_numpy()]
            numbers = np.arange(first + done, first + done + len(X))
            done += len(X)
            yield batch_of(file.path, file.form, X, y, numbers, faults)
        if bad_lines:
            yield bad_rows(block, file.path, file.form, {-line: fault for line, fault in bad_lines.items()}, len(names))

    def _features(self, records: Any, file: TextFile, first_row: int) -> tuple[np.ndarray, dict[int, str]]:
        """Numbers, NaN where there is none; and the first text of each row that is no number."""
        names, first = records.schema.names, dict[int, str]()
        if not any(map(arrow.types.is_string, records.schema.types)):
            X = records.to_tensor(null_to_nan=True).to_numpy()
            for name, numbers in zip(names, X.T, strict=True):
                self._check_kind(file, name, numbers)
            return without_marks(X, self._missing), first
        X, plain = np.empty(records.shape), file.form.decimal == "." and file.form.thousands is None
        for name, column, numbers in zip(names, records.columns, X.T, strict=True):
            truth = None
            if not arrow.types.is_string(column.type):
                numbers[:] = column.to_numpy(zero_copy_only=False)
            else:
                clean, found = column, cast_numbers(column) if plain else None
                if found is None:  # gaps, white space, words
                    clean = clean_texts(column, self._missing)
                    found = cast_numbers(clean) if plain else None
                if name in self._whole:
                    refuse_codes(clean, name, file, first_row)
                if found is not None:
                    numbers[:] = found
                elif (truth := truth_values(clean)) is not None:
                    numbers[:] = truth.cast(arrow.uint8()).to_numpy(zero_copy_only=False)
                else:
                    numbers[:], words = numbers_and_words(clean.to_pandas(), file.form, name)
                    first = words | first
            self._check_kind(file, name, numbers, truth is not None)
        return without_marks(X, self._missing), first

    def _check_kind(self, file: TextFile, name: str, numbers: np.ndarray, truth: bool = False) -> None:
        """As in a table that is read as a whole, where true and false are not mixed with numbers, all batches are alike."""
        known = self._hold_truth.get(name)
        if known is not truth and not np.isnan(numbers).all():
            self._hold_truth[name] = truth
            if known is not None:
                raise ValueError(
                    f"column {name!r} holds true and false in some rows, and numbers in others, see {str(file.path)!r}; "
                    f"write one or the other, or leave it out, as {spell('drop', name)}."
                )


def batch_of(
    path: Path, form: TextForm | None, X: Any, y: Any, numbers: np.ndarray, faults: Mapping[int, str] | None = None
) -> Batch:
    """Rows of a file, which messages locate as they do those in memory."""
    return Batch(X, y, None, numbers, repr(str(path)), faults or {}, functools.partial(_locate, path, form))


def _locate(path: Path, form: TextForm | None, number: int) -> str:
    lines_before_end = ROWS_OF_A_FILE - number
    return f"line {lines_before_end}" if lines_before_end < number else place_of_row(path, number, form)


def bad_rows(block: int, path: Path, form: TextForm | None, faults: Mapping[int, str], n_features: int) -> Batch:
    """Rows of the file of a block that cannot be read: what is wrong, by row from 0, or by minus the line if it is no row.

    The latter are numbered backwards from the end of the numbers of the file.
    """
    by_number = {block * ROWS_OF_A_FILE + place % ROWS_OF_A_FILE: fault for place, fault in faults.items()}
    X, y = np.full((len(by_number), n_features), np.nan), np.full(len(by_number), None, dtype=object)
    return batch_of(path, form, X, y, np.array([*by_number]), by_number)


class JSONSource(ArrowSource):
    """JSON lines; where one cannot be read, pyarrow counts from the beginning of a block, which nobody knows."""

    def read_block(self, block: int) -> Iterator[Batch]:
        """See :class:`ArrowSource`."""
        try:
            yield from super().read_block(block)
        except ValueError as error:
            path = Path(self._blocks[block].fragment.path)
            kinds = {name: json_kind(self._schema.field(name).type) for name in self._columns}
            if (fault := find_json_fault(path, kinds)) is None:
                raise
            raise ValueError(f"{str(path)!r}, {fault}; mend the line, or leave it out.") from error


#: What pyarrow calls the formats that it reads in batches.
_DATASETS = {"parquet": "parquet", "feather": "feather", "jsonl": "json"}


def open_source(
    parts: TableParts,
    target: str | None = None,
    *,
    files: Sequence[TextFile] | None = None,
    weight: str | None = None,
    features: Sequence[str] | None = None,
    drop: Sequence[str] | None = None,
    text: TextOptions = GUESS,
    skip_bad_rows: int = 0,
    missing: str = "impute",
    missing_labels: str | None = None,
    dtype: Any = None,
    whole: Sequence[str] = (),
) -> Source:
    """Open the files of a table, which are read in batches, again and again.

    All files are looked at first, unless those of text are given as ``files``: what is wrong with their columns is found
    before any work. CSV, TSV and JSON lines are read once, into temporary files that can be read faster, see
    :class:`~legendretron.streaming.spool.Spool`; ``dtype`` is that of the features there, if it is given. Rows with gaps are
    left out if ``missing`` is "drop-rows"; for ``missing_labels`` see
    :class:`~legendretron.streaming.source.CompleteRows`. In the columns ``whole`` of a text file, a number with a zero before
    other digits is an error: it may be a code.
    """
    if (missing_labels is not None or missing == "drop-rows") and parts.format != "libsvm":
        every = open_source(
            parts,
            target,
            files=files,
            features=features,
            drop=drop,
            text=text,
            skip_bad_rows=skip_bad_rows,
            dtype=dtype,
            whole=whole,
        )
        return CompleteRows(every, missing_labels, drop_gaps=missing == "drop-rows")
    if weight is not None and parts.format != "parquet":
        raise ValueError(f"weight={weight!r} names a column, which is read from Parquet only; {parts.format} is given.")
    if parts.format == "libsvm":
        check_no_names(parts.files[0], features, drop)
        return LibsvmSource(parts.files)
    if parts.format in ("csv", "tsv"):
        files = text_files(parts, text) if files is None else files
        chosen = choose_columns(files[0].path, list(files[0].names), target, features, drop)
        for file in files:
            lacking = [name for name in [*chosen, *([] if target is None else [target])] if name not in file.names]
            if lacking:
                raise ValueError(f"{str(file.path)!r} has no column {lacking[0]!r}, which {str(files[0].path)!r} has.")
        marks = marks_for(files[0].form, text.na)
        texts = TextSource(files, target, chosen, marks, skip_bad_rows=skip_bad_rows, whole=whole)
        return keep_rows(texts, parts, target, dtype)
    if text.na:
        raise ValueError(
            f"{spell('na_values', text.na[0])} applies to text files, and to tables that are read as a whole; leave "
            "such fields empty instead."
        )
    if parts.format not in _DATASETS:
        raise ValueError(
            f"{str(parts.files[0])!r} is an Excel file, which is not read in batches; save it as CSV or Parquet."
        )
    named = TYPED[parts.format]
    besides = [*(drop or ()), *([] if weight in (None, target) else [weight])]  # that of the target is refused below
    chosen = choose_columns(parts.files[0], header_of(parts.files[0], parts.format), target, features, besides)
    local = import_extra("pyarrow.fs", f"reading {named}", "tables").LocalFileSystem()
    # on this file system: a name with a colon would be taken for a URL
    opening = functools.partial(
        arrow_datasets.dataset, [str(path) for path in parts.files], format=_DATASETS[parts.format], filesystem=local
    )
    try:
        opened = opening()
        if parts.format == "jsonl":
            # typed by the first lines, where a column of numbers may have whole ones only
            fields = [
                field.with_type(arrow.float64())
                if arrow.types.is_integer(field.type) and field.name.strip() in chosen
                else field
                for field in opened.schema
            ]
            opened = opening(schema=arrow.schema(fields))
    except (arrow.ArrowException, OSError) as error:
        raise ValueError(f"{str(parts.files[0])!r} is damaged or not {named}: {error}") from error
    there = {name.strip(): name for name in opened.schema.names}
    if late := [name for name in chosen if name not in there]:
        raise ValueError(
            f"column {late[0]!r} is not in the first lines of {str(parts.files[0])!r}, by which JSON lines are typed when "
            f"they are read in batches; leave it out, as {spell('drop', late[0])}, or write it there, as null."
        )
    label, weights = (None if name is None else there[name] for name in (target, weight))
    kind = JSONSource if parts.format == "jsonl" else ArrowSource
    source = kind(opened, target=label, weight=weights, features=[there[name] for name in chosen])
    source.feature_names = tuple(chosen)
    return keep_rows(source, parts, target, dtype) if parts.format == "jsonl" else source


def keep_rows(source: BlockSource, parts: TableParts, target: str | None, dtype: Any = None) -> Spool:
    """Read all rows of the files of a table once, and keep them as numbers in temporary files."""
    more = len(parts.files) - 1
    others = f" and {more} other file{'s' if more > 1 else ''}" if more else ""
    of_what = f"target column {target!r} of {str(parts.files[0])!r}{others}"
    return Spool(source, lambda labels, origins: type_labels(labels, of_what, origins), dtype)


def text_files(parts: TableParts, text: TextOptions = GUESS) -> list[TextFile]:
    """Look at the beginning of each file of a table; none of formats that are not tables of text."""
    return [TextFile.open(path, parts.format, text) for path in parts.files] if parts.format in ("csv", "tsv") else []
