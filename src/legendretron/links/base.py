r"""The interface of a link: the map between predictors and probabilities."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NoReturn

import torch
from torch import Tensor, nn

from legendretron._internal.process_groups import n_ranks
from legendretron._internal.validation import (
    at_least_single,
    check_integer,
    check_last_axis,
    check_precision,
    check_proba,
    check_run_shape,
    full_precision,
)
from legendretron.simplex import append_reference, log_softmax_plus_inverse, predicted_class

__all__ = ["Link", "NLLStep", "NotCanonicalError"]

NLLStep = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor, Tensor, list[Tensor]]]


class NotCanonicalError(ValueError):
    """A potential, or the loss made from it, was asked of a link that is not the gradient of one."""


class Link(nn.Module, ABC):
    r"""An invertible map between predictors ``z`` in :math:`\mathbb{R}^{C-1}` and probabilities of ``C`` classes.

    Calling the module gives log-probabilities, for ``torch.nn.NLLLoss``. The log-loss of any link is strictly proper
    composite. A link is **canonical** when its inverse is the gradient of a convex potential :math:`F`; then it is
    monotone, and :math:`F(z) - z_y` is a proper loss that is convex in ``z``.

    Subclasses write the underscored methods, which see rows: tensors of shape ``(*run_shape, n, K)``.

    Parameters
    ----------
    n_classes : int
        ``C``, at least 2.
    run_shape : tuple of int
        Run axes: with ``(R,)`` one module holds ``R`` independent links, and inputs have shape ``(R, ..., K)``.
        Parameters have them in front; buffers do not, and are the same for all runs.
    """

    def __init__(self, n_classes: int, run_shape: tuple[int, ...] = ()) -> None:
        super().__init__()
        self.n_classes = check_integer("n_classes", n_classes, 2)
        self.run_shape = check_run_shape(run_shape)

    # --- what subclasses write, on rows ---

    @property
    @abstractmethod
    def is_canonical(self) -> bool:
        """Whether the inverse is the gradient of a convex function, by construction."""

    @abstractmethod
    def _log_proba(self, z: Tensor) -> Tensor: ...

    @abstractmethod
    def _from_log_odds(self, log_odds: Tensor) -> Tensor: ...

    @abstractmethod
    def _jacobian(self, z: Tensor) -> Tensor: ...

    def _potential(self, z: Tensor) -> Tensor:
        if self.is_canonical:
            raise NotImplementedError(f"{type(self).__name__} says that it is canonical, but has no _potential.")
        self._refuse_potential()

    def _canonical_losses(self, z: Tensor) -> Tensor:
        """``F(z) - z_k`` for all ``C`` classes, with ``z_C = 0``, on rows; better without a subtraction where possible."""
        return self._potential(z).unsqueeze(-1) - append_reference(z)

    def _why_no_potential(self) -> str:
        """Reason of the refusal, to go on with after "is not the gradient of a potential"."""
        return ""

    def _refuse_potential(self) -> NoReturn:
        raise NotCanonicalError(
            f"{type(self).__name__} with n_classes={self.n_classes} is not the gradient of a potential"
            f"{self._why_no_potential()}. Its log-loss is strictly proper and can be used as it is; for a canonical loss "
            "to export or transfer, use CanonicalLink."
        )

    def _nll_step(self, like: Tensor) -> NLLStep:
        r"""Return a function for the gradients of the weighted log-loss :math:`-\sum_i w_i \log p_{y_i}(z_i)`.

        It is what training calls in every step. This is the general way, by autograd; a link with a faster one
        overrides it. The link must have exactly one run axis.

        Parameters
        ----------
        like : Tensor of shape (R, n, K)
            Predictors to take shape, dtype and device from.

        Returns
        -------
        callable
            From predictors ``(R, n, K)``, labels ``(R, n)`` and weights ``(R, n)`` to each row's log-loss ``(R, n)``,
            whether its label is the predicted class, the gradient of the weighted sum in the predictors, and the list of
            those in the parameters, in the order of ``parameters()``. None of them records a graph.
        """
        parameters = list(self.parameters())

        def step(z: Tensor, labels: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor, list[Tensor]]:
            with torch.enable_grad():
                leaf = z.detach().requires_grad_()
                log_p = self._log_proba(leaf)
                nll = -torch.gather(log_p, -1, labels.unsqueeze(-1)).squeeze(-1)
                dz, *gradients = torch.autograd.grad((nll * weight).sum(), [leaf, *parameters])
            nll = nll.detach()
            return nll, predicted_class(log_p.detach()) == labels, dz, gradients

        return step

    # --- what users call, on any leading axes ---

    def _rows(self, name: str, value: Tensor, size: int) -> Tensor:
        check_last_axis(name, value, size, self.run_shape)
        value = check_precision(name, value, next(self.parameters(), None))
        return value if value.dim() == len(self.run_shape) + 2 else value.reshape(*self.run_shape, -1, size)

    def _losses_at(self, z: Tensor) -> Tensor:
        """As ``_canonical_losses``, on any leading axes: ``(..., C - 1) -> (..., C)``."""
        rows = self._rows("z", z, self.n_classes - 1)
        with full_precision(rows):
            return self._canonical_losses(rows).reshape(*z.shape[:-1], self.n_classes)

    def forward(self, z: Tensor) -> Tensor:
        """Log-probabilities: ``(..., C - 1) -> (..., C)``.

        Computed in float32 at least, also within ``torch.autocast`` and for parameters of half precision.

        In training mode the first batch of at least two rows also sets what depends on one, see :meth:`initialize`. With
        ``torch.distributed`` running, that is the batch of all its processes together, so all of them must take part.
        """
        rows = self._rows("z", z, self.n_classes - 1)
        with full_precision(rows):
            self._initialize_once(rows)
            log_proba = self._log_proba(rows)
        return self._shaped(log_proba, z)

    def _shaped(self, log_proba: Tensor, z: Tensor) -> Tensor:
        """Log-probabilities with the leading axes of ``z``; no view where they are so already, for FSDP warns of views."""
        return log_proba if log_proba.dim() == z.dim() else log_proba.reshape(*z.shape[:-1], self.n_classes)

    def _initialize_once(self, rows: Tensor) -> None:
        """In training mode, set on the first batch what depends on one; all processes or none of them must come here."""
        if not self.training or not self.needs_batch or (rows.shape[-2] < 2 and n_ranks() == 1):
            return
        # private, but there is no public way to ask whether torch.func is at work
        transformed = not torch.compiler.is_compiling() and torch._C._functorch.peek_interpreter_stack() is not None
        if transformed or torch.compiler.is_exporting():
            raise ValueError(
                f"{type(self).__name__} has to see a first batch before it is exported or transformed in training mode: "
                "call link.initialize(z) with a batch of predictors, or model.eval()."
            )
        self.initialize(rows.detach(), across_ranks=True)

    def inverse(self, z: Tensor) -> Tensor:
        """Probabilities: ``(..., C - 1) -> (..., C)``."""
        rows = self._rows("z", z, self.n_classes - 1)
        with full_precision(rows):
            return self._log_proba(rows).exp().reshape(*z.shape[:-1], self.n_classes)

    def link(self, p: Tensor) -> Tensor:
        """Predictors of probabilities inside the simplex: ``(..., C) -> (..., C - 1)``."""
        check_proba("p", p, self.n_classes, interior=True, run_shape=self.run_shape)
        return self.link_from_log(torch.log(at_least_single(p)))

    def link_from_log(self, log_p: Tensor) -> Tensor:
        """As :meth:`link`, from log-probabilities: exact also where probabilities underflow. Values are not checked."""
        rows = self._rows("log_p", log_p, self.n_classes)
        with full_precision(rows):
            z = self._from_log_odds(log_softmax_plus_inverse(rows))
        return z.reshape(*log_p.shape[:-1], self.n_classes - 1)

    def jacobian(self, z: Tensor) -> Tensor:
        r"""Jacobian :math:`\partial \tilde p_i / \partial z_j`: ``(..., K) -> (..., K, K)``."""
        k = self.n_classes - 1
        rows = self._rows("z", z, k)
        with full_precision(rows):
            return self._jacobian(rows).reshape(*z.shape, k)

    def potential(self, z: Tensor) -> Tensor:
        r"""Return the convex function whose gradient is the inverse link: ``(..., C - 1) -> (...)``.

        Raises
        ------
        NotCanonicalError
            If there is none.
        """
        rows = self._rows("z", z, self.n_classes - 1)
        with full_precision(rows):
            return self._potential(rows).reshape(z.shape[:-1])

    def conjugate(self, p: Tensor) -> Tensor:
        r"""Conjugate potential, :math:`F^*(\tilde p) = \langle z, \tilde p\rangle - F(z)`: ``(..., C) -> (...)``.

        Its negative is the Bayes risk of the link's canonical loss. Entries of zero are replaced by the smallest
        positive number, which gives the limit.
        """
        if not self.is_canonical:
            self._refuse_potential()
        check_proba("p", p, self.n_classes, run_shape=self.run_shape)
        p = at_least_single(p)
        p = p.clamp(min=torch.finfo(p.dtype).tiny)
        z = self.link_from_log(torch.log(p))
        # as sum_k p_k (z_k - F(z)), which does not subtract large numbers
        return -(p * self._losses_at(z)).sum(-1)

    @property
    def needs_batch(self) -> bool:
        """Whether :meth:`initialize` has something to do that has not been done."""
        return False

    @torch.no_grad()
    def initialize(self, z: Tensor, weight: Tensor | None = None, *, across_ranks: bool = False) -> None:
        """Set what depends on a first batch ``(..., C - 1)``, with weights ``(...)`` or not; nothing for most links.

        With ``across_ranks`` the batch is this process's part of one that is spread over all processes of the default
        group, and all of them must call.
        """

    def keep_start(self) -> None:
        """Take what :meth:`initialize` would set for set: nothing but training changes it from now on."""

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any, **kwargs: Any) -> None:
        for name, own in self.named_parameters():
            saved = state_dict.get(prefix + name)
            if saved is not None and saved.shape != own.shape:
                raise ValueError(
                    f"{prefix}{name} has shape {tuple(saved.shape)} in the state dict, but {tuple(own.shape)} in this "
                    f"{type(self).__name__} for n_classes={self.n_classes}: they differ in n_classes or in another setting. "
                    "Build the link with the settings it was saved with."
                )
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)

    def extra_repr(self) -> str:
        """Text between the brackets of ``repr``."""
        runs = f", run_shape={self.run_shape}" if self.run_shape else ""
        return f"n_classes={self.n_classes}{runs}, is_canonical={self.is_canonical}"
