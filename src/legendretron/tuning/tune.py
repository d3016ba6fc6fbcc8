"""The choice between logistic regression and learned links, and of their strengths."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from legendretron.training.interrupt import stop_requests
from legendretron.tuning.candidates import Candidate
from legendretron.tuning.link_search import InterruptedSearchError, LinkScore, search_links
from legendretron.tuning.logistic_path import LogisticPath, PathPoint
from legendretron.tuning.problem import TuningProblem
from legendretron.tuning.table import Tuning

__all__ = ["FALLBACK_ALPHA", "tune"]

#: Standard errors by which a learned link must beat logistic regression on held-out rows.
_MUST_GAIN = 1.0
#: Strength of logistic regression where no row can be held out.
FALLBACK_ALPHA = 0.01


def tune(problem: TuningProblem, links: list[Candidate], *, logistic: bool, alpha: float | None = None) -> Tuning:
    """Choose strengths by cross-validated log-loss.

    A learned link is chosen only if it beats logistic regression by more than the standard error of the difference, taken
    row by row: of two models that do equally well, the simpler one.

    Parameters
    ----------
    problem : TuningProblem
        Data and model.
    links : list of Candidate
        Strengths to try with a learned link; may be empty.
    logistic : bool
        Whether logistic regression is among the candidates; needed if ``links`` is empty.
    alpha : float, optional
        Its strength, if it is not to be chosen.
    """
    tuning = Tuning(Candidate(FALLBACK_ALPHA if alpha is None else alpha, math.inf) if logistic else links[0])
    if not problem.folds:
        return tuning
    base: PathPoint | None = None
    best: LinkScore | None = None
    doubt = problem.doubt
    if logistic:
        with stop_requests(problem.keep_interrupted) as stop_requested:
            path = LogisticPath(problem, problem.n_path_folds, stop_requested)
            if alpha is None:
                base = path.search()
            else:
                base = path.fit(alpha)
                path.doubt_as_at(base)
                base = base._replace(doubt=path.doubt)
            doubt = path.doubt
            tuning.interrupted = stop_requested()
        points = list(path.points.values()) if alpha is None else [base]
        tuning.chosen = Candidate(base.alpha, math.inf)
        for point in points:
            tuning.rows.append(_row(problem, Candidate(point.alpha, math.inf), None, point.losses, base))
    try:
        left = [] if tuning.interrupted else links
        for stage in search_links(problem, left, None if base is None else base.losses, doubt) if left else ():
            for score in stage:
                tuning.rows.append(_row(problem, score.candidate, score.steps, score.losses, base))
                best = score if score.final else None
    except InterruptedSearchError:
        tuning.interrupted = True
    if best is not None:
        held_out = problem.held_out.first(problem.n_link_folds)
        away = None if base is None else held_out.difference(best.losses, base.losses[: len(best.losses)])
        if away is None or away.mean < -_MUST_GAIN * away.error:
            tuning.chosen, tuning.whole = best.candidate, best.whole
    if base is not None and tuning.chosen.is_logistic:
        if alpha is None and problem.n_path_folds < len(problem.folds) and not tuning.interrupted:
            points = path.with_other_folds(base)
            base = points[0]
            tuning.chosen = Candidate(base.alpha, math.inf)
            for point in points:
                tuning.rows.append(_row(problem, Candidate(point.alpha, math.inf), None, point.losses, base))
        tuning.logistic = base.fitted
    for row in reversed(tuning.rows):
        same = (row["alpha"], row["link_alpha"]) == tuple(tuning.chosen)
        if same and (row["steps"] is None or row["steps"] == problem.steps):
            row["chosen"] = True
            break
    return tuning


def _row(
    problem: TuningProblem, candidate: Candidate, steps: int | None, losses: np.ndarray, base: PathPoint | None
) -> dict[str, Any]:
    held_out = problem.held_out
    if len(losses) < len(held_out.row):  # of the first folds only
        held_out = held_out.first(int(held_out.fold[len(losses)]))
    mean = held_out.mean(losses)
    away = None if base is None else held_out.difference(losses, base.losses[: len(losses)])
    return {
        "model": "logistic regression" if candidate.is_logistic else "learned link",
        "alpha": candidate.alpha,
        "link_alpha": candidate.link_alpha,
        "steps": steps,
        "held_out_rows": held_out.n_rows,
        "log_loss": mean.mean,
        "standard_error": mean.error,
        "difference": math.nan if away is None else away.mean,
        "difference_error": math.nan if away is None else away.error,
        "chosen": False,
    }
