"""Reliability curves from what users give: tables of probabilities and labels of any kind, or fitted classifiers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from legendretron._internal.validation import check_choice
from legendretron.diagnostics import (
    CalibrationCurve,
    SmoothCalibrationCurve,
    calibration_curve,
    smooth_calibration_curve,
)
from legendretron.plots.labels import as_columns
from legendretron.plots.models import named

Curve = CalibrationCurve | SmoothCalibrationCurve

#: Fewer than for a calibration error: each has a bar.
_BINS = 10
#: Settings of each strategy.
_SETTINGS = {
    "binned": ("n_bins", "sample_weight"),
    "smooth": ("bandwidth", "n_bootstrap", "level", "seed", "sample_weight"),
}


class Predictions:
    """Probabilities of one or several models on the same labels, checked.

    Parameters
    ----------
    y : array of shape (n,)
        Labels of any kind.
    predictions : array of shape (n, C) or (n,), or mapping of str to array
        By the name of the model. One column is the probability of the second of two classes.
    """

    def __init__(self, y: ArrayLike, predictions: Any, classes: Any = None, name: str | None = None) -> None:
        if not isinstance(predictions, Mapping):
            predictions = {"model" if name is None else name: predictions}
        elif name is not None:
            raise ValueError(f"name is for a single model; several are named by their keys, got name={name!r}.")
        self.tables = {key: _table(key, p) for key, p in named("predictions", dict(predictions)).items()}
        n_columns = next(iter(self.tables.values())).shape[1]
        rows = {key: len(p) for key, p in self.tables.items()}
        if wrong := {key: n for key, n in rows.items() if n != len(np.atleast_1d(np.asarray(y)))}:
            key, n = next(iter(wrong.items()))
            raise ValueError(
                f"y must have a label for each row of predictions, got {np.size(y)} labels and {n} rows of {key!r}."
            )
        self.columns, self.classes = as_columns(y, n_columns, classes)
        for key, p in self.tables.items():
            if p.shape != (len(self.columns), n_columns):
                raise ValueError(
                    f"predictions of {key!r} must have shape {(len(self.columns), n_columns)}, as the labels and the other "
                    f"models have, got {p.shape}."
                )

    @classmethod
    def of(cls, estimator: Any, X: Any, y: ArrayLike, name: str | None = None) -> Predictions:
        """Return the predictions of one or several fitted classifiers on the same rows."""
        tables, classes = {}, None
        for key, model in named("estimator", estimator, name).items():
            check_is_fitted(model)
            if not hasattr(model, "predict_proba"):
                raise ValueError(f"{key!r} must be a classifier with predict_proba, got {type(model).__name__}.")
            own = np.asarray(model.classes_)
            if classes is not None and not np.array_equal(own, classes):
                raise ValueError(f"estimators must have the same classes, got {own} and {classes}.")
            classes, tables[key] = own, model.predict_proba(X)
        return cls(y, tables, classes)

    def column(self, label: Any) -> int:
        """Return the column of a class."""
        found = [k for k, own in enumerate(self.classes.tolist()) if own == label]
        if not found:
            raise ValueError(f"label must be one of the classes {self.classes.tolist()}, got {label!r}.")
        return found[0]

    def curves(self, kind: str, column: int | None, settings: Mapping[str, Any]) -> dict[str, Curve]:
        """Return the curve of each model; see :func:`reliability_curve`."""
        return {key: reliability_curve(self.columns, p, kind, column, settings) for key, p in self.tables.items()}


def reliability_curve(
    y: np.ndarray, p: np.ndarray, kind: str, column: int | None, settings: Mapping[str, Any]
) -> Curve:
    """Return a binned or a smooth curve, by the settings that users gave: ``strategy``, and those of its function."""
    rest = dict(settings)
    strategy = check_choice("strategy", rest.pop("strategy", "binned"), tuple(_SETTINGS))
    for name in rest:
        of = [other for other, names in _SETTINGS.items() if name in names]
        if not of:
            known = ", ".join(dict.fromkeys(["strategy", *(own for names in _SETTINGS.values() for own in names)]))
            raise TypeError(
                f"ReliabilityDisplay and ClasswiseReliabilityDisplay have no argument {name!r}; those of their curves are "
                f"{known}."
            )
        if strategy not in of:
            raise ValueError(f"{name} is for strategy={of[0]!r}, got {name}={rest[name]!r} with strategy={strategy!r}.")
    if strategy == "binned":
        return calibration_curve(y, p, kind=kind, column=column, **{"n_bins": _BINS, **rest})
    return smooth_calibration_curve(y, p, kind=kind, column=column, **rest)


def _table(name: str, p: Any) -> np.ndarray:
    table = np.asarray(p)
    if table.dtype.kind not in "fiu":
        raise ValueError(f"predictions of {name!r} must be numbers, got dtype {table.dtype}.")
    if table.ndim == 1:
        table = np.stack([1 - table, table], 1)
    if table.ndim != 2 or table.shape[1] < 2 or not len(table):
        raise ValueError(f"predictions of {name!r} must have shape (n, C) with C >= 2, or (n,), got {np.shape(p)}.")
    return table
