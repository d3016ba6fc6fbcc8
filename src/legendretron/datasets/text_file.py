"""CSV and TSV files, read once by pyarrow as text or numbers; irregular lines by the standard library, which says where."""

from __future__ import annotations

import codecs
import io
import itertools
import re
import time
import warnings
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from legendretron._internal.columns import check_names
from legendretron._internal.extras import arrow, import_extra
from legendretron._internal.parameters import spell
from legendretron.datasets.compressed import LONGEST_LINE, line_is_too_long, open_compressed
from legendretron.datasets.text_form import (
    GUESS,
    MISSING_MARKS,
    CsvError,
    TextForm,
    TextOptions,
    find_decimal,
    find_form,
    parse_lines,
)

_SAMPLE = 2**16  # bytes that show how a file is written
_BLOCK = 2**20  # bytes that are parsed at once; so many fit into the caches of processors
_ROWS = 2**14  # of a batch, where lines are irregular
_OVERLAP = 32  # bytes that are looked at again with those that follow
_END = "\x1e end \x1f"  # a line after the last one, which is a record of its own unless a quotation mark is not closed


#: Of text that is not UTF-8; an extension of Latin-1.
_FALLBACK = "cp1252"


def _find_encoding(path: Path, start: bytes) -> str:
    """The encoding of a file that begins so: UTF-16 by its byte order mark, UTF-8, or else Windows-1252, with a warning."""
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    try:
        codecs.getincrementaldecoder("utf-8")().decode(start)  # whose end may be a part of a letter
    except UnicodeDecodeError as error:
        if b"\0" in start:  # no text
            return "utf-8"
        try:
            start.decode(_FALLBACK)
        except UnicodeDecodeError as other:
            raise ValueError(
                f"{str(path)!r} is not UTF-8 text{_describe_byte(error)}, nor Windows-1252; convert it, or give its "
                f"encoding, as {spell('encoding', 'latin1')}."
            ) from other
        _fall_back(path, io.BytesIO(start))
        return _FALLBACK
    return "utf-8"


def _wrong_encoding(path: Path, error: UnicodeError, form: TextForm) -> ValueError:
    return ValueError(
        f"{str(path)!r} is not text in {form.encoding}{_describe_byte(error)}; give its encoding, such as "
        f"{spell('encoding', 'latin1')}."
    )


def _describe_byte(error: UnicodeError) -> str:
    return f" (byte 0x{error.object[error.start]:02x})" if isinstance(error, UnicodeDecodeError) else ""


def _fall_back(path: Path, file: Any) -> None:
    """Warn that a file that is not UTF-8 is read as Windows-1252, after a check that this is one encoding for all of it.

    It is if there are only letters of ASCII, which are the same in both, before the first byte that is not UTF-8.
    Otherwise the file is UTF-8 and damaged, which is a ``ValueError``: in Windows-1252 its other letters would be wrong.
    """
    line, byte, ascii_only = _find_bad_byte(path, file)
    if not ascii_only:
        raise ValueError(
            f"{str(path)!r} is UTF-8 text up to line {line}, which holds the byte 0x{byte:02x}; repair that line, or give "
            f"the encoding of the file, such as {spell('encoding', _FALLBACK)}."
        )
    warnings.warn(
        f"{str(path)!r} is not UTF-8 text (byte 0x{byte:02x} in line {line}) and was read as Windows-1252; give "
        f"{spell('encoding', 'utf-8')} to refuse it, or another encoding if letters look wrong.",
        stacklevel=3,
    )


def _find_bad_byte(path: Path, file: Any) -> tuple[int, int, bool]:
    """The line of the first byte that is not UTF-8, from 1, the byte, and whether all letters before it are ASCII."""
    ascii_only = True
    # bytes that are not UTF-8 become characters that no text holds
    with io.TextIOWrapper(file, "utf-8", errors="surrogateescape", newline="") as text:
        for number, line in enumerate(_short_lines(path, text), start=1):
            if (found := re.search("[\udc80-\udcff]", line)) is not None:
                return number, ord(found[0]) - 0xDC00, ascii_only and line[: found.start()].isascii()
            ascii_only = ascii_only and line.isascii()
    raise ValueError("all bytes are UTF-8.")


