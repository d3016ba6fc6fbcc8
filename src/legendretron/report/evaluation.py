"""The evaluation report: everything about a model on rows with known labels, in one page."""

from __future__ import annotations

import html
import os
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import numpy as np
import scipy.sparse
from markupsafe import Markup

from legendretron._internal.files import write_atomically
from legendretron._internal.printable import one_line
from legendretron._internal.validation import check_integer
from legendretron.diagnostics.decomposition import LEAST_ROWS, Recalibrated, folds_for, recalibrate
from legendretron.diagnostics.intervals import Estimate
from legendretron.plots.models import core
from legendretron.preprocessing.drift import DriftWatch, feature_tallies
from legendretron.report.markup import page, rows_in_words
from legendretron.report.measured import SCORES, Measured
from legendretron.report.rows import (
    Contestant,
    EvaluationRows,
    as_labels_are,
    feature_names,
    inner,
    predict_rows,
    rows_of,
    select_rows,
)
from legendretron.report.sections.calibration import calibration, class_errors
from legendretron.report.sections.card import card
from legendretron.report.sections.classes import classes, confusions, prediction_sets, ranking
from legendretron.report.sections.coefficients import coefficients
from legendretron.report.sections.labels import judge_labels, labels
from legendretron.report.sections.learned import describe_link, is_logistic_regression
from legendretron.report.sections.scores import classes_in_words, comparison, main_numbers, scores, summary
from legendretron.report.sections.training import training


def numeric_features(X: Any) -> Any:
    """Return features as a matrix of finite numbers, or None if they are none."""
    if scipy.sparse.issparse(X):
        matrix = X.tocsr()
        values = matrix.data
    else:
        try:
            matrix = values = np.asarray(X, dtype=np.float64)
        except (TypeError, ValueError):
            return None
    return matrix if matrix.ndim == 2 and np.isfinite(values).all() else None


