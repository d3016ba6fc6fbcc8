"""JSON lines: a row in each line, an object whose keys are the names of columns."""

from __future__ import annotations

import json
import reprlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from legendretron._internal.extras import arrow, pandas
from legendretron.datasets.compressed import open_compressed, read_lines

_BOM = b"\xef\xbb\xbf"
_ROWS = 2**14  # that become a frame together


def json_names(path: Path, file: Any) -> list[str]:
    """Names of the columns in the order in which they appear; a line need not have all of them."""
    names: dict[str, None] = {}
    for records in _read_records(path, file):
        for record in records:
            names |= dict.fromkeys(record)
    return list(names)


def json_frames(path: Path, file: Any, rows: int | None) -> Iterator[Any]:
    """Data frames of so many rows at most, or one of all rows; texts that look like numbers or dates stay texts."""
    if rows is not None:
        yield from _parts(path, file, rows)
        return
    parts = [*_parts(path, file, _ROWS)]  # of a frame far less is in memory than of objects
    if len(parts) < 2:
        yield parts[0] if parts else pandas.DataFrame()
        return
    names = dict.fromkeys(name for part in parts for name in part.columns)
    # a column without values in some parts has the type of the others
    whole = pandas.concat([part.dropna(axis=1, how="all") for part in parts], ignore_index=True)
    yield whole.reindex(columns=[*names])


def _parts(path: Path, file: Any, rows: int) -> Iterator[Any]:
    held: list[dict[str, Any]] = []
    for records in _read_records(path, file):
        held += records
        while len(held) >= rows:
            yield pandas.DataFrame(held[:rows])
            del held[:rows]
    if held:
        yield pandas.DataFrame(held)


def _read_records(path: Path, file: Any) -> Iterator[list[dict[str, Any]]]:
    """Some objects after the other."""
    for first, lines in read_lines(path, file):
        if first == 1:
            lines[0] = lines[0].removeprefix(_BOM)
        full = [line for line in lines if line and not line.isspace()]
        try:
            records = json.loads(b"[" + b",".join(full) + b"]")  # much faster than one by one
            bad = len(records) != len(full) or not all(isinstance(record, dict) for record in records)
        except (ValueError, RecursionError):
            bad = True
        if bad:
            fault = find_json_fault(path)
            raise ValueError(
                f"{str(path)!r} is not JSON with an object in each line: {fault}. Write each row in a line of its own, "
                "without an array around them, as pandas' to_json(orient='records', lines=True) does."
            )
        yield records


#: Kinds of values, by the types that Python reads.
_KINDS = {
    bool: "true or false",
    int: "a number",
    float: "a number",
    str: "text",
    list: "an array",
    dict: "an object",
}


def json_kind(type_: Any) -> str | None:
    """Return the kind of the values of a column in JSON by its type in Arrow, as :func:`find_json_fault` calls it."""
    types = arrow.types
    if types.is_boolean(type_):
        return "true or false"
    if types.is_integer(type_) or types.is_floating(type_):
        return "a number"
    return "text" if types.is_string(type_) else None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(found := dict(pairs)) < len(pairs):
        raise ValueError("a name occurs twice")
    return found


def find_json_fault(path: Path, kinds: Mapping[str, str | None] | None = None) -> str | None:
    """Return where and why JSON lines cannot be read: a line that is no object, or a column of another kind than is given."""
    with open_compressed(path) as file:
        numbered = (pair for first, lines in read_lines(path, file) for pair in enumerate(lines, start=first))
        for number, line in numbered:
            try:
                row = json.loads(line, object_pairs_hook=_object) if line.strip() else {}
            except (ValueError, RecursionError) as error:
                return f"line {number}: {getattr(error, 'msg', error)}"
            if not isinstance(row, dict):
                return f"line {number} holds {_KINDS.get(type(row), 'null')}"
            for name, kind in (kinds or {}).items():
                value = row.get(name)
                if value is not None and kind is not None and _KINDS[type(value)] != kind:
                    return f"line {number}: column {name!r} holds {reprlib.repr(value)}, which is not {kind}"
    return None
