"""Files of tables as data frames, with a clear error message for every malformed file."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from legendretron._internal.arguments import check_choice
from legendretron._internal.extras import import_extra
from legendretron._internal.parameters import spell
from legendretron.datasets.clean_text import clean_frame, clean_names
from legendretron.datasets.compressed import open_compressed
from legendretron.datasets.text_form import FALLBACK_ENCODING, TextForm, TextOptions, text_form
from legendretron.datasets.typed_files import TYPED, typed_chunks, typed_header

__all__ = [
    "FORMATS",
    "SUFFIXES",
    "ReadRows",
    "UnreadFormatError",
    "format_of",
    "frame_chunks",
    "header_of",
    "quoted",
    "read_frame",
    "text_chunks",
]

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
_SKIPPED = re.compile(r"Skipping line (\d+): expected (\d+) fields, saw (\d+)")  # pandas' words
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


class ReadRows(NamedTuple):
    """Rows that were read from a file.

    Attributes
    ----------
    frame : data frame
        The columns, with their types.
    form : TextForm or None
        How the file is written, if it is text.
    kept : data frame or None
        Columns that were to be kept: of CSV and TSV the text that stands there, of others the values with their types there.
    """

    frame: Any
    form: TextForm | None = None
    kept: Any = None


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


def read_frame(
    path: Path, kind: str, *, as_text: Sequence[str] = (), text: TextOptions | None = None, keep: Sequence[str] = ()
) -> ReadRows:
    """Read a file into a pandas data frame with distinct, non-empty column names.

    White space at the ends of text and of names is taken off, in all formats; what then is empty, or a mark of missing
    values, is a gap.

    Parameters
    ----------
    path : Path
        The file; CSV and TSV may be compressed (``.gz``, ``.bz2``, ``.xz``).
    kind : str
        Its format, one of ``FORMATS`` besides LIBSVM text.
    as_text : sequence of str
        Columns of a CSV or TSV file to keep as text.
    text : TextOptions, optional
        How a CSV or TSV file is written; guessed if not given. Text that is not UTF-8 is read as Windows-1252, with a
        warning. Of other formats, marks of missing values and of numbers in text.
    keep : sequence of str
        Columns to return as they are, too; unknown ones are left out.
    """
    if path.is_dir():
        raise ValueError(f"{str(path)!r} is a folder; give a file in it.")
    options = TextOptions() if text is None else text
    if kind in TYPED:
        _check_names(path, typed_header(path, kind))
        ((frame, kept),) = typed_chunks(path, kind, None, keep, options.na)
        read = ReadRows(clean_frame(frame, options, as_text=as_text), kept=kept)
    else:
        frame, form = _read_text(path, text_form(path, kind, options), as_text, options)
        kept = None
        if known := [name for name in keep if name in frame.columns]:
            with _reading_text(path, form), open_compressed(path) as file, _long_rows_as_errors():
                kept = _pandas().read_csv(file, **_unread(path, form, known))
        read = ReadRows(clean_frame(frame, options, form, as_text), form, kept)
    if len(read.frame) == 0:
        raise ValueError(f"{str(path)!r} has column names but no rows.")
    return read


def header_of(path: Path, kind: str, text: TextOptions | None = None) -> list[str]:
    """Names of the columns of a file."""
    if kind in TYPED:
        names = typed_header(path, kind)
        _check_names(path, names)
        return names
    options = TextOptions() if text is None else text
    form = text_form(path, kind, options)
    with _reading_text(path, form):
        return _text_header(path, form)


def frame_chunks(
    path: Path,
    kind: str,
    rows: int,
    *,
    as_text: Sequence[str] = (),
    text: TextOptions | None = None,
    keep: Sequence[str] = (),
    bad_lines: dict[int, str] | None = None,
) -> Iterator[ReadRows]:
    """Read what :func:`read_frame` does in data frames of so many rows at most, one after the other.

    Types of the columns of text are those of each frame. Text must be UTF-8, or in the encoding that is given. Lines with too
    many fields are an error, unless there is a dictionary for them; then they are left out, and added there.
    """
    options = TextOptions() if text is None else text
    if kind in TYPED:
        _check_names(path, typed_header(path, kind))
        for frame, kept in typed_chunks(path, kind, rows, keep, options.na):
            yield ReadRows(clean_frame(frame, options, as_text=as_text), kept=kept)
        return
    form = text_form(path, kind, options)
    with _reading_text(path, form):
        known = [name for name in _text_header(path, form) if name in keep]
        how = _text_options(path, form, as_text, options)
    frames = (clean_frame(frame, options, form, as_text) for frame in _chunks(path, form, rows, how, bad_lines))
    if not known:
        for frame in frames:
            yield ReadRows(frame, form)
        return
    # a column may be needed as numbers and as it is written, so the latter is read apart
    for frame, kept in zip(frames, _chunks(path, form, rows, _unread(path, form, known)), strict=True):
        yield ReadRows(frame, form, kept)


def text_chunks(path: Path, form: TextForm, rows: int, columns: Sequence[str], given: TextOptions) -> Iterator[Any]:
    """Read some columns of a CSV or TSV file as text, with gaps, in data frames of so many rows at most."""
    frames = _chunks(path, form, rows, {**_text_options(path, form, columns, given), "usecols": list(columns)})
    return (clean_frame(frame, given, form, columns) for frame in frames)


def _chunks(
    path: Path, form: TextForm, rows: int, options: dict[str, Any], bad_lines: dict[int, str] | None = None
) -> Iterator[Any]:
    if bad_lines is not None:
        options = {**options, "on_bad_lines": "warn"}
    with (
        _reading_text(path, form),
        open_compressed(path) as file,
        _pandas().read_csv(file, chunksize=rows, **options) as reader,
    ):
        while True:
            # not while the caller works on a frame
            with _long_rows_as_errors() if bad_lines is None else _long_rows_noted(bad_lines):
                frame = next(reader, None)
            if frame is None:
                return
            yield frame


@contextmanager
def _long_rows_noted(bad_lines: dict[int, str]) -> Iterator[None]:
    """Inside the block, rows longer than the header are left out, and added to these by their lines."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", _pandas().errors.ParserWarning)
        yield
    for warning in caught:
        found = _SKIPPED.findall(str(warning.message))
        if not found:
            raise _pandas().errors.ParserWarning(str(warning.message))
        for line, expected, seen in found:
            bad_lines[int(line)] = f"line {line} has {seen} fields, not {expected}"


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
    names = clean_names(header.iloc[0])
    _check_names(path, names)
    # those without a name are called as pandas calls them
    return [name or f"Unnamed: {place}" for place, name in enumerate(names)]


