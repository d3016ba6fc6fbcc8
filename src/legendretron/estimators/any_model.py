"""Loading of saved models of any class."""

from __future__ import annotations

import os
from typing import Any

from legendretron._internal.artifacts import load_state
from legendretron.estimators.calibrator import CALIBRATED, LegendreCalibrator
from legendretron.estimators.legendretron import LegendreTronClassifier
from legendretron.estimators.multinomial import MultinomialLogisticClassifier
from legendretron.estimators.network import LegendreNetClassifier
from legendretron.estimators.table_classifier import TableClassifier


def load(
    path: str | os.PathLike[str],
) -> (
    LegendreTronClassifier
    | MultinomialLogisticClassifier
    | LegendreNetClassifier
    | TableClassifier
    | LegendreCalibrator
):
    """Load a model of any class of this library that was saved by ``save`` or on the command line.

    Files from any source are safe to load: no code in them is executed. An invalid file raises a ``ValueError``.

    Parameters
    ----------
    path : path
        The file.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "model.safetensors")
    ...     LegendreTronClassifier("softmax", alpha=0.1).fit([[0.0], [1.0]], ["a", "b"]).save(path)
    ...     type(load(path)).__name__
    'LegendreTronClassifier'
    """
    model: Any = load_state(path, {cls.__name__: cls.from_state for cls in (*CALIBRATED, LegendreCalibrator)})
    return model
