"""Tables of predictions: a column of probabilities or logits for each class, and a column of labels."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from legendretron._internal.columns import quoted
from legendretron._internal.labels import label_text
from legendretron.datasets.table_files import header_of
from legendretron.datasets.tables import Table, read_table
from legendretron.datasets.text_form import TextOptions

#: A column as ``predict --proba`` names it.
_P_OF = re.compile(r"p\((.*)\)", re.DOTALL)


def read_predictions(
    path: Path,
    target: str,
    features: Sequence[str] | None,
    drop: Sequence[str] | None,
    format: str,
    text: TextOptions | None = None,
    missing_labels: str = "error",
) -> tuple[Table, np.ndarray]:
    """Read a table whose features are the columns of the classes, in sorted order, and return it with the classes.

    Of two classes, a single column belongs to the second.
    """
    named_as_ours = [
        name
        for name in header_of(path, format, text)
        if _P_OF.fullmatch(name) and name != target and name not in (drop or ())
    ]
    table = read_table(
        path, target, features=features or named_as_ours or None, drop=drop, format=format, text=text,
        missing_labels=missing_labels,
    )  # fmt: skip
    columns = _classes_of_columns(table, meant=bool(features or named_as_ours))
    classes = _all_classes(table, columns)
    ordered = sorted(columns, key=lambda name: int(np.searchsorted(classes, columns[name])))
    return dataclasses.replace(table, X=table.X[ordered], feature_names=tuple(ordered)), classes


def _classes_of_columns(table: Table, *, meant: bool) -> dict[str, Any]:
    """The class of each column. Columns that are ``meant`` to be of classes may be of classes without rows."""
    labels = _by_text(table)
    found: dict[str, Any] = {}
    others = []
    for name in table.feature_names or ():
        inside = _P_OF.fullmatch(name)
        text = name if name in labels or inside is None else inside[1]
        if text in labels:
            label = labels[text]
        elif meant and (parsed := _as_label(text, table.classes)) is not None:
            label = parsed
        else:
            others.append(name)
            continue
        if (twin := next((other for other, known in found.items() if known == label), None)) is not None:
            raise ValueError(
                f"{str(table.path)!r} has two columns for class {label_text(label)!r}: {twin!r} and {name!r}; leave out one "
                "(--drop)."
            )
        found[name] = label
    if others:
        raise ValueError(
            f"{str(table.path)!r} has columns whose names are no labels of {table.target!r}: {quoted(others)}; labels are "
            f"{quoted(map(label_text, table.classes))}. Leave them out (--drop), or, if they belong to classes without rows, "
            "name all columns p(class)."
        )
    return found


def _by_text(table: Table) -> dict[str, Any]:
    """Labels by their text, as parsed and as written."""
    assert table.y is not None
    labels = {label_text(label): label for label in table.classes}
    if table.written is not None:
        written, first = np.unique(table.written.astype(str), return_index=True)
        labels = {**dict(zip(written.tolist(), table.y[first], strict=True)), **labels}
    return labels


def _as_label(text: str, labels: np.ndarray) -> Any:
    """A class that has no rows as a label like the others; None if it cannot be one."""
    if labels.dtype.kind == "i":
        return int(text) if re.fullmatch(r"[+-]?[0-9]{1,18}", text) else None
    if labels.dtype.kind == "b":
        return {"true": True, "false": False}.get(text.lower())
    return text


def _all_classes(table: Table, columns: dict[str, Any]) -> np.ndarray:
    """All classes, sorted, after a check that each has a column."""
    name, labels = repr(str(table.path)), table.classes
    classes = np.unique(np.concatenate([labels, np.array(list(columns.values()), dtype=labels.dtype)]))
    if len(classes) < 2:
        raise ValueError(
            f"the labels in target column {table.target!r} of {name} are all {str(labels[0])!r}, and no other class has a "
            "column; at least two classes are needed."
        )
    lacking = np.setdiff1d(labels, list(columns.values()))
    if len(columns) == 1 and len(classes) == 2:
        ((only, label),) = columns.items()
        if label == classes[1]:
            return classes
        raise ValueError(
            f"{name} has one column of predictions, {only!r}, but if there is only one, it must be that of the second class, "
            f"{label_text(classes[1])!r}; add a column for it."
        )
    if len(lacking):
        raise ValueError(
            f"{name} has labels without a column of predictions: {quoted(map(label_text, lacking))}; a column is named as "
            f"the class, or p(class). There are columns for {quoted(map(label_text, columns.values()))}."
        )
    return classes
