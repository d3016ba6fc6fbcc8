"""Candidates with a learned link, trained side by side on all folds; those that cannot win are dropped early."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from legendretron.links import Link, NoisyLink, with_noise
from legendretron.training import History, LinearModel, Sample, TrainingSettings, train
from legendretron.tuning.candidates import Candidate
from legendretron.tuning.folds import Fold
from legendretron.tuning.independence import check_with_other_rows, is_believable
from legendretron.tuning.noise_rates import LabelledRows, RateEstimate, estimate_rates
from legendretron.tuning.noise_search import is_noise
from legendretron.tuning.problem import TuningProblem
from legendretron.tuning.scores import HeldOut, held_out_loss

__all__ = ["FittedLink", "LinkScore", "search_links"]

#: All candidates are trained on two folds for a quarter of the steps, and 2,000 at most; the best two of them on the same
#: folds for all steps; the better of these on the other folds too, unless it is no better than logistic regression so far.
_SHORT, _MOST_SHORT, _FIRST_FOLDS, _FINALISTS = 4, 2000, 2, 2
#: Share of the loss that a link has to gain to be worth a search; standard errors at which other folds are not asked.
_LEAST_GAIN, _DECIDED = 0.01, 3.0
#: Training rows of all folds together from which the rate of noise is estimated.
_TRAINING_ROWS = 20_000


class FittedLink(NamedTuple):
    """A trained model: weight ``(d, K)``, bias ``(K,)``, the link, and how the training went."""

    weight: Tensor
    bias: Tensor
    link: Link
    history: History


class LinkScore(NamedTuple):
    """A candidate after some steps."""

    candidate: Candidate
    steps: int
    losses: np.ndarray  #: log-loss of held-out rows, of the first folds or of all; infinite if training has diverged
    estimate: RateEstimate | None = None  #: of noise in the labels, if it was trained with some
    rate: float = 0.0  #: of noise that was assumed in training
    final: bool = False  #: whether it is the one that is left, with losses on all folds
    whole: FittedLink | None = None  #: the model trained on all rows, if that was asked for


def search_links(
    problem: TuningProblem,
    candidates: list[Candidate],
    base: np.ndarray | None,
    doubt: float = 0.0,
    rate: float = 0.0,
) -> Iterator[list[LinkScore]]:
    """Yield the scores of each stage; if a candidate is left at the end, it is alone in the last one, and final.

    Parameters
    ----------
    problem : TuningProblem
        Data and model.
    candidates : list of Candidate
        Strengths to try.
    base : ndarray, optional
        Losses of logistic regression on all held-out rows. A candidate that is no better on the first folds is given up.
    doubt : float
        Share of the held-out labels that is doubted, in these losses too.
    rate : float
        Of symmetric noise that logistic regression has found in the labels. After the first stage, links have their own: a
        model that fits better takes fewer labels for noise.
    """
    n_first = min(_FIRST_FOLDS, problem.n_link_folds)
    first, others = slice(0, n_first), slice(n_first, problem.n_link_folds)
    held_out = problem.held_out.first(n_first)
    remaining = candidates
    short = min(problem.steps // _SHORT, _MOST_SHORT)
    for steps, keep in ((short, _FINALISTS), (problem.steps, 1)):
        nothing_to_find = len(remaining) <= keep and rate == 0.0  # with noise, this stage estimates the link's rate
        if steps < problem.steps and (nothing_to_find or steps == 0):
            continue
        whole = problem.fit_whole and steps == problem.steps
        scores = _train(problem, remaining, first, steps, doubt, rate, whole=whole)
        ranked = sorted(scores, key=lambda score: held_out.mean(score.losses).mean)
        remaining = [score.candidate for score in ranked[:keep]]
        best = ranked[0]
        if steps < problem.steps:
            yield scores
            if base is not None and rate == 0.0 and not may_gain(held_out, best.losses, base):
                return
            if rate > 0.0 and (rate := _next_rate(problem, best)) == 0.0:
                # no noise to the link: then it is chosen as if none had been looked for
                yield from search_links(problem, candidates, base, doubt)
                return
        else:
            yield ranked[1:]
    complete = problem.n_link_folds <= n_first
    if not complete and base is not None:
        away = held_out.difference(best.losses, base[: len(best.losses)])
        if not away.mean < 0:
            yield [best]
            return
        complete = away.mean < -_DECIDED * away.error
    if not complete:
        scores = _train(problem, remaining, others, problem.steps, doubt, rate)
        estimate = _mean_estimate(best.estimate, n_first, scores[0].estimate, problem.n_link_folds - n_first)
        best = best._replace(losses=np.concatenate([best.losses, scores[0].losses]), estimate=estimate)
    yield [best._replace(final=True)]


def may_gain(held_out: HeldOut, losses: np.ndarray, base: np.ndarray) -> bool:
    """Whether a link may still gain a share of the loss that matters, within a standard error."""
    away = held_out.difference(losses, base[: len(losses)])
    return away.mean - away.error < -_LEAST_GAIN * held_out.mean(base[: len(losses)]).mean


def _next_rate(problem: TuningProblem, best: LinkScore) -> float:
    """The rate to go on with: that of the best link, or none if so few labels are noise to it that they do not matter."""
    estimate = best.estimate
    if estimate is None:
        return 0.0
    noise = is_noise(estimate, problem) and is_believable(estimate)
    return estimate.rate if noise or problem.find_noise == "always" else 0.0


def _mean_estimate(
    first: RateEstimate | None, n_first: int, others: RateEstimate | None, n_others: int
) -> RateEstimate | None:
    """An estimate of all folds from those of two parts of them."""
    if first is None or others is None:
        return None
    share = n_first / (n_first + n_others)
    held_out, training = (
        share * one + (1.0 - share) * other
        for one, other in ((first.held_out, others.held_out), (first.training, others.training))
    )
    error = 1.0 / math.hypot(1.0 / first.error, 1.0 / others.error)
    return RateEstimate(1.0, held_out, training, error, first.agreement, first.most)


def _train(
    problem: TuningProblem,
    candidates: list[Candidate],
    which: slice,
    steps: int,
    doubt: float,
    rate: float = 0.0,
    *,
    whole: bool = False,
) -> list[LinkScore]:
    """Scores on some of the folds, trained with a rate of noise.

    Runs are ordered by candidate, then by fold; with ``whole``, each candidate has one more, on all rows.
    """
    folds, device, dtype = problem.folds[which], problem.device, torch.float32
    parts = [train for train, _ in folds]
    if whole:
        parts.append(np.flatnonzero(problem.weight > 0))
    runs = len(candidates) * len(parts)

    def generator() -> torch.Generator:
        return torch.Generator().manual_seed(problem.seed)

    # the same start and the same batches for all candidates: they differ by their strengths alone
    link = with_noise(problem.make_link(generator(), dtype), problem.known_noise, rate)
    links = [link] * runs
    k, d = problem.n_classes - 1, problem.features.n_features
    model = LinearModel(
        torch.zeros(runs, d, k, dtype=dtype, device=device), torch.zeros(runs, k, dtype=dtype, device=device), links
    )
    rows, weights = _padded(parts, problem.weight)
    rows, weights = (t.to(device).repeat(len(candidates), 1) for t in (rows, weights))
    lengths = [len(part) for part in parts] * len(candidates)
    sample = Sample(problem.single_precision, rows, problem.labels[rows], weights.to(dtype), lengths=lengths)
    strengths = torch.tensor(candidates, dtype=torch.float64).repeat_interleave(len(parts), dim=0)
    settings = TrainingSettings(
        alpha=strengths[:, 0],
        link_alpha=strengths[:, 1],
        learning_rate=torch.full((runs,), problem.learning_rate, dtype=torch.float64),
        generators=[generator() for _ in range(runs)],
        max_steps=steps,
        batch_size=problem.batch_size,
        penalize_intercept=problem.penalize_intercept,
        centred=problem.centred,
        verbose=problem.verbose,
        label=f"choosing strengths, {len(candidates)} candidates:",
        may_diverge=True,
    )
    result = train(model, sample, settings)
    scores = []
    for number, candidate in enumerate(candidates):
        runs_of = range(number * len(parts), number * len(parts) + len(folds))
        losses, estimate = _held_out_losses(problem, folds, model, runs_of, doubt, estimated=rate > 0.0)
        last = (number + 1) * len(parts) - 1
        fitted = FittedLink(*model.take(last), result.history.select_run(last)) if whole else None
        losses = np.where(np.isfinite(losses), losses, np.inf)
        scores.append(LinkScore(candidate, steps, losses, estimate, rate, whole=fitted))
    if rate > 0.0:  # the estimate of the best one is checked by other rows
        best = int(np.argmin([score.losses.mean() for score in scores]))
        runs_of = range(best * len(parts), best * len(parts) + len(folds))
        _, estimate = _held_out_losses(problem, folds, model, runs_of, doubt, estimated=True, check=True)
        scores[best] = scores[best]._replace(estimate=estimate)
    return scores


def _padded(parts: list[np.ndarray], weight: np.ndarray) -> tuple[Tensor, Tensor]:
    """Rows of all folds as one table, with rows of weight zero where a fold is shorter than another."""
    longest = max(len(part) for part in parts)
    rows = np.stack([np.concatenate([part, np.repeat(part[:1], longest - len(part))]) for part in parts])
    weights = weight[rows]
    for number, part in enumerate(parts):
        weights[number, len(part) :] = 0.0
    return torch.as_tensor(rows), torch.as_tensor(weights)


def _held_out_losses(
    problem: TuningProblem,
    folds: list[Fold],
    model: LinearModel,
    runs: range,
    doubt: float,
    *,
    estimated: bool,
    check: bool = False,
) -> tuple[np.ndarray, RateEstimate | None]:
    """Log-loss of each held-out row under a candidate, whose runs are those of the folds.

    With ``estimated``, losses are of observed labels with the rate of noise that fits them best; with ``check``, the
    estimate says what other rows make of it, too.
    """
    if not estimated:
        parts = [
            held_out_loss(*_log_proba(problem, model, run, held), doubt)
            for run, (_, held) in zip(runs, folds, strict=True)
        ]
        return torch.cat(parts).double().cpu().numpy(), None
    most = max(1, _TRAINING_ROWS // len(folds))
    held_out, training = [], []
    for run, (fitted, held) in zip(runs, folds, strict=True):
        held_out.append((*_log_proba(problem, model, run, held, clean=True), _weight(problem, held)))
        some = fitted[:: -(-len(fitted) // most)]
        training.append((*_log_proba(problem, model, run, some, clean=True), _weight(problem, some)))
    new, seen = (LabelledRows(*(torch.cat(t) for t in zip(*rows, strict=True))) for rows in (held_out, training))
    if not bool(torch.isfinite(new.log_p).all() & torch.isfinite(seen.log_p).all()):
        return np.full(len(new.labels), np.inf), RateEstimate(1.0, 0.0, 0.0, math.inf)
    estimate, log_q = estimate_rates(new, seen, temperatures=(1.0,))
    if check:
        rows = np.concatenate([held for _, held in folds])
        estimate = check_with_other_rows(estimate, problem, rows, log_q, new.labels)
    return held_out_loss(log_q, new.labels, doubt).cpu().numpy(), estimate


def _weight(problem: TuningProblem, rows: np.ndarray) -> Tensor:
    return torch.as_tensor(problem.weight[rows], dtype=torch.float64, device=problem.device)


def _log_proba(
    problem: TuningProblem, model: LinearModel, run: int, rows: np.ndarray, *, clean: bool = False
) -> tuple[Tensor, Tensor]:
    """Log-probabilities (n, C) of rows under one run, in double precision, and their labels; of true labels if ``clean``."""
    weight, bias, link = model.take(run)
    if clean and isinstance(link, NoisyLink):
        link = link.clean
    single = LinearModel(weight.unsqueeze(0), bias.unsqueeze(0), [link])
    index = torch.as_tensor(rows, device=problem.device)
    parts = [
        single.log_proba(problem.single_precision, index[None, part])[0].double()
        for part in single.row_chunks(len(rows))
    ]
    return torch.cat(parts), problem.labels[index]
