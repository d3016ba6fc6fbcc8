"""CSV and TSV files as a source: read in blocks, never as a whole."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from legendretron._internal.extras import import_extra
from legendretron._internal.numbers import written_numbers
from legendretron.datasets.clean_text import marks_for
from legendretron.datasets.compressed import open_compressed
from legendretron.datasets.table_files import header_of
from legendretron.datasets.tables import choose_columns, typed_labels
from legendretron.datasets.text_form import TextForm, TextOptions, text_form
from legendretron.streaming import Batch, BlockSource
from legendretron.streaming.batch import ROWS_OF_A_FILE

__all__ = ["TextSource"]

_BLOCK = 2**22  # bytes
_COLUMN = re.compile(r"In CSV column #\d+: ")


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
        How many lines with too many or too few fields a file may have. Such lines, and numbers that cannot be read, become
        rows with ``faults``, so that all bad rows are counted together by who reads the batches.
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
        self._files, self._target = list(files), target
        self._forms = [text_form(path, format, given) for path in files]
        self._missing = marks_for(self._forms[0], given.na)
        self._most = skip_bad_rows
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
        """One file, in batches; lines that are no rows come last."""
        done, bad_lines = 0, dict[int, str]()
        try:
            for records in self._records(block, as_text=False, bad_lines=bad_lines):
                yield self._batch(block, records, done)
                done += records.num_rows
        except _NotANumberError:  # the rest as text, of which each field is looked at
            left, bad_lines = done, {}
            for records in self._records(block, as_text=True, bad_lines=bad_lines):
                rest = records.slice(left)
                left = max(0, left - records.num_rows)
                if rest.num_rows:
                    yield self._batch(block, rest, done)
                    done += rest.num_rows
        if bad_lines:
            numbers = block * ROWS_OF_A_FILE + ROWS_OF_A_FILE // 2 + np.array(sorted(bad_lines))
            X = np.full((len(bad_lines), len(self._features)), np.nan)
            y = None if self._labels is None else np.full(len(X), self._labels[None], dtype=self._kind)
            faults = dict(zip(numbers.tolist(), (bad_lines[line] for line in sorted(bad_lines)), strict=True))
            yield Batch(X, y, None, numbers, repr(str(self._files[block])), faults)

    def _batch(self, block: int, records: Any, first_row: int) -> Batch:
        n = records.num_rows
        X, y = np.empty((n, len(self._features))), None
        numbers = block * ROWS_OF_A_FILE + np.arange(first_row, first_row + n)
        faults: dict[int, str] = {}
        for place, name in enumerate(self._features):
            X[:, place], wrong = self._numbers(records.column(name), self._forms[block])
            for row, text in wrong.items():
                fault = f"column {name!r} holds {text!r}, which is not a number, in row {first_row + row} (from 0)"
                faults.setdefault(int(numbers[row]), fault)
        if self._labels is not None:
            texts = records.column(self._target).to_pylist()
            y = np.array([self._labels[text] for text in self._clean(texts)], dtype=self._kind)
        return Batch(X, y, None, numbers, repr(str(self._files[block])), faults)

    def _clean(self, texts: list[str | None]) -> list[str | None]:
        """Texts without white space at their ends; None where one stands for a missing value."""
        stripped = [None if text is None else text.strip() for text in texts]
        return [None if text in self._missing else text for text in stripped]

    def _numbers(self, column: Any, form: TextForm) -> tuple[np.ndarray, dict[int, str]]:
        """Numbers of a column, NaN where there is none; and the texts that are no numbers, by their row."""
        arrow = import_extra("pyarrow", "reading text in batches", "cli")
        if not arrow.types.is_string(column.type):
            return column.to_numpy(zero_copy_only=False), {}
        texts = self._clean(column.to_pylist())
        numbers = written_numbers([text or "" for text in texts], form.decimal, form.thousands)
        return numbers, {row: text for row, text in enumerate(texts) if text is not None and np.isnan(numbers[row])}

    def _all_labels(self) -> dict[str | None, Any]:
        """The label of each text in the target column."""
        assert self._target is not None
        texts: dict[str, None] = {}
        for block in range(len(self._files)):
            for records in self._records(block, as_text=False, bad_lines={}, columns=[self._target]):
                values = records.column(self._target).unique().to_pylist()
                texts |= dict.fromkeys(text for text in self._clean(values) if text is not None)
        labels = typed_labels(list(texts), f"target column {self._target!r} of {str(self._files[0])!r}")
        self._kind = object if labels.dtype.kind == "O" else None  # of missing ones too: they become None, or NaN
        missing = np.nan if labels.dtype.kind == "i" else None
        return {**dict(zip(texts, labels.tolist(), strict=True)), None: missing}

    def _records(
        self, block: int, *, as_text: bool, bad_lines: dict[int, str], columns: list[str] | None = None
    ) -> Iterator[Any]:
        """Record batches of a file; columns of features are numbers, or text. Lines that are no rows are added to those."""
        csv = import_extra("pyarrow.csv", "reading text in batches", "cli")
        arrow = import_extra("pyarrow", "reading text in batches", "cli")
        path, header, form = self._files[block], self._headers[block], self._forms[block]
        wanted = columns or [*self._features, *([] if self._target is None else [self._target])]

        def bad_line(row: Any) -> str:
            bad_lines[row.number] = f"line {row.number} has {row.actual_columns} fields, not {row.expected_columns}"
            return "skip" if len(bad_lines) <= self._most else "error"

        kinds = {
            name: arrow.string() if as_text or name == self._target else arrow.float64()
            for name in wanted
        }  # fmt: skip
        with open_compressed(path) as file, _naming(path):
            yield from csv.open_csv(
                file,
                read_options=csv.ReadOptions(
                    block_size=_BLOCK, column_names=header, skip_rows=1, use_threads=False, encoding=form.encoding
                ),
                parse_options=csv.ParseOptions(delimiter=form.sep, invalid_row_handler=bad_line),
                convert_options=csv.ConvertOptions(
                    column_types=kinds,
                    include_columns=wanted,
                    null_values=[*self._missing],
                    strings_can_be_null=True,
                    decimal_point=form.decimal,
                ),
            )


class _NotANumberError(ValueError):
    """A column of numbers holds something else."""


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Inside the block, errors of pyarrow become a ``ValueError`` that names the file, or says that a field is no number."""
    arrow = import_extra("pyarrow", "reading text in batches", "cli")
    try:
        yield
    except arrow.ArrowException as error:
        reason = str(error)
        if _COLUMN.search(reason):
            raise _NotANumberError(f"{str(path)!r}: {reason}") from error
        raise ValueError(f"{str(path)!r} is not a regular table: {reason.removeprefix('CSV parse error: ')}") from error
