r"""Wrong labels in networks: what is observed to train on, what is true to predict."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from legendretron._internal.validation import check_labels, full_precision
from legendretron.links import LabelNoise, Link, NoisyLink, SymmetricNoise, TransitionNoise
from legendretron.links.noise_models import known_noise, wrong_share

__all__ = ["NoisyLabels", "make_label_noise", "observe"]

#: Start of learned noise, as a share of labels that is replaced. It is high, so that the network does not learn the noise
#: before the rate has risen. A matrix starts lower: with much noise, a class could be taken for wrong labels of another one.
_STARTS = {SymmetricNoise.kind: 0.25, TransitionNoise.kind: 0.1}

#: Kinds that are learned, by the names that users give.
_LEARNED = {
    "learn": SymmetricNoise.kind,
    SymmetricNoise.kind: SymmetricNoise.kind,
    TransitionNoise.kind: TransitionNoise.kind,
}


def make_label_noise(
    label_noise: Any,
    link: Link,
    *,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> LabelNoise | None:
    """Return the model of wrong labels that ``label_noise`` stands for, see :class:`~legendretron.nn.LegendreLink`.

    Parameters
    ----------
    label_noise : None, str, float, array-like or LabelNoise
        As given by the user.
    link : Link
        Link of the true labels.
    device, dtype : optional
        Device and dtype of the tensors.

    Examples
    --------
    >>> from legendretron.links import SoftmaxLink
    >>> make_label_noise(0.3, SoftmaxLink(4))
    SymmetricNoise(n_classes=4, rate=0.4, learned=False)
    """
    c = link.n_classes
    if label_noise is None:
        return None
    if isinstance(link, NoisyLink):
        raise ValueError(
            "label_noise does not apply to a NoisyLink, which has noise of its own; give its clean link, or leave "
            "label_noise out."
        )
    made: dict[str, Any] = {"device": device, "dtype": dtype or torch.get_default_dtype()}
    if isinstance(label_noise, LabelNoise):
        if label_noise.n_classes != c or (label_noise.learned and label_noise.run_shape):
            raise ValueError(f"label_noise must be for n_classes={c} and without run axes, got {label_noise!r}.")
        return label_noise.to(device=device, dtype=dtype)
    if isinstance(label_noise, str):
        if label_noise not in _LEARNED:
            raise ValueError(
                f"label_noise must be None, {', '.join(map(repr, _LEARNED))}, a share of wrong labels such as 0.2, or a "
                f"(C, C) matrix of transition probabilities, got {label_noise!r}."
            )
        kind = _LEARNED[label_noise]
        if kind == SymmetricNoise.kind:
            return SymmetricNoise(c, _STARTS[kind], **made)
        return TransitionNoise._like_symmetric(c, _STARTS[kind], learned=True, **made)
    return known_noise(label_noise, c, **made)


def observe(noise: LabelNoise | None, log_p: Tensor) -> Tensor:
    """Log-probabilities of observed labels from those of true ones, ``(..., C) -> (..., C)``; the same without noise."""
    if noise is None:
        return log_p
    with full_precision(log_p):
        # no view where there are rows already: FSDP warns about views
        return noise.log_observed(log_p) if log_p.dim() > 1 else noise.log_observed(log_p.unsqueeze(0)).squeeze(0)


class NoisyLabels(nn.Module):
    """What heads and links have in common where some labels are wrong."""

    n_classes: int
    link: Link
    noise: LabelNoise | None

    def _reset_link(self, generator: torch.Generator | None) -> None:
        self.link.reset_parameters(generator)
        if self.noise is not None:
            self.noise.reset_parameters()

    @property
    def noise_rate(self) -> float:
        r"""Share of wrong labels, :math:`1 - \frac{1}{C} \sum_i T_{ii}`, if all classes are equally frequent.

        It is 0 without ``label_noise``. A learned rate is too low where the network memorises wrong labels, and is
        determined only if the network can be certain of some rows. Symmetric noise replaces a share ``head.noise.rate()``
        of the labels by any class alike, of which ``(C - 1) / C`` are wrong.

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
            return wrong_share(float(self.noise.rate().detach()), self.n_classes)
        return 1.0 - float(self.noise_matrix.diagonal().mean())

    @property
    def noise_matrix(self) -> Tensor:
        """Probabilities of observed labels, ``(C, C)``, a row for each true class; the identity without ``label_noise``."""
        if self.noise is None:
            return torch.eye(self.n_classes)
        return self.noise.matrix().detach()

    def _label_quality(self, log_p: Tensor, labels: Tensor) -> Tensor:
        if self.noise is None:
            raise ValueError(
                "label_quality needs a model of wrong labels, but label_noise=None takes all labels for right; build the "
                f"{type(self).__name__} with label_noise='learn', or with what is known."
            )
        labels = check_labels("labels", labels, self.n_classes, tuple(log_p.shape[:-1]))
        with full_precision(log_p):
            return (
                self.noise.log_right(log_p.reshape(-1, self.n_classes), labels.reshape(-1)).exp().reshape(labels.shape)
            )
