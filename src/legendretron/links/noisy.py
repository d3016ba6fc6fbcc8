r"""A link for noisy labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import torch
from torch import Tensor

from legendretron._internal.printable import one_line
from legendretron._internal.validation import has_values
from legendretron.links.base import Link
from legendretron.links.noise_models import LabelNoise, SymmetricNoise, make_noise
from legendretron.links.registry import link_class, link_config, register_link
from legendretron.simplex import append_reference, log_softmax_plus


@register_link("noisy")
class NoisyLink(Link):
    r"""Link of the observed labels: a link of the true labels, followed by noise.

    Calling it returns log-probabilities of the **observed** labels, for training; :attr:`clean` is the link of the **true**
    labels, for prediction. With :math:`q = T^\top p(z)`:

    - The log-loss of ``q`` is strictly proper for the observed labels, and so, if :math:`T` is invertible, for the true ones.
    - With :class:`~legendretron.links.SymmetricNoise` it is bounded by :math:`\log(C / \epsilon)`, and a canonical link stays
      canonical: its potential is :math:`(1 - \epsilon) F(z) + (\epsilon / C) \sum_k z_k`, and its canonical loss
      :math:`\ell_y - \epsilon \bar\ell`, where :math:`\bar\ell` is the mean of the true link's losses over all classes.
    - Observed labels alone do not determine the rate. A smaller rate fits them equally well, with true probabilities that
      are less certain; so does a larger one, as long as :math:`\epsilon / C` is below every observed probability. The largest
      rate is learned only if some rows are certain, and the model is flexible enough to say so.

    Parameters
    ----------
    clean : Link
        Link of the true labels.
    noise : LabelNoise
        Noise with the same number of classes and run axes.

    Examples
    --------
    >>> import torch
    >>> from legendretron.links import SoftmaxLink, SymmetricNoise
    >>> link = NoisyLink(SoftmaxLink(3), SymmetricNoise(3, rate=0.3, learned=False))
    >>> z = torch.tensor([200.0, 0.0])
    >>> link.inverse(z), link.clean.inverse(z)
    (tensor([0.8000, 0.1000, 0.1000]), tensor([1., 0., 0.]))
    """

    def __init__(self, clean: Link, noise: LabelNoise) -> None:
        if not isinstance(clean, Link) or isinstance(clean, NoisyLink):
            raise ValueError(f"clean must be a link without noise, got {type(clean).__name__}.")
        if not isinstance(noise, LabelNoise):
            raise ValueError(f"noise must be a SymmetricNoise or a TransitionNoise, got {type(noise).__name__}.")
        if noise.n_classes != clean.n_classes or (noise.learned and noise.run_shape != clean.run_shape):
            raise ValueError(
                f"noise must have the classes and run axes of the link, n_classes={clean.n_classes} and "
                f"run_shape={clean.run_shape}, got n_classes={noise.n_classes} and run_shape={noise.run_shape}."
            )
        super().__init__(clean.n_classes, clean.run_shape)
        self.clean = clean
        self.noise = noise

    # --- description ---

    @classmethod
    def setting_names(cls) -> tuple[str, ...]:
        """``link``, the settings of the true link; ``noise``, the name of its kind; ``learned``."""
        return ("link", "noise", "learned")

    def settings(self) -> dict[str, Any]:
        """See :meth:`setting_names`."""
        link = {name: value for name, value in link_config(self.clean).items() if name != "n_classes"}
        return {"link": link, "noise": self.noise.kind, "learned": self.noise.learned}

    @classmethod
    def from_settings(cls, n_classes: int, settings: Mapping[str, Any], **options: Any) -> Self:
        """See :meth:`Link.from_settings`; a rate starts at 0.1."""
        link = settings["link"]
        if not isinstance(link, Mapping) or not isinstance(link.get("kind"), str) or link["kind"] == "noisy":
            raise ValueError(f"link must be a dict with the kind and the settings of the true link, got {link!r}.")
        if not isinstance(settings["learned"], bool):
            raise ValueError(f"learned must be True or False, got {settings['learned']!r}.")
        kind = link_class(link["kind"])
        rest = {name: value for name, value in link.items() if name != "kind"}
        if set(rest) != set(kind.setting_names()):
            wanted, got = ", ".join(kind.setting_names()), one_line(", ".join(rest))
            raise ValueError(f"link must have the settings {wanted}, got {got}.")
        place: dict[str, Any] = {name: options.get(name) for name in ("device", "dtype")}
        noise = make_noise(settings["noise"], n_classes, learned=settings["learned"], **place)
        return cls(kind.from_settings(n_classes, rest, **options), noise)

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """See :meth:`Link.reset_parameters`."""
        self.clean.reset_parameters(generator)
        self.noise.reset_parameters(generator)

    def penalty_centre(self) -> dict[str, float]:
        """That of the true link; noise is not penalized."""
        return {f"clean.{name}": value for name, value in self.clean.penalty_centre().items()}

    def unpenalized(self) -> tuple[str, ...]:
        """What is learned of the noise."""
        return tuple(f"noise.{name}" for name, _ in self.noise.named_parameters())

    @property
    def is_canonical(self) -> bool:
        """Whether the true link is, and the noise keeps it so."""
        return self.clean.is_canonical and self.noise.keeps_canonical

    # --- on rows ---

    def _log_proba(self, z: Tensor) -> Tensor:
        return self.noise.log_observed(self.clean._log_proba(z))

    def _log_proba_of_logits(self, logits: Tensor) -> Tensor:
        return self.noise.log_observed(self.clean._log_proba_of_logits(logits))

    @property
    def _takes_masks(self) -> bool:
        return self.clean._takes_masks

    def _without_masks(self, logits: Tensor, *, for_canonical_loss: bool = False) -> Tensor:
        logits = super()._without_masks(logits, for_canonical_loss=for_canonical_loss)
        read = for_canonical_loss and not logits.is_cuda and has_values(logits) and logits.numel()
        # one pass over the logits: where batches are small, each operation takes as long as the loss
        if read and logits.detach().amin().item() == -torch.inf and bool(self._factor_and_summand(logits)[0] < 1.0):
            raise ValueError(
                "logits hold a masked class, -inf, but with noise its label remains possible, and the canonical loss of the "
                "other labels falls without bound. Use CanonicalLoss(link.clean), or CompositeLoss(link)."
            )
        return logits

    def _from_log_odds(self, log_odds: Tensor) -> Tensor:
        log_p = self.noise.log_clean(log_softmax_plus(log_odds))
        return self.clean._from_log_odds(log_p[..., :-1] - log_p[..., -1:])

    def _jacobian(self, z: Tensor) -> Tensor:
        inner = self.clean._jacobian(z)
        matrix = self.noise.matrix(inner.dtype)
        reduced = (matrix[..., :-1, :-1] - matrix[..., -1:, :-1]).transpose(-1, -2)
        return reduced.unsqueeze(-3).to(inner) @ inner

    def _canonical_losses(self, z: Tensor) -> Tensor:
        if not self.is_canonical:
            self._refuse_potential()
        x = append_reference(z)
        factor, summand = self._factor_and_summand(x)
        return self._observed_scores(-self.clean._canonical_losses(z), x, factor, summand).neg()

    def _scores_and_proba(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        scores, p = self.clean._scores_and_proba(logits)
        factor, summand = self._factor_and_summand(p)
        # less the highest logit, which is never masked
        x = logits - logits.amax(-1, keepdim=True)
        return self._observed_scores(scores, x, factor, summand), torch.addcmul(summand, factor, p)

    @staticmethod
    def _observed_scores(scores: Tensor, x: Tensor, factor: Tensor, summand: Tensor) -> Tensor:
        """Negative canonical losses of observed labels from those of true ones, at logits ``x`` up to a constant."""
        return factor * scores + (1.0 - factor) * x - (x * summand).sum(-1, keepdim=True)

    def _factor_and_summand(self, like: Tensor) -> tuple[Tensor, Tensor]:
        """``k`` and ``c`` of observed probabilities ``k p + c``, (*runs, 1, 1) and (*runs, 1, C), for canonical noise."""
        matrix = self.noise.matrix(like.dtype).to(like)
        factor = matrix[..., :1, :1] - matrix[..., -1:, :1]
        return factor, torch.cat([matrix[..., -1:, :-1], matrix[..., -1:, -1:] - factor], dim=-1)

    def _least_losses(self) -> Tensor:
        raise ValueError(
            "normalized=True needs a loss with a least value, but with noise no label is ever certain, and the loss falls "
            "without bound; leave it out, or use the loss of the link of the clean labels."
        )

    def _potential(self, z: Tensor) -> Tensor:
        return self._canonical_losses(z)[..., -1]

    # --- initialization is that of the true link ---

    @property
    def needs_batch(self) -> bool:
        """Whether the true link does."""
        return self.clean.needs_batch

    @torch.no_grad()
    def initialize(self, z: Tensor, weight: Tensor | None = None, *, across_ranks: bool = False) -> None:
        """See :meth:`Link.initialize`."""
        self.clean.initialize(z, weight, across_ranks=across_ranks)

    def keep_start(self) -> None:
        """See :meth:`Link.keep_start`."""
        self.clean.keep_start()


def clean_link(link: Link) -> Link:
    """The link of true labels, without a floor.

    Examples
    --------
    >>> from legendretron.links import SoftmaxLink
    >>> type(clean_link(with_noise(SoftmaxLink(3), None, 0.2))).__name__
    'SoftmaxLink'
    """
    return link.clean if isinstance(link, NoisyLink) else link


def with_noise(link: Link, noise: LabelNoise | None, rate: float = 0.0) -> Link:
    """Return a link for labels with known noise, or a known rate of symmetric noise; without noise, the link itself.

    Examples
    --------
    >>> from legendretron.links import SoftmaxLink
    >>> type(with_noise(SoftmaxLink(3), None)).__name__, type(with_noise(SoftmaxLink(3), None, 0.2)).__name__
    ('SoftmaxLink', 'NoisyLink')
    """
    if noise is None and rate > 0.0:
        noise = SymmetricNoise(link.n_classes, rate, learned=False)
    return link if noise is None else NoisyLink(link, noise)
