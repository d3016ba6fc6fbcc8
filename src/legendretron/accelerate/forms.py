"""Which links the kernels of a training step can compute."""

from __future__ import annotations

from legendretron.accelerate.cuda.kernel_link import HIGHEST_RANK, MOST_CLASSES, MOST_NESTS, KernelLink
from legendretron.links import CanonicalLink, CompositeLink, Link, NoisyLink, SoftmaxLink, SymmetricNoise
from legendretron.potentials import FICNN, CPFlowNetwork
from legendretron.potentials.cpflow import SCALE_FLOOR

__all__ = ["kernel_link"]


def kernel_link(link: Link) -> KernelLink | None:
    """The link as kernels know it; None for one that they do not know.

    Examples
    --------
    >>> kernel_link(SoftmaxLink(3)).n_blocks, kernel_link(CompositeLink(3, hidden=8))
    (0, None)
    """
    # subclasses may define other maps, and users may exchange blocks
    if type(link) is NoisyLink:
        clean, noise = kernel_link(link.clean), link.noise
        if clean is None or type(noise) is not SymmetricNoise:
            return None
        if noise.learned:
            return clean._replace(learned_rate=True)
        return clean._replace(known_rate=float(noise.rate()))
    if type(link) is SoftmaxLink:
        return KernelLink()
    if type(link) is CanonicalLink and link.nests.n_nests <= MOST_NESTS and link.n_classes <= MOST_CLASSES:
        return KernelLink(n_nests=link.nests.n_nests)
    if type(link) is CompositeLink:
        return _chain(link)
    return None


def _chain(link: CompositeLink) -> KernelLink | None:
    blocks = link._chain()
    first = blocks[0]
    alike = all(type(b) is type(first) and (b.hidden, b.depth) == (first.hidden, first.depth) for b in blocks)
    if not alike or first.rank > HIGHEST_RANK or type(first) not in (FICNN, CPFlowNetwork):
        return None
    floor = SCALE_FLOOR if type(first) is CPFlowNetwork else None
    return KernelLink(len(blocks), first.hidden, first.depth, first.mixed_units, floor)
