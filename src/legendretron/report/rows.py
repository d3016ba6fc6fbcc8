"""The rows that models are evaluated on: labels, weights and predictions, checked."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted, column_or_1d

from legendretron._internal.chunks import chunks_in_cache
from legendretron._internal.columns import check_collected
from legendretron._internal.labels import check_labels
from legendretron._internal.sklearn_compat import check_sample_weight
from legendretron.diagnostics.scores import RowScores, row_scores
from legendretron.estimators import LegendreCalibrator
from legendretron.plots.models import core, format_label
from legendretron.report.markup import abridge, percent

#: Probabilities below this count as this, so that a single impossible label does not make every mean infinite.
LEAST_PROBABILITY = 1e-15
#: Standard errors of a difference that cannot be chance.
_SURE_ERRORS = 1.96
#: Labels that a message names.
_NAMED = 5


@dataclass(frozen=True)
class EvaluationRows:
    """Rows with labels."""

    y: np.ndarray  #: (n,), labels, as indices into ``classes``
    classes: np.ndarray  #: (C,), labels of the model
    weight: np.ndarray  #: (n,), weights of the rows, positive, with a mean of one
    weighted: bool  #: whether weights were given
    place: np.ndarray  #: (n,), places of the rows as they were given, where those of weight zero were still among them
    numbers: np.ndarray  #: (n,), what to call the rows: their places, or the numbers that were given

    def __len__(self) -> int:
        return len(self.y)

    @property
    def names(self) -> list[str]:
        """Labels for tables, none of them very long."""
        return _none_long([str(label) for label in self.classes.tolist()])

    @property
    def spoken(self) -> list[str]:
        """Labels for sentences and legends: numbers as "class 1"."""
        return _none_long([format_label(label) for label in self.classes.tolist()])

    @property
    def share(self) -> np.ndarray:
        """Weighted share of each class."""
        return np.bincount(self.y, self.weight, len(self.classes)) / len(self)

    def mean(self, values: np.ndarray) -> float:
        """Weighted mean over the rows."""
        return float(self.weight @ values / len(self))


def _none_long(names: list[str]) -> list[str]:
    """Names without their middles where they are long, unless some could then not be told apart."""
    short = [abridge(name) for name in names]
    return short if len(set(short)) == len(set(names)) else names


@dataclass(frozen=True)
class Contestant:
    """A model, or an alternative that it is compared with, and its predictions."""

    name: str  #: what to call it
    log_p: np.ndarray  #: (n, C), log-probabilities
    rows: RowScores  #: its scores, row by row
    impossible: int = 0  #: number of rows whose label had a probability of zero

    @classmethod
    def of(cls, name: str, y: np.ndarray, log_p: np.ndarray) -> Contestant:
        """Score log-probabilities, none of them below that of the least probability."""
        least = np.log(LEAST_PROBABILITY)
        impossible = int((log_p[np.arange(len(y)), y] < least).sum())
        if log_p.min() < least:
            log_p = np.maximum(log_p, least)
        return cls(name, log_p, row_scores(y, log_p), impossible)


def rows_of(model: Any, y: Any, sample_weight: Any, row_numbers: Any = None) -> EvaluationRows:
    """Check labels, weights and numbers of rows; rows of weight zero are left out."""
    _check_classifier(model, "model")
    check_labels(y)
    labels = column_or_1d(y)
    if not len(labels):
        raise ValueError("y must contain at least one label, got none.")
    classes = np.asarray(model.classes_)
    places = {label: place for place, label in enumerate(classes.tolist())}
    values = labels.tolist()
    if unknown := sorted(set(values) - places.keys()):
        raise ValueError(
            f"y holds labels that the model does not know: {_join_labels(unknown)}; it knows {_join_labels(places)}."
        )
    numbers = np.array([places[label] for label in values])
    weight = check_sample_weight(sample_weight, np.empty((len(labels), 1)))
    place = np.flatnonzero(weight > 0)
    found = np.unique(numbers[place])
    if len(found) < 2:
        raise ValueError(
            f"y holds one class only, {classes.tolist()[found[0]]!r}, with which nothing can be compared; give rows of at "
            "least two classes."
        )
    weight = weight[place] / weight.max()
    called = np.arange(len(labels)) if row_numbers is None else np.asarray(row_numbers)
    if called.shape != (len(labels),) or called.dtype.kind not in "iu":
        raise ValueError(
            f"row_numbers must contain an integer for each of {len(labels)} labels, got {called.dtype} of shape "
            f"{called.shape}."
        )
    weight *= len(place) / weight.sum()
    return EvaluationRows(numbers[place], classes, weight, sample_weight is not None, place, called[place])


def _check_classifier(model: Any, what: str) -> None:
    check_is_fitted(model)
    if not hasattr(model, "predict_proba") or not hasattr(model, "classes_"):
        raise ValueError(f"{what} must be a classifier with predict_proba, got {type(model).__name__}.")


def _join_labels(labels: Any) -> str:
    shown = [repr(label) for label in list(labels)[:_NAMED]]
    more = f" and {len(labels) - _NAMED} more" if len(labels) > _NAMED else ""
    return ", ".join(shown) + more


def select_rows(X: Any, rows: EvaluationRows, n_given: int, what: str = "X") -> Any:
    """Return the rows of a table that count; raise a ``ValueError`` if it has not as many rows as there are labels."""
    check_collected(what, X)
    n = X.shape[0] if hasattr(X, "shape") else len(X)
    if n != n_given:
        raise ValueError(f"{what} must have a row for each of {n_given} labels, got {n} rows.")
    if len(rows) == n_given:
        return X
    if hasattr(X, "iloc"):
        return X.iloc[rows.place]
    return X[rows.place] if hasattr(X, "shape") else [X[place] for place in rows.place]


def predict_rows(model: Any, X: Any, rows: EvaluationRows, what: str, known: Any = None) -> np.ndarray:
    """Return log-probabilities of the rows, classes in the order of ``rows.classes``; of all given rows they may be known."""
    _check_classifier(model, what)
    own = np.asarray(model.classes_)
    if set(own.tolist()) != set(rows.classes.tolist()):
        raise ValueError(
            f"{what} must have the classes {_join_labels(rows.classes.tolist())}, as the other model has, got "
            f"{_join_labels(own.tolist())}."
        )
    does, which = "predict", ", which its predict_proba does not" if known is None else ""
    with warnings.catch_warnings(), np.errstate(divide="ignore"):
        warnings.filterwarnings("ignore", message="divide by zero encountered in log", category=RuntimeWarning)
        if known is not None:
            what, does = "log_proba", "hold the logarithms of"
            known = np.asarray(known, dtype=np.float64)
            log_p = known if len(rows) == len(known) else known[rows.place]
        elif hasattr(model, "predict_log_proba"):
            log_p = np.asarray(model.predict_log_proba(X), dtype=np.float64)
        else:
            log_p = np.log(np.asarray(model.predict_proba(X), dtype=np.float64))
    if log_p.shape != (len(rows), len(own)):
        raise ValueError(f"{what} must {does} {len(own)} probabilities for each row, got shape {log_p.shape}.")
    sums = [np.exp(log_p[part]).sum(1) for part in chunks_in_cache(*log_p.shape)]
    if not np.allclose(np.concatenate(sums), 1.0, atol=1e-3):  # NaN is not close to anything
        raise ValueError(f"{what} must {does} probabilities that sum to 1 in every row{which}.")
    return _in_order(log_p, own, rows)


def _in_order(log_p: np.ndarray, own: np.ndarray, rows: EvaluationRows) -> np.ndarray:
    """Log-probabilities with the classes of a model in the order of the rows."""
    if np.array_equal(own, rows.classes):
        return log_p
    order = {label: place for place, label in enumerate(own.tolist())}
    return log_p[:, [order[label] for label in rows.classes.tolist()]]


def as_labels_are(model: Any, X: Any, rows: EvaluationRows, log_p: np.ndarray) -> tuple[np.ndarray, str]:
    """Return the log-probabilities that labels are compared with, and a sentence on the choice, which is mostly empty.

    A model that assumes wrong labels may predict true ones, ``log_p``, and as it is told also recorded ones. Labels to
    evaluate on are recorded, too, as a rule. Where true ones agree clearly better with them, they are right.
    """
    estimator, features = core(model, X)
    rate = getattr(estimator, "noise_rate_", 0.0)
    if not rate > 0.0 or not hasattr(estimator, "predict_proba_observed"):
        return log_p, ""
    with np.errstate(divide="ignore"):
        recorded = np.log(np.asarray(estimator.predict_proba_observed(features), dtype=np.float64))
    recorded = _in_order(recorded, np.asarray(estimator.classes_), rows)
    if np.allclose(np.exp(recorded), np.exp(log_p), atol=1e-6):
        return log_p, ""
    least, place = np.log(LEAST_PROBABILITY), np.arange(len(rows))
    gain = np.maximum(log_p, least)[place, rows.y] - np.maximum(recorded, least)[place, rows.y]
    mean = rows.mean(gain)
    error = np.sqrt(rows.weight**2 @ (gain - mean) ** 2) / len(rows)
    if mean > _SURE_ERRORS * error:
        return log_p, (
            f"The model assumes that {percent(rate)} of its training labels are wrong, but the labels of these rows agree "
            "better with its probabilities of true labels."
        )
    return recorded, (
        f"The model assumes that {percent(rate)} of recorded labels are wrong, and the labels of these rows are compared "
        "with its probabilities of recorded ones."
    )


def inner(model: Any, X: Any = None) -> tuple[Any, Any]:
    """Return the classifier inside pipelines, searches, calibrators and classifiers of tables, and its features.

    A calibrator of scores is its own classifier.
    """
    found, X = core(model, X)
    while True:
        if isinstance(found, LegendreCalibrator) and found.estimator is not None:
            found, X = core(found.estimator_, X)
        elif isinstance(found, FrozenEstimator):
            found, X = core(found.estimator, X)
        else:
            return found, X


def feature_names(model: Any, classifier: Any, n_features: int) -> list[str]:
    """Return names of the features of the classifier inside a model."""
    own = getattr(classifier, "feature_names_in_", None)
    if own is None and hasattr(model, "named_steps") and len(model) > 1:
        try:
            own = model[:-1].get_feature_names_out()
        except (AttributeError, ValueError):  # not every transformer knows names
            own = None
    if own is None and classifier is model:
        own = getattr(model, "feature_names_in_", None)
    if own is not None and len(own) == n_features:
        return [str(name) for name in np.asarray(own).tolist()]
    return [f"column {place}" for place in range(n_features)]
