"""Every module can be reset to where it started, also in memory that holds no values."""

import copy

import pytest
import torch
from tests.leaky_link import LeakyLink
from torch import nn

from legendretron.links import CanonicalLink, NoisyLink, SymmetricNoise, TransitionNoise
from legendretron.links import make_link as link_by_name
from legendretron.nn import LegendreHead, LegendreLink
from legendretron.potentials import FICNN, CPFlowNetwork, NestedLogSumExp, Potential
from legendretron.trons import PiecewiseLinearLink, TrigonometricLink

MATRIX = [[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.0, 0.3, 0.7]]
NETWORKS = {"ficnn": FICNN, "cpflow": CPFlowNetwork}

#: modules by name, from a generator; drawn in float32
MODULES = {
    **{
        f"{name} {init} {runs}": lambda g, of=of, init=init, runs=runs: of(
            3, hidden=3, depth=2, init=init, run_shape=runs, generator=g
        )
        for name, of in NETWORKS.items()
        for init in ("identity", "centred", "paper")
        for runs in ((), (2,))
    },
    "nested": lambda g: NestedLogSumExp(3, init="random", generator=g),
    "softmax": lambda g: link_by_name("softmax", 3),
    "composite": lambda g: link_by_name("composite", 3, init="paper", network="cpflow", generator=g),
    "canonical": lambda g: link_by_name("canonical", 3, init="random", generator=g),
    "leaky": lambda g: LeakyLink(3, run_shape=(2,)),
    "table": lambda g: PiecewiseLinearLink([-2.0, 0.0, 3.0], [0.1, 0.5, 0.95]),
    "series": lambda g: TrigonometricLink((-2.0, 2.0), [0.0, 1.0, 0.1, -0.2], "sine"),
    "rates": lambda g: SymmetricNoise(3, 0.3, run_shape=(2,)),
    "no rate": lambda g: SymmetricNoise(3, 0.0, learned=False),
    "matrix": lambda g: TransitionNoise([[0.8, 0.2], [0.3, 0.7]], learned=True, run_shape=(2,)),
    "known matrix": lambda g: TransitionNoise(MATRIX),
    "noisy": lambda g: NoisyLink(CanonicalLink(3, generator=g), SymmetricNoise(3, 0.3)),
    "noisy by name": lambda g: link_by_name(
        "noisy", 3, link={"kind": "softmax"}, noise="class-conditional", learned=True
    ),
    "link": lambda g: LegendreLink(3, init="paper", label_noise="learn", generator=g),
    "link and known matrix": lambda g: LegendreLink(3, "softmax", label_noise=MATRIX),
    "head": lambda g: LegendreHead(4, 3, init="paper", generator=g),
    "head cpflow": lambda g: LegendreHead(4, 3, network="cpflow", bias=False, generator=g),
    "head canonical": lambda g: LegendreHead(4, 3, "canonical", label_noise=0.1, generator=g),
}


@pytest.fixture(params=list(MODULES))
def build(request):
    def at(seed):
        torch.manual_seed(seed)  # of linear layers
        return MODULES[request.param](torch.Generator().manual_seed(seed))

    return at


def reset(module, seed):
    torch.manual_seed(seed)
    module.reset_parameters(torch.Generator().manual_seed(seed))
    return module


@torch.no_grad()
def spoil(module):
    """What uninitialized memory may hold."""
    for tensor in module.state_dict().values():
        tensor.fill_(True if tensor.dtype == torch.bool else torch.nan)
    return module


def assert_same_state(module, expected):
    state = module.state_dict()
    assert state.keys() == expected.keys()
    for name, value in expected.items():
        # the same draws; a logarithm may be rounded twice
        torch.testing.assert_close(state[name], value, rtol=1e-6, atol=1e-7, msg=name)


def test_a_reset_after_memory_is_allocated(build):
    expected = copy.deepcopy(build(5).state_dict())
    with torch.device("meta"):
        module = build(1)
    assert all(tensor.is_meta for tensor in module.state_dict().values())
    module.reset_parameters()  # there is nothing to write to yet
    empty = spoil(module.to_empty(device="cpu"))
    # an optimizer may already hold them
    parameters = list(empty.parameters())
    assert_same_state(reset(empty, 5), expected)
    assert all(a is b for a, b in zip(empty.parameters(), parameters, strict=True))
    empty.reset_parameters()  # and without a generator


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_precisions(build, dtype):
    module = spoil(build(1).to(dtype))
    module.reset_parameters()
    state = module.state_dict()
    for name, tensor in state.items():
        assert tensor.dtype in (dtype, torch.bool)
        assert not tensor.isnan().any(), name
        # a rate or a probability of 0 is known as minus infinity
        assert tensor[tensor.isfinite()].float().abs().lt(10.0).all(), name


def test_what_cannot_be_reset_says_so():
    class Cubic(NestedLogSumExp):
        reset_parameters = Potential.reset_parameters

    with pytest.raises(NotImplementedError, match="Cubic has parameters or buffers: it must define reset_parameters"):
        Cubic(2)
    lost = TransitionNoise(torch.empty(3, 3, device="meta")).to_empty(device="cpu")
    with pytest.raises(ValueError, match=r"matrix was given on the device 'meta'.*as a list"):
        lost.reset_parameters()
    head = LegendreHead(4, 3)
    head.linear = nn.Sequential(nn.Linear(4, 2))
    with pytest.raises(ValueError, match=r"linear is a Sequential.*head.link.reset_parameters\(\)"):
        head.reset_parameters()
