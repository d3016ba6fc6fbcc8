"""Text of data on its way to people: without characters that control a terminal, or turn letters around."""

from __future__ import annotations

import re

#: Control characters except tab and end of line, separators of lines and paragraphs, marks that embed or override a direction
#: of writing, and halves of a pair, which no encoding has.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def without_controls(text: str) -> str:
    r"""Replace characters that control a terminal, or the direction of writing, by question marks.

    Examples
    --------
    >>> without_controls("red: \x1b[31m")
    'red: ?[31m'
    """
    return _CONTROLS.sub("?", text)


def one_line(text: object) -> str:
    r"""Return a message without line breaks, runs of spaces or control characters.

    Examples
    --------
    >>> one_line("two\nlines\x07")
    'two lines?'
    """
    return without_controls(" ".join(str(text).split()))