@dataclass
class TextFile:
    r"""A CSV or TSV file after a look at its beginning."""

    path: Path  #: the file; it may be compressed
    form: TextForm  #: how it is written, as far as it has been read
    #: names of its columns, from the first line; those without a name are called ``Unnamed: 0`` and so on by their
    #: place
    names: tuple[str, ...]
    block: int = _BLOCK  #: bytes that are parsed at once: many lines
    regular: bool = True  #: whether the first line that is not blank is the first
    guessed: bool = False  #: whether the encoding was not given

    @classmethod
    def open(cls, path: Path, kind: str, given: TextOptions = GUESS) -> Self:
        """Look at the beginning of a file: how it is written, and its first line."""
        with open_compressed(path) as file:
            start = file.read(_SAMPLE)
            while len(start) % _SAMPLE == 0 and start and not re.search(rb"[\r\n]", start):
                if len(start) > LONGEST_LINE:
                    raise line_is_too_long(path, 1)
                if not (more := file.read(len(start))):
                    break
                start += more  # names of very many columns
        if not start.strip():
            raise ValueError(f"{str(path)!r} is empty.")
        find_decimal(given)  # raises for options that are wrong
        encoding = given.encoding or _find_encoding(path, start)
        if b"\0" in start and not encoding.lower().replace("_", "-").startswith(("utf-16", "utf-32")):
            raise ValueError(f"{str(path)!r} holds binary data, not text; is it another format, or UTF-16?")
        lines = list(io.StringIO(start.decode(encoding, errors="replace").lstrip("\ufeff"), newline=""))
        form = find_form(lines, kind, encoding, given)
        with _reading(path):
            header: list[str] = next((row for row in parse_lines(lines, form.sep) if not _is_blank(row)), [])
        if any("\ufffd" in name for name in header):
            try:
                start[:-4].decode(form.encoding)
            except UnicodeError as error:
                raise _wrong_encoding(path, error, form) from error
        names = [name.strip() for name in header]
        check_names(repr(str(path)), names)
        longest = max(len(line) for line in lines)
        return cls(
            path,
            form,
            tuple(name or f"Unnamed: {place}" for place, name in enumerate(names)),
            max(_BLOCK, min(16 * longest, 2 * LONGEST_LINE)),
            bool(lines[0].strip()),
            guessed=given.encoding is None,
        )

    def batches(
        self,
        columns: Sequence[str] | None = None,
        *,
        numbers: Collection[str] = (),
        missing: Collection[str] = (),
        bad_lines: dict[int, str] | None = None,
    ) -> Iterator[Any]:
        """Read the rows as record batches, one after the other.

        Texts are those that stand in the file. Lines with too few fields have empty ones at their end; those with too many
        are an error. For text that turns out not to be UTF-8, if no encoding was given, see :func:`_fall_back`.
        """
        wanted = list(self.names if columns is None else columns)

        def list_ways() -> list[Iterator[Any]]:
            ways = [self._by_csv(wanted, bad_lines)]
            if self.regular and len(self.names) > 1:  # of a single column, pyarrow takes lines of spaces for rows
                ways.insert(0, self._by_arrow(wanted, (), ()))
                if numbers and self.form.thousands is None:
                    few = {*missing}.difference(MISSING_MARKS[1:])
                    # each a tenth faster, and enough where empty fields are the only gaps, and nothing is quoted
                    ways[:0] = [
                        self._by_arrow(wanted, numbers, few, quotes=False),
                        self._by_arrow(wanted, numbers, few),
                        self._by_arrow(wanted, numbers, missing),
                    ]
            return ways

        ways, done = list_ways(), 0
        while ways:
            start = 0
            try:
                for batch in ways.pop(0):
                    new = batch.slice(max(0, done - start))
                    start += batch.num_rows
                    if new.num_rows:
                        done += new.num_rows
                        yield new
                return
            except arrow.ArrowException:
                continue  # a field or a line that pyarrow refuses: more slowly from there on
            except UnicodeError as error:
                if not self.guessed or self.form.encoding != "utf-8":
                    raise _wrong_encoding(self.path, error, self.form) from error
                with open_compressed(self.path) as file:
                    _fall_back(self.path, file)
                self.form = self.form._replace(encoding=_FALLBACK)
                ways = list_ways()  # what has been read is the same in both

    def _by_arrow(
        self, wanted: list[str], numbers: Collection[str], missing: Collection[str], *, quotes: bool = True
    ) -> Iterator[Any]:
        reading = import_extra("pyarrow.csv", "reading text", "tables")
        with (
            open_compressed(self.path) as file,
            _lend(_CountedQuotes(self._checked(file), self.form.sep, quotes)) as (counted, lend),
        ):
            batch = None
            for batch in reading.open_csv(
                lend(),
                read_options=reading.ReadOptions(
                    block_size=self.block,
                    column_names=self.names,
                    skip_rows_after_names=1,
                    use_threads=False,
                    encoding=self.form.encoding,
                ),
                parse_options=reading.ParseOptions(
                    delimiter=self.form.sep, quote_char='"' if quotes else False, newlines_in_values=quotes
                ),
                convert_options=reading.ConvertOptions(
                    column_types={name: arrow.float64() if name in numbers else arrow.string() for name in wanted},
                    include_columns=wanted,
                    null_values=[*missing],
                    decimal_point=self.form.decimal,
                ),
            ):
                yield batch
            last = [] if batch is None else batch.slice(batch.num_rows - 1).to_pylist()
            lines = any("\n" in field for row in last for field in row.values() if isinstance(field, str))
            if counted.number % 2 or lines:  # perhaps one that is not closed: its field goes on to the end of the file
                raise arrow.ArrowInvalid("quotation marks")

    def _checked(self, file: Any) -> Any:
        """The file, whose letters are checked while it is read; for other encodings than UTF-8 pyarrow does so."""
        return _Utf8(file) if codecs.lookup(self.form.encoding).name == "utf-8" else file

    def _by_csv(self, wanted: list[str], bad_lines: dict[int, str] | None) -> Iterator[Any]:
        place_of = {name: place for place, name in enumerate(self.names)}
        places, width = [place_of[name] for name in wanted], len(self.names)

        def batch(rows: list[list[str]]) -> Any:
            columns = [[row[place] if place < len(row) else "" for row in rows] for place in places]
            return arrow.RecordBatch.from_arrays([arrow.array(column, arrow.string()) for column in columns], wanted)

        rows: list[list[str]] = []
        with _reading(self.path), open_compressed(self.path) as file:
            records = _records(self.path, file, self.form)
            next(records, None)
            for line, fields in records:
                if any(fields[width:]):  # separators at the end of lines are no fields
                    fault = f"{len(fields)} fields, not {width}"
                    if bad_lines is None:
                        raise ValueError(
                            f"{str(self.path)!r} is not a regular table: line {line} has {fault}; remove the extra fields, "
                            f"or put text that contains the separator, {self.form.sep!r}, in quotation marks."
                        )
                    bad_lines[line] = fault
                    continue
                rows.append(fields)
                if len(rows) == _ROWS:
                    yield batch(rows)
                    rows = []
        if rows:
            yield batch(rows)


