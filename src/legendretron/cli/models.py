"""Models of the command line: by name, and with the data that fits them."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import typer

from legendretron.datasets.table_files import format_of, quoted
from legendretron.datasets.tables import Table, as_matrix, read_table
from legendretron.estimators import LegendreTronClassifier, MultinomialLogisticClassifier
from legendretron.estimators.base import LinearLinkClassifier
from legendretron.estimators.persistence import load_any_estimator

__all__ = ["class_numbers", "load_model", "log_probabilities", "make_model", "table_for"]


_CLASSES: dict[str, type[LinearLinkClassifier]] = {
    "legendretron": LegendreTronClassifier,
    "logistic": MultinomialLogisticClassifier,
}
#: Options under another name than the parameter, which is the estimator's.
_OPTIONS = {"max_epochs": "epochs", "n_blocks": "blocks", "n_nests": "nests"}
_LINK_ONLY = {"link", "n_blocks", "hidden", "depth", "n_nests", "link_alpha"}
_OF_LINK = {"composite": {"n_blocks", "hidden", "depth"}, "canonical": {"n_nests"}}


def make_model(name: str, given: dict[str, Any]) -> LinearLinkClassifier:
    """Return an estimator with the parameters that were given (those that are not None) and its own defaults.

    Parameters
    ----------
    name : {"legendretron", "logistic"}
        Which.
    given : dict
        Parameters of the estimator; one that would change nothing is refused as wrong usage.
    """
    parameters = {key: value for key, value in given.items() if value is not None}
    link = str(parameters.get("link", "composite"))
    useless = _LINK_ONLY if name == "logistic" else set().union(*_OF_LINK.values()) - _OF_LINK[link]
    reason = "--model legendretron" if name == "logistic" else f"another link than {link}"
    for key in parameters:
        if key in useless:
            option = "--" + _OPTIONS.get(key, key).replace("_", "-")
            raise typer.BadParameter(f"it is for {reason}; leave it out.", param_hint=f"'{option}'")
    return _CLASSES[name](**parameters)


def load_model(path: Path) -> LinearLinkClassifier:
    """Read a model that ``fit`` has written, or the ``save`` of an estimator."""
    if not path.exists():
        raise FileNotFoundError(2, "No such file or directory", str(path))
    return load_any_estimator(path)


def table_for(model: LinearLinkClassifier, path: Path, target: str | None, format: str | None) -> Table:
    """Read a table with the features that a model knows, in its order; other columns do not matter."""
    names = getattr(model, "feature_names_in_", None)
    if format_of(path, format) == "libsvm":
        return read_table(path, target, format=format, n_features=model.n_features_in_)
    if names is not None:
        return read_table(path, target, features=[str(name) for name in names], format=format)
    table = read_table(path, target, format=format)
    if table.X.shape[1] != model.n_features_in_:
        raise ValueError(
            f"the model was fitted on {model.n_features_in_} features without names, but {str(path)!r} has "
            f"{table.X.shape[1]}: {quoted(table.feature_names)}; leave only the model's, in their order."
        )
    return table


def log_probabilities(model: LinearLinkClassifier, table: Table) -> np.ndarray:
    """Return the log-probabilities of a table that :func:`table_for` has read."""
    named = hasattr(model, "feature_names_in_")
    with warnings.catch_warnings():
        # LIBSVM text has no names; its features are numbered as the model's are
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        return model.predict_log_proba(table.X if named else as_matrix(table))


def class_numbers(model: LinearLinkClassifier, table: Table) -> np.ndarray:
    """Return the labels of a table as places in ``classes_``.

    They are compared as text, as they were understood or else as they are written: a column of numbers or truth values in one
    file may be one of words in another.
    """
    assert table.y is not None
    places = {_text(label): place for place, label in enumerate(model.classes_)}
    found = [_known(labels, places) for labels in (table.y, table.written) if labels is not None]
    numbers = next((numbers for numbers, unknown in found if not unknown), None)
    if numbers is None:
        raise ValueError(
            f"{str(table.path)!r} has labels that the model does not know: {quoted(found[0][1])}; it knows {quoted(places)}."
        )
    return numbers


def _known(labels: np.ndarray, places: dict[str, int]) -> tuple[np.ndarray, list[str]]:
    """Places of labels, and those that have none."""
    different, inverse = np.unique(labels, return_inverse=True)
    texts = [_text(label) for label in different]
    return np.asarray([places.get(text, -1) for text in texts])[inverse], [text for text in texts if text not in places]


def _text(label: Any) -> str:
    if isinstance(label, float | np.floating) and float(label).is_integer():
        return str(int(label))
    return str(label)
