"""CSV, TSV and Parquet files as data frames, with a clear error message for every malformed file."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from legendretron._internal.extras import import_extra
from legendretron._internal.validation import check_choice
from legendretron.datasets.compressed import open_compressed
from legendretron.datasets.text_form import FALLBACK_ENCODING, TextForm, TextOptions, text_form

__all__ = ["FORMATS", "format_of", "frame_chunks", "header_of", "quoted", "read_frame"]

#: Formats by name, each with its file extensions.
FORMATS: dict[str, tuple[str, ...]] = {
    "csv": (".csv",),
    "tsv": (".tsv", ".tab"),
    "parquet": (".parquet", ".pq"),
    "libsvm": (".libsvm", ".svm", ".svmlight", ".scale", ".tr", ".t"),
}
_COMPRESSED = (".gz", ".bz2", ".xz")
_INDEX = "__index_level_"  # how pandas calls row numbers that it writes


def quoted(names: Any, most: int = 8) -> str:
    """Quoted, comma-separated names for a message, at most ``most`` of them.

    Examples
    --------
    >>> quoted(["a", "b", "c"], most=2)
    "'a', 'b' and 1 more"
    """
    names = list(names)
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(repr(str(name)) for name in names[:most]) + rest


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
    raise ValueError(
        f"the name of {str(path)!r} does not tell its format; name it .csv, .tsv, .parquet or .libsvm, or give the format: "
        f"{', '.join(FORMATS)}."
    )


def read_frame(path: Path, kind: str, *, as_text: Sequence[str] = (), text: TextOptions | None = None) -> Any:
    """Read a CSV, TSV or Parquet file into a pandas data frame with distinct, non-empty column names.

    Parameters
    ----------
    path : Path
        The file; CSV and TSV may be compressed (``.gz``, ``.bz2``, ``.xz``).
    kind : {"csv", "tsv", "parquet"}
        Its format.
    as_text : sequence of str
        Columns of a CSV or TSV file to keep as text.
    text : TextOptions, optional
        How a CSV or TSV file is written; guessed if not given. Text that is not UTF-8 is read as Windows-1252, with a
        warning.
    """
    if path.is_dir():
        raise ValueError(f"{str(path)!r} is a folder; give a file in it.")
    if kind == "parquet":
        frame = _read_parquet(path)
    else:
        options = TextOptions() if text is None else text
        frame = _read_text(path, text_form(path, kind, options), as_text, options)
    if len(frame) == 0:
        raise ValueError(f"{str(path)!r} has column names but no rows.")
    return frame


def header_of(path: Path, kind: str, text: TextOptions | None = None) -> list[str]:
    """Names of the columns of a CSV, TSV or Parquet file."""
    if kind == "parquet":
        with _parquet(path) as content:
            return [str(name) for name in content.schema_arrow.names if not name.startswith(_INDEX)]
    options = TextOptions() if text is None else text
    form = text_form(path, kind, options)
    with _reading_text(path, form):
        return _text_header(path, form)


def frame_chunks(
    path: Path, kind: str, rows: int, *, as_text: Sequence[str] = (), text: TextOptions | None = None
) -> Iterator[Any]:
    """Read what :func:`read_frame` does in data frames of so many rows at most, one after the other.

    Types of the columns of text are those of each frame. Text must be UTF-8, or in the encoding that is given.
    """
    if kind == "parquet":
        with _parquet(path) as content:
            for records in content.iter_batches(batch_size=rows, use_threads=False):
                yield _as_frame(records)
        return
    options = TextOptions() if text is None else text
    form = text_form(path, kind, options)
    with _reading_text(path, form), open_compressed(path) as file:
        _text_header(path, form)
        with _pandas().read_csv(file, chunksize=rows, **_text_options(form, as_text, options)) as reader:
            while True:
                with _long_rows_as_errors():  # not while the caller works on a frame
                    frame = next(reader, None)
                if frame is None:
                    return
                yield frame


def _check_names(path: Path, names: list[str]) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1 and name]
    if twice:
        raise ValueError(
            f"{str(path)!r} has more than one column {quoted(twice)}; rename or remove all but one of them."
        )


def _pandas() -> Any:
    return import_extra("pandas", "reading tables", "cli")


def _text_header(path: Path, form: TextForm) -> list[str]:
    """The first line of a text file, after a check that its names are distinct."""
    options = {"sep": form.sep, "encoding": form.encoding, "skipinitialspace": True}
    with open_compressed(path) as file:
        header = _pandas().read_csv(file, header=None, nrows=1, dtype=str, keep_default_na=False, **options)
    names = [str(column) for column in header.iloc[0]]
    _check_names(path, names)
    # those without a name are called as pandas calls them
    return [name or f"Unnamed: {place}" for place, name in enumerate(names)]


def _text_options(form: TextForm, as_text: Sequence[str], given: TextOptions) -> dict[str, Any]:
    return {
        "sep": form.sep,
        "encoding": form.encoding,
        "skipinitialspace": True,
        "low_memory": False,
        "index_col": False,
        "dtype": dict.fromkeys(as_text, str),
        "decimal": form.decimal,
        "na_values": list(given.na),
        **_exactly(_pandas().__version__),
    }


@contextmanager
def _long_rows_as_errors() -> Iterator[None]:
    """Inside the block, a row longer than the header is an error; it would be truncated with only a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", _pandas().errors.ParserWarning)
        yield


