"""Candidates with a learned link, trained side by side; the search ends as soon as none can win."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from legendretron.calibration.prediction_sets import some_rows
from legendretron.links import Link, clean_link, with_noise
from legendretron.training import LinearModel, Sample, TrainingSettings, train
from legendretron.tuning.problem import Candidate, LabeledRows, TuningProblem
from legendretron.tuning.rules import LARGE, steps_for
from legendretron.tuning.scores import SURE_ERRORS, Difference, held_out_loss
from legendretron.tuning.wrong_labels import RateEstimate, check_estimate, estimate_rates, is_believable, seen_rows

#: Folds on which candidates are compared: the loss of one is too noisy on small data.
_FIRST_FOLDS = 2
#: Candidates that are trained further: two, as the order after few steps is not the final one.
_FINALISTS = 2
#: Part of all steps that the first stage has: enough to tell strengths apart.
_SHORT = 4
#: Share of the loss of logistic regression that a link must be able to gain: less is not worth a search.
_LEAST_GAIN = 0.01


class FittedLink(NamedTuple):
    """A trained model: weight ``(d, K)``, bias ``(K,)`` and the link."""

    weight: Tensor
    bias: Tensor
    link: Link


class LinkScore(NamedTuple):
    """A candidate after some steps."""

    candidate: Candidate
    steps: int
    losses: np.ndarray  #: log-loss of held-out rows, of the first folds or of all; infinite if training has diverged
    models: tuple[FittedLink, ...]  #: one for each fold
    estimate: RateEstimate | None = None  #: of noise in the labels, if it was trained with some
    rate: float = 0.0  #: of noise that was assumed in training
    final: bool = False  #: whether it is the one that is left


def may_gain(gain: Difference, base: float) -> bool:
    """Whether a gain, within a standard error, may be a share of the loss that is worth a search."""
    return gain.mean + gain.error > _LEAST_GAIN * base


def search_links(
    problem: TuningProblem, candidates: list[Candidate], base: np.ndarray | None, doubt: float = 0.0, rate: float = 0.0
) -> Iterator[LinkScore]:
    """Yield the scores of each stage, the best first; if a candidate is left at the end, it is the last, and final.

    All candidates are trained for a few steps on two folds; the best two of them go on from there for half of all steps; the
    better one is tried on the other folds too, if it is ahead of logistic regression but not clearly so.

    ``base`` are the losses of logistic regression on all held-out rows, ``doubt`` the share of their labels that is doubted,
    and ``rate`` that of the symmetric noise that logistic regression has found. After the first stage, links have their own:
    a model that fits better takes fewer labels for noise.
    """
    n_first, held_out = min(_FIRST_FOLDS, problem.n_link_folds), problem.held_out

    def gain(score: LinkScore) -> Difference:
        assert base is not None
        return held_out.difference(base, score.losses)

    def train_further(scores: list[LinkScore], steps: int) -> list[LinkScore]:
        starts = [model for score in scores for model in score.models]
        found = _train(problem, [score.candidate for score in scores], slice(0, n_first), steps, doubt, rate, starts)
        return sorted(found, key=lambda score: held_out.mean(score.losses).mean)

    d, k = problem.features.n_features, problem.n_classes - 1
    zeros = torch.zeros(d + 1, k, dtype=torch.float32, device=problem.device)
    new = FittedLink(zeros[:d], zeros[d], problem.make_link(_generator(problem), torch.float32))
    ranked = [LinkScore(candidate, 0, np.empty(0), (new,) * n_first) for candidate in candidates]
    short = min(problem.steps, steps_for(LARGE, n_classes=3)) // _SHORT  # no more for larger data
    started = short > 0 and (len(ranked) > _FINALISTS or rate > 0.0)  # with noise, this stage estimates the link's rate
    if started:
        ranked = train_further(ranked, short)
        yield from ranked
        if rate > 0.0:
            noise = ranked[0].estimate
            rate = noise.rate if noise is not None and is_believable(noise, problem) else 0.0
            if rate == 0.0:  # the link explains what looked like noise
                yield from search_links(problem, candidates, base, doubt)
                return
        if base is not None:
            # with noise, all steps are still to come: a link that is not behind may yet gain
            known = 0.0 if rate > 0.0 else held_out.mean(base[: len(ranked[0].losses)]).mean
            if not may_gain(gain(ranked[0]), known):
                return
    # a rate that has changed takes all steps to settle
    best, *others = train_further(ranked[:_FINALISTS], problem.steps // (2 if started and rate == 0.0 else 1))
    yield from others
    n_rest = problem.n_link_folds - n_first
    if base is not None and n_rest > 0:
        if not gain(best).mean > 0.0:
            yield best
            return
        if gain(best).mean <= SURE_ERRORS * gain(best).error:
            rest = slice(n_first, problem.n_link_folds)
            (score,) = _train(
                problem, [best.candidate], rest, best.steps + short * started, doubt, rate, [new] * n_rest
            )
            losses = np.concatenate([best.losses, score.losses])
            best = best._replace(losses=losses, models=best.models + score.models)
    yield best._replace(final=True)


def predict_held_out(problem: TuningProblem, score: LinkScore) -> LabeledRows:
    """Predictions of true classes for rows by models that have not seen them."""
    held = [held for _, held in problem.folds[: len(score.models)]]
    some = some_rows(sum(map(len, held)), problem.n_classes)
    return _predict(problem, score.models, [part[some] for part in held], clean=True)


def _generator(problem: TuningProblem) -> torch.Generator:
    """The same for all candidates, so that they differ by their strengths alone."""
    return torch.Generator().manual_seed(problem.seed)


def _train(
    problem: TuningProblem,
    candidates: list[Candidate],
    which: slice,
    steps: int,
    doubt: float,
    rate: float,
    starts: list[FittedLink],
) -> list[LinkScore]:
    """Scores on some of the folds, trained with a rate of noise; runs are ordered by candidate, then by fold."""
    parts = [train for train, _ in problem.folds[which]]
    lengths = [len(part) for part in parts]
    # shorter folds are filled up with rows of weight zero
    rows = np.stack([np.pad(part, (0, max(lengths) - len(part)), mode="edge") for part in parts])
    weights = problem.weight[rows] * (np.arange(max(lengths)) < np.array(lengths)[:, None])
    index = torch.as_tensor(rows, device=problem.device).repeat(len(candidates), 1)
    shares = torch.as_tensor(weights, dtype=torch.float32, device=problem.device).repeat(len(candidates), 1)
    strengths = torch.tensor(candidates, dtype=torch.float64).repeat_interleave(len(parts), dim=0)
    model = LinearModel(
        torch.stack([start.weight for start in starts]),
        torch.stack([start.bias for start in starts]),
        [with_noise(clean_link(start.link), problem.known_noise, rate) for start in starts],
    )
    sample = Sample(problem.single_precision, index, problem.labels[index], shares, lengths=lengths * len(candidates))
    settings = TrainingSettings(
        alpha=strengths[:, 0],
        link_alpha=strengths[:, 1],
        learning_rate=torch.full((len(starts),), problem.learning_rate, dtype=torch.float64),
        generators=[_generator(problem) for _ in starts],
        max_steps=steps,
        batch_size=problem.batch_size,
        penalize_intercept=problem.penalize_intercept,
        centred=problem.centred,
        verbose=problem.verbose,
        label=f"choosing strengths, {len(candidates)} candidates:",
        may_diverge=True,
    )
    train(model, sample, settings)
    scores = []
    for number, candidate in enumerate(candidates):
        runs = range(number * len(parts), (number + 1) * len(parts))
        models = tuple(FittedLink(*model.take(run)) for run in runs)
        losses, estimate = _score(problem, which, models, doubt, noisy=rate > 0.0)
        losses = np.where(np.isfinite(losses), losses, np.inf)
        scores.append(LinkScore(candidate, steps, losses, models, estimate, rate))
    if rate > 0.0:  # checks take long: only of the best one
        best = int(np.argmin([score.losses.mean() for score in scores]))
        _, estimate = _score(problem, which, scores[best].models, doubt, noisy=True, check=True)
        scores[best] = scores[best]._replace(estimate=estimate)
    return scores


def _score(
    problem: TuningProblem,
    which: slice,
    models: tuple[FittedLink, ...],
    doubt: float,
    *,
    noisy: bool,
    check: bool = False,
) -> tuple[np.ndarray, RateEstimate | None]:
    """Log-loss of each held-out row under the model of its fold.

    If ``noisy``, losses are of observed labels with the rate of noise that fits them best, which is checked by other rows.
    """
    held = [held for _, held in problem.folds[which]]
    new, estimate = _predict(problem, models, held, clean=noisy), None
    if noisy:
        seen = _predict(problem, models, seen_rows(problem.folds[which]), clean=True)
        if not bool(torch.isfinite(new.log_p).all() & torch.isfinite(seen.log_p).all()):
            return np.full(len(new.labels), np.inf), RateEstimate(1.0, 0.0, 0.0, math.inf)
        estimate, new = estimate_rates(new, seen, temperatures=(1.0,))
        if check:
            estimate = check_estimate(estimate, problem, np.concatenate(held), new)
    return held_out_loss(new.log_p, new.labels, doubt).cpu().numpy(), estimate


def _predict(
    problem: TuningProblem, models: tuple[FittedLink, ...], parts: list[np.ndarray], *, clean: bool
) -> LabeledRows:
    """Log-probabilities of rows under one model for each part; of true labels if ``clean``."""
    log_p = []
    for (weight, bias, link), rows in zip(models, parts, strict=True):
        single = LinearModel(weight.unsqueeze(0), bias.unsqueeze(0), [clean_link(link) if clean else link])
        index = torch.as_tensor(rows, device=problem.device)
        chunks = single.row_chunks(len(rows))
        log_p += [single.log_proba(problem.single_precision, index[None, part])[0].double() for part in chunks]
    return problem.label(torch.cat(log_p), np.concatenate(parts))
