"""Loading of whatever this library has saved."""

from __future__ import annotations

import os

from legendretron._internal.artifacts import is_artifact
from legendretron.estimators.calibrator import LegendreCalibrator
from legendretron.estimators.formats import CALIBRATOR_FORMAT, TABLE_FORMAT
from legendretron.estimators.legendretron import LegendreTronClassifier
from legendretron.estimators.loading import load_any_estimator
from legendretron.estimators.multinomial import MultinomialLogisticClassifier
from legendretron.estimators.table_classifier import TableClassifier

__all__ = ["load"]


def load(
    path: str | os.PathLike[str],
) -> LegendreTronClassifier | MultinomialLogisticClassifier | TableClassifier | LegendreCalibrator:
    """Read a model from a file, of whichever class it was saved: by ``save``, or on the command line.

    Files from any source are safe to load: no code in them is executed. What cannot be read raises a ``ValueError``.

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
    if is_artifact(path, CALIBRATOR_FORMAT):
        return LegendreCalibrator.load(path)
    if is_artifact(path, TABLE_FORMAT):
        return TableClassifier.load(path)
    return load_any_estimator(path)
