"""Candidates with a learned link, trained side by side on all folds; those that cannot win are dropped early."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from legendretron.training import LinearModel, Sample, TrainingSettings, train
from legendretron.tuning.candidates import Candidate
from legendretron.tuning.folds import Fold
from legendretron.tuning.problem import TuningProblem
from legendretron.tuning.scores import held_out_loss

__all__ = ["LinkScore", "search_links"]

#: All candidates are trained on two folds for a quarter of the steps; the best two of them on all folds for all steps.
_SHORT, _FIRST_FOLDS, _FINALISTS = 4, 2, 2


class LinkScore(NamedTuple):
    """A candidate after some steps."""

    candidate: Candidate
    steps: int
    losses: np.ndarray  #: log-loss of each held-out row of the first folds; infinite if training has diverged
    final: bool  #: whether it was trained on all folds, and for all steps


def search_links(problem: TuningProblem, candidates: list[Candidate]) -> Iterator[list[LinkScore]]:
    """Yield the scores of each stage; the last has the finalists. It ends early if Ctrl-C was pressed and is to be kept."""
    remaining = candidates
    if len(candidates) > _FINALISTS:
        scores = _train(problem, candidates, _FIRST_FOLDS, max(1, problem.steps // _SHORT), final=False)
        if scores is None:
            return
        yield scores
        mean = problem.held_out.first(_FIRST_FOLDS).mean
        best = sorted(scores, key=lambda score: mean(score.losses).mean)[:_FINALISTS]
        remaining = [score.candidate for score in best]
    scores = _train(problem, remaining, len(problem.folds), problem.steps, final=True)
    if scores is not None:
        yield scores


def _train(
    problem: TuningProblem, candidates: list[Candidate], n_folds: int, steps: int, *, final: bool
) -> list[LinkScore] | None:
    folds, device, dtype = problem.folds[:n_folds], problem.device, torch.float32
    n_folds = len(folds)
    runs = len(candidates) * n_folds

    def generator() -> torch.Generator:
        return torch.Generator().manual_seed(problem.seed)

    # the same start and the same batches for all candidates: they differ by their strengths alone
    links = [problem.make_link(generator(), dtype)] * runs
    k, d = problem.n_classes - 1, problem.features.n_features
    model = LinearModel(
        torch.zeros(runs, d, k, dtype=dtype, device=device), torch.zeros(runs, k, dtype=dtype, device=device), links
    )
    rows, weights = _padded([train for train, _ in folds], problem.weight)
    rows, weights = (t.to(device).repeat(len(candidates), 1) for t in (rows, weights))
    sample = Sample(problem.single_precision, rows, problem.labels[rows], weights.to(dtype))
    strengths = torch.tensor(candidates, dtype=torch.float64).repeat_interleave(n_folds, dim=0)
    settings = TrainingSettings(
        alpha=strengths[:, 0],
        link_alpha=strengths[:, 1],
        learning_rate=torch.full((runs,), problem.learning_rate, dtype=torch.float64),
        generators=[generator() for _ in range(runs)],
        max_steps=steps,
        batch_size=min(problem.batch_size, rows.shape[1]),
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
    losses = _held_out_losses(problem, folds, model, len(candidates))
    return [
        LinkScore(candidate, steps, np.where(np.isfinite(own), own, np.inf), final)
        for candidate, own in zip(candidates, losses, strict=True)
    ]


def _padded(parts: list[np.ndarray], weight: np.ndarray) -> tuple[Tensor, Tensor]:
    """Rows of all folds as one table, with rows of weight zero where a fold is shorter than another."""
    longest = max(len(part) for part in parts)
    rows = np.stack([np.concatenate([part, np.repeat(part[:1], longest - len(part))]) for part in parts])
    own = weight[rows]
    for number, part in enumerate(parts):
        own[number, len(part) :] = 0.0
    return torch.as_tensor(rows), torch.as_tensor(own)


def _held_out_losses(
    problem: TuningProblem, folds: list[Fold], model: LinearModel, n_candidates: int
) -> list[np.ndarray]:
    """Log-loss of each held-out row, for each candidate."""
    parts = [held for _, held in folds]
    rows, _ = _padded(parts, problem.weight)
    rows = rows.to(problem.device)
    everywhere = rows.repeat(n_candidates, 1)
    found = []
    for part in model.row_chunks(rows.shape[1]):
        log_p = model.log_proba(problem.single_precision, everywhere[:, part])
        labels = problem.labels[everywhere[:, part]]
        found.append(held_out_loss(log_p, labels, problem.doubt))
    losses = torch.cat(found, dim=1).double().cpu().numpy().reshape(n_candidates, len(parts), -1)
    return [np.concatenate([own[k, : len(part)] for k, part in enumerate(parts)]) for own in losses]
