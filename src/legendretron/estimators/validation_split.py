"""The validation set of early stopping."""

from __future__ import annotations

import math

import numpy as np
from sklearn.model_selection import train_test_split

from legendretron._internal.parameters import ParameterError


class ValidationSplitError(ParameterError):
    """There are too few samples, or too few of a class, to hold out a validation set."""


def validation_split(
    rows: np.ndarray, labels: np.ndarray, fraction: float, seed: int, copies: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Split rows into a training and a validation set, stratified by class.

    ``copies[i]`` is the row that row ``i`` of the table is a copy of; copies stay together.
    """
    if copies is not None:
        originals, first = np.unique(copies[rows], return_index=True)
        train, held_out = validation_split(originals, labels[first], fraction, seed)
        return rows[np.isin(copies[rows], train)], rows[np.isin(copies[rows], held_out)]

    try:
        train, held_out = train_test_split(rows, test_size=fraction, stratify=labels, random_state=seed)
    except ValueError as error:
        counts = np.unique(labels, return_counts=True)[1]
        if counts.min() < 2:
            why = "a class has one row, but needs two, one to hold out and one to fit; leave out that row, or hold out none."
        else:
            held = math.ceil(fraction * len(rows))
            why = (
                f"that is {held}, but at least {len(counts)} are needed, one of each class, and as many to fit; give another "
                "share, or hold out none."
            )
        raise ValidationSplitError(
            "early_stopping", f"cannot hold out a share of {fraction:g} of {len(rows)} rows: {why}"
        ) from error
    return train, held_out
