"""How a table in a text file is written: encoding, separator and decimal mark, as given or as its beginning shows."""

from __future__ import annotations

import csv
import re
from typing import NamedTuple

from legendretron._internal.numbers import THOUSANDS
from legendretron._internal.parameters import ParameterError, spell

#: Of text that is not UTF-8; an extension of Latin-1.
FALLBACK_ENCODING = "cp1252"
_LINES = 50
#: In order of preference, where more than one would do.
_SEPARATORS = (",", ";", "\t", "|")
_COMMA = re.compile(r"\s*[+-]?\d+,\d+\s*")
_POINT = re.compile(r"\s*[+-]?\d+\.\d+\s*")


class TextOptions(NamedTuple):
    """What is given about a text file; None: to be found out."""

    sep: str | None = None  #: between the columns
    decimal: str | None = None  #: decimal mark: ``"."`` or ``","``
    encoding: str | None = None  #: name of the encoding, as Python knows it
    na: tuple[str, ...] = ()  #: texts that stand for a missing value, besides the empty one, NA, NaN, null and the like
    thousands: str | None = None  #: what separates thousands: ``"."``, ``","``, ``"'"`` or a space; None: nothing


class TextForm(NamedTuple):
    """Encoding, separator, decimal mark, and what separates thousands, of a text file."""

    encoding: str
    sep: str
    decimal: str
    thousands: str | None = None


def find_form(start: bytes, kind: str, given: TextOptions) -> tuple[TextForm, list[str]]:
    r"""Return how a CSV or TSV file is written, by what is given and what its first bytes show; and its first lines.

    A byte order mark tells UTF-16, else UTF-8 is supposed. The separator of CSV is the first of comma, semicolon, tab and
    bar by which the first lines have the same number of fields, at least two. Between columns separated by anything but a
    comma, the decimal mark is a comma if numbers have one, and none has a point.

    Examples
    --------
    >>> find_form(b"width;kind\n1,5;rose\n2,5;tulip\n", "csv", TextOptions())[0]
    TextForm(encoding='utf-8', sep=';', decimal=',', thousands=None)
    """
    decimal = given_decimal(given)
    encoding = given.encoding
    if encoding is None:
        encoding = "utf-16" if start.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8"
    if b"\0" in start and not encoding.lower().replace("_", "-").startswith(("utf-16", "utf-32")):
        raise ValueError("holds binary data, not text; is it another format, or UTF-16?")
    lines = start.decode(encoding, errors="replace").lstrip("\ufeff").splitlines(keepends=True)
    full = [line for line in lines if line.strip()][:_LINES]
    sep = given.sep or ("\t" if kind == "tsv" else _separator(full))
    return TextForm(encoding, sep, decimal or _decimal(full, sep), given.thousands), lines


def given_decimal(given: TextOptions) -> str | None:
    """Return the decimal mark, if it is given, or told by the mark between thousands."""
    _check(given)
    return given.decimal or {".": ",", ",": "."}.get(given.thousands or "")


def _check(given: TextOptions) -> None:
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
        return list(csv.reader(lines, delimiter=mark, skipinitialspace=True))
    except csv.Error:  # a field of more than 128 KiB
        return []


def _decimal(lines: list[str], sep: str) -> str:
    if sep == ",":
        return "."
    cells = [cell for fields in _fields(lines[1:], sep) for cell in fields]
    return "," if any(map(_COMMA.fullmatch, cells)) and not any(map(_POINT.fullmatch, cells)) else "."
