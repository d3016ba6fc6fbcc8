"""CSV and TSV files whose columns are numbers, as a source."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np

from legendretron._internal.extras import import_extra
from legendretron.datasets.clean_text import clean_texts, numbers_in
from legendretron.datasets.text_file import TextFile
from legendretron.datasets.text_form import TextForm
from legendretron.streaming import Batch, BlockSource
from legendretron.streaming.batch import ROWS_OF_A_FILE


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
    ) -> None:
        self._files, self._target, self._missing, self._skips = list(files), target, missing, skip_bad_rows > 0
        self.feature_names = tuple(features)

    @property
    def n_blocks(self) -> int:
        """Files: they are read from the beginning."""
        return len(self._files)

    def read_block(self, block: int) -> Iterator[Batch]:
        """One file, in batches; lines that are no rows come last."""
        file, bad_lines = self._files[block], dict[int, str]()
        first, origin = block * ROWS_OF_A_FILE, repr(str(file.path))
        names = list(self.feature_names or ())
        columns = [*names, *([] if self._target is None else [self._target])]
        done = 0
        for records in file.batches(
            columns, numbers=names, missing=self._missing, bad_lines=bad_lines if self._skips else None
        ):
            X, y, faults = np.empty((records.num_rows, len(names))), None, dict[int, str]()
            for place, name in enumerate(names):
                X[:, place], words = self._numbers(records.column(name), file.form)
                for row, word in words.items():
                    fault = f"column {name!r} holds {word!r}, which is not a number, in row {done + row} (from 0)"
                    faults.setdefault(first + done + row, fault)
            if self._target is not None:
                y = clean_texts(records.column(self._target), self._missing).to_numpy(zero_copy_only=False)
            rows = np.arange(done, done + len(X))
            done += len(X)
            yield Batch(X, y, None, first + rows, origin, faults)
        if bad_lines:
            numbers = first + done + np.arange(len(bad_lines))
            X = np.full((len(bad_lines), len(names)), np.nan)
            y = None if self._target is None else np.full(len(X), None, dtype=object)
            yield Batch(X, y, None, numbers, origin, dict(zip(numbers.tolist(), bad_lines.values(), strict=True)))

    def _numbers(self, column: Any, form: TextForm) -> tuple[np.ndarray, dict[int, str]]:
        """Numbers of a column, NaN where there is none; and the texts that are no numbers, by their row."""
        arrow = import_extra("pyarrow", "reading text", "cli")
        if not arrow.types.is_string(column.type):
            return column.to_numpy(zero_copy_only=False), {}
        texts = clean_texts(column, self._missing).to_pandas()
        numbers = numbers_in(texts, form)
        words = texts[numbers.isna() & texts.notna()]
        return numbers.to_numpy(), dict(zip(words.index.tolist(), words.tolist(), strict=True))
