"""The parameter ``label_noise``."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch

from legendretron._internal.parameters import spell
from legendretron.links import LabelNoise, SymmetricNoise, TransitionNoise
from legendretron.links.noise_models import known_noise
from legendretron.tuning.noise import FoundNoise

#: Kinds of noise that can be learned.
LEARNED = (SymmetricNoise.kind, TransitionNoise.kind)
#: Where a rate that is learned in training starts.
_START = 0.1


def is_learned(label_noise: Any) -> bool:
    """Whether the parameter names a kind of noise to learn."""
    return isinstance(label_noise, str) and label_noise in LEARNED


def noise_to_find(label_noise: Any) -> str | None:
    """Noise to look for, see :class:`~legendretron.tuning.problem.TuningProblem`."""
    return label_noise if isinstance(label_noise, str) else None


def read_label_noise(label_noise: Any, n_classes: int) -> LabelNoise | None:
    """Return known noise, its classes in the order of the link; None if the parameter is None or a name."""
    if label_noise is None or isinstance(label_noise, str):  # names are checked with the other parameters
        return None
    noise = known_noise(label_noise, n_classes, dtype=torch.float64)
    return TransitionNoise(swap_matrix(noise.matrix().numpy())) if isinstance(noise, TransitionNoise) else noise


def make_learned_noise(kind: str, n_classes: int, before: FoundNoise | None) -> LabelNoise:
    """Noise to be learned in training, starting at that of an earlier fit."""
    rate = _START if before is None else min(max(before.rate, 0.01), 0.9)
    start = SymmetricNoise(n_classes, rate, learned=kind == SymmetricNoise.kind, dtype=torch.float64)
    if start.learned:
        return start
    matrix = start.matrix() if before is None or before.matrix is None else torch.as_tensor(before.matrix)
    return TransitionNoise(matrix.clamp(min=1e-6) / matrix.clamp(min=1e-6).sum(1, keepdim=True), learned=True)


def swap_matrix(matrix: np.ndarray) -> np.ndarray:
    """From the order of ``classes_`` to that of the link, or back: for two classes, reversed."""
    return np.ascontiguousarray(matrix[::-1, ::-1]) if len(matrix) == 2 else matrix


class LabelNoiseWarning(UserWarning):
    """A fit has found that some labels are wrong, or a matter of chance, and predicts labels like these.

    Examples
    --------
    With an answer to the question whether labels are wrong, there is no warning:

    >>> from legendretron import LegendreTronClassifier
    >>> right, wrong = LegendreTronClassifier(label_noise=None), LegendreTronClassifier(label_noise="symmetric")
    """


def tell_noise(noise: FoundNoise | None, *, stacklevel: int) -> None:
    """Warn of noise that predictions include although nothing was said about wrong labels, if there surely is some."""
    if noise is not None and noise.recorded and noise.low > 0.0 and (noise.training > 0.0 or noise.matrix is not None):
        warnings.warn(
            f"about {100.0 * noise.wrong:.0f} % of the labels in y look wrong or random. Predicted probabilities are those "
            f"of labels like the ones in y. For true labels, give {spell('label_noise', 'symmetric')}; if all labels are "
            f"right, {spell('label_noise', None)}. Either silences this warning.",
            LabelNoiseWarning,
            stacklevel=stacklevel + 1,
        )
