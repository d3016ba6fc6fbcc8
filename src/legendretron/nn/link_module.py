r"""Modules that end in a link: its settings, and wrong labels, on which they train to predict true ones."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from legendretron._internal.offloading import bring_tensors
from legendretron._internal.process_groups import holds_shards, is_fully_sharded
from legendretron._internal.validation import check_integer, check_labels, full_precision
from legendretron.links import LabelNoise, Link, NoisyLink, SymmetricNoise, TransitionNoise, make_link
from legendretron.links.noise_models import known_noise, make_noise, wrong_share
from legendretron.links.registry import check_settings
from legendretron.links.runs import check_single_link
from legendretron.losses.criterion import Criterion
from legendretron.potentials import Potential

#: Kinds that are learned, by the names that users give, and the share of labels that is replaced at the start. It is high, so
#: that the network does not learn the noise before the rate has risen. A matrix starts lower: with much noise, a class could
#: be taken for wrong labels of another one.
_LEARNED = {
    "learn": (SymmetricNoise.kind, 0.25),
    SymmetricNoise.kind: (SymmetricNoise.kind, 0.25),
    TransitionNoise.kind: (TransitionNoise.kind, 0.1),
}


def _make_label_noise(
    label_noise: Any, link: Link, device: torch.device | str | None, dtype: torch.dtype | None
) -> LabelNoise | None:
    """The model of wrong labels that a parameter ``label_noise`` asks for."""
    c = link.n_classes
    if label_noise is None:
        return None
    if isinstance(link, NoisyLink):
        raise ValueError(
            "label_noise does not apply to a NoisyLink, which has noise of its own; give its clean link, or leave "
            "label_noise out."
        )
    if isinstance(label_noise, LabelNoise):
        if label_noise.n_classes != c or (label_noise.learned and label_noise.run_shape):
            raise ValueError(f"label_noise must be for n_classes={c} and without run axes, got {label_noise!r}.")
        return label_noise.to(device=device, dtype=dtype)
    made: dict[str, Any] = {"device": device, "dtype": dtype or torch.get_default_dtype()}
    if not isinstance(label_noise, str):
        return known_noise(label_noise, c, **made)
    if label_noise not in _LEARNED:
        raise ValueError(
            f"label_noise must be None, {', '.join(map(repr, _LEARNED))}, a share of wrong labels such as 0.2, or a "
            f"(C, C) matrix of transition probabilities, got {label_noise!r}."
        )
    return make_noise(_LEARNED[label_noise][0], c, _LEARNED[label_noise][1], learned=True, **made)


def observe(noise: LabelNoise | None, log_p: Tensor) -> Tensor:
    """Log-probabilities of observed labels from those of true ones, ``(..., C) -> (..., C)``; the same without noise."""
    if noise is None:
        return log_p
    with bring_tensors(noise), full_precision(log_p):
        # no view where there are rows already: FSDP warns about views
        return noise.log_observed(log_p) if log_p.dim() > 1 else noise.log_observed(log_p.unsqueeze(0)).squeeze(0)


class LinkModule(nn.Module, ABC):
    """Base of the modules that end in a link; they train on observed labels, and predict true ones."""

    #: Axis of the classes.
    dim: int = -1
    #: Dimensions of the mesh over which the parameters are split by class.
    _n_split_dims = 0

    def _set_link(
        self,
        n_classes: int,
        link: str | Link,
        label_noise: Any,
        generator: torch.Generator | None,
        device: torch.device | str | None,
        dtype: torch.dtype | None,
        settings: dict[str, Any],
    ) -> None:
        """Make the link, by its name and settings or as an object, and the noise that ``label_noise`` asks for."""
        self.n_classes = check_integer("n_classes", n_classes, 2)
        check_settings(link, settings, "**settings")
        if not isinstance(link, Link):
            link = make_link(link, n_classes, generator=generator, device=device, dtype=dtype, **settings)
        elif generator is not None:
            raise ValueError("generator does not apply to a link that is an object; leave it out.")
        self.link = check_single_link(link, n_classes=n_classes).to(device=device, dtype=dtype)
        self.noise = _make_label_noise(label_noise, self.link, device, dtype)

    @abstractmethod
    def _log_true(self, x: Tensor) -> Tensor:
        """Log-probabilities of true labels, the classes on the last axis."""

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Initialize all parameters again, as the constructor does, also in uninitialized memory.

        Call it after ``to_empty``. For models of Transformers, whose ``from_pretrained`` builds networks on the meta device,
        see :func:`init_weights`. If the module is sharded over processes, all of them must call it.

        Examples
        --------
        >>> from legendretron.nn import LegendreLink
        >>> with torch.device("meta"):
        ...     link = LegendreLink(3)
        >>> link.to_empty(device="cpu").reset_parameters()
        """
        self.link.reset_parameters(generator)
        if self.noise is not None:
            self.noise.reset_parameters()

    def forward(self, x: Tensor) -> Tensor:
        """Log-probabilities from logits, or from features; classes are on axis ``dim``, which is the last one for a head.

        With ``label_noise``, they are those of observed labels in training mode, and of true labels in evaluation mode.
        """
        log_p = self._log_observed if self.training else self._log_true
        return self._evaluate(lambda x: self._place(log_p(x)), x)

    def log_proba_observed(self, x: Tensor) -> Tensor:
        """Log-probabilities of the observed labels, in both modes: for the log-loss of noisy labels."""
        return self._compute(lambda x: self._place(self._log_observed(x)), x)

    def _log_observed(self, x: Tensor) -> Tensor:
        return observe(self.noise, self._log_true(x))

    def _compute(self, by: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        """``by(x)`` with whole parameters: ``fully_shard`` gathers them for ``forward``, and for this method."""
        if is_fully_sharded(self) and "_compute" not in vars(self):
            from torch.distributed.fsdp import register_fsdp_forward_method

            register_fsdp_forward_method(self, "_compute")
            return self._compute(by, x)
        return self._evaluate(by, x)

    def _evaluate(self, by: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        if holds_shards(self, self._n_split_dims):
            raise ValueError(
                f"the parameters of this {type(self).__name__} are shards here: fully_shard gathers them only while the "
                "module to which it was applied is called. Apply fully_shard to the head as well, or call the head within "
                "the forward of that module, or within a method of it that was registered by "
                "torch.distributed.fsdp.register_fsdp_forward_method(module, name)."
            )
        found = by(x)
        return found.clone() if is_fully_sharded(self) and found._is_view() else found  # FSDP warns about views

    def _place(self, log_p: Tensor) -> Tensor:
        # NLLLoss over images needs a contiguous input
        return log_p if self.dim == -1 else log_p.movedim(-1, self.dim).contiguous()

    def label_quality(self, x: Tensor, labels: Tensor) -> Tensor:
        r"""Probabilities that labels are correct, given logits or features: same shape as the labels.

        .. math:: P(\text{true } y \mid \text{observed } y, x) = p_y(x) T_{yy} / q_y(x)

        Here :math:`p` and :math:`q` are the probabilities of true and of observed labels, and :math:`T_{yy}` is the
        probability that a row of class ``y`` is labeled correctly. Check the labels with the lowest values first. Call this
        method in evaluation mode, so that dropout is off.

        Examples
        --------
        >>> from legendretron.nn import LegendreHead
        >>> head = LegendreHead(1, 2, link="softmax", bias=False, label_noise=0.2)
        >>> _ = nn.init.constant_(head.linear.weight, 3.0)
        >>> head.label_quality(torch.tensor([[1.0], [1.0]]), torch.tensor([0, 1])).detach()
        tensor([0.9877, 0.1661])
        """
        noise = self.noise
        if noise is None:
            raise ValueError(
                "label_quality needs a noise model, but label_noise=None assumes that all labels are correct; build "
                f"the {type(self).__name__} with label_noise='learn', a rate or a matrix."
            )

        def quality(x: Tensor) -> Tensor:
            log_p = self._log_true(x)
            own = check_labels("labels", labels, self.n_classes, tuple(log_p.shape[:-1]))
            with bring_tensors(noise), full_precision(log_p):
                return noise.log_right(log_p.reshape(-1, self.n_classes), own.reshape(-1)).exp()

        return self._compute(quality, x).reshape(labels.shape)  # afterwards: FSDP warns about views

    @property
    def noise_rate(self) -> float:
        r"""Share of wrong labels, :math:`1 - \frac{1}{C} \sum_i T_{ii}`, if all classes are equally frequent.

        It is 0 without ``label_noise``. A learned rate is too low if the network memorizes wrong labels, and it is
        identifiable only if the network can be certain about some rows. Symmetric noise replaces a share
        ``head.noise.rate()`` of the labels by classes drawn uniformly, of which ``(C - 1) / C`` are wrong.

        Examples
        --------
        >>> from legendretron.nn import LegendreHead
        >>> head = LegendreHead(16, 5, label_noise="learn")  # it starts with a quarter of the labels replaced
        >>> round(head.noise_rate, 6), round(head.noise.rate().item(), 6)
        (0.2, 0.25)
        """
        if self.noise is None:
            return 0.0
        if isinstance(self.noise, SymmetricNoise):
            with bring_tensors(self.noise):
                return wrong_share(float(self.noise.rate().detach()), self.n_classes)
        return 1.0 - float(self.noise_matrix.diagonal().mean())

    @property
    def noise_matrix(self) -> Tensor:
        """Probabilities of observed labels, ``(C, C)``, a row for each true class; the identity without ``label_noise``."""
        if self.noise is None:
            return torch.eye(self.n_classes)
        with bring_tensors(self.noise):
            return self.noise.matrix().detach()


def init_weights(module: nn.Module) -> bool:
    """Initialize a module of this library, for use in the ``_init_weights`` of a Transformers model.

    ``from_pretrained`` builds a network on the meta device, and then calls ``_init_weights`` for every module with
    parameters that were not in the file. This function resets links, potentials, noise and losses; linear layers are left to
    Transformers. A loss gets back its original values, and a link from :func:`~legendretron.links.load_link` those of its
    file. A link that was trained in the same program would be initialized from scratch: save it, and load it.

    Parameters
    ----------
    module : Module
        Any module of the network.

    Returns
    -------
    bool
        Whether the module was reset; if not, it must be initialized elsewhere.

    Examples
    --------
    In a class derived from ``PreTrainedModel``::

        def _init_weights(self, module):
            if not init_weights(module):
                super()._init_weights(module)

    >>> from legendretron.nn import LegendreHead
    >>> head = LegendreHead(16, 3)
    >>> init_weights(head.link), init_weights(head.linear)
    (True, False)
    """
    if not isinstance(module, Link | LabelNoise | Potential | Criterion):
        return False
    module.reset_parameters()
    return True