@contextmanager
def _reading_text(path: Path, form: TextForm) -> Iterator[None]:
    """Inside the block, errors in reading a text file become a ``ValueError`` that names it."""
    name, errors = repr(str(path)), _pandas().errors
    try:
        yield
    except UnicodeError as error:
        byte = f" (byte 0x{error.object[error.start]:02x})" if isinstance(error, UnicodeDecodeError) else ""
        raise _OtherEncodingError(
            f"{name} is not text in {form.encoding}{byte}; give another encoding.", byte
        ) from error
    except errors.ParserWarning as error:
        raise ValueError(f"{name} has rows with more fields than the header has names.") from error
    except errors.EmptyDataError as error:
        raise ValueError(f"{name} is empty.") from error
    except errors.ParserError as error:
        reason = str(error).removeprefix("Error tokenizing data. C error: ").strip()
        raise ValueError(f"{name} is not a regular table: {reason}.") from error


class _OtherEncodingError(ValueError):
    """Text is not in the encoding that was supposed; ``byte`` says where it is not, for a message."""

    def __init__(self, message: str, byte: str) -> None:
        super().__init__(message)
        self.byte = byte


def _read_text(path: Path, form: TextForm, as_text: Sequence[str], given: TextOptions) -> Any:
    try:
        with _reading_text(path, form):
            _text_header(path, form)
            with open_compressed(path) as file, _long_rows_as_errors():
                return _pandas().read_csv(file, **_text_options(form, as_text, given))
    except _OtherEncodingError as error:
        if given.encoding is not None or form.encoding != "utf-8":
            raise
        name = repr(str(path))
        try:
            frame = _read_text(path, form._replace(encoding=FALLBACK_ENCODING), as_text, given)
        except ValueError as other:
            raise ValueError(
                f"{name} is not UTF-8 text{error.byte}, nor Windows-1252; convert it, or give its encoding, as "
                "encoding='latin1'."
            ) from other
        warnings.warn(
            f"{name} is not UTF-8 text{error.byte} and was read as Windows-1252; give encoding='utf-8' to refuse it, or "
            "another encoding if letters look wrong.",
            stacklevel=2,
        )
        return frame


def _exactly(version: str) -> dict[str, str]:
    """The option to read numbers exactly, to the last bit; from pandas 3.1 on this is the only behaviour."""
    major, minor = version.split(".")[:2]
    return {} if (int(major), int(minor)) >= (3, 1) else {"float_precision": "round_trip"}


def _read_parquet(path: Path) -> Any:
    with _parquet(path) as content:
        return _as_frame(content.read())


@contextmanager
def _parquet(path: Path) -> Iterator[Any]:
    """Open a Parquet file with distinct names; errors within the block become a ``ValueError`` that names it."""
    arrow = import_extra("pyarrow", "reading Parquet", "cli")
    parquet = import_extra("pyarrow.parquet", "reading Parquet", "cli")
    try:
        # opened here: a name with a colon would be taken for a URL
        with open_compressed(path) as file:
            content = parquet.ParquetFile(file)
            _check_names(path, content.schema_arrow.names)
            yield content
    except (arrow.ArrowInvalid, arrow.ArrowNotImplementedError) as error:
        raise ValueError(f"{str(path)!r} is damaged or not a Parquet file: {error}") from error


def _as_frame(records: Any) -> Any:
    arrow = import_extra("pyarrow", "reading Parquet", "cli")
    table = arrow.Table.from_batches([records]) if isinstance(records, arrow.RecordBatch) else records
    for index, field in enumerate(table.schema):
        if arrow.types.is_decimal(field.type):
            table = table.set_column(index, field.name, table.column(index).cast(arrow.float64()))
    # row numbers that pandas wrote as a separate column
    extra = [name for name in table.column_names if name.startswith(_INDEX)]
    return table.drop_columns(extra).to_pandas(ignore_metadata=True)
