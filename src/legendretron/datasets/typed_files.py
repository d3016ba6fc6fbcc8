"""Parquet, Feather, JSON lines and Excel files as data frames: formats whose values have types."""

from __future__ import annotations

import warnings
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from legendretron._internal.extras import arrow, import_extra, pandas, parquet
from legendretron.datasets.clean_text import clean_names
from legendretron.datasets.compressed import open_compressed

#: Names of the formats.
TYPED = {"parquet": "a Parquet file", "feather": "a Feather file", "jsonl": "JSON lines", "excel": "an Excel file"}
_INDEX = "__index_level_"  # how pandas calls row numbers that it writes
_LINES = 2**16  # of JSON that are read at once


def typed_header(path: Path, kind: str) -> list[str]:
    """Names of the columns of a file."""
    with _reading(path, kind), open_compressed(path) as file:
        if kind in ("parquet", "feather"):
            schema = _open_arrow(file, kind)[0]
            return clean_names([name for name in schema.names if not name.startswith(_INDEX)])
        if kind == "jsonl":  # a line need not have all of them
            return [*dict.fromkeys(name for frame in _json_frames(file, _LINES) for name in clean_names(frame.columns))]
        return clean_names(_excel_frame(path, file, (), rows=0).columns)


def typed_chunks(
    path: Path, kind: str, rows: int | None, keep: Sequence[str] = (), na: Sequence[str] = ()
) -> Iterator[tuple[Any, Any]]:
    """Read data frames of so many rows at most, or one of all rows; and others of those columns that are to be kept.

    The latter hold integers with gaps, decimals and days of Parquet and Feather as such.
    """
    with _reading(path, kind), open_compressed(path) as file:
        if kind in ("parquet", "feather"):
            for table in _arrow_tables(file, kind, rows):
                yield _split(table.rename_columns(clean_names(table.column_names)), keep)
            return
        # a line of JSON need not have all columns
        names = typed_header(path, kind) if kind == "jsonl" and rows is not None else None
        for frame in _json_frames(file, rows) if kind == "jsonl" else _sheet_parts(_excel_frame(path, file, na), rows):
            frame = frame.set_axis(clean_names(frame.columns), axis=1)
            frame = frame if names is None else frame.reindex(columns=names)
            known = [name for name in frame.columns if name in keep]
            yield frame, frame[known] if known else None


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
    except ValueError as error:
        if kind == "jsonl" and type(error) is ValueError and repr(str(path)) not in str(error):  # pandas' own
            raise ValueError(f"{str(path)!r} is not JSON with an object in each line: {error}.") from error
        raise


def _open_arrow(file: Any, kind: str) -> tuple[Any, Any]:
    """The schema, and what the rows are read from."""
    if kind == "feather":
        opened = import_extra("pyarrow.ipc", "reading Feather", "cli").open_file(file)
        return opened.schema, opened
    opened = parquet.ParquetFile(file)
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


def _json_frames(file: Any, rows: int | None) -> Iterator[Any]:
    """Values with the types of JSON: texts that look like numbers or dates stay texts."""
    with warnings.catch_warnings():
        # newer versions say that dates need no option any more where types are not converted
        warnings.filterwarnings("ignore", "The 'convert_dates' keyword")
        with pandas.read_json(
            file, lines=True, chunksize=rows or _LINES, dtype=False, convert_dates=False, convert_axes=False,
            precise_float=True,
        ) as frames:  # fmt: skip
            if rows is not None:
                yield from frames
                return
            parts = [*frames]
    yield pandas.concat(parts, ignore_index=True) if len(parts) > 1 else next(iter(parts), pandas.DataFrame())


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
        return pandas.read_excel(book, sheet_name=0, na_values=[*na], nrows=rows)


def _split(table: Any, keep: Sequence[str]) -> tuple[Any, Any]:
    """A data frame of all columns, and one of those to be kept, in which integers with gaps, decimals and days stay such."""
    known = [name for name in table.column_names if name in keep]
    if not known:
        return _as_frame(table), None
    kept = table.select(known)
    for index, field in enumerate(kept.schema):
        if arrow.types.is_dictionary(field.type):
            kept = kept.set_column(index, field.name, kept.column(index).cast(field.type.value_type))
    return _as_frame(table), kept.to_pandas(types_mapper=pandas.ArrowDtype, ignore_metadata=True)


def _as_frame(table: Any) -> Any:
    for index, field in enumerate(table.schema):
        if arrow.types.is_decimal(field.type):
            table = table.set_column(index, field.name, table.column(index).cast(arrow.float64()))
    # row numbers that pandas wrote as a separate column
    extra = [name for name in table.column_names if name.startswith(_INDEX)]
    return table.drop_columns(extra).to_pandas(ignore_metadata=True)
