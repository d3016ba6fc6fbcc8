r"""Losses that are made from a link: what they have in common, and the log-loss, for links that need not be canonical."""

from __future__ import annotations

import copy
from abc import abstractmethod
from typing import Any, Self, TypeVar

import torch
from torch import Tensor

from legendretron._internal.start import keep_loaded, keep_values, restore_values
from legendretron._internal.tensor_cache import TensorCache
from legendretron._internal.validation import at_least_single, check_float_tensor
from legendretron.accelerate.inverse import link_from_log
from legendretron.accelerate.log_proba import log_proba
from legendretron.links import Link
from legendretron.links.canonicality import CanonicalityCheck, canonicality
from legendretron.links.runs import check_single_link
from legendretron.losses.criterion import Criterion
from legendretron.losses.named import LogLoss

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

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._wide_cache: TensorCache[Link] = TensorCache()

    @property
    @abstractmethod
    def _link(self) -> Link:
        """The frozen link."""

    @abstractmethod
    def _scores_of_rows(self, logits: Tensor) -> Tensor:
        """Losses of all labels with a minus, of rows ``(n, C)``."""

    def _link_like(self, given: Tensor) -> Link:
        """The frozen link; in double precision where an input is, so that a loss takes what ``CrossEntropyLoss`` takes."""
        link = self._link
        own = link._first_tensor()
        if own is None or given.dtype != torch.float64 or own.dtype == torch.float64 or torch.compiler.is_compiling():
            return link
        return self._wide_cache.get(
            lambda _: copy.deepcopy(link).double(), given, [*link.parameters(), *link.buffers()]
        )

    def link(self, p: Tensor) -> Tensor:
        """Predictors of probabilities by the link that the loss was made from: ``(..., C) -> (..., C - 1)``."""
        return self._link_like(check_float_tensor("p", p)).link(p)

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
        rows = self._link_like(logits)._rows("z", logits, self.n_classes)
        return self._scores_of_rows(rows).reshape(logits.shape)

    def _log_proba(self, logits: Tensor) -> Tensor:
        link = self._link_like(logits)
        rows = link._rows("z", logits, self.n_classes)
        return log_proba(link, rows, all_classes=True).reshape(logits.shape)


#: Points at which canonicality is measured by default, and the most entries of all their Jacobians together.
_POINTS = 512
_MOST_ENTRIES = 2**22


class CompositeLoss(LinkLoss, LogLoss):
    r"""Strictly proper composite loss of a link: log-loss through its inverse, :math:`\ell_y(z) = -\log p_y(z)`.

    It exists for every link, also for those without a potential, such as a composite link of three or more classes.

    - It is **strictly proper**: on probabilities it is the log-loss, and since the link is invertible, the expected loss
      has its only minimum at the predictor whose probabilities are those of the labels.
    - It **may not be convex** in ``z``, its gradient is not :math:`p(z) - e_y`, and :math:`\ell_C - \ell_i` is not the link.
      These are properties of a canonical loss, see :class:`CanonicalLoss`. :attr:`canonicality` measures how far the link is
      from being canonical.

    The loss keeps a frozen copy of the link, whose parameters are buffers here.

    Parameters
    ----------
    link : Link
        A link without run axes.
    weight, reduction, ignore_index, label_smoothing, dim : optional
        See :class:`Criterion`.

    Examples
    --------
    >>> from legendretron.links import CompositeLink
    >>> loss = CompositeLoss(CompositeLink(n_classes=3))
    >>> z, y = torch.randn(5, 2), torch.tensor([0, 1, 2, 0, 1])
    >>> torch.allclose(loss(z, y), -loss.predict_proba(z)[torch.arange(5), y].log().mean())
    True
    >>> loss.canonicality.n_points
    512
    """

    def __init__(
        self,
        link: Link,
        weight: Tensor | None = None,
        reduction: str = "mean",
        ignore_index: int = -100,
        label_smoothing: float = 0.0,
        dim: int = -1,
    ) -> None:
        check_single_link(link)
        super().__init__(weight, reduction, ignore_index, label_smoothing, dim, n_classes=link.n_classes)
        self.composite_link = freeze_copy(link)
        keep_values(self)

    @property
    def _link(self) -> Link:
        return self.composite_link

    def _without_masks(self, logits: Tensor) -> Tensor:
        return self.composite_link._without_masks(logits)

    def _scores_of_rows(self, logits: Tensor) -> Tensor:
        return log_proba(self._link_like(logits), logits, all_classes=True)

    @property
    def canonicality(self) -> CanonicalityCheck:
        """How far the link is from canonical, at predictors of probabilities drawn evenly from the simplex with a fixed seed.

        They are 512, and fewer for very many classes. :func:`legendretron.canonicality` measures at predictors of your own.
        """
        k = self.n_classes - 1
        n = max(2, min(_POINTS, _MOST_ENTRIES // k**2))
        draws = -torch.log(torch.rand(n, k + 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64))
        like = self.composite_link._first_tensor()
        p = (draws / draws.sum(-1, keepdim=True)).to(draws if like is None else at_least_single(like))
        z = link_from_log(self.composite_link, torch.log(p.clamp(min=torch.finfo(p.dtype).tiny)))
        return canonicality(self.composite_link, z[torch.isfinite(z).all(-1)])
