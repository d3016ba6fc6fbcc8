"""Links at the edge: nearly flat, nearly a staircase, without values, in the wrong precision."""

import pytest
import torch

from legendretron import CompositeLink
from legendretron.nn import LegendreLink
from legendretron.simplex import append_reference
from tests.catalogue import LINKS_OF_MANY, generator, make_link, normal


def flat_then_steep(network, n_classes, weights, raw_alpha, raw_gamma, seed, dtype=torch.float64):
    """A link whose blocks are nearly piecewise linear, with slopes of very different size."""
    link = CompositeLink(n_classes, network=network, init="paper", dtype=dtype, generator=generator(seed))
    link.initialize(normal(20, n_classes - 1, key=seed, scale=3.0, dtype=dtype))
    with torch.no_grad():
        for block in link.blocks:
            block.weight.mul_(weights)
            block.raw_alpha.fill_(raw_alpha)
            block.raw_gamma.fill_(raw_gamma)
    return link


@pytest.mark.parametrize(("network", "weights", "raw_alpha", "raw_gamma"), [
    ("cpflow", 3.0, -4.5, 1.0),
    ("cpflow", 3.0, -8.0, 1.0),
    ("ficnn", 10.0, -6.0, 3.0),
])  # fmt: skip
def test_inverse_of_nearly_flat_links(network, weights, raw_alpha, raw_gamma):
    for seed in range(2):
        link = flat_then_steep(network, 10, weights, raw_alpha, raw_gamma, seed)
        log_p = link(normal(20, 9, key=("z", seed), scale=3.0))
        back = link(link.link_from_log(log_p))
        assert ((back - log_p).abs() <= 1e-9 * (1 + log_p.abs().amax(-1, keepdim=True))).all()


def test_meta_device_then_load():
    trained = make_link("composite_cpflow", 3)
    with torch.device("meta"):
        empty = CompositeLink(3, network="cpflow", dtype=torch.float64)
    empty.load_state_dict(trained.state_dict(), assign=True)
    z = normal(4, 2, key="z")
    assert torch.equal(empty(z), trained(z))
    assert not empty.needs_batch


def test_a_first_batch_without_variance_or_with_nan_does_no_harm():
    link = CompositeLink(3, network="cpflow", dtype=torch.float64)
    link(torch.zeros(64, 2, dtype=torch.float64))
    z = normal(5, 2, key="z")
    assert (link.inverse(z) - torch.softmax(append_reference(z), -1)).abs().max() < 0.03
    with_nan = CompositeLink(3, network="cpflow", init="paper", dtype=torch.float64, generator=generator("n"))
    without = CompositeLink(3, network="cpflow", init="paper", dtype=torch.float64, generator=generator("n"))
    batch = normal(20, 2, key="batch")
    without.initialize(batch[1:])
    batch[0, 1] = float("nan")
    with_nan.initialize(batch)
    assert torch.allclose(with_nan(z), without(z), rtol=1e-12)


@pytest.mark.parametrize("name", [n for n in LINKS_OF_MANY if n != "softmax"])
def test_precision_is_raised_but_never_lowered(name):
    link = make_link(name, 3, dtype=torch.float32)
    z = normal(4, 2, key="z")
    with pytest.raises(ValueError, match=r"z has dtype torch.float64, but the parameters are torch.float32"):
        link(z)
    assert link(z.bfloat16()).dtype == torch.float32


@pytest.mark.parametrize("name", ["composite_ficnn", "composite_cpflow", "canonical", "leaky"])
def test_predictors_that_are_large_and_close_in_single_precision(name):
    single = make_link(name, 4, dtype=torch.float32).eval()
    double = make_link(name, 4, dtype=torch.float32).double().eval()
    z, y = 1e6 + normal(20, 3, key="close", dtype=torch.float32), torch.arange(20) % 4

    def gradient(link, z):
        z = z.clone().requires_grad_()
        return torch.autograd.grad(torch.nn.functional.nll_loss(link(z), y, reduction="sum"), z)[0]

    expected = gradient(double, z.double())
    for link in (single, LegendreLink(4, link=single).eval()):
        torch.testing.assert_close(gradient(link, z).double(), expected, rtol=1e-5, atol=1e-5)
