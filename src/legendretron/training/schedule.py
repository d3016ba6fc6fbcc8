"""The steps of every epoch, and the learning rate at each."""

from __future__ import annotations

import math

from legendretron._internal.validation import check_choice
from legendretron.training.problem import TrainingSettings

#: Epochs that ``max_steps`` is divided into, for the history, early stopping and checkpoints.
ROUNDS = 50


def rate_factor(schedule: str, epoch: int, max_epochs: int, decay: float = 0.95, decay_every: int = 4) -> float:
    """Factor on the initial rate in an epoch, counted from 0.

    ``"constant"``: 1. ``"step"``: ``decay`` to the power of the number of whole ``decay_every`` epochs done, as the paper.
    ``"cosine"``: from 1 to (almost) 0 along half a cosine.

    Examples
    --------
    >>> rate_factor("step", 8, 240, decay=0.5, decay_every=4)
    0.25
    >>> rate_factor("cosine", 5, 10)
    0.5
    """
    check_choice("schedule", schedule, ("constant", "step", "cosine"))
    if schedule == "step":
        return decay ** (epoch // decay_every)
    if schedule == "cosine":
        return round(0.5 * (1.0 + math.cos(math.pi * epoch / max_epochs)), 12)
    return 1.0


def waves(share: float) -> float:
    r"""Factor on the rate after a share of the steps: four waves from 0 to 1 and back, each twice as long as the one before.

    .. math:: \tfrac12 (1 - \cos(2 \pi \log_2(1 + 15 t)))

    At the end of each wave the weights are as those of a finished training, so the best of four can be kept.

    Examples
    --------
    >>> [round(waves(t / 15), 3) for t in (0, 1, 3, 7, 11, 15)]
    [0.0, 0.0, 0.0, 0.0, 0.93, 0.0]
    """
    return 0.5 * (1.0 - math.cos(2.0 * math.pi * math.log2(1.0 + 15.0 * share)))


class Schedule:
    """Either ``max_epochs`` passes over the rows, or ``max_steps`` steps in epochs that need not be passes.

    Then the rate falls from step to step along half a cosine, or goes up and down in :func:`waves` if ``settings.schedule``
    is that. ``pass_steps`` is the number of steps of a pass over the rows.

    Examples
    --------
    >>> import torch
    >>> one = torch.ones(1)
    >>> schedule = Schedule(TrainingSettings(one, one, one, [torch.Generator()], max_steps=120), pass_steps=7)
    >>> schedule.n_epochs, [schedule.end(epoch) for epoch in (0, 1, 49)]
    (50, [2, 4, 120])
    """

    def __init__(self, settings: TrainingSettings, pass_steps: int) -> None:
        self._settings, self._pass_steps = settings, pass_steps
        total = settings.max_steps
        self.n_epochs = settings.max_epochs if total is None else min(ROUNDS, total)

    def end(self, epoch: int) -> int:
        """Steps of this epoch and of all before it."""
        total = self._settings.max_steps
        return (epoch + 1) * self._pass_steps if total is None else total * (epoch + 1) // self.n_epochs

    def factors(self, epoch: int, step: int, count: int) -> list[float]:
        """Factors on the initial rate at ``count`` steps from ``step`` on, or one for all of them."""
        s, total = self._settings, self._settings.max_steps
        if total is None:
            return [rate_factor(s.schedule, epoch, s.max_epochs, s.decay, s.decay_every)]
        numbers = range(step, step + count)
        if s.schedule == "waves":  # in the middle of a step, where the rate is never 0
            return [waves((number + 0.5) / total) for number in numbers]
        return [0.5 * (1.0 + math.cos(math.pi * number / total)) for number in numbers]
