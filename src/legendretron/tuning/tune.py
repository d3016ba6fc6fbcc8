"""The choice between logistic regression and learned links, and of their strengths."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from legendretron.links import TransitionNoise
from legendretron.links.noise_models import wrong_share
from legendretron.tuning.link_search import LinkScore, may_gain, predict_held_out, search_links
from legendretron.tuning.logistic_path import LogisticPath, PathPoint
from legendretron.tuning.noise_matrix import find_matrix, has_pattern
from legendretron.tuning.problem import Candidate, TuningProblem
from legendretron.tuning.scores import Difference
from legendretron.tuning.table import Tuning
from legendretron.tuning.wrong_labels import FoundNoise, is_believable, is_possible

#: Standard errors by which a learned link must beat logistic regression on held-out rows.
_MUST_GAIN = 1.0
#: Strength of logistic regression where no row can be held out.
FALLBACK_ALPHA = 0.01


def tune(problem: TuningProblem, links: list[Candidate], *, logistic: bool, alpha: float | None = None) -> Tuning:
    """Choose strengths, and whether some labels are noise, by cross-validated log-loss of the labels as they are.

    A learned link is chosen only if it beats logistic regression by more than the standard error of the difference, taken
    row by row: of two models that do equally well, the simpler one. When noise is believed is told in
    :mod:`~legendretron.tuning.wrong_labels`.

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

    Examples
    --------
    Estimators call it when a strength is ``"auto"``, and keep what it found:

    >>> from sklearn.datasets import load_iris
    >>> from legendretron import MultinomialLogisticClassifier
    >>> clf = MultinomialLogisticClassifier(cv=3).fit(*load_iris(return_X_y=True))
    >>> bool(clf.alpha_ == clf.tuning_["alpha"][0])
    True
    """
    tuning = Tuning(Candidate(FALLBACK_ALPHA if alpha is None else alpha, math.inf) if logistic else links[0])
    if not problem.folds:
        return tuning
    base: PathPoint | None = None
    chosen_row: dict[str, Any] | None = None
    doubt, rate = problem.doubt, 0.0
    if logistic or problem.find_noise != "never":
        fixed = alpha if logistic else None
        path = LogisticPath(problem)
        plain = path.search() if fixed is None else path.doubt_as_at(path.fit(fixed))
        doubt, noisy, believed, find = path.doubt, list[PathPoint](), False, problem.find_noise
        if find != "never":
            noisy, believed = path.search_noise(plain, always=find != "if it helps", fixed=fixed is not None)
            if find == "matrix" or (find == "if it helps" and has_pattern(path, plain, symmetric=believed)):
                with_matrix = _tune_with_matrix(path, plain, noisy, links, logistic=logistic, alpha=alpha)
                if with_matrix is not None:
                    return with_matrix
            noise = noisy[0].noise
            # a link of two classes is a function of one score, with floors of its own: it cannot tell noise from them
            asked = believed or (problem.n_classes > 2 and is_possible(noise, problem))
            rate = noise.rate if asked else 0.0
            tuning.noise = FoundNoise.of(noise, noisy[0].rate) if believed else FoundNoise.none(noise)
    if logistic:
        base = noisy[0] if believed else plain
        points = [*path.points.values()] if alpha is None else [plain]
        points += noisy if believed else []
        tuning.chosen = Candidate(base.alpha, math.inf)
        for point in points:
            row = _add_row(tuning, problem, Candidate(point.alpha, math.inf), point, base)
            chosen_row = row if point is base else chosen_row
        if links and problem.known_noise is None and problem.fixed_link is None:
            test = tuning.link_test = path.test_links(base)
            # of two classes, a link is a function of one score, which held-out rows can test
            gain = Difference(test.gain, test.gain_error)
            if problem.n_classes == 2 and not (test.is_rejected and may_gain(gain, path.loss(base))):
                links = []
    known = None if base is None else base.losses
    for assumed in (rate, 0.0):  # a link whose noise is not believed after all is searched again, without
        best: LinkScore | None = None
        for score in search_links(problem, links, known, doubt, assumed) if links else ():
            row = _add_row(tuning, problem, score.candidate, score, base, score.steps)
            best = score if score.final else None
        if best is None or best.estimate is None or is_believable(best.estimate, problem):
            break
    if best is not None:
        away = None if base is None else problem.held_out.difference(best.losses, base.losses)
        if away is None or away.mean < -_MUST_GAIN * away.error:
            tuning.chosen, tuning.start, chosen_row = best.candidate, best.models[0], row
            tuning.held_out = predict_held_out(problem, best)
            if best.estimate is not None:
                tuning.noise = FoundNoise.of(best.estimate, best.rate)
            elif tuning.noise is not None and rate > 0.0:  # what logistic regression took for noise, the link explains
                tuning.noise = tuning.noise._replace(training=0.0, temperature=1.0, doubt=0.0, rate=0.0, low=0.0)
    if base is not None and tuning.chosen.is_logistic:
        if alpha is None and path.n_folds < len(problem.folds) and base.estimate is None:
            base, *others = path.with_all_folds(base)
            tuning.chosen = Candidate(base.alpha, math.inf)
            chosen_row = _add_row(tuning, problem, tuning.chosen, base, base)
            for point in others:
                _add_row(tuning, problem, Candidate(point.alpha, math.inf), point, base)
        tuning.logistic = base.fitted
        tuning.held_out = path.predict_held_out(base.fitted)
    if chosen_row is not None:
        chosen_row["chosen"] = True
    return tuning


def _tune_with_matrix(
    path: LogisticPath,
    plain: PathPoint,
    noisy: list[PathPoint],
    links: list[Candidate],
    *,
    logistic: bool,
    alpha: float | None,
) -> Tuning | None:
    """Estimate a transition matrix, then choose strengths as if it were known; None if it does not help."""
    fixed = logistic and alpha is not None
    if noisy[0].rate == 0.0:  # symmetric noise was not believed, and not tried
        noisy, _ = path.search_noise(plain, always=True, fixed=fixed)
    matrix, noise, helps = find_matrix(path, plain, noisy[0], fixed=fixed)
    if not helps and path.problem.find_noise != "matrix":
        return None
    known = replace(path.problem, known_noise=TransitionNoise(matrix), find_noise="never")
    tuning = tune(known, links, logistic=logistic, alpha=alpha)
    tuning.noise, tuning.noise_matrix = noise, matrix.cpu().numpy()
    return tuning


def _add_row(
    tuning: Tuning,
    problem: TuningProblem,
    candidate: Candidate,
    tried: PathPoint | LinkScore,
    base: PathPoint | None,
    steps: int | None = None,
) -> dict[str, Any]:
    """Write a candidate into the table, with the share of wrong labels that it assumes."""
    held_out, noise = problem.held_out, tried.estimate
    mean, away = held_out.mean(tried.losses), Difference(math.nan, math.nan)
    if base is not None:
        away = held_out.difference(tried.losses, base.losses)
    plain = "logistic regression" if problem.fixed_link is None else "fixed link"
    row = {
        "model": plain if candidate.is_logistic else "learned link",
        "alpha": candidate.alpha,
        "link_alpha": candidate.link_alpha,
        "label_noise": problem.known_share if noise is None else wrong_share(noise.rate, problem.n_classes),
        "steps": steps,
        "held_out_rows": held_out.first_rows(len(tried.losses)).n_rows,
        "log_loss": mean.mean,
        "standard_error": mean.error,
        "difference": away.mean,
        "difference_error": away.error,
        "chosen": False,
    }
    tuning.rows.append(row)
    return row
