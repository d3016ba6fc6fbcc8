"""Files of tables as data frames, with a clear error message for every malformed file."""

from __future__ import annotations

import warnings
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from legendretron._internal.columns import check_names
from legendretron._internal.extras import arrow, compute, import_extra, pandas, parquet
from legendretron._internal.parameters import check_choice, spell
from legendretron.datasets.compressed import open_compressed
from legendretron.datasets.json_lines import json_frames, json_names
from legendretron.datasets.text_file import TextFile, join_batches, place_of_row
from legendretron.datasets.text_form import (
    GUESS,
    TextForm,
    TextOptions,
    clean_frame,
    clean_names,
    marks_for,
    text_of_codes,
    type_text,
)

#: Names of the formats.
TYPED = {"parquet": "a Parquet file", "feather": "a Feather file", "jsonl": "JSON lines", "excel": "an Excel file"}
_INDEX = "__index_level_"  # how pandas calls row numbers that it writes


def _read_typed_chunks(
    path: Path, kind: str, names: list[str] | None, rows: int | None, wanted: Wanted
) -> Iterator[tuple[Any, Any]]:
    """Data frames of so many rows at most, or one of all rows; and others of those columns that are to be kept.

    The latter hold integers with gaps, decimals and days of Parquet and Feather as such.
    """
    with _reading(path, kind), open_compressed(path) as file:
        if kind in ("parquet", "feather"):
            for table in _arrow_tables(file, kind, rows):
                yield _split(table.rename_columns(clean_names(table.column_names)), wanted)
            return
        if kind == "excel":
            frames = _sheet_parts(_excel_frame(path, file, wanted.text.na), rows)
        else:
            frames = json_frames(path, file, rows)
        for frame in frames:
            frame = frame.set_axis(clean_names(frame.columns), axis=1)
            check_names(repr(str(path)), list(frame.columns))
            if names is not None and list(frame.columns) != names:  # a line of JSON need not have all columns
                frame = frame.reindex(columns=names)
            known = [name for name in frame.columns if name in wanted.keep]
            yield _retype_frame(frame, wanted), frame[known] if known else None


@contextmanager
def _reading(path: Path, kind: str) -> Iterator[None]:
    """Inside the block, errors of those who read a file become a ``ValueError`` that names it."""
    if kind == "excel":
        try:
            import_extra("openpyxl", f"reading {str(path)!r}, an Excel file,", "excel")
        except ImportError as error:
            raise ImportError(f"{str(error).rstrip('.')}; or save it as CSV.", name=error.name) from error
    try:
        yield
    except (arrow.ArrowInvalid, arrow.ArrowNotImplementedError, zipfile.BadZipFile, KeyError) as error:
        raise ValueError(f"{str(path)!r} is damaged or not {TYPED[kind]}: {error}") from error


def _open_arrow(file: Any, kind: str) -> tuple[Any, Any]:
    """The schema, and what the rows are read from."""
    if kind == "feather":
        opened = import_extra("pyarrow.ipc", "reading Feather", "tables").open_file(file)
        return opened.schema, opened
    opened = parquet.ParquetFile(file, pre_buffer=False)  # nothing of it is read by other threads, later
    return opened.schema_arrow, opened


def _arrow_tables(file: Any, kind: str, rows: int | None) -> Iterator[Any]:
    _, opened = _open_arrow(file, kind)
    if rows is None:
        yield opened.read() if kind == "parquet" else opened.read_all()
        return
    if kind == "parquet":
        batches = opened.iter_batches(batch_size=rows, use_threads=False)
    else:
        stored = (opened.get_batch(number) for number in range(opened.num_record_batches))
        batches = (batch.slice(start, rows) for batch in stored for start in range(0, batch.num_rows, rows))
    for batch in batches:
        yield arrow.Table.from_batches([batch])


def _sheet_parts(whole: Any, rows: int | None) -> Iterator[Any]:
    step = rows or max(len(whole), 1)
    return (whole[start : start + step] for start in range(0, max(len(whole), 1), step))


def _excel_frame(path: Path, file: Any, na: Sequence[str], rows: int | None = None) -> Any:
    """The first sheet."""
    with pandas.ExcelFile(file, engine="openpyxl") as book:
        if len(book.sheet_names) > 1 and rows is None:
            warnings.warn(
                f"{str(path)!r} has {len(book.sheet_names)} sheets, of which the first is read, {book.sheet_names[0]!r}.",
                stacklevel=2,
            )
        # as in other formats whose values have types, a text such as NA or None is one
        return pandas.read_excel(book, sheet_name=0, na_values=["", *na], keep_default_na=False, nrows=rows)


