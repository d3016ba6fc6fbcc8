r"""The loss of a canonical link: what LegendreTron learns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from legendretron._internal.start import keep_values, set_start
from legendretron._internal.tensor_cache import TensorCache
from legendretron._internal.validation import at_least_single, has_values
from legendretron.accelerate.inverse import link_from_log
from legendretron.accelerate.losses import RowLosses, can_be_fused, fused_loss, row_losses
from legendretron.links import Link, SoftmaxLink
from legendretron.links.runs import check_single_link
from legendretron.losses.composite import LinkLoss, freeze_copy
from legendretron.losses.criterion import Reduction

_WithProba = Callable[[Tensor], tuple[Tensor, Tensor]]
_LogProba = Callable[[Tensor], Tensor]


class _Scores(torch.autograd.Function):
    """Canonical losses of all labels with a minus, ``x_k - F(x)``, with their exact derivative ``delta_kj - p_j``.

    Automatic differentiation of the formula for ``F`` arrives at ``p`` by another way, which is longer and loses digits where
    logits are large.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(logits: Tensor, with_proba: _WithProba, log_proba: _LogProba) -> tuple[Tensor, Tensor]:
        return with_proba(logits)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        logits, _, ctx.log_proba = inputs
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(logits, output[1])

    @staticmethod
    def backward(ctx: Any, g: Tensor, _: Tensor) -> tuple[Tensor, None, None]:
        logits, p = ctx.saved_tensors
        if torch.is_grad_enabled():  # for higher derivatives, probabilities with a graph
            p = ctx.log_proba(logits).exp()
        return g - p * g.sum(-1, keepdim=True), None, None


class _ScoresWithTangent(_Scores):
    """For forward-mode differentiation, with which compilers cannot deal."""

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        _Scores.setup_context(ctx, inputs, output)
        ctx.save_for_forward(inputs[0])

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, *_: None) -> tuple[Tensor, None]:
        (logits,) = ctx.saved_tensors
        p = ctx.log_proba(logits).exp()
        return tangent - (p * tangent).sum(-1, keepdim=True), None


