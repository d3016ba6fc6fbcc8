"""Every potential, link and loss of the library, by name: the property tests run over these tables.

Constructors draw random, not tame, parameters, from a seed of their own, so that no test depends on another.
"""

from __future__ import annotations

from collections.abc import Callable
from zlib import crc32

import numpy as np
import torch

from legendretron.links import CanonicalLink, CompositeLink, Link, NoisyLink, SoftmaxLink, SymmetricNoise, stack_runs
from legendretron.losses import (
    AsymmetricBinaryLoss,
    CanonicalLoss,
    CompositeLoss,
    CostLoss,
    LogLoss,
    MatsushitaLoss,
    ProperLoss,
    SphericalLoss,
    SquareLoss,
    ZeroOneLoss,
)
from legendretron.potentials import FICNN, CPFlowNetwork, NestedLogSumExp, Potential
from legendretron.trons import PiecewiseLinearLink, TrigonometricLink
from legendretron.trons.link_prior import IntegratedSquare
from tests.leaky_link import LeakyLink

CLASSES = (2, 3, 10, 100)
LEADING = ((), (5,), (2, 3))
RUNS = ((), (3,))
#: leading axes of rows, and run axes in front of them
SHAPES = (((), ()), ((5,), (3,)), ((2, 3), ()))


def generator(*key: object) -> torch.Generator:
    return torch.Generator().manual_seed(crc32(repr(key).encode()))


