"""Candidates with a learned link, trained side by side; the search ends as soon as none can win."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from legendretron.calibration.prediction_sets import some_rows
from legendretron.links import Link, clean_link, with_noise
from legendretron.links.noise_models import mix_with_uniform
from legendretron.training import LinearModel, Sample, TrainingSettings, train
from legendretron.tuning.noise import RateEstimate, estimate_rates
from legendretron.tuning.problem import Candidate, LabeledRows, TuningProblem, average_repeats
from legendretron.tuning.rules import ENOUGH, steps_for
from legendretron.tuning.scores import LEAST_GAIN, SURE_ERRORS, Difference

#: Folds of the first comparison, and candidates that continue: with one of either, the choice would be left to chance.
_PAIR = 2
#: The first stage has this fraction of the steps, one in four: enough to compare penalties.
_SHORT = 4


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


def search_links(
    problem: TuningProblem,
    candidates: list[Candidate],
    base: np.ndarray | None,
    doubt: float = 0.0,
    rates: tuple[float, ...] = (0.0,),
) -> Iterator[LinkScore]:
    """Yield the scores of each stage, the best last; if a candidate is left at the end, it is final.

    All candidates, each with all rates of noise that may be assumed in training, are trained for a few steps on two folds.
    The best two continue for half of all steps. The better one is trained on the other folds too, if it is ahead of
    ``base``, the losses of the best model without a link on all held-out rows, but not clearly. A link estimates its rate
    anew after the first stage, since a model that fits better takes fewer labels for noise.
    """
    n_first, held_out = min(_PAIR, problem.n_link_folds), problem.held_out

    def gain(score: LinkScore) -> Difference:
        assert base is not None
        return held_out.difference(base, score.losses)

    def train_further(scores: list[LinkScore], steps: int) -> list[LinkScore]:
        groups = ([one for one in scores if one.rate == rate] for rate in dict.fromkeys(one.rate for one in scores))
        found = [one for group in groups for one in _train(problem, group, slice(0, n_first), steps, doubt)]
        return sorted(found, key=lambda score: -held_out.mean(score.losses).mean)

    d, k = problem.features.n_features, problem.n_classes - 1
    zeros = torch.zeros(d + 1, k, dtype=torch.float32, device=problem.device)
    new = FittedLink(zeros[:d], zeros[d], problem.make_link(torch.Generator().manual_seed(problem.seed), torch.float32))
    ranked = [LinkScore(one, 0, np.empty(0), (new,) * n_first, rate=rate) for rate in rates for one in candidates]
    short = min(problem.steps, steps_for(ENOUGH, n_classes=3)) // _SHORT  # no more for larger data
    started = short > 0 and len(ranked) > _PAIR
    if started:
        ranked = train_further(ranked, short)
        yield from ranked
        if base is not None:
            best, known = ranked[-1], held_out.mean(base[: len(ranked[-1].losses)]).mean
            if not gain(best).mean + gain(best).error > LEAST_GAIN * known:
                return
        ranked = [one if one.estimate is None else one._replace(rate=one.estimate.rate) for one in ranked]
    # a rate that has changed takes all steps to settle
    *others, best = train_further(
        ranked[-_PAIR:], problem.steps // (2 if started and ranked[-1].estimate is None else 1)
    )
    yield from others
    n_rest = problem.n_link_folds - n_first
    if base is not None and n_rest > 0 and 0.0 < gain(best).mean <= SURE_ERRORS * gain(best).error:
        rest, steps = slice(n_first, problem.n_link_folds), best.steps + short * started
        (score,) = _train(problem, [best._replace(models=(new,) * n_rest)], rest, steps, doubt)
        best = best._replace(losses=np.concatenate([best.losses, score.losses]), models=best.models + score.models)
    yield best._replace(final=True)


def predict_held_out(problem: TuningProblem, score: LinkScore) -> LabeledRows:
    """Predictions of true classes for rows by models that have not seen them, each row once."""
    held = problem.held_out.first(len(score.models))
    first = np.zeros(len(held.row), dtype=bool)
    first[np.unique(held.row, return_index=True)[1]] = True
    some = some_rows(int(first.sum()), problem.n_classes)
    parts = [held.row[first & (held.fold == number)][some] for number in range(len(score.models))]
    models = [model for model, part in zip(score.models, parts, strict=True) if len(part)]
    return _predict_all(problem, models, [part for part in parts if len(part)])


def measure_noise(problem: TuningProblem, score: LinkScore) -> RateEstimate:
    """The noise that predictions of a link without a floor speak for."""
    seen = _predict_all(problem, score.models, problem.seen_rows(slice(len(score.models))))
    return estimate_rates(predict_held_out(problem, score), seen)[0]


def _train(problem: TuningProblem, scores: list[LinkScore], which: slice, steps: int, doubt: float) -> list[LinkScore]:
    """Train from the models of scores with one rate of noise, on some of the folds; runs by candidate, then by fold."""
    rate = scores[0].rate
    candidates, starts = [score.candidate for score in scores], [model for score in scores for model in score.models]
    parts = [train for train, _ in problem.folds[which]]
    lengths = [len(part) for part in parts]
    # shorter folds are filled up with rows of weight zero
    rows = np.stack([np.pad(part, (0, max(lengths) - len(part)), mode="edge") for part in parts])
    weights = problem.weight[rows] * (np.arange(max(lengths)) < np.array(lengths)[:, None])
    index = torch.as_tensor(rows, device=problem.device).repeat(len(candidates), 1)
    shares = torch.as_tensor(weights, dtype=torch.float32, device=problem.device).repeat(len(candidates), 1)
    strengths = torch.tensor(candidates, dtype=torch.float64).repeat_interleave(len(parts), dim=0)
    noisy = [with_noise(clean_link(start.link), problem.known_noise, rate) for start in starts]
    model = _stack([start._replace(link=link) for start, link in zip(starts, noisy, strict=True)])
    sample = Sample(problem.single_precision, index, problem.labels[index], shares, lengths=lengths * len(candidates))
    settings = TrainingSettings(
        alpha=strengths[:, 0],
        link_alpha=strengths[:, 1],
        learning_rate=torch.full((len(starts),), problem.learning_rate, dtype=torch.float64),
        generators=[
            torch.Generator().manual_seed(problem.seed) for _ in starts
        ],  # candidates differ by strengths alone
        max_steps=steps,
        batch_size=problem.batch_size,
        penalize_intercept=problem.penalize_intercept,
        centred=problem.centred,
        verbose=problem.verbose,
        label=f"choosing strengths, {len(candidates)} candidates:",
        may_diverge=True,
    )
    train(model, sample, settings)
    new = _predict(problem, model, [held for _, held in problem.folds[which]] * len(candidates), clean=rate > 0.0)
    seen = _predict(problem, model, problem.seen_rows(which) * len(candidates), clean=True) if rate > 0.0 else new
    trained, numbers = [], np.concatenate([held for _, held in problem.folds[which]])
    for number, candidate in enumerate(candidates):
        runs = slice(number * len(parts), (number + 1) * len(parts))
        losses, estimate = _score(problem, _join(new[runs]), _join(seen[runs]), numbers, doubt, noisy=rate > 0.0)
        models = tuple(FittedLink(*model.take(run)) for run in range(len(starts))[runs])
        trained.append(LinkScore(candidate, steps, losses, models, estimate, rate))
    return trained


def _score(
    problem: TuningProblem, new: LabeledRows, seen: LabeledRows, numbers: np.ndarray, doubt: float, *, noisy: bool
) -> tuple[np.ndarray, RateEstimate | None]:
    """Log-loss of each held-out row; if ``noisy``, with the rate of noise that fits these rows and those seen best.

    ``numbers`` are those of the held-out rows.
    """
    estimate = None
    if noisy:
        if not bool(torch.isfinite(new.log_p).all() & torch.isfinite(seen.log_p).all()):
            return np.full(len(new.labels), np.inf), RateEstimate(1.0, 0.0, 0.0, math.inf)
        estimate, _ = estimate_rates(average_repeats(new, numbers), seen, temperatures=(1.0,))
        new = estimate.observe(new)
    floored = mix_with_uniform(new.log_p, new.log_p.new_tensor(problem.doubt))  # as the chosen link will predict
    losses = new._replace(log_p=floored).losses(doubt).cpu().numpy()
    return np.where(np.isfinite(losses), losses, np.inf), estimate


def _stack(models: Sequence[FittedLink]) -> LinearModel:
    weights, biases, links = zip(*models, strict=True)
    return LinearModel(torch.stack(weights), torch.stack(biases), links)


def _join(parts: list[LabeledRows]) -> LabeledRows:
    return LabeledRows(*map(torch.cat, zip(*parts, strict=True)))


def _predict_all(problem: TuningProblem, models: Sequence[FittedLink], parts: list[np.ndarray]) -> LabeledRows:
    """Predictions of true classes for rows, a part for each model."""
    return _join(_predict(problem, _stack(models), parts, clean=True))


def _predict(problem: TuningProblem, model: LinearModel, parts: list[np.ndarray], *, clean: bool) -> list[LabeledRows]:
    """Predictions for rows, a part for each run of a model; of true labels if ``clean``."""
    longest = max(map(len, parts))
    rows = torch.as_tensor(np.stack([np.pad(part, (0, longest - len(part)), mode="edge") for part in parts]))
    rows, link = rows.to(problem.device), clean_link(model.link) if clean else model.link
    log_p = torch.cat(
        [model.log_proba(problem.single_precision, rows[:, some], link) for some in model.row_chunks(longest)], dim=1
    )
    return [problem.label(own[: len(part)].double(), part) for own, part in zip(log_p, parts, strict=True)]