class CanonicalLoss(LinkLoss):
    r"""Proper canonical loss of a link, :math:`\ell_y = F(z) - z_y` with :math:`z_C = 0`.

    :math:`F` is the link's potential. The loss is convex in ``z`` with gradient :math:`p(z) - e_y`, which is computed as
    such; on probabilities, its Bayes risk is :math:`-F^*(\tilde p)` and its regret the Bregman divergence of :math:`F^*`.
    (Elsewhere this is a Fenchel-Young loss.)

    The loss keeps a frozen copy of the link, whose parameters are buffers here. Do not train ``F`` by its own canonical loss:
    this has a trivial minimum, at which ``F`` changes instead of the model. Learn the link by log-loss, and use its canonical
    loss to train other models.

    Parameters
    ----------
    link : Link
        A canonical link, without run axes.
    weight, reduction, ignore_index, label_smoothing, dim : optional
        See :class:`Criterion`.
    normalized : bool
        Whether the loss of a perfect prediction is zero: the limit :math:`-F^*(e_y) = \inf_z F(z) - z_y` is subtracted. This
        changes neither gradients nor regrets, but :math:`\ell_C - \ell_i` is then the link plus a constant.

    Raises
    ------
    NotCanonicalError
        If the link has no potential, such as a composite link of three or more classes; use :class:`CompositeLoss`.

    Examples
    --------
    >>> from legendretron.links import SoftmaxLink
    >>> criterion = CanonicalLoss(SoftmaxLink(n_classes=3))
    >>> criterion(torch.tensor([[2.0, 0.0]]), torch.tensor([0]))
    tensor(0.2395)
    >>> criterion(torch.tensor([[7.0, 5.0, 5.0]]), torch.tensor([0]))  # logits of all classes
    tensor(0.2395)
    >>> criterion.predict_proba(torch.tensor([[2.0, 0.0]]))
    tensor([[0.7870, 0.1065, 0.1065]])
    """

    least: Tensor | None
    _defaults: ClassVar[dict[str, Any]] = {**LinkLoss._defaults, "normalized": False}

    def __init__(
        self,
        link: Link,
        weight: Tensor | None = None,
        reduction: str = "mean",
        ignore_index: int = -100,
        label_smoothing: float = 0.0,
        dim: int = -1,
        *,
        normalized: bool = False,
    ) -> None:
        check_single_link(link)
        if not link.is_canonical:
            link._refuse_potential()
        super().__init__(weight, reduction, ignore_index, label_smoothing, dim, n_classes=link.n_classes)
        if not isinstance(normalized, bool):
            raise ValueError(f"normalized must be True or False, got {normalized!r}.")
        self.normalized = normalized
        self.canonical_link = freeze_copy(link)
        like = link._first_tensor()
        with torch.inference_mode(False), torch.no_grad(), torch.device("cpu") if like is None else like.device:
            self.register_buffer("least", self.canonical_link._least_losses().detach() if normalized else None)
        self._row_cache: TensorCache[RowLosses | None] = TensorCache()
        self.register_load_state_dict_post_hook(_prepare_after_loading)  # type: ignore[no-untyped-call]
        self._prepare()
        keep_values(self)

    def _prepare(self) -> None:
        """Make the table of a two-class link's potential now: where a graph is compiled it must be there already."""
        like = self.canonical_link._first_tensor()
        if self.n_classes == 2 and like is not None and has_values(like):
            with torch.no_grad(), like.device:
                self.canonical_link._scores_and_proba(at_least_single(torch.zeros(1, 2).to(like)))

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        before = list(self.canonical_link.buffers())
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call] # it moves a module, or changes its dtype
        # not after to_empty: a table of uninitialized memory would take long, and be wrong
        if all(_keeps_values(a, b) for a, b in zip(before, self.canonical_link.buffers(), strict=True)):
            self._prepare()
        return self

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """See :meth:`Criterion.reset_parameters`; a link that never had values gets the start of its constructor."""
        super().reset_parameters(generator)
        if self.least is not None:
            set_start(self.least, self.canonical_link._least_losses().detach())

    @property
    def _link(self) -> Link:
        return self.canonical_link

    def forward(self, z: Tensor, y: Tensor) -> Tensor:
        """See :meth:`Criterion.forward`."""
        loss = self._fused_loss(z, y)
        if loss is None:
            return super().forward(z, y)
        self._warn_of_axes(z, y)
        return loss

    def _fused_loss(self, z: Tensor, y: Tensor) -> Tensor | None:
        """Compute the loss by a compiled function; None if there is none, or if plain operations must explain an error."""
        link, least = self.canonical_link, self.least  # looking for parts of a module takes long enough to do so once
        if (type(link) is SoftmaxLink and least is None) or not isinstance(z, Tensor) or not z.is_floating_point():
            return None
        logits = self._logits(z, masked=True)  # compiled functions notice those that they cannot deal with
        if not can_be_fused(logits, y):
            return None
        tensors = _find_tensors(link)
        if least is not None:
            tensors.append(least)
        rows = self._row_cache.get(self._make_row_losses, logits, tensors)
        if rows is None:
            return None
        flat = logits if logits.dim() == 2 else logits.reshape(-1, self.n_classes)
        labels = y if y.dim() == 1 else y.reshape(-1)
        of = self._smoothed_loss if self.label_smoothing > 0.0 else self._label_loss
        loss = of(rows, flat, labels.long(), Reduction(self.weight, self.reduction, self.ignore_index))
        return loss.reshape(y.shape) if loss is not None and self.reduction == "none" and y.dim() != 1 else loss

    def _label_loss(self, rows: RowLosses, logits: Tensor, labels: Tensor, how: Reduction) -> Tensor | None:
        """Loss of logits ``(n, C)`` on labels ``(n,)`` that are not smoothed; None if one of them is no class."""
        return fused_loss(
            rows, logits, labels, how.weight, how.ignore_index, how.reduction,
            lambda x: how.reduce_scores(self._scores(x), labels),
        )  # fmt: skip

    def _smoothed_loss(self, rows: RowLosses, logits: Tensor, labels: Tensor, how: Reduction) -> Tensor | None:
        r"""The same with smoothed labels, which add a linear function, since :math:`\ell_k - \ell_y = x_y - x_k`.

        .. math:: (1 - \epsilon) w_y \ell_y + \tfrac{\epsilon}{C} \sum_k w_k \ell_k =
                  \bigl((1 - \epsilon) w_y + \epsilon \bar w\bigr) \ell_y + \tfrac{\epsilon}{C} \sum_k w_k (x_y - x_k).
        """
        share, weight = self.label_smoothing, None if how.weight is None else how.weight.to(logits)
        mixed = None if weight is None else torch.lerp(weight, weight.mean(), share)
        loss = self._label_loss(rows, logits, labels, how._replace(weight=mixed, reduction="none"))
        if loss is None:
            return None
        counted, index = labels != how.ignore_index, labels.clamp(0, self.n_classes - 1)
        x = logits if self.least is None else logits + self.least
        label_logit = x.gather(-1, index.unsqueeze(-1))
        further = label_logit - x
        if weight is not None:
            further = further.masked_fill(weight == 0, 0.0) * weight  # zero times the infinity of a masked class
        # the loss of a label that is masked is infinite already
        further = further.mean(-1).masked_fill(label_logit.isneginf().squeeze(-1) | ~counted, 0.0)
        # in the graph, too: a mean over no rows is NaN, and its gradient is zero in them
        loss = torch.add(loss, further, alpha=share).masked_fill(~counted, 0.0)
        if how.reduction == "none":
            return loss
        weights = counted if weight is None else weight[index] * counted
        return loss.sum() if how.reduction == "sum" else loss.sum() / weights.sum()

    @property
    def _is_softmax(self) -> bool:
        return type(self.canonical_link) is SoftmaxLink and self.least is None

    def _make_row_losses(self, like: Tensor) -> RowLosses | None:
        link = self._link_like(like)
        of_link = (tensor.dtype for tensor in _find_tensors(link) if tensor.is_floating_point())
        if any(dtype != like.dtype for dtype in of_link if dtype.itemsize >= 4):
            return None
        return row_losses(link, like.new_empty(0), self.least)

    def _without_masks(self, logits: Tensor) -> Tensor:
        return self.canonical_link._without_masks(logits, for_canonical_loss=True)

    def _scores(self, logits: Tensor) -> Tensor:
        if self._is_softmax:  # without the checks of a link, which take a quarter of the time of a small batch
            return torch.log_softmax(logits, dim=-1)
        return super()._scores(logits)

    def _scores_of_rows(self, logits: Tensor) -> Tensor:
        link = self._link_like(logits)
        if type(link) is SoftmaxLink:  # whose derivative in torch is exact
            scores = torch.log_softmax(logits, dim=-1)
        else:
            function = _Scores if torch.compiler.is_compiling() else _ScoresWithTangent
            scores = function.apply(logits, link._scores_and_proba, link._log_proba_of_logits)[0]  # type: ignore[no-untyped-call]
        return scores if self.least is None else scores + self.least.to(scores)

    def _predictor(self, p: Tensor) -> Tensor:
        # at the boundary the predictor is infinite: take it at the smallest positive number instead of zero
        return link_from_log(self._link_like(p), torch.log(p.clamp(min=torch.finfo(p.dtype).tiny)))

    def _partial_losses(self, q: Tensor) -> Tensor:
        z = self._predictor(at_least_single(q))
        losses = self._link_like(z)._losses_at(z)
        losses = losses if self.least is None else losses - self.least.to(losses)
        # a label that was ruled out has an infinite loss; the predictor stands in for the limit of the others
        return losses.masked_fill(q == 0, torch.inf)


def _find_tensors(link: Link) -> list[Tensor]:
    """All buffers, and parameters of parts that users have put in; ``buffers()`` takes longer than a small batch."""
    parts: list[nn.Module | None] = [link]
    tensors: list[Tensor | None] = []
    for part in parts:  # to which their own parts are added
        if part is not None:
            tensors += part._buffers.values()
            tensors += part._parameters.values()
            parts += part._modules.values()
    return [tensor for tensor in tensors if tensor is not None]


def _keeps_values(before: Tensor, after: Tensor) -> bool:
    """Whether a tensor that was moved or cast has its values still."""
    return has_values(before) and has_values(after) and torch.equal(before.to(after), after)


def _prepare_after_loading(loss: CanonicalLoss, _: object) -> None:
    loss._prepare()
