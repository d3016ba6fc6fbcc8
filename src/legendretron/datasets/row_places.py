"""Where in a file a row stands, for messages."""

from __future__ import annotations

from pathlib import Path

from legendretron._internal.extras import import_extra
from legendretron.datasets.compressed import open_compressed
from legendretron.datasets.text_file import lines_of_rows
from legendretron.datasets.text_form import TextForm

#: First bytes of files of Parquet and Excel.
_PARQUET, _ZIP = b"PAR1", b"PK\x03\x04"


def place_of_row(path: Path, row: int, form: TextForm | None) -> str:
    r"""Return the line of a row of CSV or TSV, the row group of one of Parquet, or the row of a sheet; rows count from 0.

    The file is read up to there, since fields may hold line breaks.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "a.csv")
    ...     _ = path.write_text('name,y\n"two\nlines",1\n\nb,2\n')
    ...     place_of_row(path, 1, TextForm("utf-8", ",", "."))
    'line 5'
    """
    if form is None:
        with open_compressed(path) as file:
            begins = file.read(4)
        if begins == _ZIP:
            return f"row {row + 2} of the sheet"
        if begins != _PARQUET:
            return f"row {row} (from 0)"
        parquet = import_extra("pyarrow.parquet", "reading Parquet", "cli")
        with open_compressed(path) as file:
            metadata = parquet.ParquetFile(file).metadata
        end = 0
        for group in range(metadata.num_row_groups):
            end += metadata.row_group(group).num_rows
            if row < end:
                return f"row group {group}, row {row} (from 0)"
        return f"row {row} (from 0)"
    line = lines_of_rows(path, [row], form).get(row)
    return f"row {row} (from 0)" if line is None else f"line {line}"
