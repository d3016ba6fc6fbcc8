"""A table in files as a source that is read in batches."""

from __future__ import annotations

from collections.abc import Sequence

from legendretron._internal.extras import import_extra
from legendretron._internal.parameters import spell
from legendretron.datasets.clean_text import marks_for
from legendretron.datasets.libsvm_stream import LibsvmSource
from legendretron.datasets.table_files import header_of
from legendretron.datasets.table_parts import TableParts
from legendretron.datasets.tables import choose_columns, type_labels
from legendretron.datasets.text_file import TextFile
from legendretron.datasets.text_form import TextForm, TextOptions
from legendretron.datasets.text_source import TextSource
from legendretron.datasets.typed_files import TYPED
from legendretron.streaming import Source, as_source
from legendretron.streaming.labelled import LabelledSource
from legendretron.streaming.spool import Spool

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

    All files are looked at first: what is wrong with their columns is found before any work. CSV, TSV and JSON lines are
    read once, into temporary files that can be read faster, see :class:`~legendretron.streaming.spool.Spool`.
    """
    if missing_labels is not None and parts.format != "libsvm":
        every = open_source(
            parts, target, features=features, drop=drop, n_features=n_features, text=text, skip_bad_rows=skip_bad_rows
        )
        return LabelledSource(every, drop=missing_labels == "drop")
    if parts.format == "libsvm":
        if features is not None or drop:
            raise ValueError(
                f"{str(parts.files[0])!r} is LIBSVM text, whose features have no names to choose or drop by."
            )
        return LibsvmSource(parts.files, n_features)
    if parts.format in ("csv", "tsv"):
        files = text_files(parts, text)
        chosen = choose_columns(files[0].path, list(files[0].names), target, features, drop)
        for file in files:
            lacking = [name for name in [*chosen, *([] if target is None else [target])] if name not in file.names]
            if lacking:
                raise ValueError(f"{str(file.path)!r} has no column {lacking[0]!r}, which {str(files[0].path)!r} has.")
        missing = marks_for(files[0].form, () if text is None else text.na)
        return keep_rows(TextSource(files, target, chosen, missing, skip_bad_rows=skip_bad_rows), parts, target)
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
    return keep_rows(source, parts, target) if parts.format == "jsonl" else source


def keep_rows(source: Source, parts: TableParts, target: str | None) -> Spool:
    """Read all rows of the files of a table once, and keep them as numbers in temporary files."""
    return Spool(source, lambda labels: type_labels(labels, f"target column {target!r} of {str(parts.files[0])!r}"))


def text_files(parts: TableParts, text: TextOptions | None = None) -> list[TextFile]:
    """Look at the beginning of each file of a table; none of formats that are not tables of text."""
    return [TextFile.open(path, parts.format, text) for path in parts.files] if parts.format in ("csv", "tsv") else []


def column_names(parts: TableParts, text: TextOptions | None = None) -> list[str]:
    """Names of the columns of the first file."""
    return header_of(parts.files[0], parts.format, text)


def forms_of(parts: TableParts, text: TextOptions | None = None) -> list[TextForm]:
    """The different ways in which the files of a table are written; none of formats that are not tables of text."""
    return list(dict.fromkeys(file.form for file in text_files(parts, text)))
