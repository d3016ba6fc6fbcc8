"""Coefficients of linear classifiers, by class, the largest first."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
from markupsafe import Markup

from legendretron.estimators import LegendreNetClassifier
from legendretron.report.markup import bar_list, details, figure, grid, note, paragraph, section, table
from legendretron.report.rows import EvaluationRows


def importance(classifier: Any, features: Any, names: list[str], rows: EvaluationRows) -> Markup:
    """Return the section; parameters as of :func:`~legendretron.report.sections.coefficients.coefficients`."""
    random = np.random.RandomState(0)
    some = np.sort(random.permutation(len(rows.y))[:_SHUFFLED])
    X, y, weight = (
        np.array(np.asarray(features)[some], dtype=float),
        rows.y[some],
        rows.weight[some] / rows.weight[some].sum(),
    )

    def loss() -> float:
        log_p = classifier._predict_all(np.ascontiguousarray(X, dtype=classifier._precision()), log=True)
        return float(weight @ -log_p[np.arange(len(y)), y])

    before, shown = loss(), min(X.shape[1], _FEATURES)
    rise = np.empty(shown)
    for j in range(shown):
        column = X[:, j].copy()
        X[:, j] = random.permutation(column)
        rise[j] = loss() - before
        X[:, j] = column
    order = np.argsort(-rise, kind="stable")
    bars = bar_list([(names[j], float(rise[j])) for j in order[: 2 * _LISTED]], max(float(np.abs(rise).max()), 1e-12))
    body = [[names[j], float(rise[j])] for j in order.tolist()]
    cut = f" The first {_FEATURES} of {len(names):,} features." if len(names) > _FEATURES else ""
    return section(
        "coefficients",
        "Importance of features",
        paragraph(
            f"{names[int(order[0])]} matters most: where its values are shuffled among {len(some):,} rows, the log-loss "
            f"rises by {rise[order[0]]:.3g}."
        ),
        figure(bars, "rise of the log-loss"),
        details("All features", table(["feature", "rise of the log-loss"], body, tall=len(body) > 12)),
        note(f"Networks have no coefficients. If features are correlated, each of them may seem unimportant.{cut}"),
    )


_TITLE = "Coefficients"
#: Rows that are shuffled to see how much features of networks matter.
_SHUFFLED = 1000
#: Features in the list of a class, lists that are open at first, classes with a list, and features in the table.
_LISTED, _OPEN, _CLASSES, _FEATURES = 8, 6, 100, 300


def deviations(X: Any, weight: np.ndarray) -> np.ndarray:
    """Return weighted standard deviations of columns; of a sparse matrix without making it dense."""
    share = weight / weight.sum()
    if scipy.sparse.issparse(X):
        mean, square = (np.asarray(share @ part).ravel() for part in (X, X.multiply(X)))
        return np.sqrt(np.maximum(square - mean**2, 0.0))
    values = np.asarray(X, dtype=float)
    mean = share @ values
    spread: np.ndarray = np.sqrt(share @ (values - mean) ** 2)
    return spread


def _effects(classifier: Any, n_classes: int) -> np.ndarray | None:
    """Coefficients with a row for each class that has one; None if the classifier has none."""
    coef = getattr(classifier, "coef_", None)
    if coef is None or np.ndim(coef) != 2:
        return None
    coef = np.asarray(coef.toarray() if scipy.sparse.issparse(coef) else coef, dtype=float)
    if n_classes > 2 and len(coef) == n_classes - 1:  # those of the last class are zero
        coef = np.vstack([coef, np.zeros(coef.shape[1])])
        coef = coef - coef.mean(0)
    return coef if len(coef) == (1 if n_classes == 2 else n_classes) else None


def coefficients(classifier: Any, features: Any, names: list[str], rows: EvaluationRows) -> Markup:
    """Return the section on coefficients."""
    labels = rows.spoken
    coef = _effects(classifier, len(labels))
    if coef is None and isinstance(classifier, LegendreNetClassifier):
        return importance(classifier, features, names, rows)
    if coef is None:
        kind = type(classifier).__name__
        return section("coefficients", _TITLE, paragraph(f"{kind} has no coefficients, so there are none to show."))
    effect = coef * deviations(features, rows.weight)
    most = float(np.abs(effect).max())
    strength = np.sqrt((effect**2).mean(0))
    strongest = int(strength.argmax())
    lists = []
    shown = [1] if len(labels) == 2 else np.argsort(-np.abs(effect).max(1), kind="stable")[:_CLASSES].tolist()
    for k in shown:
        own = effect[0] if len(labels) == 2 else effect[k]
        first = np.argsort(-np.abs(own), kind="stable")[: 2 * _LISTED if len(labels) == 2 else _LISTED]
        lists.append(figure(bar_list([(names[j], float(own[j])) for j in first], most), labels[k]))
    rest = details(f"{len(lists) - _OPEN} more classes", grid(lists[_OPEN:])) if len(lists) > _OPEN else ""
    if len(labels) == 2:
        against = f"towards {labels[1]} (right, blue) or {labels[0]} (left, orange)"
    else:
        against = "towards a class (right, blue) or away from it (left, orange), relative to the mean of all classes"
    order = np.argsort(-strength, kind="stable")[:_FEATURES]
    body = []
    for j in order.tolist():
        up, down = int(effect[:, j].argmax()), int(effect[:, j].argmin())
        if len(labels) == 2:
            up, down = (1, 0) if effect[0, j] >= 0 else (0, 1)
            body.append([names[j], float(effect[0, j]), float(coef[0, j]), labels[up]])
        else:
            body.append(
                [names[j], float(strength[j]), labels[up], float(effect[up, j]), labels[down], float(effect[down, j])]
            )
    heads = (
        ["feature", "effect", "coefficient", "speaks for"]
        if len(labels) == 2
        else ["feature", "mean effect", "most for", "effect", "most against", "effect"]
    )
    cut = f" The {_FEATURES} strongest of {len(names):,} features." if len(names) > _FEATURES else ""
    cut += f" The {_CLASSES} classes with the largest effects." if len(shown) < len(labels) and len(labels) > 2 else ""
    return section(
        "coefficients",
        _TITLE,
        paragraph(
            f"{names[strongest]} has the strongest effect. An effect is how far one standard deviation of the "
            f"feature, in these rows, moves the score {against}."
        ),
        grid(lists[:_OPEN]),
        rest,
        details("All features", table(heads, body, tall=len(body) > 12)),
        note(
            f"Scores are in the model's own unit, so effects can be compared within a model, not between models.{cut}"
        ),
    )
