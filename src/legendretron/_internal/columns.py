"""Columns of a table by name: which are features, and what is wrong with names."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from legendretron._internal.parameters import spell


def quoted(names: Any, most: int = 8) -> str:
    """Quoted, comma-separated names for a message, at most ``most`` of them.

    Examples
    --------
    >>> quoted(["a", "b", "c"], most=2)
    "'a', 'b' and 1 more"
    """
    names = list(names)
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(repr(str(name)) for name in names[:most]) + rest


def check_names(place: str, names: Sequence[str]) -> None:
    """Raise a ``ValueError`` if a name occurs twice."""
    twice = [name for name, count in Counter(names).items() if count > 1 and name]
    if twice:
        raise ValueError(f"{place} has more than one column {quoted(twice)}; rename or remove all but one of them.")


def choose_names(
    place: str,
    names: list[str],
    *,
    target: str | None = None,
    weight: str | None = None,
    features: Sequence[str] | None = None,
    drop: Sequence[str] = (),
) -> list[str]:
    """Return the columns of the features, after checking every given name; ``place`` says in messages where they stand.

    Examples
    --------
    >>> choose_names("a.csv", ["id", "width", "kind"], target="kind", drop=["id"])
    ['width']
    """
    check_known(place, names, [] if target is None else [target], "target ")
    check_known(place, names, [] if weight is None else [weight], "weight ")
    check_known(place, names, [] if features is None else features)
    check_known(place, names, drop)
    if weight is not None and weight == target:
        raise ValueError(f"weight={weight!r} is the target; name the column of the weights.")
    special = {target, weight}
    chosen = [name for name in names if name not in special] if features is None else list(dict.fromkeys(features))
    for role, name in (("target", target), ("weight", weight)):
        if name in chosen:
            raise ValueError(f"{name!r} is the {role} and cannot be a feature too; take it out of {spell('features')}.")
        if name in drop:
            raise ValueError(f"{name!r} is the {role} and cannot be dropped.")
    dropped = {*drop}
    chosen = [name for name in chosen if name not in dropped]
    if not chosen:
        rest = f"it has {quoted(names)}"
        if features and drop:
            rest = (
                f"{spell('drop')} names all of {spell('features')}, {quoted(features)}; name each in one of them only"
            )
        elif drop:
            rest = f"{spell('drop')} names all there are, {quoted(drop)}; leave one of them out"
        raise ValueError(f"{place} has no column left for a feature: {rest}.")
    return chosen


def check_known(place: str, names: list[str], wanted: Sequence[str], role: str = "") -> None:
    """Raise a ``ValueError`` for columns that there are not, which says what may have been meant."""
    known = {*names}
    lacking = [name for name in wanted if name not in known]
    if not lacking:
        return
    close = difflib.get_close_matches(lacking[0], names, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else "."
    several = [name.strip() for name in lacking[0].split(",")]
    if len(several) > 1 and all(name in names for name in several):
        way_out = "name each apart (on the command line, repeat the option)"
        if role.startswith("target"):
            way_out = "shares of classes are only for a fit in memory; give one column of labels"
        hint = f"; {quoted(several)} are several columns: {way_out}."
    elif len(names) == 1 and any(mark in names[0] for mark in ";\t|"):
        hint = "; its columns seem not to be separated by commas (or, in TSV, by tabs)."
    elif all(map(is_number, names)):
        hint = "; the first line must contain the names of the columns."
    raise ValueError(f"{place} has no {role}column {quoted(lacking)}; it has {quoted(names, most=20)}{hint}")


def too_large(wrong: np.ndarray, names: Sequence[str] | None, measure: str, how: str = "large") -> ValueError:
    """Return the error for features whose variance or range overflows, or underflows: ``wrong`` is true for them.

    Examples
    --------
    >>> too_large(np.array([False, True]), ["a", "b"], "variance")
    ValueError("column 'b' of X has values too large to take a variance of; scale it, or leave it out.")
    """
    place = int(wrong.argmax())
    name = f"feature {place} (from 0)" if names is None else f"column {str(names[place])!r}"
    return ValueError(f"{name} of {spell('X')} has values too {how} to take a {measure} of; scale it, or leave it out.")


def check_collected(name: str, table: Any) -> None:
    """Raise a ``ValueError`` for a lazy frame, as of polars, which is a query and has no rows yet."""
    if type(table).__name__ == "LazyFrame" and hasattr(table, "collect"):
        raise ValueError(f"{name} is a lazy frame, which has no rows before it is collected; give {name}.collect().")


def is_number(text: str | bytes) -> bool:
    """Whether a text can be read as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True