def _split(table: Any, wanted: Wanted) -> tuple[Any, Any]:
    """A data frame of all columns, and one of those to be kept, in which integers with gaps, decimals and days stay such."""
    known = [name for name in table.column_names if name in wanted.keep]
    if not known:
        return _as_frame(table, wanted), None
    kept = table.select(known)
    for index, field in enumerate(kept.schema):
        if arrow.types.is_dictionary(field.type):
            kept = kept.set_column(index, field.name, kept.column(index).cast(field.type.value_type))
    return _as_frame(table, wanted), kept.to_pandas(types_mapper=pandas.ArrowDtype, ignore_metadata=True)


def _as_frame(table: Any, wanted: Wanted) -> Any:
    for index, field in enumerate(table.schema):
        column = _retype_whole(field.name, table.column(index), wanted)
        if column is None and arrow.types.is_decimal(field.type):
            column = table.column(index).cast(arrow.float64())
        if column is not None:
            table = table.set_column(index, field.name, column)
    # row numbers that pandas wrote as a separate column
    extra = [name for name in table.column_names if name.startswith(_INDEX)]
    return table.drop_columns(extra).to_pandas(ignore_metadata=True)


def _retype_whole(name: str, column: Any, wanted: Wanted) -> Any | None:
    """A column of whole numbers as text, where they are categories, or lose digits as numbers; None if it may stay.

    In columns that are to be numbers, they become those of double precision.
    """
    kind = column.type
    whole = arrow.types.is_integer(kind) or (arrow.types.is_decimal(kind) and kind.scale <= 0)
    if not whole or name == wanted.target:
        return None
    if name in wanted.as_text:
        return column.cast(arrow.string())
    if name in (wanted.numeric or ()):
        return column.cast(arrow.float64(), safe=False)
    return text_of_codes(column) if wanted.may_hold_codes(name) else None


def _retype_frame(frame: Any, wanted: Wanted) -> Any:
    """A data frame whose whole numbers have the types that they are to have."""
    if wanted.numeric is None and not wanted.as_text:
        return frame
    is_integer = pandas.api.types.is_integer_dtype
    integers = [name for name, dtype in frame.dtypes.items() if is_integer(dtype)]
    found = {name: _retype_whole(name, arrow.chunked_array([frame[name]]), wanted) for name in integers}
    changed = {name: column.to_pandas().array for name, column in found.items() if column is not None}
    return frame.assign(**changed) if changed else frame


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
#: One file extension of each format, for messages.
SUFFIXES = ", ".join(ends[0] for ends in [*FORMATS.values()][:-1]) + f" or {[*FORMATS.values()][-1][0]}"


@dataclass(frozen=True)
class Wanted:
    """What to read of a table, and how."""

    target: str | None = None  #: column of the labels
    features: Sequence[str] | None = None  #: columns to take, in this order; None for all but the target
    drop: Sequence[str] | None = None  #: columns to leave out
    keep: Sequence[str] = ()  #: columns to return as they stand in the file
    as_text: Sequence[str] = ()  #: columns whose values are categories
    text: TextOptions = GUESS  #: how a file of text is written, as far as it is given
    missing: str = "impute"  #: what to do with gaps in features
    missing_labels: str = "error"  #: what to do with rows without a label
    n_features: int | None = None  #: of LIBSVM text
    #: columns of digits that are numbers although they have leading zeros, or are very long; None: all are
    numeric: Sequence[str] | None = None
    numbers: Sequence[str] = ()  #: columns in which text is a fault of the row
    whole: Sequence[str] = ()  #: columns of whole numbers so far; one with a zero before other digits is an error

    def may_hold_codes(self, name: str) -> bool:
        """Whether digits in a column may be no numbers."""
        return self.numeric is not None and name not in self.numeric

    @property
    def only_kept(self) -> list[str]:
        """Columns to keep that are no features."""
        return [name for name in self.keep if name not in (self.features or ())]

    @property
    def texts(self) -> list[str]:
        """Columns that are read as they are written: labels, categories, and columns to keep that are no features."""
        return [*([] if self.target is None else [self.target]), *self.as_text, *self.only_kept]


class FileRows(NamedTuple):
    """Rows that were read from a file."""

    frame: Any  #: the columns, with their types
    form: TextForm | None = None  #: how the file is written, if it is text
    #: columns that were to be kept: of CSV and TSV the text that stands there, of others the values with their types
    #: there
    kept: Any = None


