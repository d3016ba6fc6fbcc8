"""A table in files as a source that is read in batches."""

from __future__ import annotations

from collections.abc import Sequence

from legendretron._internal.extras import import_extra
from legendretron._internal.parameters import spell
from legendretron.datasets.libsvm_stream import LibsvmSource
from legendretron.datasets.table_files import header_of
from legendretron.datasets.table_parts import TableParts
from legendretron.datasets.tables import choose_columns
from legendretron.datasets.text_form import TextForm, TextOptions, text_form
from legendretron.datasets.text_stream import TextSource
from legendretron.datasets.typed_files import TYPED
from legendretron.streaming import Source, as_source
from legendretron.streaming.labelled import LabelledRows

__all__ = ["column_names", "forms_of", "open_source"]

#: What pyarrow calls the formats that it reads in batches.
_DATASETS = {"parquet": "parquet", "feather": "feather", "jsonl": "json"}


def open_source(
    parts: TableParts,
    target: str | None = None,
    *,
    features: Sequence[str] | None = None,
    drop: Sequence[str] | None = None,
    n_features: int | None = None,
    text: TextOptions | None = None,
    skip_bad_rows: int = 0,
    missing_labels: str | None = None,
) -> Source:
    """Open the files of a table, which are read in batches, again and again.

    All files are looked at first: what is wrong with their columns is found before any work.

    Parameters
    ----------
    parts : TableParts
        The files, from :func:`~legendretron.datasets.table_parts.find_parts`.
    target, features, drop, n_features, text
        As in :func:`~legendretron.datasets.read_table`.
    skip_bad_rows : int
        How many lines of text with too many or too few fields may be left out.
    missing_labels : {"error", "drop"}, optional
        What to do with rows whose label is missing; if not given, they are bad rows as others are.
    """
    if missing_labels is not None and parts.format != "libsvm":
        every = open_source(
            parts, target, features=features, drop=drop, n_features=n_features, text=text, skip_bad_rows=skip_bad_rows
        )
        return LabelledRows(every, drop=missing_labels == "drop")
    if parts.format == "libsvm":
        if features is not None or drop:
            raise ValueError(
                f"{str(parts.files[0])!r} is LIBSVM text, whose features have no names to choose or drop by."
            )
        return LibsvmSource(parts.files, n_features)
    if parts.format in ("csv", "tsv"):
        return TextSource(
            parts.files, parts.format, target, features=features, drop=drop, text=text, skip_bad_rows=skip_bad_rows
        )
    if text is not None and text.na:
        raise ValueError(
            f"{spell('na_values', text.na[0])} is looked for in text, or in a table that is read as a whole; write "
            "nothing instead."
        )
    if parts.format not in _DATASETS:
        raise ValueError(
            f"{str(parts.files[0])!r} is an Excel file, which is not read in batches; save it as CSV or Parquet."
        )
    named = TYPED[parts.format]
    arrow = import_extra("pyarrow", f"reading {named}", "cli")
    dataset = import_extra("pyarrow.dataset", f"reading {named}", "cli")
    chosen = choose_columns(parts.files[0], column_names(parts), target, features, drop)
    local = import_extra("pyarrow.fs", f"reading {named}", "cli").LocalFileSystem()
    try:
        # on this file system: a name with a colon would be taken for a URL
        opened = dataset.dataset([str(path) for path in parts.files], format=_DATASETS[parts.format], filesystem=local)
    except (arrow.ArrowException, OSError) as error:
        raise ValueError(f"{str(parts.files[0])!r} is damaged or not {named}: {error}") from error
    there = {name.strip(): name for name in opened.schema.names}
    source = as_source(
        opened, target=None if target is None else there[target], features=[there[name] for name in chosen]
    )
    source.feature_names = tuple(chosen)
    return source


def column_names(parts: TableParts, text: TextOptions | None = None) -> list[str]:
    """Names of the columns of the first file."""
    return header_of(parts.files[0], parts.format, text)


def forms_of(parts: TableParts, text: TextOptions | None = None) -> list[TextForm]:
    """The different ways in which the files of a table are written; none of formats that are not tables of text."""
    if parts.format not in ("csv", "tsv"):
        return []
    given = TextOptions() if text is None else text
    return list(dict.fromkeys(text_form(path, parts.format, given) for path in parts.files))