def _text_options(path: Path, form: TextForm, as_text: Sequence[str], given: TextOptions) -> dict[str, Any]:
    return {
        "names": _text_header(path, form),
        "header": 0,
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


def _unread(path: Path, form: TextForm, columns: Sequence[str]) -> dict[str, Any]:
    """Options to read columns as the text that stands there; only an empty field is a gap."""
    options = {**_text_options(path, form, columns, TextOptions()), "na_values": [""], "keep_default_na": False}
    return {**options, "usecols": list(columns)}


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
            f"{name} is not text in {form.encoding}{byte}; give its encoding, such as {spell('encoding', 'latin1')}.",
            byte,
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


def _read_text(path: Path, form: TextForm, as_text: Sequence[str], given: TextOptions) -> tuple[Any, TextForm]:
    """The data frame, and how the file turned out to be written."""
    try:
        with _reading_text(path, form):
            how = _text_options(path, form, as_text, given)
            with open_compressed(path) as file, _long_rows_as_errors():
                return _pandas().read_csv(file, **how), form
    except _OtherEncodingError as error:
        if given.encoding is not None or form.encoding != "utf-8":
            raise
        name = repr(str(path))
        try:
            read = _read_text(path, form._replace(encoding=FALLBACK_ENCODING), as_text, given)
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


def _exactly(version: str) -> dict[str, str]:
    """The option to read numbers exactly, to the last bit; from pandas 3.1 on this is the only behaviour."""
    major, minor = version.split(".")[:2]
    return {} if (int(major), int(minor)) >= (3, 1) else {"float_precision": "round_trip"}
