"""How the learning rate falls over the epochs."""

from __future__ import annotations

import math

from legendretron._internal.validation import check_choice

__all__ = ["SCHEDULES", "rate_factor"]

SCHEDULES = ("constant", "step", "cosine")


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
    check_choice("schedule", schedule, SCHEDULES)
    if schedule == "step":
        return decay ** (epoch // decay_every)
    if schedule == "cosine":
        return round(0.5 * (1.0 + math.cos(math.pi * epoch / max_epochs)), 12)
    return 1.0
