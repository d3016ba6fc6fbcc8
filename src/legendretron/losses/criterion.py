r"""Proper losses as criteria of torch, with class weights, label smoothing and reduction as in ``CrossEntropyLoss``."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from numbers import Real
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import nll_loss

from legendretron._internal.start import keep_loaded, keep_values, restore_values
from legendretron._internal.validation import (
    at_least_single,
    check_choice,
    check_float_tensor,
    check_labels,
    check_proba,
    full_precision,
)
from legendretron.losses.base import ProperLoss, expectation
from legendretron.simplex import append_reference


class Reduction(NamedTuple):
    r"""What becomes of the losses :math:`\ell_{ik}` of rows ``i`` and labels ``k``.

    With class weights :math:`w` and label smoothing :math:`\epsilon`, the loss of a row with label ``y`` is

    .. math:: (1 - \epsilon)\, w_y \ell_y + \frac{\epsilon}{C} \sum_k w_k \ell_k,

    and the mean is taken over rows with weights :math:`w_y`; a row with label ``ignore_index`` does not count. With
    probabilities :math:`t` for a label it is :math:`\sum_k w_k t_k \ell_k`, :math:`t` smoothed in the same way, and the mean
    is plain.
    """

    weight: Tensor | None = None
    reduction: str = "mean"
    ignore_index: int = -100
    label_smoothing: float = 0.0

    def reduce_scores(self, scores: Tensor, y: object, name: str = "y") -> Tensor:
        """Reduce losses with a minus, the classes on the last axis, in float32 at least: ``(..., C) -> ()``, or ``(...)``."""
        shape, n_classes = tuple(scores.shape[:-1]), scores.shape[-1]
        weight = None if self.weight is None else self.weight.to(scores)
        if isinstance(y, Tensor) and y.is_floating_point():
            check_proba(name, y, n_classes)
            if tuple(y.shape[:-1]) != shape:
                raise ValueError(f"{name} must have shape {(*shape, n_classes)}, got {tuple(y.shape)}.")
            return self._reduce_soft(scores, at_least_single(y).to(scores.dtype), weight)
        rows, flat = scores.reshape(-1, n_classes), self._labels(scores, y, name)
        try:
            loss = nll_loss(rows, flat, weight, ignore_index=self.ignore_index, reduction=self.reduction)
        except IndexError:
            self._labels(scores, y, name, read=True)
            raise
        if self.label_smoothing > 0.0:
            even = self._reduce_even(rows, flat, weight)
            loss = (1.0 - self.label_smoothing) * loss + self.label_smoothing / n_classes * even
        return loss.reshape(shape) if self.reduction == "none" else loss

    def _labels(self, scores: Tensor, y: object, name: str, *, read: bool = False) -> Tensor:
        """Integer labels in one dimension. Their values need not be read: torch reads them, without waiting for a GPU."""
        name = f"{name} (integer labels, or probabilities of a floating-point dtype)"
        shape = tuple(scores.shape[:-1])
        return check_labels(name, y, scores.shape[-1], shape, self.ignore_index, read=read).reshape(-1)

    def _reduce_even(self, rows: Tensor, labels: Tensor, weight: Tensor | None) -> Tensor:
        """Losses of all labels together, over the rows that count."""
        ignored = labels == self.ignore_index
        # a class without weight may be masked, and 0 * inf is NaN
        weighted = rows if weight is None else rows.masked_fill(weight == 0, 0.0) * weight
        even = -weighted.sum(-1).masked_fill(ignored, 0.0)
        if self.reduction == "none":
            return even
        if self.reduction == "sum":
            return even.sum()
        counts = (~ignored).to(even.dtype)
        return even.sum() / (counts if weight is None else counts * weight[labels.masked_fill(ignored, 0)]).sum()

    def _reduce_soft(self, scores: Tensor, y: Tensor, weight: Tensor | None) -> Tensor:
        if self.label_smoothing > 0.0:
            y = (1.0 - self.label_smoothing) * y + self.label_smoothing / y.shape[-1]
        losses = -expectation(y if weight is None else y * weight, scores)
        if self.reduction == "none":
            return losses
        return losses.mean() if self.reduction == "mean" else losses.sum()


def make_reduction(
    weight: object, reduction: object, ignore_index: object, label_smoothing: object, n_classes: int | None
) -> Reduction:
    """Return the reduction that arguments ask for, as those of ``torch.nn.CrossEntropyLoss``, or raise a ``ValueError``."""
    if weight is not None:
        weight = check_float_tensor("weight", weight)
        if weight.dim() != 1 or weight.shape[0] != (n_classes or weight.shape[0]):
            size = "C" if n_classes is None else n_classes
            raise ValueError(f"weight must have shape ({size},), one number for each class, got {tuple(weight.shape)}.")
        if not bool(((weight >= 0) & torch.isfinite(weight)).all()):
            raise ValueError(f"weight must contain finite non-negative numbers, one for each class, got {weight}.")
    reduction = check_choice("reduction", reduction, ("mean", "sum", "none"))
    if isinstance(ignore_index, bool) or not isinstance(ignore_index, int):
        raise ValueError(f"ignore_index must be an integer, got {ignore_index!r}.")
    if (
        isinstance(label_smoothing, bool)
        or not isinstance(label_smoothing, Real)
        or not 0.0 <= float(label_smoothing) <= 1.0
    ):
        raise ValueError(f"label_smoothing must be a number from 0 to 1, as in torch, got {label_smoothing!r}.")
    return Reduction(weight, reduction, ignore_index, float(label_smoothing))


class Criterion(ProperLoss):
    r"""A proper loss with a link from real numbers to probabilities, so that a network can be trained with it.

    It is called like ``torch.nn.CrossEntropyLoss``: ``criterion(z, y)``. Axis ``dim`` of the input contains the logits
    :math:`x` of all ``C`` classes, up to a constant, or, if the loss knows its number of classes, the ``C - 1`` predictors
    :math:`z_k = x_k - x_C`. Computations and results have at least the precision of float32.

    Class weights, label smoothing and ignored labels apply to the criterion only, not to methods on probabilities.

    Parameters
    ----------
    weight : Tensor of shape (C,), optional
        Weights of the classes.
    reduction : {"mean", "sum", "none"}
        As in ``torch.nn.CrossEntropyLoss``.
    ignore_index : int
        Label that is ignored.
    label_smoothing : float
        Share of each label that is spread evenly over all classes, from 0 to 1.
    dim : int
        Axis of the classes in inputs and in probabilities; 1 for images ``(N, C, H, W)``.

    Examples
    --------
    >>> from legendretron.losses import LogLoss
    >>> criterion = LogLoss(label_smoothing=0.1)  # a subclass
    >>> criterion(torch.zeros(2, 3), torch.tensor([0, 2]))
    tensor(1.0986)
    """

    weight: Tensor | None
    #: arguments of the constructor that are plain values, and their defaults
    _defaults: ClassVar[dict[str, Any]] = {"reduction": "mean", "ignore_index": -100, "label_smoothing": 0.0, "dim": -1}

    def __init__(
        self,
        weight: Tensor | None = None,
        reduction: str = "mean",
        ignore_index: int = -100,
        label_smoothing: float = 0.0,
        dim: int = -1,
        *,
        n_classes: int | None = None,
    ) -> None:
        super().__init__()
        self.n_classes = n_classes
        how = make_reduction(weight, reduction, ignore_index, label_smoothing, n_classes)
        _, self.reduction, self.ignore_index, self.label_smoothing = how
        if isinstance(dim, bool) or not isinstance(dim, int):
            raise ValueError(f"dim must be an integer, the axis of the classes, got {dim!r}.")
        self.dim = dim
        with torch.inference_mode(False):  # tensors made in inference mode could not be used outside it
            self.register_buffer("weight", None if weight is None else weight.detach().clone())
        self.register_load_state_dict_post_hook(keep_loaded)  # type: ignore[no-untyped-call]
        keep_values(self)

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Restore what the loss was made of, or what a complete state dict brought later: class weights, and a frozen link.

        Nothing is drawn, so that resetting all modules of a network changes no loss. It is for memory that holds no values
        yet, after ``to_empty``.
        """
        restore_values(self)

    # --- for subclasses: logits (..., C), in float32 at least ---

    @abstractmethod
    def _scores(self, logits: Tensor) -> Tensor:
        """Losses of all labels with a minus, ``(..., C) -> (..., C)``."""

    @abstractmethod
    def _log_proba(self, logits: Tensor) -> Tensor:
        """Log-probabilities, ``(..., C) -> (..., C)``."""

    # --- for users ---

    def _logits(self, z: object, *, masked: bool = False) -> Tensor:
        """Logits of all classes on the last axis, from an input of users; not checked for masked classes if these may be."""
        x = check_float_tensor("z", z)
        n = self.n_classes
        size = x.shape[self.dim] if -x.dim() <= self.dim < x.dim() else 0
        if not (size >= 2 if n is None else size in (n, n - 1) and size > 0):
            wanted = "the logits of all classes, two or more," if n is None else f"{n} logits, or {n - 1} predictors,"
            raise ValueError(f"z must have {wanted} along axis dim={self.dim}, got shape {tuple(x.shape)}.")
        x = at_least_single(x)
        x = x if self.dim in (-1, x.dim() - 1) else x.movedim(self.dim, -1)
        if n is not None and size == n - 1:
            return append_reference(x)
        return x if masked else self._without_masks(x)

    def _warn_of_axes(self, z: object, y: object) -> None:
        """Warn where labels fit both the last axis, the default, and the second one, which ``CrossEntropyLoss`` takes."""
        if self.dim != -1 or not isinstance(z, Tensor) or z.dim() < 3 or torch.compiler.is_compiling():
            return
        if isinstance(y, Tensor) and not y.is_floating_point() and y.shape == z.shape[:-1] == z.shape[:1] + z.shape[2:]:
            warnings.warn(
                f"z of shape {tuple(z.shape)} may have its classes on the last axis, as is assumed here, or on axis 1, as "
                f"torch.nn.CrossEntropyLoss assumes; give dim={z.dim() - 1} or dim=1 to say which.",
                UserWarning,
                stacklevel=3,
            )

    def _without_masks(self, logits: Tensor) -> Tensor:
        """Logits of all classes that users gave, checked for masked classes by losses that are not exact for these."""
        return logits

    def losses_at(self, z: Tensor) -> Tensor:
        """Loss of an input for each label: ``(..., C - 1)`` or ``(..., C)`` to ``(..., C)``, the classes on axis ``dim``."""
        logits = self._logits(z)
        with full_precision(logits):
            return -self._scores(logits).movedim(-1, self.dim)

    def predict_proba(self, z: Tensor) -> Tensor:
        """Probabilities of an input: ``(..., C - 1)`` or ``(..., C)`` to ``(..., C)``, the classes on axis ``dim``.

        The loss is proper for these: its expectation is least if they are the probabilities of the labels.
        """
        logits = self._logits(z)
        with full_precision(logits):
            return self._log_proba(logits).exp().movedim(-1, self.dim)

    def forward(self, z: Tensor, y: Tensor) -> Tensor:
        """Loss of predictors or logits on labels.

        Parameters
        ----------
        z : Tensor of shape (..., C - 1) or (..., C)
            Predictors or logits, the classes on axis ``dim``.
        y : Tensor
            Integer labels of shape (...), without the axis of the classes; or probabilities of shape (..., C), the classes
            on axis ``dim``.

        Returns
        -------
        Tensor
            A scalar, or shape (...) with ``reduction="none"``. The mean is weighted by the labels' class weights, and
            plain for probabilities, as in torch.
        """
        self._warn_of_axes(z, y)
        logits = self._logits(z)
        if isinstance(y, Tensor) and y.is_floating_point() and -y.dim() <= self.dim < y.dim():
            y = y.movedim(self.dim, -1)
        return self._loss_of_logits(logits, y)

    def _loss_of_logits(self, logits: Tensor, y: Tensor) -> Tensor:
        """Loss of logits of all classes, which are on the last axis, as in ``y``."""
        how = Reduction(self.weight, self.reduction, self.ignore_index, self.label_smoothing)
        if self.weight is not None and self.weight.shape[0] != logits.shape[-1]:
            raise ValueError(
                f"weight has {self.weight.shape[0]} entries, but z has {logits.shape[-1]} classes; give one for each."
            )
        with full_precision(logits):
            return how.reduce_scores(self._scores(logits), y)

    def _settings(self) -> dict[str, Any]:
        """Arguments of the constructor by name, as JSON values; weights and links are kept apart."""
        return {name: getattr(self, name) for name in self._defaults}

    def extra_repr(self) -> str:
        """Text between the brackets of ``repr``: what differs from the defaults."""
        return ", ".join(f"{k}={v!r}" for k, v in self._settings().items() if v != self._defaults[k])
