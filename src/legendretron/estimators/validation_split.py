"""The part of the samples that early stopping looks at."""

from __future__ import annotations

import numpy as np
from sklearn.model_selection import train_test_split

__all__ = ["ValidationSplitError", "validation_split"]


class ValidationSplitError(ValueError):
    """There are too few samples, or too few of a class, for a part of them to be held out."""


def validation_split(rows: np.ndarray, labels: np.ndarray, fraction: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Split rows into those to train on and those held out, with the classes in the same shares.

    Parameters
    ----------
    rows, labels : ndarray of shape (n,)
        Rows, and the class of each.
    fraction : float
        ``validation_fraction`` of the estimator.
    seed : int
        Of the draw.
    """
    try:
        kept, held = train_test_split(rows, test_size=fraction, stratify=labels, random_state=seed)
    except ValueError as error:
        raise ValidationSplitError(
            f"early_stopping cannot hold out validation_fraction={fraction} of {len(rows)} samples: {error} "
            "Raise validation_fraction, or set early_stopping=False."
        ) from error
    return kept, held
