"""Columns of text files that look like numbers but are codes, by their leading zeros: 00136."""

from __future__ import annotations

import io
from collections.abc import Sequence

import numpy as np

from legendretron.datasets.clean_text import are_digits, clean_texts, hold_leading_zeros, marks_for
from legendretron.datasets.compressed import open_compressed
from legendretron.datasets.text_file import TextFile
from legendretron.datasets.text_form import TextOptions

_BLOCK = 2**22
_ZERO, _NINE = b"09"


def padded_columns(files: Sequence[TextFile], columns: Sequence[str], given: TextOptions | None = None) -> list[str]:
    r"""Return the columns whose values are digits only, at least one of them a zero before other digits.

    A pass over the bytes tells whether there may be any, so that tables without codes, most of them, are not parsed.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "a.csv")
    ...     _ = path.write_text("zip,age\n00136,30\n80331,40\n")
    ...     padded_columns([TextFile.open(path, "csv")], ["zip", "age"])
    ['zip']
    """
    if not columns or not any(map(_may_hold_codes, files)):
        return []
    left, padded = list(columns), set[str]()
    for file in files:
        missing = marks_for(file.form, () if given is None else given.na)
        for batch in file.batches(tuple(left), bad_lines={}):
            for name in tuple(left):
                texts = clean_texts(batch.column(name), missing)
                if not are_digits(texts):
                    left.remove(name)
                elif hold_leading_zeros(texts):
                    padded.add(name)
            if not left:
                return []
    return [name for name in left if name in padded]


def _may_hold_codes(file: TextFile) -> bool:
    """Whether a field begins with a zero and another digit."""
    form = file.form
    wide = form.encoding.lower().replace("_", "-").startswith(("utf-16", "utf-32"))
    before = np.frombuffer(f'{form.sep}\n\r" '.encode("ascii", "replace"), dtype=np.uint8)
    with open_compressed(file.path) as opened:
        source = io.TextIOWrapper(opened, form.encoding, errors="replace", newline="") if wide else opened
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
