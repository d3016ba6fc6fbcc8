"""Scores of a classifier, as calibration takes them: probabilities or logits, a column for each class or only one."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from legendretron._internal.columns import check_collected
from legendretron._internal.fields import BOOLEAN, check_fields, integer, number
from legendretron._internal.parameters import spell

#: How far a row of rounded probabilities may be from a sum of 1: to be recognized, and if declared as probabilities.
_SLACK, _SLACK_IF_GIVEN = 0.02, 0.1
#: The least probability that counts as one.
_TINY = 1e-300


class ScoreForm(NamedTuple):
    """What the scores are.

    Probabilities below ``floor`` are raised to it: their logarithms would be far too certain, or infinite. It is half the
    smallest positive probability of the calibration set, so that a forest of 100 trees, whose probabilities are hundredths,
    has zeros of 0.005, and a network almost none.
    """

    is_proba: bool
    columns: int
    floor: float

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> ScoreForm:
        """Rebuild from a dict of the fields; anything else raises a ``ValueError``."""
        check_fields("scores", state, {"is_proba": BOOLEAN, "columns": integer(1), "floor": number(0.0, 0.5)})
        if state["is_proba"] and state["floor"] == 0.0:
            raise ValueError("floor must be positive for probabilities.")
        return cls(**state)

    def check(self, X: np.ndarray) -> None:
        """Raise a ``ValueError`` if probabilities are expected and these are none."""
        if self.is_proba and not _are_probabilities(X, _SLACK_IF_GIVEN):
            raise ValueError(
                f"{spell('X')} must contain probabilities, in rows that are not negative and sum to 1. If they "
                f"are rounded, divide each row by its sum; if these are logits, fit a calibrator with "
                f"{spell('input', 'logits')} on logits."
            )


def as_columns(X: Any) -> Any:
    """One score for each sample, shape (n,), as a column."""
    check_collected("X", X)
    if isinstance(X, np.ndarray | list | tuple) or hasattr(X, "to_numpy"):
        array = np.asarray(X)
        if array.ndim == 1 and array.dtype.kind in "fiub":
            return array.reshape(-1, 1)
    return X


def _are_probabilities(X: np.ndarray, slack: float) -> bool:
    if not (X >= 0.0).all():
        return False
    if X.shape[1] == 1:
        return bool((X <= 1.0).all())
    with np.errstate(over="ignore"):
        return bool((np.abs(X.sum(axis=1) - 1.0) <= slack).all())


def score_form(X: np.ndarray, kind: str) -> ScoreForm:
    """What these scores are, by ``kind``: ``"proba"``, ``"logits"``, or ``"auto"`` to look at them."""
    is_proba = _are_probabilities(X, _SLACK) if kind == "auto" else kind == "proba"
    floor = 0.0
    if is_proba:
        both = np.concatenate([X, 1.0 - X], axis=1) if X.shape[1] == 1 else X
        positive = both[both > _TINY]
        floor = 0.5 * float(positive.min()) if len(positive) else 0.5
    form = ScoreForm(is_proba, X.shape[1], floor)
    form.check(X)
    return form


def find_classes(y: np.ndarray, n_classes: int, known: Any) -> np.ndarray:
    """Labels of the columns of scores: those given as ``known``, else those in ``y``; a ``ValueError`` if they do not fit."""
    seen = np.unique(y)
    if known is not None:
        classes = np.asarray(known)
        if classes.ndim != 1 or not np.array_equal(np.unique(classes), classes):
            raise ValueError(f"classes must be different labels, sorted, got {known!r}.")
        if len(classes) != n_classes:
            raise ValueError(f"classes must be the labels of {n_classes} columns of scores, got {len(classes)}.")
    elif len(seen) == n_classes:
        classes = seen
    elif len(seen) < n_classes and y.dtype.kind in "iu" and seen[0] >= 0 and seen[-1] < n_classes:
        classes = np.arange(n_classes)
    else:
        raise ValueError(
            f"X has scores of {n_classes} classes, but y holds {len(seen)} class{'es' if len(seen) != 1 else ''}: "
            f"{seen[:10]}. Give the labels of all columns as classes=."
        )
    if len(unknown := np.setdiff1d(seen, classes)):
        raise ValueError(f"y holds labels that are not in classes: {unknown[:10]}; classes are {classes}.")
    return classes


class ScoreReader(nn.Module):
    """Turn scores of a form into logits of shape (n, n_classes), in double precision."""

    def __init__(self, form: ScoreForm) -> None:
        super().__init__()
        self.form = form

    def forward(self, x: Tensor) -> Tensor:
        """Logits of scores of shape (n, columns)."""
        x = x.double()
        if not self.form.is_proba:
            return torch.cat([-0.5 * x, 0.5 * x], dim=1) if self.form.columns == 1 else x
        p = torch.cat([1.0 - x, x], dim=1) if self.form.columns == 1 else x
        return p.clamp(min=self.form.floor).log()