class EvaluationReport:
    """Evaluation of a classifier on rows with known labels, as a single HTML page that starts with a summary.

    The page shows scores with bootstrap intervals, also for simple alternatives, calibration, prediction sets, mistakes, ROC
    and precision-recall curves, the learned link and loss, coefficients, training, suspicious labels, and a model card.
    Sections that do not apply to a model say so. Notebooks display the report.

    The model is compared with logistic regression of the same training rows, which a fit that chooses penalties keeps if it
    chooses anything else. Temperature scaling, and the recalibration that divides scores into calibration and refinement, are
    cross-validated on the given rows.

    Labels are compared with ``predict_proba_observed`` if the model assumes that some recorded labels are wrong, unless
    ``predict_proba`` agrees better with them.

    Parameters
    ----------
    model : classifier
        Fitted classifier with ``predict_proba``: of this library or scikit-learn, or a pipeline or search.
    X : array, data frame or sparse matrix of shape (n_samples, n_features)
        Rows that the model was not fitted to.
    y : array of shape (n_samples,)
        Their labels, of at least two of the model's classes.
    sample_weight : array of shape (n_samples,), optional
        Weight of each row; non-negative, not all zero. Rows of weight zero are left out.
    against : classifier or pair of classifier and X, optional
        Another model to compare with; a pair if it needs other columns of the same rows.
    name, against_name : str, optional
        Names of the models; by default those of their classes.
    data : str, optional
        Name of the data.
    target : str, optional
        Name of what is predicted; by default that of ``y``, if it is a series with a name.
    facts : mapping of str to str, optional
        Further lines of the model card, such as the origin of the data.
    row_numbers : array of int of shape (n_samples,), optional
        Numbers of the rows in the table of suspicious labels, if they are part of a larger table; by default from 0.
    log_proba : array of shape (n_samples, n_classes) or pair of these, optional
        Log-probabilities that the model, or both models, predict for these rows, if they are known already.
    random_state : int, default=0
        Seed of the bootstrap and the folds. The same rows and seed give the same numbers.

    Attributes
    ----------
    summary : str
        Summary in a few sentences.
    scores : dict of str to dict of str to Estimate
        Scores with intervals, by name of the model or alternative and by name of the score.

    Notes
    -----
    With more than 5,000 rows there are two folds instead of five. Models are recalibrated on as many rows as take seconds;
    the page says how many. Curves of single classes are drawn from 5,000 rows.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from legendretron import MultinomialLogisticClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = MultinomialLogisticClassifier(alpha=0.01).fit(X[::2], y[::2])
    >>> report = EvaluationReport(model, X[1::2], y[1::2])
    >>> [*report.scores][0], report.scores["MultinomialLogisticClassifier"]["accuracy"].low > 0.8
    ('MultinomialLogisticClassifier', True)
    """

    def __init__(
        self,
        model: Any,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        against: Any = None,
        *,
        name: str | None = None,
        against_name: str | None = None,
        data: str | None = None,
        target: str | None = None,
        facts: Mapping[str, str] | None = None,
        row_numbers: Any = None,
        log_proba: Any = None,
        random_state: int = 0,
    ) -> None:
        began = time.perf_counter()
        seed = check_integer("random_state", random_state, 0)
        rows, n_given = rows_of(model, y, sample_weight, row_numbers), len(np.asarray(y))
        X = select_rows(X, rows, n_given)
        names = _names(model, against, name, against_name)
        target = _check_name("target", target) or str(getattr(y, "name", None) or "")
        given = log_proba if isinstance(log_proba, tuple) else (log_proba, None)
        with DriftWatch():  # warnings are collected below
            log_p = predict_rows(model, X, rows, "model", given[0])
            judged, remark = as_labels_are(model, X, rows, log_p)
        contestants = {"model": Contestant.of(names[0], rows.y, judged)}
        models = {names[0]: model}
        if against is not None:
            other, other_X = against if isinstance(against, tuple) else (against, X)
            if isinstance(against, tuple):
                other_X = select_rows(other_X, rows, n_given, "X of against")
            models[names[1]] = other
            with DriftWatch():  # only the columns of the first model are reported
                other_log_p = predict_rows(other, other_X, rows, "against", given[1])
                other_log_p = as_labels_are(other, other_X, rows, other_log_p)[0]
            contestants["against"] = Contestant.of(names[1], rows.y, other_log_p)
        with DriftWatch() as watch:
            classifier, features = inner(model, X)
        if not watch.tallies and hasattr(classifier, "_usual"):
            watch.add(feature_tallies(classifier, features))
        matrix = numeric_features(features)
        notes, maps = _add_comparisons(
            contestants, rows, classifier if core(model)[0] is classifier else None, features, seed
        )
        measured = Measured(rows, contestants, {key: found.calibrated for key, found in maps.items()}, seed)
        error = measured.calibration_error("model")
        errors = class_errors(measured, "model", seed)
        self._measured = measured
        answer = summary(measured, error, watch.found, remark)
        self.summary = one_line(" ".join(sentence for sentence, _ in answer))
        self.scores: dict[str, dict[str, Estimate]] = {
            one.name: {score: measured.score(key, score) for score in SCORES} for key, one in contestants.items()
        }
        parts = {"scores": ("Scores", scores(measured, notes))}
        if against is not None:
            parts["against"] = ("Side by side", comparison(measured))
        parts["calibration"] = ("Calibration", calibration(measured, error, maps, errors, seed))
        parts["classes"] = ("Classes", classes(measured, errors))
        parts["sets"] = (
            "Prediction sets",
            prediction_sets(core(model)[0], measured, log_p, seed, recorded=judged is not log_p),
        )
        parts["confusions"] = ("Mistakes", confusions(measured))
        parts["ranking"] = ("ROC", ranking(measured))
        parts["learned"] = ("Link and loss", describe_link(classifier, features, rows))
        if matrix is not None:
            own = feature_names(core(model)[0] if core(model)[0] is classifier else model, classifier, matrix.shape[1])
            parts["coefficients"] = ("Coefficients", coefficients(classifier, matrix, own, rows))
        parts["training"] = ("Training", training(classifier))
        with DriftWatch():  # reported above
            judge, own_features = core(model, X)
            posterior = judge_labels(judge, own_features, rows, log_p)
        parts["labels"] = ("Suspicious labels", labels(judge, contestants["model"], rows, posterior))
        took, now = time.perf_counter() - began, f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
        parts["card"] = ("Model card", card(models, rows, n_given, data or "", target, dict(facts or {}), took, now))
        title = f"Evaluation of {names[0]}" + (f" against {names[1]}" if against is not None else "")
        subtitle = f"{data + ', ' if data else ''}{rows_in_words(len(rows))}, {len(rows.classes)} classes, {now}"
        links = {place: label for place, (label, _) in parts.items()}
        self._html = page(
            title=title,
            subtitle=subtitle,
            predicted=classes_in_words(rows, target),
            answer=answer,
            tiles=main_numbers(measured, error),
            content=Markup("").join(content for _, content in parts.values()),
            links=links,
        )

    def to_html(self) -> str:
        """Return the page as text."""
        return self._html

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page to a single file, atomically."""
        write_atomically(path, self._html.encode())

    def _repr_html_(self) -> str:
        """The page in a frame, so that its style does not mix with that of the notebook."""
        return (
            f'<iframe srcdoc="{html.escape(self._html, quote=True)}" sandbox="allow-scripts" title="evaluation report" '
            'style="width:100%;height:80vh;border:1px solid #8884;border-radius:6px"></iframe>'
        )

    def __repr__(self) -> str:
        return f"EvaluationReport({self.summary!r})"


def _check_name(what: str, given: str | None) -> str | None:
    if given is not None and not (isinstance(given, str) and given):
        raise ValueError(f"{what} must be text that is not empty, got {given!r}.")
    return given


def _names(model: Any, against: Any, name: str | None, against_name: str | None) -> tuple[str, str]:
    for what, given in (("name", name), ("against_name", against_name)):
        _check_name(what, given)
    if isinstance(against, tuple) and len(against) != 2:
        raise ValueError(
            f"against must be a classifier, or a pair of one and its features, got {len(against)} objects."
        )
    if against is None and against_name is not None:
        raise ValueError(f"against_name is for a second model, given by against, got {against_name!r} without one.")
    own = name or type(core(model)[0]).__name__
    other = against[0] if isinstance(against, tuple) else against
    their = against_name or ("" if other is None else type(core(other)[0]).__name__)
    return own, f"{their} (the other)" if their == own else their


def _add_comparisons(
    contestants: dict[str, Contestant], rows: EvaluationRows, classifier: Any, features: Any, seed: int
) -> tuple[list[str], dict[str, Recalibrated]]:
    """Add what the model is compared with; return how it was made, and the recalibrated models.

    ``classifier`` is the one that the model consists of, with its features; None for a calibrator.
    """
    folds = folds_for(len(rows), seed)
    own = contestants["model"].name
    notes, maps = [], {}
    if folds:
        maps = {key: recalibrate(one.log_p, rows.y, rows.weight, folds) for key, one in contestants.items()}
        found = maps["model"]
        contestants["temperature"] = Contestant.of(f"{own}, temperature scaled", rows.y, found.temperature)
        notes.append(
            f"Temperature scaling was cross-validated in {len(folds)} folds, each fitted to at most "
            f"{rows_in_words(found.fitted_to)} of this table."
        )
    else:
        notes.append(f"There is no temperature scaling, because there are fewer than {LEAST_ROWS} rows.")
    baseline = getattr(classifier, "_baseline", None)
    if baseline is not None:
        log_p = baseline.predict_log_proba(features if scipy.sparse.issparse(features) else np.asarray(features))
        contestants["logistic"] = Contestant.of("Logistic regression of the same training rows", rows.y, log_p)
        notes.append(
            "Logistic regression was fitted to the training rows of the model; its penalty was chosen on held-out ones."
        )
    elif is_logistic_regression(classifier):
        notes.append("The model is itself a logistic regression, so it is not compared with one.")
    else:
        notes.append(
            "This model has no logistic regression of its training rows to be compared with; fit one to them, and give it as "
            "a second model."
        )
    share = rows.share
    with np.errstate(divide="ignore"):
        log_share = np.broadcast_to(np.log(share), (len(rows), len(share)))
    contestants["dummy"] = Contestant.of("Class frequencies only", rows.y, log_share)
    notes.append("Class frequencies only: the shares of the classes in this table, predicted for every row.")
    return notes, maps
