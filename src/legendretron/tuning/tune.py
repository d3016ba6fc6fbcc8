"""One choice by held-out log-loss of the labels as they are recorded: of a link, of a noise floor, and of their penalties.

Candidates, the simplest first: softmax, which is logistic regression; softmax with a floor; with a transition matrix, where
there are rows enough; learned links, with a floor if one was chosen. A later one is chosen if it beats the best one before
by more than the standard error of the difference, paired by row. Whoever says that labels are wrong leaves out those
without noise.

Three questions are asked of logistic regression first, since a search takes time: whether a floor, a matrix or a link
could lower its loss by a share that matters.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from legendretron.links import TransitionNoise
from legendretron.links.noise_models import share_of_wrong_labels, wrong_share
from legendretron.tuning.link_search import LinkScore, measure_noise, predict_held_out, search_links
from legendretron.tuning.logistic_path import LogisticPath, PathPoint
from legendretron.tuning.noise import FoundNoise, RateEstimate
from legendretron.tuning.noise_matrix import find_matrix, is_worth_a_search
from legendretron.tuning.problem import Candidate, TuningProblem
from legendretron.tuning.scores import LEAST_GAIN, Difference
from legendretron.tuning.table import Tuning

#: Standard errors by which a candidate must beat a simpler one on held-out rows.
_MUST_GAIN = 1.0
#: Penalty of logistic regression if no row can be held out.
FALLBACK_ALPHA = 0.01


def is_better(away: Difference, n_fitted: int = 0, n_rows: int = 1) -> bool:
    """Whether a loss is lower than that of a simpler model, by their difference.

    A loss of ``n_rows`` held-out rows to which numbers were fitted is too low, by one over the rows for each number: half of
    that on these rows, and half on others (Akaike's criterion).
    """
    return away.mean + n_fitted / n_rows < -_MUST_GAIN * away.error


def is_worth_a_floor(estimate: RateEstimate, loss: float) -> bool:
    """Whether predictions of a model without a floor suggest that one would lower its loss by a share that matters."""
    return estimate.gain + estimate.gain_error > LEAST_GAIN * loss


def tune(problem: TuningProblem, links: list[Candidate], *, logistic: bool, alpha: float | None = None) -> Tuning:
    """Choose as described above.

    ``links`` are penalties to try with a learned link, and ``logistic`` says whether logistic regression is a candidate, too;
    one of them is needed. ``alpha`` is the penalty of logistic regression, if it is given.
    """
    tuning = Tuning(Candidate(FALLBACK_ALPHA if alpha is None else alpha, math.inf) if logistic else links[0])
    if not problem.folds:
        return tuning
    kind, n_classes, recorded = problem.find_noise, problem.n_classes, problem.find_noise == "auto"
    base: PathPoint | None = None
    chosen: PathPoint | LinkScore | None = None
    tried: list[PathPoint | LinkScore] = []
    doubt = problem.doubt
    rates: tuple[float, ...] = (0.0,)
    if logistic or kind is not None:
        path = LogisticPath(problem, alpha if logistic else None)
        base = plain = path.search()
        doubt, floors = path.doubt, list[PathPoint]()
        if kind is not None:
            asked = path.estimate(plain)
            if not recorded or is_worth_a_floor(asked.noise, path.loss(plain)):
                floors = path.search_floors(plain)
            n_rows = path.held_out.n_rows
            if floors and (
                not recorded or is_better(path.held_out.difference(floors[0].losses, plain.losses), 2, n_rows)
            ):
                base = floors[0]
            if kind == "class-conditional" or (recorded and is_worth_a_search(path, plain)):
                found, best = find_matrix(path, plain, floors or path.search_floors(plain))
                away = path.held_out.difference(best.losses, base.losses)
                if not recorded or is_better(away, n_classes * (n_classes - 1), n_rows):
                    assert found.matrix is not None
                    known = replace(problem, known_noise=TransitionNoise(found.matrix), find_noise=None)
                    tuning = tune(known, links, logistic=logistic, alpha=alpha)
                    tuning.noise = found if tuning.chosen.is_logistic else _with_floor(found, problem.doubt)
                    return tuning
            if base is plain:
                tuning.noise = FoundNoise.measured(asked.noise, n_classes, recorded=recorded)
            else:
                tuning.noise = FoundNoise.of_rates(base.noise, n_classes, base.rate, recorded=recorded)
            if base is not plain:
                # a link that fits better has less noise, and too much of it leads training astray
                rate = min(base.noise.training, base.noise.held_out)
                rates = (0.5 * rate, rate) if rate > 0.0 else rates
        chosen, tried = base, [*(path.points.values() or [plain]), *floors]
        if not logistic:
            chosen = base = None
            tried = []
    if base is not None and links and problem.known_noise is None and problem.fixed_link is None:
        test = tuning.link_test = path.test_links(base)
        # of two classes, a link is a function of one score, which held-out rows can test
        gains = test.is_rejected and test.gain + test.gain_error > LEAST_GAIN * path.loss(base)
        links = links if gains or n_classes > 2 else []
    best_link: LinkScore | None = None
    for best_link in search_links(problem, links, None if base is None else base.losses, doubt, rates) if links else ():
        tried.append(best_link)
    wins = best_link is not None and best_link.final
    if best_link is not None and wins and base is not None:
        wins = is_better(problem.held_out.difference(best_link.losses, base.losses))
    if best_link is not None and wins:
        chosen, tuning.start = best_link, best_link.models[0]
        tuning.held_out = predict_held_out(problem, best_link)
        if tuning.noise is not None:
            if best_link.estimate is not None:
                found = FoundNoise.of_rates(best_link.estimate, n_classes, best_link.rate, recorded=recorded)
            else:
                found = FoundNoise.measured(measure_noise(problem, best_link), n_classes, recorded=recorded)
            tuning.noise = _with_floor(found, problem.doubt)  # a link may be overconfident of outliers
    if base is not None and chosen is base:
        if alpha is None and path.n_folds < len(problem.folds) and base.estimate is None:
            chosen = base = (whole := path.with_all_folds(base))[0]
            tried += whole
        tuning.logistic, tuning.held_out = base.fitted, path.predict_held_out(base.fitted)
    tuning.rows = [{**_describe(problem, one, base), "chosen": one is chosen} for one in tried]
    tuning.chosen = next(Candidate(row["alpha"], row["link_alpha"]) for row in tuning.rows if row["chosen"])
    return tuning


def _with_floor(noise: FoundNoise, least: float) -> FoundNoise:
    return replace(noise, floor=max(noise.floor, least))


def _describe(problem: TuningProblem, tried: PathPoint | LinkScore, base: PathPoint | None) -> dict[str, Any]:
    """What the table says of a candidate, with the share of wrong labels that it assumes."""
    held_out, known, none = problem.held_out, problem.known_noise, Difference(math.nan, math.nan)
    mean, away = held_out.mean(tried.losses), none if base is None else held_out.difference(tried.losses, base.losses)
    strengths = tried.candidate if isinstance(tried, LinkScore) else Candidate(tried.alpha, math.inf)
    plain = "logistic regression" if problem.fixed_link is None else "fixed link"
    wrong = 0.0 if tried.estimate is None else wrong_share(tried.estimate.rate, problem.n_classes)
    if known is not None:
        counts = np.bincount(problem.labels.cpu().numpy(), minlength=problem.n_classes)
        wrong = share_of_wrong_labels(known.matrix().detach().cpu().numpy(), counts / counts.sum())
    return {
        "model": plain if strengths.is_logistic else "learned link",
        **strengths._asdict(),
        "label_noise": wrong,
        "steps": tried.steps if isinstance(tried, LinkScore) else None,
        "held_out_rows": held_out.first_rows(len(tried.losses)).n_rows,
        "log_loss": mean.mean,
        "standard_error": mean.error,
        "difference": away.mean,
        "difference_error": away.error,
    }
