"""Pieces of HTML. All text that comes from users passes through :func:`escaped`."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

__all__ = [
    "Cell",
    "abridged",
    "bar_list",
    "details",
    "escaped",
    "figure",
    "grid",
    "long_head",
    "note",
    "number",
    "paragraph",
    "percent",
    "rows_in_words",
    "section",
    "table",
]


def escaped(text: object) -> str:
    """Return text for HTML, in elements and in quoted attributes.

    Examples
    --------
    >>> escaped('<b title="x">')
    '&lt;b title=&quot;x&quot;&gt;'
    """
    return html.escape(str(text), quote=True)


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
    """A cell of a table: its HTML, and the value to sort by."""

    html: str
    value: float | str | None = None
    numeric: bool = True

    @classmethod
    def text(cls, text: object) -> Cell:
        """Return a cell of text of the user's."""
        return cls(escaped(text), str(text), numeric=False)

    @classmethod
    def of(cls, value: float, shown: str | None = None) -> Cell:
        """Return a cell of a number."""
        return cls(escaped(number(value) if shown is None else shown), float(value))

    @classmethod
    def share(cls, value: float) -> Cell:
        """Return a cell of a share in percent."""
        return cls.of(value, percent(value))


def table(head: Sequence[str], rows: Iterable[Sequence[Cell]], *, caption: str = "", tall: bool = False) -> str:
    """Return a table that can be sorted by a click on the head of a column.

    Parameters
    ----------
    head : sequence of str
        Heads of the columns, as HTML.
    rows : iterable of sequences of Cell
        The cells.
    caption : str
        What it shows, as HTML.
    tall : bool
        Whether it may be long: it then has a height of its own, and scrolls.
    """
    body = []
    columns: list[bool] = [True] * len(head)
    labels = [re.sub("<[^>]*>", " ", name).replace('"', "&quot;") for name in head]
    for row in rows:
        cells = []
        for place, cell in enumerate(row):
            columns[place] = columns[place] and cell.numeric
            value = cell.value
            kept = "" if value is None or (isinstance(value, float) and math.isnan(value)) else value
            shown = f"{kept:.6g}" if isinstance(kept, float) else str(kept)
            # names wrap, numbers do not; what sorts as it reads needs no value
            kind = ' class="n"' if cell.numeric else ""
            sorts = "" if not cell.numeric else f' data-v="{escaped(shown)}"'
            tag = "th" if place == 0 else "td"
            scope = ' scope="row"' if place == 0 else ""
            # on a phone a cell stands below others, beside the head of its column
            beside = f' data-head="{labels[place]}"' if len(head) > 2 and labels[place] else ""
            cells.append(f"<{tag}{scope}{kind}{sorts}{beside}><span>{cell.html}</span></{tag}>")
        body.append(f"<tr>{''.join(cells)}</tr>")
    wide = len(head) > 2
    heads = "".join(
        f'<th scope="col"{" class=n" if numeric and body else ""}>{name}</th>'
        for name, numeric in zip(head, columns, strict=True)
    )
    title = f"<caption>{caption}</caption>" if caption else ""
    kind = "scroll tall" if tall else "scroll"
    return (
        f'<div class="{kind}" tabindex="0"><table class="sortable{" wide" * wide}">{title}<thead><tr>{heads}</tr></thead>'
        f"<tbody>{''.join(body)}</tbody></table></div>"
    )


def long_head(text: object) -> str:
    """Return text of the user's as the head of a column, which may break anywhere."""
    return f'<span class="any">{escaped(text)}</span>'


def bar_list(bars: Sequence[tuple[str, float]], most: float) -> str:
    """Return horizontal bars to the left and the right of zero, with names and values.

    Parameters
    ----------
    bars : sequence of pairs
        Name and value.
    most : float
        The length of the longest bar.
    """
    rows = []
    for name, value in bars:
        share = 0.0 if not most > 0 else min(abs(value) / most, 1.0) * 50
        side = f"left:50%;width:{share:.1f}%" if value >= 0 else f"right:50%;width:{share:.1f}%"
        kind = "up" if value >= 0 else "down"
        shown = f"{value:z.2f}".replace("-", "\u2212")
        rows.append(
            f'<li><span class="name">{escaped(name)}</span><span class="track"><span class="{kind}" style="{side}"></span>'
            f'</span><span class="n">{shown}</span></li>'
        )
    return f'<ol class="bars">{"".join(rows)}</ol>'


def paragraph(text: str) -> str:
    """Return a paragraph of HTML."""
    return f"<p>{text}</p>"


def note(text: str) -> str:
    """Return a paragraph in small print."""
    return f'<p class="note">{text}</p>'


def details(summary: str, content: str) -> str:
    """Return content that opens on a click."""
    return f"<details><summary>{summary}</summary>{content}</details>"


def figure(content: str, caption: str, legend: str = "") -> str:
    """Return a picture with its title above and a legend below."""
    return f"<figure><figcaption>{caption}</figcaption>{content}{legend}</figure>"


def grid(figures: Iterable[str], *, small: bool = False) -> str:
    """Return pictures side by side where there is room."""
    return f'<div class="{"charts small" if small else "charts"}">{"".join(figures)}</div>'


def section(place: str, title: str, *content: str) -> str:
    """Return a section with a title, and an address inside the page."""
    return f'<section id="{place}"><h2>{title}</h2>{"".join(content)}</section>'


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
