"""Text in tables: how a file is written (encoding, separator, decimal mark), gaps, and what values mean."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from legendretron._internal.extras import arrow, compute, pandas
from legendretron._internal.numbers import EXACT, PLAIN, THOUSANDS, Marks, lose_digits, marks_of, written_numbers
from legendretron._internal.parameters import ParameterError, spell

_LINES = 50
#: In order of preference, where more than one would do.
_SEPARATORS = (",", ";", "\t", "|")
_COMMA = re.compile(r"\s*[+-]?\d+,\d+\s*")
_POINT = re.compile(r"\s*[+-]?\d+\.\d+\s*")
_PADDED = re.compile("[+-]?0[0-9]")


class TextOptions(NamedTuple):
    """What is given about a text file; None: to be found out."""

    sep: str | None = None  #: between the columns
    decimal: str | None = None  #: decimal mark: ``"."`` or ``","``
    encoding: str | None = None  #: name of the encoding, as Python knows it
    na: tuple[str, ...] = ()  #: texts that stand for a missing value, besides the empty one, NA, NaN, null and the like
    thousands: str | None = None  #: what separates thousands: ``"."``, ``","``, ``"'"`` or a space; None: nothing


GUESS = TextOptions()


class TextForm(NamedTuple):
    """Encoding, separator, decimal mark, and what separates thousands, of a text file."""

    encoding: str
    sep: str
    decimal: str
    thousands: str | None = None


def find_form(lines: list[str], kind: str, encoding: str, given: TextOptions) -> TextForm:
    r"""Return how a CSV or TSV file is written, by what is given and what its first lines show.

    The separator of CSV is the first of comma, semicolon, tab and bar by which the lines have the same number of fields, at
    least two. Between columns separated by anything but a comma, the decimal mark is a comma if numbers have one, and none
    has a point.
    """
    full = [line for line in lines if line.strip()][:_LINES]
    sep = given.sep or ("\t" if kind == "tsv" else _separator(full))
    return TextForm(encoding, sep, find_decimal(given) or _decimal(full, sep), given.thousands)


def find_decimal(given: TextOptions) -> str | None:
    """Return the decimal mark, if it is given, or told by the mark between thousands, after a check of all options."""
    if given.sep is not None and (len(given.sep) != 1 or given.sep in '"\n\r'):
        raise ParameterError("sep", f"must be one character, such as ';', got {given.sep!r}.")
    if given.decimal is not None and given.decimal not in (".", ","):
        raise ParameterError("decimal", f"must be '.' or ',', got {given.decimal!r}.")
    if given.thousands is not None and given.thousands not in THOUSANDS:
        raise ParameterError("thousands", f"must be '.', ',', \"'\" or a space, got {given.thousands!r}.")
    if given.thousands is not None and given.thousands == given.decimal:
        raise ParameterError("thousands", f"must differ from {spell('decimal')}, got {given.decimal!r} for both.")
    if given.decimal is not None and given.decimal == given.sep:
        raise ParameterError("decimal", f"must differ from {spell('sep')}, got {given.sep!r} for both.")
    if given.encoding is not None:
        try:
            "".encode(given.encoding)
        except LookupError as error:
            raise ParameterError(
                "encoding", f"must be one that Python knows, such as latin1, got {given.encoding!r}."
            ) from error
    return given.decimal or {".": ",", ",": "."}.get(given.thousands or "")


def _separator(lines: list[str]) -> str:
    for mark in _SEPARATORS:
        widths = {len(fields) for fields in _fields(lines, mark)}
        if len(widths) == 1 and widths.pop() > 1:
            return mark
    # lines of different lengths: an error tells which; the header tells the separator
    counts = {mark: lines[0].count(mark) if lines else 0 for mark in _SEPARATORS}
    return max(_SEPARATORS, key=lambda mark: counts[mark])


def _fields(lines: list[str], mark: str) -> list[list[str]]:
    try:
        return list(parse_lines(lines, mark))
    except CsvError:
        return []


def _copy_of_csv() -> Any:
    """A copy of the standard library's reader that takes fields of any length; the limit of the original is the process's."""
    spec: Any = importlib.util.find_spec("_csv")
    own: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(own)
    own.field_size_limit(2**31 - 1)
    return own


_CSV = _copy_of_csv()
CsvError: type[Exception] = _CSV.Error


def parse_lines(lines: Iterable[str], mark: str) -> Any:
    """Return an iterator over the fields of lines of CSV, which counts lines in ``line_num``; it may raise a ``CsvError``."""
    return _CSV.reader(lines, delimiter=mark, skipinitialspace=True)


def _decimal(lines: list[str], sep: str) -> str:
    if sep == ",":
        return "."
    cells = [cell for fields in _fields(lines[1:], sep) for cell in fields]
    return "," if any(map(_COMMA.fullmatch, cells)) and not any(map(_POINT.fullmatch, cells)) else "."


def marks_in(how: TextForm | TextOptions) -> Marks:
    """Return how numbers in text are written, by the form of a file of text, or by what is given of one of another format."""
    decimal = how.decimal if isinstance(how, TextForm) else find_decimal(how)
    return Marks(decimal or ".", how.thousands)


#: Fields of a text file that count as missing, as pandas has them. In files with types only the empty text does.
MISSING_MARKS = (
    "", "#N/A", "#N/A N/A", "#NA", "-NaN", "-nan", "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null",
)  # fmt: skip


def marks_for(form: TextForm | None, given: Collection[str]) -> frozenset[str]:
    """Return all texts that stand for a missing value in a file of text, or, without a form, of another format."""
    return frozenset([*(("",) if form is None else MISSING_MARKS), *(mark.strip() for mark in given)])


def clean_names(names: Sequence[Any]) -> list[str]:
    """Return names of columns without white space at their ends."""
    return [str(name).strip() for name in names]


def type_text(
    texts: Any, form: TextForm, missing: Collection[str] = (), *, as_text: bool = False, codes: bool = False
) -> Any:
    """Return a column of a text file as an array: numbers, or true and false, if all texts are, else text."""
    plain = not as_text and form.decimal == "." and form.thousands is None
    if plain and (numbers := cast_numbers(texts)) is not None and not (codes and _hold_codes(texts)):
        return without_marks(numbers, missing)
    clean = clean_texts(texts, missing)
    if not as_text and not (codes and _hold_codes(clean)):
        if clean.null_count == len(clean):
            return np.full(len(clean), np.nan)
        if plain and (numbers := cast_numbers(clean)) is not None:
            return without_marks(numbers, missing)
        if (truth := truth_values(clean)) is not None:
            return truth.to_pandas().array
        different = [] if plain else compute.unique(clean).drop_null().to_pylist()
        if different and not np.isnan(written_numbers(different, form.decimal, form.thousands)).any():
            return without_marks(numbers_in(clean.to_pandas(), marks_in(form)).to_numpy(), missing)
    return without_written_marks(clean, missing, form).to_pandas().array


def truth_values(texts: Any) -> Any:
    """Return an array of text as true and false, with its gaps; None if it holds anything else, or nothing."""
    different = compute.unique(texts).drop_null().to_pylist()
    if not different or any(text.lower() not in ("true", "false") for text in different):
        return None
    return compute.equal(compute.utf8_lower(texts), "true")


def without_marks(numbers: np.ndarray, missing: Collection[str]) -> np.ndarray:
    """Numbers with gaps for those that stand for a missing value, such as -999."""
    marks = _numbers_among(missing)
    marked = np.isin(numbers, marks) if len(marks) else marks
    return np.where(marked, np.nan, numbers) if marked.any() else numbers


def without_written_marks(texts: Any, missing: Collection[str], form: TextForm) -> Any:
    """An array of text with gaps for numbers that stand for a missing value, such as -999.0 for -999.

    A number with leading zeros is a code, and no other way to write the number.
    """
    marks = _numbers_among(missing)
    if not len(marks):
        return texts
    different = [text for text in compute.unique(texts).drop_null().to_pylist() if not _PADDED.match(text)]
    marked = np.isin(written_numbers(different, form.decimal, form.thousands), marks)
    marked_texts = [text for text, is_mark in zip(different, marked, strict=True) if is_mark]
    return compute.if_else(compute.is_in(texts, arrow.array(marked_texts, arrow.string())), None, texts)


def _numbers_among(marks: Collection[str]) -> np.ndarray:
    """The marks of missing values that are finite numbers."""
    numbers = written_numbers([mark for mark in marks if mark not in MISSING_MARKS])
    return numbers[np.isfinite(numbers)]


def cast_numbers(texts: Any) -> np.ndarray | None:
    """Numbers of an array of text, with a decimal point; None if not all texts are."""
    try:
        numbers: np.ndarray = texts.cast(arrow.float64()).to_numpy()
    except arrow.ArrowInvalid:
        return None
    return numbers


def clean_texts(texts: Any, missing: Collection[str]) -> Any:
    """Return an array of text without white space at the ends, and with gaps for those that stand for a missing value."""
    clean = compute.utf8_trim_whitespace(texts)
    return compute.if_else(compute.is_in(clean, arrow.array([*missing], arrow.string())), None, clean)


#: Digits that double precision holds of any whole number.
_DIGITS = 15


def _hold_codes(texts: Any) -> bool:
    """Whether all texts of an array are digits, and one has a zero before others, or they lose digits as numbers."""
    padded = len(texts.filter(compute.match_substring_regex(texts, "^0[0-9]"))) > 0
    longest = compute.max(compute.binary_length(texts)).as_py()
    if not padded and (longest is None or longest <= _DIGITS):
        return False
    if compute.any(compute.match_substring_regex(texts, "[^0-9]|^$")).as_py():
        return False
    return padded or lose_digits(compute.unique(texts).drop_null().to_pylist())


def text_of_codes(numbers: Any) -> Any | None:
    """An array of integers or whole decimals as text, if they lose digits in double precision; None if they do not."""
    largest = compute.max(compute.abs(numbers.cast(arrow.float64(), safe=False))).as_py()
    if largest is None or largest <= EXACT:
        return None
    texts = numbers.cast(arrow.string())
    return texts if lose_digits(compute.unique(texts).drop_null().to_pylist()) else None


def type_columns(frame: Any, form: TextForm, as_text: Sequence[str], codes: Callable[[str], bool]) -> Any:
    """Return a data frame of a text file whose rows were chosen: columns of which only other rows held words are typed.

    Those for which ``codes`` is true may hold digits that are no numbers.
    """
    infer_dtype = pandas.api.types.infer_dtype
    changed = {}
    for name in frame.columns:
        if name not in as_text and infer_dtype(frame[name], skipna=True) == "string":
            texts = arrow.chunked_array([arrow.array(frame[name], arrow.string(), from_pandas=True)])
            changed[name] = type_text(texts, form, codes=codes(name))
    return frame.assign(**changed)


def clean_frame(frame: Any, given: TextOptions, as_text: Sequence[str] = (), numeric: Sequence[str] = ()) -> Any:
    """Return a data frame of a file whose values have types with clean text, and with the numbers that text is.

    These are read if marks are given, and in columns of ``numeric``.
    """
    types = pandas.api.types
    marks, numbers, changed = marks_for(None, given.na), _numbers_among(given.na), {}
    spelled = marks_in(given)
    for name, dtype in frame.dtypes.items():
        if types.is_numeric_dtype(dtype) and not types.is_bool_dtype(dtype):
            if len(numbers) and (missing := frame[name].isin(numbers)).any():
                changed[name] = frame[name].mask(missing)
            continue
        column = frame[name]
        cleaned = _clean(column, [*marks, *numbers])
        read = name in numeric or (spelled != PLAIN and name not in as_text)
        if read and types.infer_dtype(cleaned, skipna=True) == "string":
            found = numbers_in(cleaned, spelled)
            cleaned = cleaned if (found.isna() & cleaned.notna()).any() else found
        if cleaned is not column:
            changed[name] = cleaned
    return frame.assign(**changed) if changed else frame


def _clean(column: Any, marks: Collection[Any]) -> Any:
    """The column itself if there is nothing to clean."""
    types = pandas.api.types
    if hasattr(column.dtype, "categories"):
        of_categories = column.cat.categories.to_series()
        same = _clean(of_categories, marks) is of_categories
        return column if same else _clean(column.astype(object), marks).astype("category")
    if types.is_object_dtype(column.dtype):
        if types.infer_dtype(column, skipna=True) not in ("string", "mixed", "mixed-integer"):
            return column
        cleaned = column.map(lambda value: value.strip() if isinstance(value, str) else value)
    elif types.is_string_dtype(column.dtype):
        cleaned = column.str.strip()
    else:
        return column
    missing = cleaned.isin(marks)
    if not missing.any() and not ((cleaned != column) & column.notna()).any():
        return column
    return cleaned.mask(missing).infer_objects()


def numbers_and_words(column: Any, form: TextForm | None, name: str) -> tuple[Any, dict[int, str]]:
    """Return what :func:`numbers_in` does, and what is wrong with rows that hold words, by their places."""
    known = PLAIN if form is None else marks_in(form)
    numbers = numbers_in(column, known)

    def fault(word: Any) -> str:
        marks = None if known == PLAIN else marks_of([str(word)], known)
        otherwise = "" if marks is None else f", unless the file is read with {marks.in_words}"
        return f"column {name!r} holds {word!r}, which is not a number{otherwise}"

    places = np.flatnonzero(numbers.isna() & column.notna()).tolist()
    return numbers, {place: fault(column.iloc[place]) for place in places}


def numbers_in(column: Any, marks: Marks) -> Any:
    """Return the numbers of a column of text, NaN where there is none."""
    codes, different = pandas.factorize(column)
    numbers = np.append(written_numbers([str(value).strip() for value in different], *marks), np.nan)
    return pandas.Series(numbers[codes], index=column.index, name=column.name)
