"""The gradients that training uses, written by hand for the paper's link, against autograd; and run axes as such."""

import pytest
import torch

from legendretron.accelerate.steps import autograd_step, nll_step
from legendretron.links import CanonicalLink, CompositeLink, SoftmaxLink, stack_runs, take_run
from legendretron.trons import PiecewiseLinearLink, TrigonometricLink
from tests.catalogue import CLASSES, LINKS_OF_MANY, LINKS_OF_TWO, generator, links_with, make_link, normal


@pytest.mark.parametrize(("name", "c"), links_with(*CLASSES))
@pytest.mark.parametrize("runs", [1, 3])
def test_agree_with_autograd(name, c, runs):
    _check(make_link(name, c, (runs,)), rtol=1e-10)


@pytest.mark.parametrize("name", LINKS_OF_MANY)
def test_agree_in_float32(name):
    _check(make_link(name, 5, (2,), dtype=torch.float32), rtol=1e-3, dtype=torch.float32)


def _check(link, rtol, dtype=torch.float64):
    runs, c = link.run_shape[0], link.n_classes
    step = None
    for repetition in range(2):  # the second time the buffers are not fresh
        z = normal(runs, 11, c - 1, key=repetition, scale=2.0, dtype=dtype)
        y = torch.randint(c, (runs, 11), generator=generator("y", c, repetition))
        weight = torch.rand(runs, 11, generator=generator("w", c, repetition), dtype=torch.float64).to(dtype)
        step = step or nll_step(link, z)
        _compare(step(z, y, weight), autograd_step(link)(z, y, weight), link, rtol, dtype)


def _compare(found, expected, link, rtol, dtype):
    nll, hit, dz, gradients = found
    assert not nll.requires_grad
    assert torch.allclose(nll, expected[0], rtol=rtol, atol=1e-6 if dtype == torch.float32 else 1e-12)
    assert torch.equal(hit, expected[1])
    assert len(gradients) == len(list(link.parameters()))
    for ours, theirs in zip([dz, *gradients], [expected[2], *expected[3]], strict=True):
        assert ours.shape == theirs.shape
        assert torch.allclose(
            ours, theirs, rtol=rtol, atol=rtol * (1e-3 + theirs.abs().amax() if theirs.numel() else 0)
        )


@pytest.mark.parametrize("name", LINKS_OF_MANY)
def test_stack_and_take_are_inverse(name):
    stacked = make_link(name, 3, (4,))
    z = normal(4, 6, 2, key="z")
    singles = [take_run(stacked, r) for r in range(4)]
    for r, single in enumerate(singles):
        assert single.run_shape == ()
        assert torch.allclose(single(z[r]), stacked(z)[r], rtol=1e-13, atol=1e-15)
    again = stack_runs(singles)
    assert again.run_shape == (4,)
    assert torch.equal(again(z), stacked(z))
    # nothing is shared
    with torch.no_grad():
        for parameter in again.parameters():
            parameter.zero_()
    assert torch.allclose(singles[1](z[1]), stacked(z)[1], rtol=1e-13, atol=1e-15)


DIFFERENT = {
    "kind": (SoftmaxLink(3), CanonicalLink(3)),
    "classes": (SoftmaxLink(3), SoftmaxLink(4)),
    # one unit a layer: all tensors of the two networks that both have are of the same shape
    "network of one unit": (CompositeLink(3, hidden=1), CompositeLink(3, hidden=1, network="cpflow")),
    "blocks, the longer first": (CompositeLink(3, n_blocks=2), CompositeLink(3, n_blocks=1)),
    "precision": (CanonicalLink(3), CanonicalLink(3, dtype=torch.float64)),
    "series": (
        TrigonometricLink((-2.0, 2.0), [0.0, 1.0], "sine"),
        TrigonometricLink((-2.0, 2.0), [0.0, 1.0], "cosine"),
    ),
}


@pytest.mark.parametrize("links", DIFFERENT.values(), ids=DIFFERENT.keys())
def test_stack_refuses_what_is_not_alike(links):
    with pytest.raises(ValueError, match=r"links must be alike, but links\[1\] has .* where links\[0\] has"):
        stack_runs(links)


STARTED = CompositeLink(3, network="cpflow")
STARTED.initialize(torch.randn(8, 2, generator=generator("first")))


@pytest.mark.parametrize(("act", "message"), [
    (lambda: stack_runs([PiecewiseLinearLink([-1.0, 1.0], [0.2, high]) for high in (0.8, 0.9)]), "equal buffers.*'values'"),
    (lambda: stack_runs([STARTED, CompositeLink(3, network="cpflow")]), r"'blocks.0.initialized'.*link.initialize\(z\)"),
    (lambda: stack_runs([CompositeLink(3, network="cpflow"), STARTED]), r"'blocks.0.initialized'.*link.initialize\(z\)"),
    (lambda: stack_runs([SoftmaxLink(3, run_shape=(2,))]), r"without run axes, got run_shape=\(2,\)"),
    (lambda: stack_runs([]), "at least one link"),
    (lambda: take_run(SoftmaxLink(3, run_shape=(2,)), 2), "run must be one of the runs"),
])  # fmt: skip
def test_what_cannot_be_stacked_or_taken(act, message):
    with pytest.raises(ValueError, match=message):
        act()


@pytest.mark.parametrize("name", LINKS_OF_TWO)
def test_equal_buffers_are_those_of_all_runs(name):
    single = LINKS_OF_TWO[name]()
    stacked = stack_runs([single, LINKS_OF_TWO[name]()])
    z = normal(2, 6, 1, key="z", scale=3.0)
    for link in (stacked, stack_runs([take_run(stacked, 0), take_run(stacked, 1)])):
        assert torch.allclose(link(z), single(z), rtol=1e-13)
        assert torch.allclose(link.link(link.inverse(z)), z, rtol=1e-7, atol=1e-7)
        assert torch.allclose(link.potential(z), single.potential(z), rtol=1e-12)
