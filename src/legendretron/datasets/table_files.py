"""Files of tables as data frames, with a clear error message for every malformed file."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from legendretron._internal.arguments import check_choice
from legendretron._internal.columns import check_names
from legendretron._internal.extras import import_extra
from legendretron._internal.parameters import spell
from legendretron.datasets.clean_text import clean_frame, marks_for, type_text
from legendretron.datasets.text_file import OtherEncodingError, TextFile, join_batches
from legendretron.datasets.text_form import FALLBACK_ENCODING, TextForm, TextOptions
from legendretron.datasets.typed_files import TYPED, typed_chunks, typed_header

#: Formats by name, each with its file extensions.
FORMATS: dict[str, tuple[str, ...]] = {
    "csv": (".csv",),
    "tsv": (".tsv", ".tab"),
    "parquet": (".parquet", ".pq"),
    "feather": (".feather", ".arrow"),
    "jsonl": (".jsonl", ".ndjson"),
    "excel": (".xlsx", ".xlsm"),
    "libsvm": (".libsvm", ".svm", ".svmlight", ".scale", ".tr", ".t"),
}
_COMPRESSED = (".gz", ".bz2", ".xz")
#: File extensions of formats that are not read, and what of pandas reads them.
_CONVERTED = {
    **dict.fromkeys((".xls", ".xlsb", ".ods"), "read_excel"),
    ".json": "read_json",
    ".dta": "read_stata",
    ".sav": "read_spss",
    ".orc": "read_orc",
    **dict.fromkeys((".sas7bdat", ".xpt"), "read_sas"),
    **dict.fromkeys((".h5", ".hdf", ".hdf5"), "read_hdf"),
}


#: One file extension of each format, for messages.
SUFFIXES = ", ".join(ends[0] for ends in [*FORMATS.values()][:-1]) + f" or {[*FORMATS.values()][-1][0]}"


class UnreadFormatError(ValueError):
    """A file of a format that is not read, by its extension; the message says how to convert it."""


class FileRows(NamedTuple):
    """Rows that were read from a file."""

    frame: Any  #: the columns, with their types
    form: TextForm | None = None  #: how the file is written, if it is text
    #: columns that were to be kept: of CSV and TSV the text that stands there, of others the values with their types
    #: there
    kept: Any = None


def format_of(path: Path, given: str | None = None) -> str:
    """Return the format of a file: the one given, or by its extension.

    Examples
    --------
    >>> format_of(Path("letter.scale.bz2")), format_of(Path("a.csv.gz"))
    ('libsvm', 'csv')
    """
    if given is not None:
        return check_choice("format", given, tuple(FORMATS))
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in _COMPRESSED:
        suffixes.pop()
    for name, ends in FORMATS.items():
        if suffixes and suffixes[-1] in ends:
            return name
    if suffixes and (reader := _CONVERTED.get(suffixes[-1])) is not None:
        new = str(path.with_suffix(".parquet"))
        raise UnreadFormatError(
            f"{str(path)!r} is of a format that is not read; convert it, in Python: import pandas; "
            f"pandas.{reader}({str(path)!r}).to_parquet({new!r})."
        )
    raise ValueError(
        f"the name of {str(path)!r} does not tell its format; name it {SUFFIXES}, or give the format: "
        f"{', '.join(FORMATS)}."
    )


def header_of(path: Path, kind: str, text: TextOptions | None = None) -> list[str]:
    """Names of the columns of a file."""
    if kind not in TYPED:
        return list(TextFile.open(path, kind, text).names)
    names = typed_header(path, kind)
    check_names(repr(str(path)), names)
    return names


def read_frame(
    path: Path,
    kind: str,
    *,
    as_text: Sequence[str] = (),
    text: TextOptions | None = None,
    keep: Sequence[str] = (),
    numeric: Sequence[str] | None = None,
) -> FileRows:
    """Read a file into a pandas data frame with distinct, non-empty column names.

    White space at the ends of text and of names is taken off, in all formats; what then is empty, or a mark of missing
    values, is a gap.
    """
    if path.is_dir():
        raise ValueError(f"{str(path)!r} is a folder; give a file in it.")
    options = TextOptions() if text is None else text
    if kind in TYPED:
        check_names(repr(str(path)), typed_header(path, kind))
        ((frame, kept),) = typed_chunks(path, kind, None, keep, options.na)
        rows = FileRows(clean_frame(frame, options, as_text), kept=kept)
    else:
        form, table = _read_text(path, kind, options)
        rows = _typed(table, form, options, as_text, keep, numeric)
    if len(rows.frame) == 0:
        raise ValueError(f"{str(path)!r} has column names but no rows.")
    return rows


def frame_chunks(
    path: Path,
    kind: str,
    rows: int,
    *,
    as_text: Sequence[str] = (),
    text: TextOptions | None = None,
    keep: Sequence[str] = (),
    bad_lines: dict[int, str] | None = None,
) -> Iterator[FileRows]:
    """Read what :func:`read_frame` does in data frames of so many rows at most, one after the other.

    Types of the columns of text are those of each frame. Text must be UTF-8, or in the encoding that is given. Lines with too
    many fields are an error, unless there is a dictionary for them; then they are left out, and added there.
    """
    options = TextOptions() if text is None else text
    if kind in TYPED:
        check_names(repr(str(path)), typed_header(path, kind))
        for frame, kept in typed_chunks(path, kind, rows, keep, options.na):
            yield FileRows(clean_frame(frame, options, as_text), kept=kept)
        return
    file = TextFile.open(path, kind, options)
    for table in join_batches(file.batches(bad_lines=bad_lines), rows):
        yield _typed(table, file.form, options, as_text, keep)


def _typed(
    table: Any,
    form: TextForm,
    options: TextOptions,
    as_text: Sequence[str],
    keep: Sequence[str],
    numeric: Sequence[str] | None = None,
) -> FileRows:
    """Columns of text as what they mean; those to keep as they are written, where only an empty field is a gap."""
    pandas = import_extra("pandas", "reading tables", "cli")
    compute = import_extra("pyarrow.compute", "reading text", "cli")
    marks = marks_for(form, options.na)
    columns, kept = {}, {}
    written = table.columns[::-1]
    for name in table.column_names:
        texts = written.pop()
        if name in keep:
            kept[name] = compute.if_else(compute.equal(texts, ""), None, texts).to_pandas().array
        codes = numeric is not None and name not in numeric
        columns[name] = type_text(texts, form, marks, as_text=name in as_text, codes=codes)
    return FileRows(pandas.DataFrame(columns), form, pandas.DataFrame(kept) if kept else None)


def _read_text(path: Path, kind: str, given: TextOptions) -> tuple[TextForm, Any]:
    """How a file turned out to be written, and its columns as text."""
    arrow = import_extra("pyarrow", "reading text", "cli")
    try:
        file = TextFile.open(path, kind, given)
        schema = arrow.schema([(name, arrow.string()) for name in file.names])
        return file.form, arrow.Table.from_batches(file.batches(), schema)
    except OtherEncodingError as error:
        if given.encoding is not None or error.encoding != "utf-8":
            raise
        name = repr(str(path))
        try:
            read = _read_text(path, kind, given._replace(encoding=FALLBACK_ENCODING))
        except ValueError as other:
            raise ValueError(
                f"{name} is not UTF-8 text{error.byte}, nor Windows-1252; convert it, or give its encoding, as "
                f"{spell('encoding', 'latin1')}."
            ) from other
        warnings.warn(
            f"{name} is not UTF-8 text{error.byte} and was read as Windows-1252; give {spell('encoding', 'utf-8')} to refuse "
            "it, or another encoding if letters look wrong.",
            stacklevel=2,
        )
        return read
