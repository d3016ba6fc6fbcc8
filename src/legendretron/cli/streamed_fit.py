"""Fits to tables that are read in batches."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from legendretron.cli.command_options import FitOptions
from legendretron.cli.models import LeftOut
from legendretron.cli.summaries import FitScores, check_named, naming_data, warn_of_similar_labels
from legendretron.cli.terminal import Terminal
from legendretron.datasets.streams import bad_rows, batch_of, keep_rows, open_source, text_files
from legendretron.datasets.table_files import TYPED
from legendretron.datasets.tables import (
    Table,
    TableParts,
    check_finite,
    codes_among,
    has_only_numbers,
    numbers_among,
    read_in_chunks,
    whole_numbers_among,
    without_faults,
)
from legendretron.datasets.text_form import TextForm
from legendretron.estimators.base import LinearLinkClassifier
from legendretron.estimators.stream_fit import SAMPLE_ROWS
from legendretron.preprocessing import TableEncoder
from legendretron.preprocessing.drift import DriftWatch
from legendretron.preprocessing.statistics import StrayTextError
from legendretron.streaming import Batch, BlockSource, Source, scan
from legendretron.streaming.source import ROWS_OF_A_FILE, CompleteRows, RowCheck, read_ahead

if TYPE_CHECKING:
    from collections.abc import Callable


class EncodedSource(BlockSource):
    """Rows as an encoder encodes them, which is fitted in a pass of its own."""

    def __init__(
        self, parts: TableParts, target: str, encoder: TableEncoder, *, skip_bad_rows: int = 0, **options: Any
    ) -> None:
        self._parts, self._target, self._options, self.encoder = parts, target, options, encoder
        self._skips, self.n_blocks = skip_bad_rows > 0, len(parts.files)
        self.left_out, self.forms = LeftOut(), dict[Path, TextForm | None]()
        with naming_data(parts.files, lambda: (table for path in parts.files for table in self._tables(path, {}))):
            for path in parts.files:
                for table in self._tables(path, {}):
                    self.forms[path] = table.form
                    self.left_out.add(table)
                    if table.X.shape[0]:
                        self._learn(table, options.get("numbers", ()))
            self.feature_names = tuple(encoder.get_feature_names_out())

    def _learn(self, table: Table, numbers: Sequence[str]) -> None:
        """Fit the encoder to the rows of a table; columns of ``numbers`` should hold nothing else."""
        try:
            check_finite(table)
            self.encoder.partial_fit(table.X)
        except StrayTextError:  # may be in rows before these
            raise
        except ValueError as error:
            if repr(str(table.path)) in str(error):
                raise
            _, words = without_faults(table.X, None, numbers, table.form)
            where = f", {table.place_of(min(words))}" if words else ""
            raise ValueError(f"{str(table.path)!r}{where}: {error}") from error

    def _tables(self, path: Path, faults: dict[int, str]) -> Iterator[Table]:
        one_file = TableParts((path,), self._parts.format)
        return read_in_chunks(one_file, self._target, **self._options, faults=faults if self._skips else None)

    def read_block(self, block: int) -> Iterator[Batch]:
        """One file, in batches; rows that cannot be read come last."""
        path, faults = self._parts.files[block], dict[int, str]()
        for table in self._tables(path, faults):
            if len(table.X):
                rows = block * ROWS_OF_A_FILE + table.numbers_of(np.arange(len(table.X)))
                y = table.y if table.written is None else table.written  # text, since only all of it tells what it is
                with DriftWatch():  # a batch need not be like the whole table
                    X = self.encoder.transform(table.X)
                yield batch_of(path, table.form, X, y, rows)
        if faults:
            yield bad_rows(block, path, self.forms.get(path), faults, len(self.feature_names or ()))


#: So many times the rows of the sample are many more than it shows.
_MANY = 100


def fit_in_batches(
    terminal: Terminal,
    options: FitOptions,
    estimator: LinearLinkClassifier,
    parts: TableParts,
    set_noise: Callable[[np.ndarray], None],
) -> tuple[FitScores, TableEncoder | None, list[TextForm]]:
    """Fit, with a progress bar on a terminal, and score the model.

    Return also what encoded the table, if it has text, and how its files are written, if they are text.
    """
    target, skip_bad_rows, files = options.target, options.skip_bad_rows, text_files(parts, options.text)
    estimator.set_params(verbose=0 if terminal.quiet else 1)
    encoded, whole = _encode(terminal, options, parts)
    if encoded is not None:
        source: Source = keep_rows(encoded, parts, target, estimator.dtype)
    else:
        missing_labels = str(options.missing_labels)
        source = open_source(
            parts, target, files=files, features=options.features or None, drop=options.drop, text=options.text,
            skip_bad_rows=skip_bad_rows, missing=str(options.missing), dtype=estimator.dtype, whole=whole,
            # without a label, a row is bad, if some may be
            missing_labels=None if missing_labels == "error" and skip_bad_rows else missing_labels,
        )  # fmt: skip
    if options.label_noise is not None:
        set_noise(scan(source, skip_bad_rows=skip_bad_rows).classes)
    with naming_data(parts.files):
        estimator.fit_stream(source, skip_bad_rows=skip_bad_rows)
    estimator.set_params(verbose=0)  # the progress bar is not saved with the model
    skipped = estimator.n_skipped_rows_
    left_out = LeftOut() if encoded is None else encoded.left_out
    if isinstance(source, CompleteRows):
        left_out.count(source.n_incomplete, source.n_unlabeled, source.lost, estimator.classes_)
    if skipped:
        rest = ", ..." if skipped > len(estimator.skipped_rows_) else ""
        terminal.note(f"{skipped:,} bad rows were left out: {', '.join(estimator.skipped_rows_)}{rest}")
    left_out.tell(terminal)
    warn_of_similar_labels(estimator.classes_, options.data, target, terminal)
    judged = _predict_batches(estimator, source, skipped)
    scores = FitScores.of(judged, len(estimator.classes_), skipped + left_out.incomplete, left_out.unlabelled)
    if hint := _hint(scores.rows, getattr(estimator, "link_alpha_", None), chosen=not estimator._strengths().fixed):
        terminal.note(hint)
    forms = [file.form for file in files] if encoded is None else [form for form in encoded.forms.values() if form]
    return scores, None if encoded is None else encoded.encoder, list(dict.fromkeys(forms))


def _encode(terminal: Terminal, options: FitOptions, parts: TableParts) -> tuple[EncodedSource | None, list[str]]:
    """The rows of a table that is to be encoded, as its first rows tell, or None if it holds numbers only.

    Also the columns of which these rows hold whole numbers that may be codes: the others must not have leading zeros.
    """
    target = options.target
    if target is None or parts.format == "libsvm":
        return None, []
    categorical, numeric = options.categorical or [], options.numeric or []
    columns: dict[str, Any] = {"features": options.features or None, "drop": options.drop, "text": options.text}
    # rows without a label are left out here; where they are not allowed, the passes that follow say so
    first = next(read_in_chunks(parts, target, **columns, as_text=categorical, numeric=numeric, faults={}), None)
    if first is None:
        raise ValueError(f"{str(options.data)!r} has column names but no rows with labels.")
    check_named("--categorical", categorical, first)
    check_named("--numeric", numeric, first)
    as_text = list(dict.fromkeys([*categorical, *codes_among(first)]))
    if first.form is not None:
        first = replace(first, X=_without_few_words(first, as_text, options.skip_bad_rows))
    whole = [name for name in whole_numbers_among(first) if name not in [*as_text, *numeric]]
    # numbers that are written as text in a format with types
    spelled = parts.format in TYPED and bool(numeric or options.decimal or options.thousands)
    if not as_text and not spelled and has_only_numbers(first, gaps=True) and not first.X.isna().all().any():
        with suppress(ValueError):  # what is wrong with the rows is said by the passes that follow
            for note in TableEncoder().partial_fit(first.X).notes_:
                terminal.warning(note)
        return None, whole
    encoder = TableEncoder(categorical=categorical, max_categories=options.max_categories)
    encoded = EncodedSource(
        parts, target, encoder, skip_bad_rows=options.skip_bad_rows, numbers=numbers_among(first), **columns,
        as_text=as_text, numeric=numeric or None, missing=str(options.missing),
        missing_labels=str(options.missing_labels), whole=whole,
    )  # fmt: skip
    for note in encoder.notes_:
        terminal.warning(note)
    return encoded, whole


def _without_few_words(table: Table, as_text: list[str], most: int) -> Any:
    """The features without rows that may be left out, since they have words where nearly all others have numbers."""
    frame = table.X
    for name in frame.columns.difference(as_text, sort=False):
        rest, faults = without_faults(frame, None, [name], table.form)
        if len(frame) - len(rest) <= most and len(faults) < len(rest):
            frame, most = rest, most - len(faults)
    return frame


def _hint(rows: int, link_alpha: float | None, *, chosen: bool) -> str | None:
    """What to try if no link was learned since a sample, much smaller than the table, gave no reason to."""
    if not chosen or link_alpha != math.inf or rows < _MANY * SAMPLE_ROWS:
        return None
    return (
        f"penalties were chosen on a sample of {SAMPLE_ROWS:,} of the {rows:,} rows, on which no link was clearly better "
        "than none; with so many rows one can be: try --alpha 1e-6 --link-alpha 1e-6 --epochs 1, and compare both on other "
        "rows by 'legendretron evaluate'"
    )


def _predict_batches(
    estimator: LinearLinkClassifier, source: Source, skipped: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Labels as places of classes, and log-probabilities, of some rows after the other."""
    check = RowCheck(source.feature_names, skipped, estimator.coef_.dtype)
    for batch in read_ahead(map(check, source.batches())):
        if len(batch):
            assert batch.y is not None
            places = np.searchsorted(estimator.classes_, batch.y)
            yield from ((places[part], log_p) for part, log_p in estimator._predict_parts(batch.X, log=True))
