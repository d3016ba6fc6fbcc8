"""Messages of estimators in the terms of the command line: options instead of parameters, values as typed."""

from __future__ import annotations

import re
import shlex
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

__all__ = [
    "CALIBRATE_OPTIONS",
    "DATA_OPTIONS",
    "OPTIONS",
    "in_options",
    "plain_values",
    "refused_parameter",
    "saying_options",
]

#: The option of ``fit`` for each parameter of an estimator.
OPTIONS = {
    "link": "--link",
    "link_params": "--link-param",
    "alpha": "--alpha",
    "link_alpha": "--link-alpha",
    "standardize": "--standardize",
    "class_weight": "--class-weight",
    "solver": "--solver",
    "max_epochs": "--epochs",
    "learning_rate": "--learning-rate",
    "batch_size": "--batch-size",
    "early_stopping": "--validation",
    "random_state": "--seed",
    "device": "--device",
    "dtype": "--dtype",
    "checkpoint": "--checkpoint",
    "cv": "--cv",
    "label_noise": "--label-noise",
}
#: The option of ``calibrate`` for each parameter of a calibrator that an estimator does not have.
CALIBRATE_OPTIONS = {"order": "--order", "input": "--input", "strength": "--strength"}
#: Options for reading and encoding a table. Their names are English words, so they are replaced in ``name=value`` only.
DATA_OPTIONS = {
    "sep": "--sep",
    "decimal": "--decimal",
    "encoding": "--encoding",
    "thousands": "--thousands",
    "na_values": "--na",
    "missing_labels": "--missing-labels",
    "categorical": "--categorical",
    "numeric": "--numeric",
    "max_categories": "--max-categories",
}
#: The option for each argument of ``fit_stream``.
STREAM_OPTIONS = {"skip_bad_rows": "--skip-bad-rows"}
_ALL = OPTIONS | CALIBRATE_OPTIONS | STREAM_OPTIONS
_ANY = "|".join(_ALL)
#: Names that are not English words.
_UNMISTAKABLE = "|".join(name for name in OPTIONS | STREAM_OPTIONS if "_" in name or name == "alpha")
#: What one writes in pandas, and the option for it.
_PANDAS = {r"drop\(columns='([^']*)'\)": "--drop", r"astype\(\{'([^']*)': float\}\)": "--numeric"}
_QUOTED = r"(?<!\w)'[^']*'"  # names of files, columns and classes, which stay as they are

_TOO_LARGE = "Input X contains infinity or a value too large for dtype('float32')."
_TOO_LARGE_HINT = (
    "the data hold a number that is too large for float32; scale the features, or fit with --dtype float64."
)
_REFUSED = re.compile(r"The '(\w+)' parameter of \w+ must be (.+)\. Got (.+) instead\.")


def plain_values(text: str) -> str:
    """Return a message with plain numbers instead of NumPy's representation.

    Examples
    --------
    >>> plain_values("got np.float64(0.5).")
    'got 0.5.'
    """
    return re.sub(r"\bnp\.\w+\(([^()]*)\)", r"\1", text)


def in_options(text: str) -> str:
    """Return a message of an estimator in the terms of the command line.

    Examples
    --------
    >>> in_options("checkpoint needs solver='adam', got solver='lbfgs'.")
    '--checkpoint needs --solver adam, got --solver lbfgs.'
    >>> in_options("raise max_epochs or alpha, or set early_stopping=False; there is no column 'max_epochs'.")
    "raise --epochs or --alpha, or leave out --validation; there is no column 'max_epochs'."
    >>> in_options("read the file with decimal=',' or na_values='?', or give categorical='age'.")
    "read the file with --decimal ',' or --na '?', or give --categorical age."
    >>> in_options("drop(columns='a name') spares you this remark; astype({'zip': float}) makes them numbers.")
    "--drop 'a name' spares you this remark; --numeric zip makes them numbers."
    """
    text = plain_values(text).replace(_TOO_LARGE, _TOO_LARGE_HINT)
    text = _outside_quotes(r"\bX\b", lambda _: "the data", text)
    text = _outside_quotes(rf"\bset ({_ANY})=False", lambda found: f"leave out {_ALL[found[1]]}", text)
    text = _outside_quotes(
        rf"\b({_ANY})=(?:'([^']*)'|([-+\w.]*\w))", lambda found: f"{_ALL[found[1]]} {found[2] or found[3]}", text
    )
    text = _outside_quotes(
        rf"\b({'|'.join(DATA_OPTIONS)})=(?:'([^']*)'|\"([^\"]*)\")",
        lambda found: f"{DATA_OPTIONS[found[1]]} {_typed(found[2] or found[3])}",
        text,
    )
    for pattern, option in _PANDAS.items():
        text = re.sub(pattern, lambda found, option=option: f"{option} {_typed(found[1])}", text)  # type: ignore[misc]
    text = re.sub(rf"\A({'|'.join(DATA_OPTIONS)}) must", lambda found: f"{DATA_OPTIONS[found[1]]} must", text)
    text = re.sub(rf"\A({_ANY})\b", lambda found: _ALL[found[1]], text)
    return _outside_quotes(rf"(?<![-\w])({_UNMISTAKABLE})\b", lambda found: _ALL[found[1]], text)


def _typed(value: str) -> str:
    """A value as it is typed in a shell; marks in quotes, so that they are not read as marks of the sentence."""
    if "'" in value and '"' not in value:
        return f'"{value}"'
    return f"'{value}'" if value in (",", ".") else shlex.quote(value)


def _outside_quotes(pattern: str, replace: Callable[[re.Match[str]], str], text: str) -> str:
    return re.sub(f"(?:{pattern})|(?P<quoted>{_QUOTED})", lambda found: found["quoted"] or replace(found), text)


def refused_parameter(error: ValueError) -> tuple[str, str]:
    """Return the option whose value scikit-learn's validation has rejected, and why.

    Examples
    --------
    >>> refused_parameter(ValueError("The 'alpha' parameter of A must be a float in the range [0.0, inf). Got inf instead."))
    ('--alpha', 'it must be a number in the range [0.0, inf), got inf.')
    """
    found = _REFUSED.fullmatch(str(error))
    if found is None or found[1] not in _ALL:
        raise error
    wanted = found[2].replace("a float", "a number").replace("a str among {'auto'}", "auto").removesuffix(" or None")
    return _ALL[found[1]], f"it must be {wanted}, got {found[3]}."


@contextmanager
def saying_options() -> Iterator[None]:
    """Inside the block, errors and warnings of an estimator name options instead of parameters."""
    show = warnings.showwarning

    def show_in_options(message: Any, *place: Any) -> None:
        show(in_options(str(message)), *place)

    with warnings.catch_warnings():
        warnings.showwarning = show_in_options  # type: ignore[assignment]
        try:
            yield
        except ValueError as error:
            raise ValueError(in_options(str(error))) from error
