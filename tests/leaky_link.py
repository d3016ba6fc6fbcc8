"""A link of a user's own; `docs/writing_a_link.md` explains it line by line."""

import torch
from torch import nn

from legendretron.links import Link, register_link


@register_link("leaky")
class LeakyLink(Link):
    """Log-odds that rise by another, learned slope where a class is ahead of the reference class."""

    def __init__(self, n_classes, per_class=True, *, run_shape=(), device=None, dtype=None):
        super().__init__(n_classes, run_shape)
        self.per_class = per_class
        size = self.n_classes - 1 if per_class else 1
        self.log_slope = nn.Parameter(torch.zeros(*self.run_shape, size, device=device, dtype=dtype))

    def _slope(self):
        return self.log_slope.exp().unsqueeze(-2)  # for all rows of a run

    def _log_odds(self, z):
        return torch.where(z > 0, self._slope() * z, z)

    def _from_log_odds(self, log_odds):
        return torch.where(log_odds > 0, log_odds / self._slope(), log_odds)

    def class_axes(self):
        return {"log_slope": 0} if self.per_class else {}
