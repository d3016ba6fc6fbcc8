"""CSV and TSV files as a source: read in blocks, never as a whole."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from legendretron._internal.extras import import_extra
from legendretron.datasets.compressed import open_compressed
from legendretron.datasets.table_files import header_of
from legendretron.datasets.tables import choose_columns, typed_labels
from legendretron.datasets.text_form import TextOptions, text_form
from legendretron.streaming import BadRowError, Batch, BlockSource
from legendretron.streaming.batch import ROWS_OF_A_FILE

__all__ = ["TextSource"]

_BLOCK = 2**22  # bytes
#: Fields that count as missing, as pandas has them.
_MISSING = [
    "",
    "#N/A",
    "#N/A N/A",
    "#NA",
    "-NaN",
    "-nan",
    "<NA>",
    "N/A",
    "NA",
    "NULL",
    "NaN",
    "None",
    "n/a",
    "nan",
    "null",
]
_COLUMN = re.compile(r"In CSV column #(\d+): ")


class TextSource(BlockSource):
    """CSV or TSV files with the same columns.

    Labels are whole numbers, booleans or text by all values that the target column has, as in
    :func:`~legendretron.datasets.read_table`; that takes a pass over this column first.

    Parameters
    ----------
    files : sequence of Path
        The files, in their order; they may be compressed.
    format : {"csv", "tsv"}
        Their format.
    target : str, optional
        Column of the labels.
    features, drop : sequence of str, optional
        Columns to take as features, by default all others, and to leave out.
    text : TextOptions, optional
        How the files are written; found out for each of them if not given.
    skip_bad_rows : int
        How many lines with too many or too few fields may be left out.

    Attributes
    ----------
    n_bad_lines : int
        How many have been, in the last pass.
    """

    def __init__(
        self,
        files: Sequence[Path],
        format: str,
        target: str | None = None,
        *,
        features: Sequence[str] | None = None,
        drop: Sequence[str] | None = None,
        text: TextOptions | None = None,
        skip_bad_rows: int = 0,
    ) -> None:
        given = TextOptions() if text is None else text
        self._files, self._target, self._missing = list(files), target, [*_MISSING, *given.na]
        self._forms = [text_form(path, format, given) for path in files]
        self._most, self.n_bad_lines = skip_bad_rows, 0
        self._headers = [header_of(path, format, text) for path in files]
        self._features = tuple(choose_columns(files[0], self._headers[0], target, features, drop))
        self.feature_names = self._features
        wanted = [*self._features, *([] if target is None else [target])]
        for path, header in zip(files, self._headers, strict=True):
            lacking = [name for name in wanted if name not in header]
            if lacking:
                raise ValueError(f"{str(path)!r} has no column {lacking[0]!r}, which {str(files[0])!r} has.")
        self._labels = None if target is None else self._all_labels()

    @property
    def n_blocks(self) -> int:
        """Files: they are read from the beginning."""
        return len(self._files)

    def read_block(self, block: int) -> Iterator[Batch]:
        """One file, in batches."""
        origin, done = repr(str(self._files[block])), block * ROWS_OF_A_FILE
        for records in self._records(block, [*self._features, *([] if self._target is None else [self._target])]):
            n = records.num_rows
            X = np.empty((n, len(self._features)))
            for place, name in enumerate(self._features):
                X[:, place] = records.column(name).to_numpy(zero_copy_only=False)
            y = None
            if self._labels is not None:
                texts = records.column(self._target).to_pylist()
                y = np.array(
                    [self._labels[None if text is None else text.lstrip()] for text in texts], dtype=self._kind
                )
            yield Batch(X, y, None, np.arange(done, done + n), origin)
            done += n

    def _all_labels(self) -> dict[str | None, Any]:
        """The label of each text in the target column."""
        assert self._target is not None
        texts: dict[str, None] = {}
        for block in range(len(self._files)):
            for records in self._records(block, [self._target]):
                values = records.column(self._target).unique().to_pylist()
                texts |= dict.fromkeys(text.lstrip() for text in values if text is not None)
        labels = typed_labels(list(texts), f"target column {self._target!r} of {str(self._files[0])!r}")
        self._kind = object if labels.dtype.kind == "O" else None  # of missing ones too: they become None, or NaN
        missing = None if labels.dtype.kind == "O" else np.nan
        return {**dict(zip(texts, labels.tolist(), strict=True)), None: missing}

    def _records(self, block: int, columns: list[str]) -> Iterator[Any]:
        csv = import_extra("pyarrow.csv", "reading text in batches", "cli")
        arrow = import_extra("pyarrow", "reading text in batches", "cli")
        path, header, form = self._files[block], self._headers[block], self._forms[block]
        if block == 0:
            self.n_bad_lines = 0

        def bad_line(row: Any) -> str:
            self.n_bad_lines += 1
            return "skip" if self.n_bad_lines <= self._most else "error"

        kinds = {name: arrow.string() if name == self._target else arrow.float64() for name in columns}
        with open_compressed(path) as file, _naming(path, header):
            yield from csv.open_csv(
                file,
                read_options=csv.ReadOptions(
                    block_size=_BLOCK, column_names=header, skip_rows=1, use_threads=False, encoding=form.encoding
                ),
                parse_options=csv.ParseOptions(delimiter=form.sep, invalid_row_handler=bad_line),
                convert_options=csv.ConvertOptions(
                    column_types=kinds,
                    include_columns=columns,
                    null_values=self._missing,
                    strings_can_be_null=True,
                    decimal_point=form.decimal,
                ),
            )


@contextmanager
def _naming(path: Path, header: list[str]) -> Iterator[None]:
    """Inside the block, errors of pyarrow become a ``ValueError`` that names the file and the column."""
    arrow = import_extra("pyarrow", "reading text in batches", "cli")
    try:
        yield
    except arrow.ArrowException as error:
        reason, column = str(error), _COLUMN.search(str(error))
        if column is not None:
            raise BadRowError(
                f"{str(path)!r}: column {header[int(column[1])]!r} is not numbers only: {reason[column.end() :]}; leave it "
                "out (fit --drop), or encode it as numbers."
            ) from error
        raise ValueError(f"{str(path)!r} is not a regular table: {reason.removeprefix('CSV parse error: ')}") from error