class _Utf8:
    """A file in which a byte that is not UTF-8 is an error while it is read, also in a column that is not wanted."""

    def __init__(self, file: Any) -> None:
        self._file, self._decode = file, codecs.getincrementaldecoder("utf-8")().decode

    def read(self, size: int = -1) -> bytes:
        piece: bytes = self._file.read(size)
        self._decode(piece, not piece)
        return piece


class _Lent:
    """A file as the threads of pyarrow hold it: it is gone once they have let go of it."""

    closed = False

    def __init__(self, file: Any) -> None:
        self.read = file.read


@contextmanager
def _lend(file: Any) -> Iterator[tuple[Any, Callable[[], _Lent]]]:
    """A file, and what returns it for pyarrow; the block ends when pyarrow has let go of it.

    Its threads hold a file for a moment after it was read. Python aborts if it ends meanwhile:
    https://github.com/apache/arrow/issues/34314.
    """
    held: weakref.WeakSet[_Lent] = weakref.WeakSet()

    def lend() -> _Lent:
        lent = _Lent(file)
        held.add(lent)
        return lent

    try:
        yield file, lend
    finally:
        for _ in range(5000):
            if not held:
                break
            time.sleep(0.001)


class _CountedQuotes:
    """A file of which the quotation marks are counted while it is read.

    One that follows spaces at the beginning of a field opens it, as in ``a, "b"``, which pyarrow takes for text: an error.
    Unless they are allowed, so is any after the first line.
    """

    def __init__(self, file: Any, sep: str, allowed: bool) -> None:
        self._file, self._allowed, self.number, self._end = file, allowed, 0, b"\n"
        self._in_names = True
        # the zeros are those of UTF-16
        ends = rb"[\r\n" + re.escape(sep.encode()) + rb"]"
        self._spaced = re.compile(ends + rb"\0?(?: \0?)+\"")
        # within a field a mark is doubled, and the one that closes it comes before another end
        self._not_within = re.compile(rb"\0?(?!" + ends + rb")[^\0\"]")

    def read(self, size: int = -1) -> bytes:
        piece: bytes = self._file.read(size)
        if b'"' in piece:  # which is looked for faster than counted
            if not self._allowed and b'"' in (re.split(rb"[\r\n]", piece, maxsplit=1)[-1] if self._in_names else piece):
                raise arrow.ArrowInvalid("a quotation mark")
            joined = self._end + piece
            if b' "' in joined or b' \0"' in joined:
                at, number = 0, self.number - self._end.count(b'"')
                for found in self._spaced.finditer(joined):
                    number += joined.count(b'"', at, found.start())
                    at = found.start()
                    # not within a field; single marks in text make the number wrong
                    if number % 2 == 0 or self._not_within.match(joined, found.end()):
                        raise arrow.ArrowInvalid("a quotation mark after a space")
            self.number += piece.count(b'"')
        self._end, self._in_names = piece[-_OVERLAP:] or self._end, False
        return piece


