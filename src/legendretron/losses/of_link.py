r"""What the losses that are made from a link have in common."""

from __future__ import annotations

from abc import abstractmethod
from typing import Self

import torch
from torch import Tensor

from legendretron._internal.kept_values import restore_values
from legendretron.accelerate.log_proba import log_proba
from legendretron.links import Link
from legendretron.losses.criterion import Criterion

__all__ = ["LossOfLink"]


class LossOfLink(Criterion):
    """A criterion that keeps a frozen link, by which logits become probabilities."""

    n_classes: int

    @property
    @abstractmethod
    def _link(self) -> Link:
        """The frozen link."""

    @abstractmethod
    def _scores_of_rows(self, logits: Tensor) -> Tensor: ...

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """See :meth:`Criterion.reset_parameters`; a link that never had values gets the start of its constructor."""
        if not restore_values(self):
            self._link.reset_parameters(generator)

    def train(self, mode: bool = True) -> Self:
        """Set the mode; the frozen link stays as it is."""
        super().train(mode)
        self._link.eval()
        return self

    def _scores(self, logits: Tensor) -> Tensor:
        rows = self._link._rows("z", logits, self.n_classes)
        return self._scores_of_rows(rows).reshape(logits.shape)

    def _log_proba(self, logits: Tensor) -> Tensor:
        rows = self._link._rows("z", logits, self.n_classes)
        return log_proba(self._link, rows, all_classes=True).reshape(logits.shape)