def format_of(path: Path, given: str | None = None) -> str:
    """Return the format of a file: the one given, or by its extension."""
    if given is not None:
        return check_choice("format", given, tuple(FORMATS))
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in _COMPRESSED:
        suffixes.pop()
    for name, ends in FORMATS.items():
        if suffixes and suffixes[-1] in ends:
            return name
    raise ValueError(
        f"the name of {str(path)!r} does not tell its format; name it {SUFFIXES}, or give the format: "
        f"{', '.join(FORMATS)}. Others can be converted, by pandas for instance."
    )


def header_of(path: Path, kind: str, text: TextOptions = GUESS) -> list[str]:
    """Names of the columns of a file."""
    if kind not in TYPED:
        return list(TextFile.open(path, kind, text).names)
    with _reading(path, kind), open_compressed(path) as file:
        if kind in ("parquet", "feather"):
            schema = _open_arrow(file, kind)[0]
            names = clean_names([name for name in schema.names if not name.startswith(_INDEX)])
        elif kind == "jsonl":
            names = clean_names(json_names(path, file))
        else:
            names = clean_names(_excel_frame(path, file, (), rows=0).columns)
    check_names(repr(str(path)), names)
    return names


def read_frames(
    path: Path, kind: str, wanted: Wanted, rows: int | None = None, bad_lines: dict[int, str] | None = None
) -> Iterator[FileRows]:
    """Read a file as data frames of so many rows at most, or as one of all rows, with distinct, non-empty column names.

    White space at the ends of text and of names is taken off, in all formats; what then is empty, or a mark of missing
    values, is a gap. Types of the columns of text are those of each frame. Lines with too many fields are an error, unless
    there is a dictionary for them; then they are left out, and added there.
    """
    if path.is_dir():
        raise ValueError(f"{str(path)!r} is a folder; give a file in it.")
    if kind in TYPED:
        # of a whole file of JSON, or a sheet, the rows tell
        names = None if rows is None and kind in ("jsonl", "excel") else header_of(path, kind)
        for frame, kept in _read_typed_chunks(path, kind, names, rows, wanted):
            yield FileRows(clean_frame(frame, wanted.text, wanted.texts, wanted.numeric or ()), kept=kept)
        return
    file = TextFile.open(path, kind, wanted.text)
    batches = file.batches(bad_lines=bad_lines)
    schema = arrow.schema([(name, arrow.string()) for name in file.names])
    done = 0
    for table in [arrow.Table.from_batches(batches, schema)] if rows is None else join_batches(batches, rows):
        for name in wanted.whole:
            refuse_codes(compute.utf8_trim_whitespace(table[name]), name, file, done)
        done += table.num_rows
        yield _type_table(table, file.form, wanted)


def refuse_codes(texts: Any, name: str, file: TextFile, first_row: int) -> None:
    """Raise a ``ValueError`` if a number in a column of whole ones is written with a zero before it, as codes are.

    Texts have no white space at their ends.
    """
    longer = compute.greater(compute.binary_length(texts), 1)
    if not compute.any(compute.and_(longer, compute.starts_with(texts, "0"))).as_py():
        return
    place = compute.index(compute.match_substring_regex(texts, "^0[0-9]+$"), True).as_py()
    if place >= 0:
        raise ValueError(
            f"{str(file.path)!r}, {place_of_row(file.path, first_row + place, file.form)}: column {name!r} holds "
            f"{texts[place].as_py()!r}, with a zero before other digits as in a code, but the first rows of the table hold "
            f"numbers there; give {spell('categorical', name)} if they are names, or {spell('numeric', name)}."
        )


def _type_table(table: Any, form: TextForm, wanted: Wanted) -> FileRows:
    """Columns of text as what they mean; those to keep as they are written, where only an empty field is a gap."""
    marks, as_text = marks_for(form, wanted.text.na), wanted.texts
    columns, kept = {}, {}
    written = table.columns[::-1]
    for name in table.column_names:
        texts = written.pop()
        if name in wanted.keep:
            kept[name] = compute.if_else(compute.equal(texts, ""), None, texts).to_pandas().array
        columns[name] = type_text(texts, form, marks, as_text=name in as_text, codes=wanted.may_hold_codes(name))
    return FileRows(pandas.DataFrame(columns), form, pandas.DataFrame(kept) if kept else None)
