"""Importance of features for networks: what the log-loss rises by where a feature is shuffled."""

from __future__ import annotations

from typing import Any

import numpy as np
from markupsafe import Markup

from legendretron.report.markup import bar_list, details, figure, note, paragraph, section, table
from legendretron.report.rows import Rows

__all__ = ["importance"]

#: Rows and features that are shuffled at most, and features in the picture.
_ROWS, _FEATURES, _LISTED = 1000, 300, 16


def importance(classifier: Any, features: Any, names: list[str], rows: Rows) -> Markup:
    """Return the section; parameters as of :func:`~legendretron.report.sections.coefficients.coefficients`."""
    random = np.random.RandomState(0)
    some = np.sort(random.permutation(len(rows.y))[:_ROWS])
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
    bars = bar_list([(names[j], float(rise[j])) for j in order[:_LISTED]], max(float(np.abs(rise).max()), 1e-12))
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
        note(f"Networks have no coefficients. Of features that say the same, each may seem to matter little.{cut}"),
    )
