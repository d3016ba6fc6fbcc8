"""Constraints on the parameters that the linear estimators share, in scikit-learn's format."""

from __future__ import annotations

import os
from numbers import Integral, Real
from typing import Any

from legendretron._internal.sklearn_compat import Interval, StrOptions

__all__ = ["SHARED_CONSTRAINTS"]

SHARED_CONSTRAINTS: dict[str, list[Any]] = {
    "alpha": [StrOptions({"auto"}), Interval(Real, 0, None, closed="left")],
    "solver": [StrOptions({"auto", "adam", "lbfgs"})],
    "learning_rate": [StrOptions({"auto"}), Interval(Real, 0, None, closed="neither")],
    "max_epochs": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
    "batch_size": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
    "early_stopping": ["boolean", Interval(Real, 0, 1, closed="neither")],
    "tol": [Interval(Real, 0, None, closed="left")],
    "label_noise": [
        StrOptions({"auto", "symmetric", "class-conditional"}),
        Interval(Real, 0, 1, closed="left"),
        "array-like",
        None,
    ],
    "class_weight": [StrOptions({"balanced"}), dict, None],
    "warm_start": ["boolean"],
    "standardize": ["boolean"],
    "device": [str],
    "dtype": [StrOptions({"float32", "float64"}), None],
    "random_state": ["random_state"],
    "verbose": ["verbose"],
    "checkpoint": [str, os.PathLike, None],
    "cv": ["cv_object"],
}
