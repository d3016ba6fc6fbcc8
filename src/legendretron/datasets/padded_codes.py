"""Columns of text files that look like numbers but are codes, by their leading zeros: 00136."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from legendretron.datasets.compressed import open_compressed
from legendretron.datasets.table_files import text_chunks
from legendretron.datasets.text_form import TextForm, TextOptions

__all__ = ["padded_columns"]

_BLOCK, _ROWS = 2**22, 2**16
_ZERO, _NINE = b"09"


def padded_columns(
    files: Sequence[tuple[Path, TextForm]], columns: Sequence[str], given: TextOptions | None = None
) -> list[str]:
    r"""Return the columns whose values are digits only, at least one of them a zero before other digits.

    A pass over the bytes tells whether there may be any, so that tables without codes, most of them, are not parsed again.

    Parameters
    ----------
    files : sequence of (Path, TextForm)
        The files, and how each of them is written.
    columns : sequence of str
        Columns to look at, such as those that would be read as numbers.
    given : TextOptions, optional
        For marks of missing values.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "a.csv")
    ...     _ = path.write_text("zip,age\n00136,30\n80331,40\n")
    ...     padded_columns([(path, TextForm("utf-8", ",", "."))], ["zip", "age"])
    ['zip']
    """
    if not columns or not any(_may_hold_codes(path, form) for path, form in files):
        return []
    left, padded = list(columns), set[str]()
    for path, form in files:
        for frame in text_chunks(path, form, _ROWS, left, TextOptions() if given is None else given):
            for name in tuple(left):
                texts = [text.strip() for text in frame[name].dropna().unique()]
                if not all(text.isascii() and text.isdigit() for text in texts):
                    left.remove(name)
                elif any(len(text) > 1 and text[0] == "0" for text in texts):
                    padded.add(name)
            if not left:
                return []
    return [name for name in left if name in padded]


def _may_hold_codes(path: Path, form: TextForm) -> bool:
    """Whether a field begins with a zero and another digit."""
    wide = form.encoding.lower().replace("_", "-").startswith(("utf-16", "utf-32"))
    before = np.frombuffer(f'{form.sep}\n\r" '.encode("ascii", "replace"), dtype=np.uint8)
    with open_compressed(path) as file:
        source = io.TextIOWrapper(file, form.encoding, errors="replace", newline="") if wide else file
        end = b"\n"
        while piece := source.read(_BLOCK):
            block = end + (piece.encode("ascii", "replace") if isinstance(piece, str) else piece)
            codes = np.frombuffer(block, dtype=np.uint8)
            zeros = np.flatnonzero(codes[1:-1] == _ZERO) + 1
            zeros = zeros[(codes[zeros + 1] >= _ZERO) & (codes[zeros + 1] <= _NINE)]
            if np.isin(codes[zeros - 1], before).any():
                return True
            end = block[-2:]
    return False
