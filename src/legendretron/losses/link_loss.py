r"""What the losses that are made from a link have in common: a frozen copy of it."""

from __future__ import annotations

import copy
from abc import abstractmethod
from typing import Self, TypeVar

import torch
from torch import Tensor

from legendretron._internal.start import keep_loaded, keep_values, restore_values
from legendretron.accelerate.log_proba import log_proba
from legendretron.links import Link
from legendretron.losses.criterion import Criterion

__all__ = ["LinkLoss", "freeze_copy"]

AnyLink = TypeVar("AnyLink", bound=Link)


def freeze_copy(link: AnyLink) -> AnyLink:
    """Return a copy in evaluation mode whose parameters are buffers, so that no optimizer finds them.

    ``reset_parameters`` of the copy, and of each of its parts, restores these values, or those that a state dict brought
    later, also in memory that holds no values yet.
    """
    with torch.inference_mode(False):  # tensors made in inference mode could not be used outside it
        frozen = copy.deepcopy(link).eval()
        for module in frozen.modules():
            for name, parameter in list(module.named_parameters(recurse=False)):
                delattr(module, name)
                module.register_buffer(name, parameter.detach().clone())
        keep_values(frozen)
    frozen.register_load_state_dict_post_hook(keep_loaded)  # type: ignore[no-untyped-call]
    return frozen


class LinkLoss(Criterion):
    """A criterion that keeps a frozen link, by which logits become probabilities."""

    n_classes: int

    @property
    @abstractmethod
    def _link(self) -> Link:
        """The frozen link."""

    @abstractmethod
    def _scores_of_rows(self, logits: Tensor) -> Tensor:
        """Losses of all labels with a minus, of rows ``(n, C)``."""

    def link(self, p: Tensor) -> Tensor:
        """Predictors of probabilities by the link that the loss was made from: ``(..., C) -> (..., C - 1)``."""
        return self._link.link(p)

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """See :meth:`Criterion.reset_parameters`; a link that never had values gets the start of its constructor."""
        if not restore_values(self):
            self._link.reset_parameters(generator)

    def train(self, mode: bool = True) -> Self:
        """Set the mode, but not that of the frozen link."""
        super().train(mode)
        self._link.eval()
        return self

    def _scores(self, logits: Tensor) -> Tensor:
        rows = self._link._rows("z", logits, self.n_classes)
        return self._scores_of_rows(rows).reshape(logits.shape)

    def _log_proba(self, logits: Tensor) -> Tensor:
        rows = self._link._rows("z", logits, self.n_classes)
        return log_proba(self._link, rows, all_classes=True).reshape(logits.shape)
