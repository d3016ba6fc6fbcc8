"""Rows whose labels are probably wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
from markupsafe import Markup

from legendretron.estimators import LegendreCalibrator
from legendretron.estimators.label_posterior import label_posterior
from legendretron.estimators.label_quality import LabelQuality
from legendretron.links.noise_models import replaced_share
from legendretron.plots import LabelQualityDisplay
from legendretron.report.charts import chart_figure
from legendretron.report.markup import Cell, beside, block, note, paragraph, percent, rows_in_words, section, table
from legendretron.report.rows import Contestant, EvaluationRows

#: Rows that are listed, and the probability below which a label is suspicious.
_LISTED, _THRESHOLD = 50, 0.5
_TITLE = "Suspicious labels"


def judge_labels(model: Any, X: Any, rows: EvaluationRows, log_p: np.ndarray) -> np.ndarray:
    """Return probabilities of the true classes given features and labels, ``(n, C)``.

    Of a model that knows of wrong labels, its own ``label_posterior``. For any other, one label of these rows is taken to be
    wrong, or the share that a calibrator has found, replaced by any class alike.
    """
    if isinstance(model, LabelQuality):
        return model.label_posterior(X, rows.classes[rows.y], cv=None)
    n, n_classes = log_p.shape
    found = replaced_share(model.noise_rate_, n_classes) if isinstance(model, LegendreCalibrator) else 0.0
    replaced = max(found, 1.0 / max(n, 2))
    matrix = (1.0 - replaced) * np.eye(n_classes) + replaced / n_classes
    return label_posterior(log_p, rows.y, matrix, doubts=found > 0.0)


def noise_in_words(model: Any) -> str:
    """Return what a model knows about wrong labels in its training data."""
    if isinstance(model, LegendreCalibrator):
        if not model.noise_rate_ > 0:
            return "The calibrator was fitted without an estimate of wrong labels."
        return f"The calibrator found {percent(model.noise_rate_)} of its labels to be wrong."
    try:
        rate, (low, high) = model.noise_rate_, model.noise_rate_interval_
    except AttributeError:
        return "The model has no estimate of how many of its training labels are wrong."
    if rate == 0:
        return "No wrong labels were found in the training data."
    chance = ", or a matter of chance" if model.predicts_recorded_ else ""
    interval = f"interval {percent(low)} to {percent(high)}"
    return f"An estimated {percent(rate)} of the training labels are wrong{chance} ({interval})."


def labels(model: Any, contestant: Contestant, rows: EvaluationRows, posterior: np.ndarray) -> Markup:
    """Return the section on suspicious labels, from what :func:`judge_labels` returned."""
    quality = posterior[np.arange(len(rows)), rows.y]
    suggested = posterior.argmax(1)
    display = LabelQualityDisplay(quality.clip(0.0, 1.0), _THRESHOLD)
    suspicious = quality < _THRESHOLD
    share = float(rows.weight[suspicious].sum() / rows.weight.sum())
    names = rows.names
    body = []
    for i in display.order_[:_LISTED].tolist():
        other = suggested[i] if suggested[i] != rows.y[i] else int(np.argsort(posterior[i])[-2])
        body.append(
            [
                Cell.of(int(rows.numbers[i]), f"{rows.numbers[i]:,}"),
                names[rows.y[i]],
                names[other],
                Cell.share(float(quality[i])),
                Cell.share(float(np.exp(contestant.log_p[i, rows.y[i]]))),
                *([float(rows.weight[i])] if rows.weighted else []),
            ]
        )
    n = display.n_suspicious_
    intro = (
        f"If the model's probabilities are right, {rows_in_words(n)} of {len(rows):,} "
        f"({percent(share)}{' by weight' if rows.weighted else ''}) {'has a label' if n == 1 else 'have labels'} that "
        f"{'is' if n == 1 else 'are'} probably wrong. {noise_in_words(model)}"
        if n
        else f"No label is probably wrong. {noise_in_words(model)}"
    )
    knows = float(getattr(model, "noise_rate_", 0.0) or 0.0) > 0
    assumed = "" if knows else " The model does not say how many labels are wrong; one in these rows is taken to be."
    heads = ["row, from 0", "label", "suggested", "label is right", "model gave it"]
    if rows.weighted:
        heads.append("weight")
    listed = table(
        heads, body, caption=f"The {min(_LISTED, len(rows))} rows whose labels are the least probable", tall=True
    )
    return section(
        "labels",
        _TITLE,
        paragraph(intro),
        beside(chart_figure(display.chart(), "Doubt about labels"), block(listed), names),
        note(
            "Based on the model itself, which should not have been fitted to these rows. A confident prediction "
            "that contradicts the label can be a wrong label or a mistake of the model: check before you "
            f"correct.{assumed}"
        ),
    )