def normal(*shape: int, key: object, scale: float = 1.0, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return scale * torch.randn(*shape, generator=generator(key, shape), dtype=torch.float64).to(dtype)


def proba(*shape: int, key: object, spread: float = 2.0, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.softmax(normal(*shape, key=key, scale=spread), -1).to(dtype)


def derivatives(f: Callable[[torch.Tensor], torch.Tensor], orders: int) -> list[tuple[float, float]]:
    """Derivatives at 0 of a function of one number, by autograd and by differences of the order before."""
    step, found = 1e-5, []
    for _ in range(orders):
        up, down, zero = (torch.tensor(s, dtype=torch.float64, requires_grad=True) for s in (step, -step, 0.0))
        difference = (f(up) - f(down)).item() / (2 * step)

        def f(s: torch.Tensor, before: Callable[[torch.Tensor], torch.Tensor] = f) -> torch.Tensor:
            return torch.autograd.grad(before(s), s, create_graph=True)[0]

        found.append((f(zero).item(), difference))
    return found


def _cpflow(dim: int, **kw: object) -> CPFlowNetwork:
    network = CPFlowNetwork(dim, hidden=4, depth=3, init="paper", **kw)
    network.initialize(normal(*network.run_shape, 50, dim, key="first batch", scale=2.0, dtype=network.weight.dtype))
    return network


POTENTIALS: dict[str, Callable[..., Potential]] = {
    "ficnn": lambda dim, **kw: FICNN(dim, init="paper", **kw),
    "ficnn_h1_m1": lambda dim, **kw: FICNN(dim, hidden=1, depth=1, init="paper", **kw),
    "ficnn_identity": lambda dim, **kw: FICNN(dim, hidden=3, depth=2, init="identity", **kw),
    "cpflow": _cpflow,
    "cpflow_odd": lambda dim, **kw: CPFlowNetwork(dim, hidden=3, depth=2, init="paper", **kw),
    "cpflow_h1_m1": lambda dim, **kw: CPFlowNetwork(dim, hidden=1, depth=1, init="paper", **kw),
    "nested": lambda dim, **kw: NestedLogSumExp(dim, n_nests=4, init="random", **kw),
    "nested_one": lambda dim, **kw: NestedLogSumExp(dim, n_nests=1, init="random", **kw),
    "nested_identity": lambda dim, **kw: NestedLogSumExp(dim, n_nests=3, init="identity", **kw),
}


def _with_first_batch(link: Link) -> Link:
    dtype = next(link.parameters()).dtype
    link.initialize(normal(*link.run_shape, 50, link.n_classes - 1, key="first batch", scale=2.0, dtype=dtype))
    return link


def _leaky(c: int, generator: torch.Generator | None, **kw: object) -> Link:
    link = LeakyLink(c, **kw)
    torch.nn.init.uniform_(link.log_slope, -1.0, 1.0, generator=generator)
    return link


KNOTS = np.sort(np.random.default_rng(0).normal(size=30)) * 2


def _sines() -> TrigonometricLink:
    prior = IntegratedSquare((-3.0, 4.0), n_basis=8, amplitude=0.7, length_scale=0.1)
    xi = np.random.default_rng(1).normal(size=prior.n_latent)
    return TrigonometricLink(prior.interval, prior.coefficients(xi), prior.kind)


#: for any number of classes
LINKS_OF_MANY: dict[str, Callable[..., Link]] = {
    "softmax": lambda c, generator, dtype, **kw: SoftmaxLink(c, **kw),
    "composite_ficnn": lambda c, **kw: CompositeLink(c, init="paper", **kw),
    "composite_identity": lambda c, **kw: CompositeLink(c, n_blocks=3, hidden=3, depth=2, **kw),
    "composite_cpflow": lambda c, **kw: _with_first_batch(CompositeLink(c, network="cpflow", init="paper", **kw)),
    "canonical": lambda c, **kw: CanonicalLink(c, init="random", **kw),
    "canonical_identity": lambda c, **kw: CanonicalLink(c, n_nests=2, **kw),
    "leaky": _leaky,
}
#: for two classes, without parameters: those that the trons learn
LINKS_OF_TWO: dict[str, Callable[[], Link]] = {
    "table": lambda: PiecewiseLinearLink(KNOTS, np.sort(np.random.default_rng(2).uniform(0.02, 0.9, 30))),
    "one_knot": lambda: PiecewiseLinearLink([0.3], [0.7]),
    "sines": _sines,
    "cosines": lambda: TrigonometricLink((-2.0, 2.0), [0.5, 1.5, 0.2, -0.1], "cosine"),
}
LINKS = [*LINKS_OF_MANY, *LINKS_OF_TWO]


def links_with(*classes: int) -> list[tuple[str, int]]:
    """Names of links with these numbers of classes, where there are such links."""
    return [(name, c) for name in LINKS for c in classes if c == 2 or name in LINKS_OF_MANY]


#: losses as functions of the number of classes
LOSSES: dict[str, Callable[[int], ProperLoss]] = {
    "log": lambda c: LogLoss(),
    "square": lambda c: SquareLoss(),
    "brier": lambda c: SquareLoss(scale_by_half=False),
    "spherical": lambda c: SphericalLoss(),
    "matsushita": lambda c: MatsushitaLoss(),
    "zero_one": lambda c: ZeroOneLoss(),
    "cost": lambda c: CostLoss(torch.rand(c, 4, generator=generator("cost", c), dtype=torch.float64)),
    "asymmetric": lambda c: AsymmetricBinaryLoss(0.3),
    "canonical_softmax": lambda c: CanonicalLoss(SoftmaxLink(c)),
    "canonical_nested": lambda c: CanonicalLoss(make_link("canonical", c)),
    "canonical_composite": lambda c: CanonicalLoss(make_link("composite_ficnn", c)),
    "canonical_noisy": lambda c: CanonicalLoss(
        NoisyLink(make_link("canonical", c), SymmetricNoise(c, NOISE, learned=False, dtype=torch.float64))
    ),
    "composite": lambda c: CompositeLoss(make_link("composite_ficnn", c)),
}
#: those for two classes only
LOSSES_OF_TWO = ("asymmetric", "canonical_composite")
#: rate of the noise of canonical_noisy, whose probabilities are all at least NOISE / C
NOISE = 0.3


def possible(name: str, p: torch.Tensor) -> torch.Tensor:
    """Probabilities that the loss of this name is defined for, from any."""
    return (1.0 - NOISE) * p + NOISE / p.shape[-1] if name == "canonical_noisy" else p


def make_potential(
    name: str, dim: int, run_shape: tuple[int, ...] = (), dtype: torch.dtype = torch.float64
) -> Potential:
    # drawn in float64 and cast, so that the same name is the same function in both precisions
    module = POTENTIALS[name](dim, run_shape=run_shape, generator=generator(name, dim, run_shape), dtype=torch.float64)
    return module.to(dtype)


def make_link(name: str, n_classes: int, run_shape: tuple[int, ...] = (), dtype: torch.dtype = torch.float64) -> Link:
    if name in LINKS_OF_TWO:
        assert n_classes == 2
        link = LINKS_OF_TWO[name]().to(dtype)
        return stack_runs([link] * run_shape[0]) if run_shape else link
    key = generator(name, n_classes, run_shape)
    return LINKS_OF_MANY[name](n_classes, run_shape=run_shape, generator=key, dtype=torch.float64).to(dtype)


SMOOTH_LOSSES = [name for name in LOSSES if name not in ("zero_one", "cost", "asymmetric")]
EXISTING_LOSSES = [(name, c) for name in LOSSES for c in CLASSES if c == 2 or name not in LOSSES_OF_TWO]
EXISTING_SMOOTH_LOSSES = [(name, c) for name, c in EXISTING_LOSSES if name in SMOOTH_LOSSES]
