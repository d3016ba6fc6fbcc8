"""Candidates with a learned link, trained side by side on all folds; those that cannot win are dropped early."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from legendretron.links import Link
from legendretron.training import History, LinearModel, Sample, TrainingSettings, train
from legendretron.tuning.candidates import Candidate
from legendretron.tuning.folds import Fold
from legendretron.tuning.problem import TuningProblem
from legendretron.tuning.scores import held_out_loss

__all__ = ["FittedLink", "InterruptedSearchError", "LinkScore", "search_links"]

#: All candidates are trained on two folds for a quarter of the steps, and 2,000 at most; the best two of them on the same
#: folds for all steps; the better of these on the other folds too, unless it is no better than logistic regression so far.
_SHORT, _MOST_SHORT, _FIRST_FOLDS, _FINALISTS = 4, 2000, 2, 2


class InterruptedSearchError(Exception):
    """Ctrl-C was pressed, and what has been found until then is to be kept."""


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
    final: bool = False  #: whether it is the one that is left, with losses on all folds
    whole: FittedLink | None = None  #: the model trained on all rows, if that was asked for


def search_links(
    problem: TuningProblem, candidates: list[Candidate], base: np.ndarray | None, doubt: float = 0.0
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
    """
    n_first = min(_FIRST_FOLDS, problem.n_link_folds)
    first, others = slice(0, n_first), slice(n_first, problem.n_link_folds)
    held_out = problem.held_out.first(n_first)
    remaining = candidates
    short = min(problem.steps // _SHORT, _MOST_SHORT)
    for steps, keep in ((short, _FINALISTS), (problem.steps, 1)):
        if steps < problem.steps and (len(remaining) <= keep or steps == 0):
            continue  # nothing to choose between, or by
        scores = _train(problem, remaining, first, steps, doubt, whole=problem.fit_whole and steps == problem.steps)
        if scores is None:
            raise InterruptedSearchError
        ranked = sorted(scores, key=lambda score: held_out.mean(score.losses).mean)
        remaining = [score.candidate for score in ranked[:keep]]
        best = ranked[0]
        if steps < problem.steps:
            yield scores
        else:
            yield ranked[1:]
    complete = problem.n_link_folds <= n_first
    if not complete and base is not None and not held_out.difference(best.losses, base[: len(best.losses)]).mean < 0:
        yield [best]
        return
    if not complete:
        scores = _train(problem, remaining, others, problem.steps, doubt)
        if scores is None:
            raise InterruptedSearchError
        best = best._replace(losses=np.concatenate([best.losses, scores[0].losses]))
    yield [best._replace(final=True)]


def _train(
    problem: TuningProblem, candidates: list[Candidate], which: slice, steps: int, doubt: float, *, whole: bool = False
) -> list[LinkScore] | None:
    """Scores on some of the folds; None if Ctrl-C was pressed and is to be kept.

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
    links = [problem.make_link(generator(), dtype)] * runs
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
        keep_interrupted=problem.keep_interrupted,
        may_diverge=True,
    )
    result = train(model, sample, settings)
    if result.interrupted:
        return None
    scores = []
    for number, (candidate, own) in enumerate(
        zip(candidates, _held_out_losses(problem, folds, model, len(parts), doubt), strict=True)
    ):
        last = (number + 1) * len(parts) - 1
        fitted = FittedLink(*model.take(last), result.history.of_run(last)) if whole else None
        scores.append(LinkScore(candidate, steps, np.where(np.isfinite(own), own, np.inf), whole=fitted))
    return scores


def _padded(parts: list[np.ndarray], weight: np.ndarray) -> tuple[Tensor, Tensor]:
    """Rows of all folds as one table, with rows of weight zero where a fold is shorter than another."""
    longest = max(len(part) for part in parts)
    rows = np.stack([np.concatenate([part, np.repeat(part[:1], longest - len(part))]) for part in parts])
    own = weight[rows]
    for number, part in enumerate(parts):
        own[number, len(part) :] = 0.0
    return torch.as_tensor(rows), torch.as_tensor(own)


def _held_out_losses(
    problem: TuningProblem, folds: list[Fold], model: LinearModel, runs_each: int, doubt: float
) -> list[np.ndarray]:
    """Log-loss of each held-out row, for each candidate; the first runs of a candidate are those of the folds."""
    parts = [held for _, held in folds]
    rows, _ = _padded([*parts, *parts[:1] * (runs_each - len(parts))], problem.weight)
    n_candidates = model.n_runs // runs_each
    everywhere = rows.to(problem.device).repeat(n_candidates, 1)
    found = []
    for part in model.row_chunks(rows.shape[1]):
        log_p = model.log_proba(problem.single_precision, everywhere[:, part])
        labels = problem.labels[everywhere[:, part]]
        found.append(held_out_loss(log_p, labels, doubt))
    losses = torch.cat(found, dim=1).double().cpu().numpy().reshape(n_candidates, runs_each, -1)
    return [np.concatenate([own[k, : len(part)] for k, part in enumerate(parts)]) for own in losses]
