"""The link that is learned from predictions of networks for rows that they have not seen."""

from __future__ import annotations

import numpy as np
import torch

from legendretron.calibration.fitting import Calibration, calibrate, draw_folds
from legendretron.links import LabelNoise, SymmetricNoise


def learn_map(
    logits: np.ndarray,
    labels: np.ndarray,
    weight: np.ndarray,
    noise: LabelNoise | None = None,
    fold: np.ndarray | None = None,
    device: torch.device | str = "cpu",
) -> Calibration:
    """The calibration map of held-out logits ``(n, C)``, and maps without each fold.

    Rows count as many as there are, whatever their weights. Folds are drawn unless they are given, as those of rows that
    belong together.
    """
    scores, observed, share = (
        torch.as_tensor(values, device=device) for values in (logits, labels, weight / weight.mean())
    )
    if noise is None or isinstance(noise, SymmetricNoise):
        replaced = 0.0 if noise is None else float(noise.rate())
        return calibrate(scores, observed, share, fold=fold, every_fold=True, replaced=replaced)
    # a matrix: each row counts for every class that it may be of, by what networks and label say together
    n, n_classes = scores.shape
    if fold is None:
        fold = draw_folds(n)
    joint = torch.softmax(scores, -1) * noise.matrix().to(scores).mT[observed]
    posterior = (share.unsqueeze(1) * joint / joint.sum(1, keepdim=True)).reshape(-1)
    counts = posterior > 1e-6
    every = torch.arange(n_classes, device=device).repeat(n)
    repeated = scores.repeat_interleave(n_classes, 0)
    of_copies = np.repeat(fold, n_classes)[counts.cpu().numpy()]
    found = calibrate(repeated[counts], every[counts], posterior[counts], fold=of_copies, every_fold=True)
    return found._replace(fold=fold)
