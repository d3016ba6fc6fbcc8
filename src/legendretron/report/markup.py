"""Pieces of HTML, from templates that escape all text but what is :class:`markupsafe.Markup`, and numbers as text."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import jinja2
from markupsafe import Markup


@functools.cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader("legendretron.report", "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
    )


def _make(piece: str, *values: Any) -> Markup:
    made: Markup = getattr(_environment().get_template("parts.html").module, piece)(*values)
    return made


def number(value: float, digits: int = 3) -> str:
    """Return a number with so many decimals, or significant digits if it is larger than ten or tiny.

    Examples
    --------
    >>> number(0.12345), number(1234.5), number(0.00012), number(float("nan"))
    ('0.123', '1,234', '0.00012', '-')
    """
    if not math.isfinite(value):
        return "-" if math.isnan(value) else ("∞" if value > 0 else "\u2212∞")
    if value == 0:
        return "0"
    size = abs(value)
    if size >= 1000:
        text = f"{value:,.0f}"
    elif size >= 10:
        text = f"{value:.{max(digits - 2, 1)}f}"
    elif size >= 10.0**-digits:
        text = f"{value:.{digits}f}"
    else:
        text = f"{value:.2g}"
    return text.replace("-", "\u2212", 1) if value < 0 else text


def percent(value: float, digits: int = 1) -> str:
    """Return a share in percent.

    Examples
    --------
    >>> percent(0.8976), percent(float("nan"))
    ('89.8 %', '-')
    """
    return "-" if not math.isfinite(value) else f"{100 * value:.{digits}f} %".replace("-", "\u2212")


def rows_in_words(count: int) -> str:
    """Return a number of rows.

    Examples
    --------
    >>> rows_in_words(1), rows_in_words(2000)
    ('1 row', '2,000 rows')
    """
    return f"{count:,} row{'' if count == 1 else 's'}"


class Cell(NamedTuple):
    """A cell of a table: its text, what is in small print below it, and the value to sort by."""

    text: str
    value: float | str | None = None
    numeric: bool = True
    small: str = ""

    @classmethod
    def of_text(cls, text: object) -> Cell:
        """Return a cell of text."""
        return cls(Markup(text) if isinstance(text, Markup) else str(text), str(text), numeric=False)

    @classmethod
    def of(cls, value: float, shown: str | None = None, small: str = "") -> Cell:
        """Return a cell of a number."""
        return cls(number(value) if shown is None else shown, float(value), small=small)

    @classmethod
    def share(cls, value: float) -> Cell:
        """Return a cell of a share in percent."""
        return cls.of(value, percent(value))

    @property
    def sort_key(self) -> str:
        """The value as text, empty if it is not known."""
        if self.value is None or (isinstance(self.value, float) and math.isnan(self.value)):
            return ""
        return f"{self.value:.6g}" if isinstance(self.value, float) else str(self.value)


class Head(NamedTuple):
    """The head of a column, which may have lines, and may break anywhere if it is text of the user's."""

    lines: tuple[str, ...]
    anywhere: bool = False


def table(
    head: Sequence[str | Head], rows: Iterable[Sequence[Cell]], *, caption: str = "", tall: bool = False
) -> Markup:
    """Return a table that can be sorted by a click on the head of a column."""
    body = list(rows)
    heads = [one if isinstance(one, Head) else Head((one,)) for one in head]
    numeric = [all(row[place].numeric for row in body) for place in range(len(heads))]
    described = [(one.lines, is_number, one.anywhere) for one, is_number in zip(heads, numeric, strict=True)]
    return _make("table", described, body, caption, tall)


def bar_list(bars: Sequence[tuple[str, float]], most: float) -> Markup:
    """Return horizontal bars to the left and the right of zero, with names and values."""
    entries = []
    for name, value in bars:
        share = 0.0 if not most > 0 else min(abs(value) / most, 1.0) * 50
        kind, side = ("up", "left") if value >= 0 else ("down", "right")
        entries.append((name, kind, side, f"{share:.1f}", f"{value:z.2f}".replace("-", "\u2212")))
    return _make("bars", entries)


def paragraph(text: str) -> Markup:
    """Return a paragraph."""
    return _make("paragraph", text)


def note(text: str) -> Markup:
    """Return a paragraph in small print."""
    return _make("note", text)


def heading(text: str, level: int = 3) -> Markup:
    """Return a heading inside a section."""
    return _make("heading", text, level)


def details(summary: str, content: Markup) -> Markup:
    """Return content that opens on a click."""
    return _make("details", summary, content)


def figure(content: Markup, caption: str, legend: Sequence[tuple[str, str, bool]] = ()) -> Markup:
    """Return a picture with its title above and a legend below: colour, name, and whether the line is dashed."""
    return _make("figure", content, caption, legend)


def grid(figures: Iterable[Markup], *, small: bool = False) -> Markup:
    """Return pictures side by side where there is room."""
    return _make("grid", list(figures), small)


def block(*content: Markup) -> Markup:
    """Return pieces as one."""
    return _make("block", Markup("").join(content))


def verdict(good: bool, text: str) -> Markup:
    """Return coloured text."""
    return _make("verdict", "good" if good else "bad", text)


def tiles(entries: Sequence[tuple[str, str, str]]) -> Markup:
    """Return numbers in large print, each with a name above and a line below."""
    return _make("tiles", entries)


def facts(entries: dict[str, Any]) -> Markup:
    """Return a list of names and values."""
    return _make("facts", entries)


def section(place: str, title: str, *content: str) -> Markup:
    """Return a section with a title, and an address inside the page; what is empty is left out."""
    return _make("section", place, title, Markup("").join(piece for piece in content if piece))


def page(**content: Any) -> str:
    """Return the whole page: one file with its style and script inside."""
    templates = _environment()
    for name in ("style.css", "script.js"):
        assert templates.loader is not None
        content[name.partition(".")[0]] = Markup(templates.loader.get_source(templates, name)[0])
    content |= {name: _glue(content[name]) for name in ("tiles", "content")}
    content["answer"] = [(_glue(sentence), sign) for sentence, sign in content["answer"]]
    return templates.get_template("page.html").render(**content)


def _glue(text: Any) -> Any:
    """Text in which a number and its percent sign stay on one line."""
    return text.replace(" %", "\N{NO-BREAK SPACE}%")


def shortened(text: Any, most: int) -> str:
    """Return text cut to a length, with an ellipsis.

    Examples
    --------
    >>> shortened("a long name", 6)
    'a lon…'
    """
    text = str(text)
    return text if len(text) <= most else f"{text[: most - 1]}…"


def abridged(text: str, most: int = 60) -> str:
    """Return text without its middle if it is longer than that: names often differ at their ends.

    Examples
    --------
    >>> abridged("a very long name, number 7", 15)
    'a very …umber 7'
    """
    half = (most - 1) // 2
    return text if len(text) <= most else f"{text[:half]}…{text[-half:]}"
