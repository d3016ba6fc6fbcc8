"""Pieces of HTML, from templates that escape all text but what is :class:`markupsafe.Markup`, and numbers as text."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import jinja2
from markupsafe import Markup

from legendretron._internal.printable import without_controls
from legendretron.diagnostics.intervals import Estimate

#: Where a name may be divided: after marks, and before capitals; a part of a word that is longer than 24 letters, anywhere.
_BREAKS = re.compile(r"(?<=[_/.=:|+])(?=[^\W\d])|(?<=[a-z])(?=[A-Z])")
_LONG = re.compile(r"(?<=\w{24})(?=\w)")
#: Letters of a word for which half of a page has room.
_HALF_PAGE = 16


def breakable(text: Any) -> Any:
    """Return text, escaped, with marks where a long name may be divided, so that browsers divide it nowhere else.

    What is HTML already is returned as it is.

    Examples
    --------
    >>> breakable("LegendreTronClassifier"), breakable("<b> 0.5")
    (Markup('Legendre<wbr>Tron<wbr>Classifier'), Markup('&lt;b&gt; 0.5'))
    """
    return text if hasattr(text, "__html__") else Markup("<wbr>").join(_divide(str(text)))


def _divide(name: str) -> list[str]:
    return [piece for part in _BREAKS.split(name) for piece in _LONG.split(part)]


def beside(figure: Markup, listed: Markup, names: Sequence[str]) -> Markup:
    """Return a table with some names, beside a figure, or below it where a word is too long for half of the page."""
    words = (word for name in names for piece in _divide(name) for word in re.split(r"[\s-]", piece))
    narrow = all(len(word) <= _HALF_PAGE for word in words)
    made: Markup = __getattr__("grid")([figure, listed]) if narrow else figure + listed
    return made


@functools.cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("legendretron.report", "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
    )
    environment.filters["breakable"] = breakable
    return environment


def __getattr__(name: str) -> Any:
    """Return a piece of ``parts.html``, such as ``note`` or ``section``: a function that makes ``Markup``."""
    if name.startswith("__"):
        raise AttributeError(name)
    return getattr(_environment().get_template("parts.html").module, name)


def number(value: float, digits: int = 3) -> str:
    """Return a number with this many decimals, or significant digits if it is larger than ten or tiny.

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


def between(found: Estimate, text: Callable[[float], str] = number) -> str:
    """Return an interval.

    Examples
    --------
    >>> between(Estimate(0.5, 0.4, 0.6))
    '0.400 to 0.600'
    """
    return f"{text(found.low)} to {text(found.high)}"


class Cell(NamedTuple):
    """A cell of a table: its text, what is in small print below it, and the value to sort by."""

    text: str
    value: float | str | None = None
    numeric: bool = True
    small: str = ""

    @classmethod
    def of(cls, value: float, shown: str | None = None, small: str = "") -> Cell:
        """Return a cell of a number."""
        return cls(number(value) if shown is None else shown, float(value), small=small)

    @classmethod
    def estimate(cls, found: Estimate, text: Callable[[float], str] = number) -> Cell:
        """Return a cell of a number with its interval in small print."""
        return cls.of(found.value, text(found.value), between(found, text))

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


def _as_cell(one: Cell | str | float) -> Cell:
    if isinstance(one, Cell):
        return one
    return Cell(one, one, numeric=False) if isinstance(one, str) else Cell.of(one)


def table(
    head: Sequence[str | tuple[str, ...]], rows: Iterable[Sequence[Any]], *, caption: str = "", tall: bool = False
) -> Markup:
    """Return a table that can be sorted by a click on the head of a column, which may have lines.

    Texts and numbers become cells.
    """
    body = [[_as_cell(one) for one in row] for row in rows]
    numeric = [all(row[place].numeric for row in body) for place in range(len(head))]
    described = [((one,) if isinstance(one, str) else one, number) for one, number in zip(head, numeric, strict=True)]
    made: Markup = __getattr__("sortable")(described, body, caption, tall)
    return made


def bar_list(bars: Sequence[tuple[str, float]], most: float) -> Markup:
    """Return horizontal bars to the left and the right of zero, with names and values."""
    entries = []
    for name, value in bars:
        share = 0.0 if not most > 0 else min(abs(value) / most, 1.0) * 50
        kind, side = ("up", "left") if value >= 0 else ("down", "right")
        entries.append((name, kind, side, f"{share:.1f}", f"{value:z.2f}".replace("-", "\u2212")))
    made: Markup = __getattr__("bars")(entries)
    return made


def page(**content: Any) -> str:
    """Return the whole page: one file with its style and script inside."""
    templates = _environment()
    for name in ("style.css", "script.js"):
        assert templates.loader is not None
        content[name.partition(".")[0]] = Markup(templates.loader.get_source(templates, name)[0])
    content |= {name: _glue(content[name]) for name in ("tiles", "content")}
    content["predicted"] = _glue(content["predicted"])
    content["answer"] = [(_glue(sentence), sign) for sentence, sign in content["answer"]]
    return without_controls(templates.get_template("page.html").render(**content))


def _glue(text: Any) -> Any:
    """Text in which a number and its percent sign stay on one line."""
    return text.replace(" %", "\N{NO-BREAK SPACE}%")


def shorten(text: Any, most: int) -> str:
    """Return text cut to a length, with an ellipsis.

    Examples
    --------
    >>> shorten("a long name", 6)
    'a lon…'
    """
    text = str(text)
    return text if len(text) <= most else f"{text[: most - 1]}…"


def abridge(text: str, most: int = 60) -> str:
    """Return text without its middle if it is longer than that: names often differ at their ends.

    Examples
    --------
    >>> abridge("a very long name, number 7", 15)
    'a very …umber 7'
    """
    half = (most - 1) // 2
    return text if len(text) <= most else f"{text[:half]}…{text[-half:]}"
