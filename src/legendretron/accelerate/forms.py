"""The form of a link: which formulas compute it, and their sizes. The only place that knows links by their types."""

from __future__ import annotations

from collections.abc import Sequence
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

__all__ = [
    "LinkForm",
    "LinkParts",
    "block_shapes",
    "fits_kernels",
    "link_form",
    "link_parts",
    "link_tensors",
    "trained_form",
]

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
    def shapes(self) -> list[tuple[int, ...]]:
        """Shapes of :func:`link_tensors`, without run axes.

        Examples
        --------
        >>> LinkForm(10, n_nests=2).shapes
        [(2,), (1,), (2, 9), (2,), (2,)]
        """
        k, m = self.n_classes - 1, self.n_nests
        if m:
            return [(m,), (1,), (m, k), (m,), (m,)]
        return _shapes_of_block(k, self.hidden, self.depth, self.mixed_units, self.normalized) * self.n_blocks

    @property
    def is_noisy(self) -> bool:
        """Whether there is noise."""
        return self.learned_rate or self.known_rate > 0.0 or self.known_matrix is not None


def _shapes_of_block(k: int, hidden: int, depth: int, mixed: int, normalized: bool) -> list[tuple[int, ...]]:
    rank, rows = hidden * depth + 1, (depth - 1) * mixed + 1
    shapes: list[tuple[int, ...]] = [(rank, k), (rank,), (rows, hidden), (1,), (1,)]
    return [*shapes, (rows - 1,), (rows,), (rows - 1,)] if normalized else shapes


def block_shapes(block: FICNN, dim: int) -> list[tuple[int, ...]]:
    """Shapes of the tensors of a network of this library with inputs of some dimension, without run axes.

    Examples
    --------
    >>> block_shapes(FICNN(3, hidden=2, depth=4), 3)
    [(9, 3), (9,), (7, 2), (1,), (1,)]
    """
    return _shapes_of_block(dim, block.hidden, block.depth, block.mixed_units, isinstance(block, CPFlowNetwork))


class LinkParts(NamedTuple):
    """What is computed with: not yet compared with each other."""

    form: LinkForm
    tensors: Sequence[Tensor]  #: parameters, without those of noise, in the order of compiled functions
    blocks: Sequence[FICNN] = ()


def link_parts(link: Link) -> LinkParts | None:
    """The form of a link without noise, as its attributes have it, and its tensors as they are now; None if it has none.

    Callers compare shapes: compiled functions read as much memory as the form says.
    """
    # exact types: a subclass may define another map, and users may exchange blocks
    kind = type(link)
    if kind is CompositeLink:
        return _chain_parts(cast(CompositeLink, link))
    if kind is CanonicalLink:
        nests = cast(CanonicalLink, link).nests
        if type(nests) is NestedLogSumExp:
            return LinkParts(LinkForm(link.n_classes, n_nests=nests.n_nests), nests._tensors())
    return LinkParts(LinkForm(link.n_classes), ()) if kind is SoftmaxLink else None


def _chain_parts(link: CompositeLink) -> LinkParts | None:
    blocks = link._chain()
    first = blocks[0]
    kind = type(first)
    if (kind is not FICNN and kind is not CPFlowNetwork) or first.hidden < 1 or first.depth < 1:
        return None
    sizes = hidden, depth, final = first.hidden, first.depth, first.final_softplus
    tensors = list(first._tensors())
    for block in blocks[1:]:
        if type(block) is not kind or (block.hidden, block.depth, block.final_softplus) != sizes:
            return None
        tensors += block._tensors()
    form = LinkForm(link.n_classes, len(blocks), hidden, depth, first.mixed_units, final, kind is CPFlowNetwork)
    return LinkParts(form, tensors, blocks)


def link_form(link: Link) -> LinkForm | None:
    """The form of a link, run axes or not; None if it has none of its own, or tensors of other shapes.

    Examples
    --------
    >>> link_form(SoftmaxLink(3)).n_blocks, link_form(CompositeLink(3, hidden=8)).rank
    (0, 33)
    """
    if type(link) is NoisyLink:
        return _noisy_form(link)
    parts = link_parts(link)
    if parts is None:
        return None
    shapes = [(*link.run_shape, *shape) for shape in parts.form.shapes]
    return parts.form if [getattr(tensor, "shape", None) for tensor in parts.tensors] == shapes else None


def _noisy_form(link: NoisyLink) -> LinkForm | None:
    form, noise = link_form(link.clean), link.noise
    if form is None or noise.n_classes != form.n_classes:
        return None
    if type(noise) is TransitionNoise and not noise.learned and form.n_nests == 0:
        matrix = noise.matrix()
        return form._replace(known_matrix=matrix) if matrix.shape == (form.n_classes, form.n_classes) else None
    if type(noise) is not SymmetricNoise or noise.raw_rate.shape != (*(link.run_shape if noise.learned else ()), 1):
        return None
    return form._replace(learned_rate=True) if noise.learned else form._replace(known_rate=float(noise.rate()))


def trained_form(link: Link) -> LinkForm | None:
    """The form of a link whose parameters are those of the form and no others, in the same order; None if they are not.

    Compiled steps of training work on all parameters in one piece of memory.
    """
    form = link_form(link)
    if form is None:
        return None
    clean, of_noise = (link.clean, link.noise.parameters()) if isinstance(link, NoisyLink) else (link, ())
    wanted = [*link_tensors(clean), *of_noise]
    found = list(link.parameters())
    return form if len(found) == len(wanted) and all(a is b for a, b in zip(found, wanted, strict=True)) else None


def link_tensors(link: Link) -> Sequence[Tensor]:
    """Parameters of a link that has a form, without those of noise, in the order in which compiled functions take them."""
    parts = link_parts(link)
    return () if parts is None else parts.tensors


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
