"""The form of a link: which formulas compute it, and their sizes. The only place that knows links by their types."""

from __future__ import annotations

from typing import NamedTuple, cast

from torch import Tensor

from legendretron.links import (
    CanonicalLink,
    CompositeLink,
    Link,
    NoisyLink,
    SoftmaxLink,
    SymmetricNoise,
    TransitionNoise,
)
from legendretron.potentials import FICNN, CPFlowNetwork, NestedLogSumExp

__all__ = ["LinkForm", "fits_kernels", "link_form", "link_tensors"]

#: Units of a layer and of a block up to which a program of a Triton kernel holds all pairs of units, for each of its rows.
_MOST_UNITS, _HIGHEST_RANK = 16, 128
#: Entries of all nests that a program can hold.
_MOST_IN_NESTS = 16_384


class LinkForm(NamedTuple):
    """Softmax+ after a chain of ridge blocks of one shape, or after none; or nests. Then, maybe, noise of labels."""

    n_classes: int
    n_blocks: int = 0
    hidden: int = 1
    depth: int = 1
    mixed_units: int = 1  #: units of a layer that see the one before
    final_softplus: bool = True  #: whether networks end in a softplus
    normalized: bool = False  #: whether units are normalized, as CP-Flow's
    n_nests: int = 0  #: of a nested log-sum-exp, which takes the place of the chain
    learned_rate: bool = False  #: whether the last parameter is the logit of a rate of symmetric noise
    known_rate: float = 0.0  #: rate of symmetric noise that is not learned
    known_matrix: Tensor | None = None  #: transition matrix of noise that is not learned, (C, C)

    @property
    def rank(self) -> int:
        """Units of a block."""
        return self.hidden * self.depth + 1

    @property
    def is_noisy(self) -> bool:
        """Whether there is noise."""
        return self.learned_rate or self.known_rate > 0.0 or self.known_matrix is not None


def link_form(link: Link) -> LinkForm | None:
    """The form of a link, run axes or not; None if it has none of its own.

    Examples
    --------
    >>> link_form(SoftmaxLink(3)).n_blocks, link_form(CompositeLink(3, hidden=8)).rank
    (0, 33)
    """
    # exact types: a subclass may define another map, and users may exchange blocks
    kind = type(link)
    if kind is SoftmaxLink:
        return LinkForm(link.n_classes)
    if kind is CompositeLink:
        return _chain_form(cast(CompositeLink, link))
    if kind is CanonicalLink:
        nests = cast(CanonicalLink, link).nests
        return LinkForm(link.n_classes, n_nests=nests.n_nests) if type(nests) is NestedLogSumExp else None
    return _noisy_form(cast(NoisyLink, link)) if kind is NoisyLink else None


def _chain_form(link: CompositeLink) -> LinkForm | None:
    first, *others = link._chain()
    kind = type(first)
    if kind is not FICNN and kind is not CPFlowNetwork:
        return None
    for block in others:
        if type(block) is not kind or (block.hidden, block.depth) != (first.hidden, first.depth):
            return None
    return LinkForm(
        link.n_classes,
        len(others) + 1,
        first.hidden,
        first.depth,
        first.mixed_units,
        first.final_softplus,
        kind is CPFlowNetwork,
    )


def _noisy_form(link: NoisyLink) -> LinkForm | None:
    form, noise = link_form(link.clean), link.noise
    if form is None:
        return None
    if type(noise) is TransitionNoise and not noise.learned and form.n_nests == 0:
        return form._replace(known_matrix=noise.matrix())
    if type(noise) is not SymmetricNoise:
        return None
    return form._replace(learned_rate=True) if noise.learned else form._replace(known_rate=float(noise.rate()))


def link_tensors(link: Link) -> list[Tensor]:
    """Parameters of a link that has a form, without those of noise, in the order in which compiled functions take them."""
    if isinstance(link, CompositeLink):
        return [tensor for block in link._chain() for tensor in block._tensors()]
    return link.nests._tensors() if isinstance(link, CanonicalLink) else []


def fits_kernels(form: LinkForm) -> bool:
    """Whether Triton kernels compute the link, without a transition matrix.

    Examples
    --------
    >>> fits_kernels(LinkForm(10, n_blocks=2, hidden=8, depth=4)), fits_kernels(LinkForm(10_000, n_nests=4))
    (True, False)
    """
    if form.n_nests:
        return form.n_nests * form.n_classes <= _MOST_IN_NESTS
    return form.hidden <= _MOST_UNITS and form.rank <= _HIGHEST_RANK
