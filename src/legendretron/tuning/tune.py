"""The choice between logistic regression and learned links, and of their strengths."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from legendretron.links import TransitionNoise
from legendretron.links.noise_models import count_wrong_labels, wrong_share
from legendretron.tuning.link_search import LinkScore, predict_held_out, search_links
from legendretron.tuning.logistic_path import LogisticPath, PathPoint
from legendretron.tuning.noise_matrix import find_matrix
from legendretron.tuning.problem import Candidate, TuningProblem
from legendretron.tuning.scores import LEAST_GAIN, Difference
from legendretron.tuning.table import Tuning
from legendretron.tuning.wrong_labels import FoundNoise, is_believable, is_possible

#: Standard errors by which a learned link must beat logistic regression on held-out rows.
_MUST_GAIN = 1.0
#: Penalty of logistic regression if no row can be held out.
FALLBACK_ALPHA = 0.01


def tune(problem: TuningProblem, links: list[Candidate], *, logistic: bool, alpha: float | None = None) -> Tuning:
    """Choose penalties, and whether to assume label noise, by cross-validated log-loss of the observed labels.

    A learned link is chosen only if it beats logistic regression by more than the standard error of the difference, paired by
    row: of two equally good models, the simpler one. :mod:`~legendretron.tuning.wrong_labels` decides about noise.

    ``links`` are penalties to try with a learned link, and ``logistic`` says whether logistic regression is a candidate, too;
    one of them is needed. ``alpha`` is the penalty of logistic regression, if it is given.
    """
    tuning = Tuning(Candidate(FALLBACK_ALPHA if alpha is None else alpha, math.inf) if logistic else links[0])
    if not problem.folds:
        return tuning
    base: PathPoint | None = None
    chosen: PathPoint | LinkScore | None = None
    tried: list[PathPoint | LinkScore] = []
    doubt, rate, find = problem.doubt, 0.0, problem.find_noise
    if logistic or find != "never":
        path = LogisticPath(problem, alpha if logistic else None)
        plain = path.search()
        doubt, noisy, believed = path.doubt, list[PathPoint](), False
        if find != "never":
            noisy, believed = path.search_noise(plain, always=find != "if it helps")
            found = find_matrix(path, plain, noisy, symmetric=believed)
            if found is not None:
                matrix, noise = found
                known = replace(problem, known_noise=TransitionNoise(matrix), find_noise="never")
                tuning = tune(known, links, logistic=logistic, alpha=alpha)
                tuning.noise = noise if tuning.chosen.is_logistic else noise.with_doubt(problem.doubt)
                tuning.noise_matrix = matrix.cpu().numpy()
                return tuning
            estimate = noisy[0].noise
            # a link of two classes is a function of one score, with floors of its own: it cannot tell noise from them
            asked = believed or (problem.n_classes > 2 and is_possible(estimate, problem))
            rate = estimate.rate if asked else 0.0
            tuning.noise = FoundNoise.of(estimate, noisy[0].rate) if believed else FoundNoise.none(estimate)
    if logistic:
        chosen = base = noisy[0] if believed else plain
        tried = [*(path.points.values() or [plain]), *(noisy if believed else [])]
        if links and problem.known_noise is None and problem.fixed_link is None:
            test = tuning.link_test = path.test_links(base)
            # of two classes, a link is a function of one score, which held-out rows can test
            gains = test.is_rejected and test.gain + test.gain_error > LEAST_GAIN * path.loss(base)
            links = links if gains or problem.n_classes > 2 else []
    best: LinkScore | None = None
    for assumed in (rate, 0.0) if links else ():  # if a link's noise is not believed, links are searched again, without
        for best in search_links(problem, links, None if base is None else base.losses, doubt, assumed):
            tried.append(best)
        if best is None or best.estimate is None or is_believable(best.estimate, problem):
            break
    if best is not None and best.final:
        away = None if base is None else problem.held_out.difference(best.losses, base.losses)
        if away is None or away.mean < -_MUST_GAIN * away.error:
            chosen, tuning.start, tuning.held_out = best, best.models[0], predict_held_out(problem, best)
            if best.estimate is not None:
                tuning.noise = FoundNoise.of(best.estimate, best.rate)
            elif tuning.noise is not None and rate > 0.0:  # what logistic regression took for noise, the link explains
                tuning.noise = tuning.noise._replace(training=0.0, temperature=1.0, doubt=0.0, rate=0.0, low=0.0)
            if tuning.noise is not None:  # a link may be far too sure of a row unlike all others
                tuning.noise = tuning.noise.with_doubt(problem.doubt)
    if base is not None and chosen is base:
        if alpha is None and path.n_folds < len(problem.folds) and base.estimate is None:
            chosen = base = (whole := path.with_all_folds(base))[0]
            tried += whole
        tuning.logistic, tuning.held_out = base.fitted, path.predict_held_out(base.fitted)
    wrong = 0.0 if problem.known_noise is None else count_wrong_labels(problem.known_noise.matrix(), problem.labels)
    tuning.rows = [{**_describe(problem, one, base, wrong), "chosen": one is chosen} for one in tried]
    tuning.chosen = next(Candidate(row["alpha"], row["link_alpha"]) for row in tuning.rows if row["chosen"])
    return tuning


def _describe(
    problem: TuningProblem, tried: PathPoint | LinkScore, base: PathPoint | None, wrong: float
) -> dict[str, Any]:
    """What the table says of a candidate, with the share of wrong labels that it assumes; ``wrong`` if that is known."""
    held_out, noise, none = problem.held_out, tried.estimate, Difference(math.nan, math.nan)
    mean, away = held_out.mean(tried.losses), none if base is None else held_out.difference(tried.losses, base.losses)
    strengths = tried.candidate if isinstance(tried, LinkScore) else Candidate(tried.alpha, math.inf)
    plain = "logistic regression" if problem.fixed_link is None else "fixed link"
    return {
        "model": plain if strengths.is_logistic else "learned link",
        **strengths._asdict(),
        "label_noise": wrong if noise is None else wrong_share(noise.rate, problem.n_classes),
        "steps": tried.steps if isinstance(tried, LinkScore) else None,
        "held_out_rows": held_out.first_rows(len(tried.losses)).n_rows,
        "log_loss": mean.mean,
        "standard_error": mean.error,
        "difference": away.mean,
        "difference_error": away.error,
    }
