r"""A learned link as the last module of a network."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedParameter

from legendretron._internal.process_groups import is_sharded, replicate
from legendretron._internal.validation import (
    at_least_single,
    check_float_tensor,
    check_integer,
    check_labels,
    check_last_axis,
    in_autocast,
)
from legendretron.accelerate.log_proba import log_proba
from legendretron.links import Link
from legendretron.losses.criterion import make_reduction
from legendretron.nn.link_module import LinkModule, observe
from legendretron.simplex import append_reference


class LegendreLink(LinkModule):
    r"""A learned proper loss after the logits of a network: ``logits -> log_proba``, for ``torch.nn.NLLLoss``.

    Use it in place of ``torch.nn.LogSoftmax``, or replace ``cross_entropy(logits, y)`` by
    ``nll_loss(link(logits), y)``. If logits :math:`\ell` of all ``C`` classes are given, the predictors are their differences
    from the last one, :math:`z_k = \ell_k - \ell_C`, so adding a constant to all logits changes nothing, as for softmax.
    ``C - 1`` logits are used as predictors directly. With ``init="identity"``, training starts close to softmax.

    **Masked classes.** With ``link="softmax"`` or ``"canonical"`` a logit may be very low, or minus infinity: its class then
    has probability and gradient 0, as if it did not exist. (A row of minus infinities is NaN, as in torch.) Other links of
    three or more classes compare all classes with each other. For these, a logit that is lower than the largest by 5e8 or
    more is treated as a mask, and raises a ``ValueError``; on a GPU and in compiled graphs, where values are not read,
    the row is NaN. There it is also NaN if the last logit is lower than the largest by 14,000 or more in float32, since
    differences lose their precision. ``C - 1`` predictors are never treated as masks. Masking the log-probabilities works
    with every link: ``log_softmax(link(logits).masked_fill(mask, -inf), dim)``.

    ``CrossEntropyLoss`` and ``NLLLoss`` of the log-probabilities are equal, since these are normalized. Computations are in
    float32 at least, also within ``torch.autocast`` and for logits or parameters of half precision.

    Parameters
    ----------
    n_classes : int
        ``C``, at least 2.
    link : {"composite", "canonical", "softmax"}, name of another link, or Link
        Kind of link. ``"composite"`` is the paper's link; ``"canonical"`` has a convex loss that can be exported. Links of
        your own have the names passed to :func:`~legendretron.links.register_link`.
    dim : int
        Axis of the classes in logits and log-probabilities; 1 for images ``(N, C, H, W)``.
    label_noise : None, "learn", "class-conditional", float, array-like of shape (C, C) or LabelNoise
        Model of wrong labels, see Notes. With None, all labels are assumed to be correct.
    generator, device, dtype : optional
        Random generator, device and dtype of the parameters.
    **settings
        Settings of the link, such as ``hidden=4`` and ``init="paper"`` of :class:`~legendretron.links.CompositeLink`. If your
        own link has a setting with the name of a parameter above, pass the link as an object.

    Notes
    -----
    With ``label_noise``, the module returns log-probabilities of the **observed** labels in training mode, and of the
    **true** labels in evaluation mode.

    - ``"learn"`` or ``"symmetric"``: a share of the labels is replaced by a class drawn uniformly, and this share is learned,
      starting from a quarter. :attr:`noise_rate` is the share of wrong labels, which is smaller, since one in ``C`` replaced
      labels is correct by chance. Use a separate learning rate for the share, see :func:`parameter_groups`.
    - ``"class-conditional"``: the probabilities of each class to be labeled as another are learned. Labels alone cannot
      distinguish a class that is often mislabeled as another from one that looks like another: if :attr:`noise_rate` goes
      to 0, add a small multiple of ``head.noise.matrix().diagonal().mean()`` to the loss, which favors noise [1]_. Too large
      a multiple finds noise that is not there.
    - a number: the known share of **wrong** labels, at least 0 and below ``(C - 1) / C``. All other classes are equally
      likely as wrong labels.
    - a matrix: entry ``[i, j]`` is the known probability of label ``j`` if ``i`` is the true class.
    - a :class:`~legendretron.links.LabelNoise`, to start from other values.

    References
    ----------
    .. [1] Tanno et al. (2019), Learning from noisy labels by regularized estimation of annotator confusion, CVPR.

    Examples
    --------
    >>> net = nn.Sequential(nn.Linear(5, 3), LegendreLink(3))
    >>> loss = nn.NLLLoss()(net(torch.randn(8, 5)), torch.randint(3, (8,)))
    >>> loss.backward()
    """

    def __init__(
        self,
        n_classes: int,
        link: str | Link = "composite",
        *,
        dim: int = -1,
        label_noise: Any = None,
        generator: torch.Generator | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        **settings: Any,
    ) -> None:
        super().__init__()
        self._set_link(n_classes, link, label_noise, generator, device, dtype, settings)
        if isinstance(dim, bool) or not isinstance(dim, int):
            raise ValueError(f"dim must be an integer, the axis of the classes, got {dim!r}.")
        self.dim = dim

    def _log_true(self, logits: Tensor) -> Tensor:
        check_float_tensor("logits", logits)
        c = self.n_classes
        if not -logits.dim() <= self.dim < logits.dim() or logits.shape[self.dim] not in (c, c - 1):
            raise ValueError(
                f"logits must have n_classes={c}, or {c - 1}, entries along axis dim={self.dim}, "
                f"got shape {tuple(logits.shape)}."
            )
        z = at_least_single(logits).movedim(self.dim, -1)
        if z.shape[-1] < c and self.link._takes_masks:
            z = append_reference(z)
        return self.link(z, all_classes=z.shape[-1] == c, by=log_proba)

    def extra_repr(self) -> str:
        """Text between the brackets of ``repr``."""
        return f"n_classes={self.n_classes}, dim={self.dim}"


class LegendreHead(LinkModule):
    r"""Linear layer and learned link: ``features -> log_proba``, for ``torch.nn.NLLLoss``.

    .. math:: \log p(x) = \log u(W x + b), \qquad W \in \mathbb{R}^{(C-1) \times d},

    with :math:`u` the inverse link. It replaces the last ``torch.nn.Linear(d, C)`` of a classifier together with the
    softmax hidden in ``torch.nn.CrossEntropyLoss``. See :class:`LegendreLink` for precision.

    The layer is ``head.linear``. It may be replaced by any layer that maps features to ``C - 1`` predictors: one with
    adapters, a ``LazyLinear``, or the result of ``torch.ao.quantization.quantize_dynamic``.

    For very many classes, :class:`~legendretron.nn.class_parallel.ClassParallel` splits the head over processes.

    Parameters
    ----------
    in_features : int
        ``d``.
    n_classes : int
        ``C``, at least 2.
    link : {"composite", "canonical", "softmax"}, name of another link, or Link
        Kind of link.
    label_noise : None, "learn", "class-conditional", float, array-like of shape (C, C) or LabelNoise
        Model of wrong labels, as in :class:`LegendreLink`.
    bias : bool
        Whether the linear layer has a bias.
    generator : torch.Generator, optional
        Random generator for initializing the link; the linear layer uses the global one, like all layers of torch.
    device, dtype : optional
        Device and dtype of the parameters.
    **settings
        Settings of the link, as in :class:`LegendreLink`.

    Examples
    --------
    >>> net = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), LegendreHead(16, 3))
    >>> log_proba = net(torch.randn(8, 5))
    >>> nn.NLLLoss()(log_proba, torch.randint(3, (8,))).backward()

    If a fifth of the labels is wrong:

    >>> head = LegendreHead(16, 3, label_noise=0.2)
    >>> x = 1e6 * torch.ones(1, 16)
    >>> head.train()(x).exp().min(), head.eval()(x).exp().min()  # of observed labels, of true labels
    (tensor(0.1000, grad_fn=<MinBackward1>), tensor(0., grad_fn=<MinBackward1>))
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        link: str | Link = "composite",
        *,
        label_noise: Any = None,
        bias: bool = True,
        generator: torch.Generator | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        **settings: Any,
    ) -> None:
        if dtype is not None and not dtype.is_floating_point:
            raise ValueError(f"dtype must be a floating-point dtype such as torch.float32, got {dtype}.")
        super().__init__()
        self.in_features, n_outputs = (
            check_integer("in_features", in_features, 1),
            check_integer("n_classes", n_classes, 2) - 1,
        )
        self.linear = nn.Linear(self.in_features, n_outputs, bias=bias, device=device, dtype=dtype)
        self._set_link(n_classes, link, label_noise, generator, device, dtype, settings)

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """See :meth:`LegendreLink.reset_parameters`.

        The linear layer uses the global generator of torch. A layer that replaces it is reset by its own
        ``reset_parameters``.
        """
        reset = getattr(self.linear, "reset_parameters", None)
        if reset is None:
            raise ValueError(
                f"linear is a {type(self.linear).__name__}, which has no reset_parameters(), so that the head cannot be "
                "reset; give it that method, or reset the rest: head.link.reset_parameters()."
            )
        reset()
        super().reset_parameters(generator)

    def _log_true(self, features: Tensor) -> Tensor:
        z = self._predictor(features)
        if is_sharded(z):
            from legendretron.nn.split import gather_log_proba

            return gather_log_proba(self.link, z)
        return self.link(z, by=log_proba)

    def loss(
        self,
        features: Tensor,
        labels: Tensor,
        reduction: str = "mean",
        ignore_index: int = -100,
        *,
        weight: Tensor | None = None,
        label_smoothing: float = 0.0,
    ) -> Tensor:
        """Log-loss of observed labels: ``nll_loss(head(features), labels)`` of a head in training mode.

        With ``label_noise``, this is the loss of the observed labels in both modes, so it can also be used for validation on
        noisy labels.

        Use this method to train a head that was split by :class:`~legendretron.nn.class_parallel.ClassParallel`: no process
        ever stores the probabilities of all classes.

        Parameters
        ----------
        features : Tensor of shape (..., in_features)
            Features; the same on all processes of a split head.
        labels : Tensor
            Classes of shape (...), or probabilities of shape (..., C).
        reduction : {"mean", "sum", "none"}
            As in ``torch.nn.CrossEntropyLoss``, like the other parameters.
        ignore_index : int
            Label of the rows to ignore.
        weight : Tensor of shape (C,), optional
            Weights of the classes.
        label_smoothing : float
            Share of each label that is spread evenly over all classes, from 0 to 1.

            A head that is split takes classes only, without weights or smoothing.
        """
        how = make_reduction(weight, reduction, ignore_index, label_smoothing, self.n_classes)
        if self._n_split_dims and (weight is not None or label_smoothing):
            raise ValueError(
                f"weight={weight!r} and label_smoothing={label_smoothing!r} are not for a head that is split over "
                "processes; leave them out."
            )

        def loss(features: Tensor) -> Tensor:
            z = self._predictor(features)
            if not is_sharded(z):
                return how.reduce_scores(observe(self.noise, self.link(z, by=log_proba)), labels, "labels")
            from legendretron.nn.split import sharded_nll

            own = check_labels("labels", labels, self.n_classes, tuple(z.shape[:-1]), ignore_index)
            return sharded_nll(self.link, z, own, reduction, ignore_index, self.noise)

        return self._compute(loss, features)

    def _predictor(self, features: Tensor) -> Tensor:
        linear = self.linear  # looking for it takes long enough to do so once
        check_last_axis("features", features, getattr(linear, "in_features", 0) or self.in_features)
        weight = _weight_of(linear)
        if weight is not None and features.dtype != weight.dtype and not in_autocast(features):
            raise ValueError(
                f"features have dtype {features.dtype}, but the head's weights are {weight.dtype}; convert one of them, "
                f"for example with features.to({weight.dtype}), or run the network within torch.autocast."
            )
        if self._n_split_dims and weight is not None and not is_sharded(features):
            features = replicate(features, weight)
        z: Tensor = linear(features)
        if z.shape[-1] != self.n_classes - 1:
            raise ValueError(
                f"linear must give n_classes - 1 = {self.n_classes - 1} predictors, got {z.shape[-1]} from {linear!r}. "
                "If it has a row for each class, subtract its last row from the others, or put a LegendreLink after it."
            )
        return z

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any, **kwargs: Any) -> None:
        saved, weight = state_dict.get(f"{prefix}linear.weight"), _weight_of(self.linear)
        if saved is not None and saved.dim() == 2 and weight is not None and saved.shape != weight.shape:
            rows, columns = saved.shape
            plain = " If it is a plain linear layer with a row for each class, subtract its last row from the others."
            raise ValueError(
                f"the state dict holds a head with in_features={columns} and n_classes={rows + 1}, but this one has "
                f"in_features={self.in_features} and n_classes={self.n_classes}; build LegendreHead({columns}, {rows + 1}) "
                f"to load it.{plain if rows == self.n_classes else ''}"
            )
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)

    def extra_repr(self) -> str:
        """Text between the brackets of ``repr``."""
        return f"in_features={self.in_features}, n_classes={self.n_classes}"


def _weight_of(linear: nn.Module) -> Tensor | None:
    """Weights of a linear layer; another layer in its place may have none, a method of the name, or none yet."""
    weight = getattr(linear, "weight", None)
    return weight if isinstance(weight, Tensor) and not isinstance(weight, UninitializedParameter) else None
