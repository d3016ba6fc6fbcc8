"""Files of tables as data frames, with a clear error message for every malformed file."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from legendretron._internal.arguments import check_choice
from legendretron._internal.columns import check_names
from legendretron._internal.extras import arrow, compute, pandas
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


@dataclass(frozen=True)
class Wanted:
    """What to read of a table, and how."""

    target: str | None = None  #: column of the labels
    features: Sequence[str] | None = None  #: columns to take, in this order; None for all but the target
    drop: Sequence[str] | None = None  #: columns to leave out
    keep: Sequence[str] = ()  #: columns to return as they stand in the file
    as_text: Sequence[str] = ()  #: columns whose values are categories
    text: TextOptions | None = None  #: how a file of text is written
    missing: str = "impute"  #: what to do with gaps in features
    missing_labels: str = "error"  #: what to do with rows without a label
    n_features: int | None = None  #: of LIBSVM text
    numeric: Sequence[str] | None = None  #: columns of digits with leading zeros that are numbers; None: all are
    numbers: Sequence[str] = ()  #: columns in which text is a fault of the row

    @property
    def only_kept(self) -> list[str]:
        """Columns to keep that are no features."""
        return [name for name in self.keep if name not in (self.features or ())]

    @property
    def texts(self) -> list[str]:
        """Columns that are read as they are written: labels, categories, and columns to keep that are no features."""
        return [*([] if self.target is None else [self.target]), *self.as_text, *self.only_kept]

    @property
    def options(self) -> TextOptions:
        """How a file of text is written, as far as it is given."""
        return TextOptions() if self.text is None else self.text


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


def read_frame(path: Path, kind: str, wanted: Wanted) -> FileRows:
    """Read a file into a pandas data frame with distinct, non-empty column names.

    White space at the ends of text and of names is taken off, in all formats; what then is empty, or a mark of missing
    values, is a gap.
    """
    if path.is_dir():
        raise ValueError(f"{str(path)!r} is a folder; give a file in it.")
    if kind in TYPED:
        (rows,) = frame_chunks(path, kind, None, wanted)
    else:
        form, table = _read_text(path, kind, wanted.options)
        rows = _typed(table, form, wanted, find_codes=wanted.numeric is not None)
    if len(rows.frame) == 0:
        raise ValueError(f"{str(path)!r} has column names but no rows.")
    return rows


def frame_chunks(
    path: Path, kind: str, rows: int | None, wanted: Wanted, bad_lines: dict[int, str] | None = None
) -> Iterator[FileRows]:
    """Read what :func:`read_frame` does in data frames of so many rows at most, one after the other.

    Types of the columns of text are those of each frame. Text must be UTF-8, or in the encoding that is given. Lines with too
    many fields are an error, unless there is a dictionary for them; then they are left out, and added there.
    """
    options = wanted.options
    if kind in TYPED:
        check_names(repr(str(path)), typed_header(path, kind))
        for frame, kept in typed_chunks(path, kind, rows, wanted.keep, options.na):
            yield FileRows(clean_frame(frame, options, wanted.texts), kept=kept)
        return
    assert rows is not None
    file = TextFile.open(path, kind, options)
    for table in join_batches(file.batches(bad_lines=bad_lines), rows):
        yield _typed(table, file.form, wanted)


def _typed(table: Any, form: TextForm, wanted: Wanted, *, find_codes: bool = False) -> FileRows:
    """Columns of text as what they mean; those to keep as they are written, where only an empty field is a gap."""
    marks, as_text = marks_for(form, wanted.options.na), wanted.texts
    columns, kept = {}, {}
    written = table.columns[::-1]
    for name in table.column_names:
        texts = written.pop()
        if name in wanted.keep:
            kept[name] = compute.if_else(compute.equal(texts, ""), None, texts).to_pandas().array
        codes = find_codes and name not in (wanted.numeric or ())
        columns[name] = type_text(texts, form, marks, as_text=name in as_text, codes=codes)
    return FileRows(pandas.DataFrame(columns), form, pandas.DataFrame(kept) if kept else None)


def _read_text(path: Path, kind: str, given: TextOptions) -> tuple[TextForm, Any]:
    """How a file turned out to be written, and its columns as text."""
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