def _is_blank(fields: list[str]) -> bool:
    return len(fields) < 2 and not "".join(fields).strip()


def _short_lines(path: Path, text: Any) -> Iterator[str]:
    """The lines of a text, one of which that is longer than any line of a table is a ``ValueError``."""
    for number in itertools.count(1):
        line = text.readline(LONGEST_LINE + 1)
        if len(line) > LONGEST_LINE:
            raise line_is_too_long(path, number)
        if not line:
            return
        yield line


def _records(path: Path, file: Any, form: TextForm, errors: str = "strict") -> Iterator[tuple[int, list[str]]]:
    """The line at which each record begins, from 1, and its fields; the first record has the names of the columns."""
    line = ""

    def watch(lines: Iterable[str]) -> Iterator[str]:
        nonlocal line
        for read in lines:
            line = read
            yield read

    with io.TextIOWrapper(file, form.encoding, errors=errors, newline="") as text:
        lines = _short_lines(path, text)
        first = next(lines, "").lstrip("\ufeff")
        reader, begins = parse_lines(watch(itertools.chain([first], lines, [_END])), form.sep), 1
        try:
            for fields in reader:
                if fields and fields[-1].endswith(_END):
                    if fields != [_END] or reader.line_num > begins:
                        raise CsvError("a quotation mark is not closed")
                    return
                if len(fields) > 1 or line.strip():  # a field may be two quotation marks
                    yield begins, fields
                begins = reader.line_num + 1
        except CsvError as error:
            raise CsvError(f"{error}, in line {begins}") from error


def lines_of_rows(path: Path, rows: Collection[int], form: TextForm) -> dict[int, int]:
    """Return the lines at which rows of CSV or TSV begin, from 1, the names of the columns being the first line.

    Rows are counted from 0, without lines that have too many fields.
    """
    found: dict[int, int] = {}
    with open_compressed(path) as file, suppress(CsvError):
        records = _records(path, file, form, errors="replace")
        _, names = next(records, (0, []))
        regular = (line for line, fields in records if not any(fields[len(names) :]))
        for number, line in enumerate(regular):
            if number in rows:
                found[number] = line
                if len(found) == len(rows):
                    break
    return found


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Inside the block, errors in the form of a text file become a ``ValueError`` that names it."""
    try:
        yield
    except CsvError as error:
        raise ValueError(f"{str(path)!r} is not a regular table: {error}.") from error


def join_batches(batches: Iterator[Any], rows: int) -> Iterator[Any]:
    """Yield tables of so many rows from record batches of any number; fewer before columns change their type, and last."""
    held: list[Any] = []
    n = 0
    for batch in batches:
        if held and batch.schema != held[0].schema:
            yield arrow.Table.from_batches(held)
            held, n = [], 0
        while batch.num_rows:
            part = batch.slice(0, rows - n)
            batch = batch.slice(part.num_rows)
            held.append(part)
            n += part.num_rows
            if n == rows:
                yield arrow.Table.from_batches(held)
                held, n = [], 0
    if held:
        yield arrow.Table.from_batches(held)


def place_of_row(path: Path, row: int, form: TextForm | None) -> str:
    """Return the line of a row of CSV or TSV, or the row of a sheet or another file; rows count from 0.

    Text is read up to there, since fields may hold line breaks.
    """
    if form is not None and (line := lines_of_rows(path, [row], form).get(row)) is not None:
        return f"line {line}"
    return f"row {row + 2} of the sheet" if path.suffix.lower() in (".xlsx", ".xlsm") else f"row {row} (from 0)"
