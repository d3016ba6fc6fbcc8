"""The nearest canonical link, and the gap to it."""

import numpy as np
import pytest
import torch

import legendretron
from legendretron.links import CanonicalLink, CompositeLink, NoisyLink, SoftmaxLink, SymmetricNoise, distill, link_gap


class Undeclared(CanonicalLink):
    """Canonical, but does not say so: the search has to find out."""

    @property
    def is_canonical(self):
        return False


def points(n=300, k=2, dtype=torch.float64, seed=0):
    return 2.0 * torch.randn(n, k, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def bent(dtype=torch.float64, n_classes=3):
    link = CompositeLink(n_classes, init="paper", generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    link.requires_grad_(False)
    for block in link.blocks:
        block.weight *= 4.0
    return link.to(dtype).eval()


def test_a_link_that_is_canonical_in_secret_is_found():
    dtype = torch.float64
    generator = torch.Generator().manual_seed(2)
    link = Undeclared(3, 2, init="random", generator=generator, dtype=dtype)
    found = distill(link, points(dtype=dtype), n_nests=4)
    start = link_gap(link, SoftmaxLink(3), points(dtype=dtype))
    assert start.mean_kl > 0.05  # the search had something to do
    assert found.gap.mean_kl < 1e-4
    assert found.gap.max_difference < 0.02
    assert found.gap.agreement > 0.98
    other = link_gap(link, found.link, points(dtype=dtype, seed=5))  # and elsewhere
    assert other.mean_kl < 1e-3


@pytest.mark.parametrize("link", [CanonicalLink(3, init="random"), SoftmaxLink(3), CompositeLink(2)], ids=repr)
def test_a_canonical_link_is_its_own_nearest(link):
    found = distill(link, points(k=link.n_classes - 1, dtype=torch.float32))
    assert type(found.link) is type(link)
    assert found.converged
    assert found.link is not link
    assert (found.gap.mean_kl, found.gap.max_difference, found.gap.agreement) == (0.0, 0.0, 1.0)


def test_of_a_composite_link_a_gap_remains():
    dtype = torch.float32
    link, z = bent(dtype), points(dtype=dtype)
    found = distill(link, z)
    assert isinstance(found.link, CanonicalLink)
    assert next(found.link.parameters()).dtype == dtype
    assert not any(p.requires_grad for p in found.link.parameters())
    # less than with a link that was not fitted, but not nothing: no canonical link has an asymmetric Jacobian
    assert legendretron.canonicality(link, z).median_asymmetry > 0.01
    assert 1e-6 < found.gap.mean_kl < 0.5 * link_gap(link, SoftmaxLink(3), z).mean_kl
    assert found.gap.n_points == 300
    assert found.gap.mean_kl <= found.gap.max_kl


def test_the_gap_is_that_of_the_formulas():
    link, z = bent(), points(20)
    p, q = link.inverse(z), SoftmaxLink(3).inverse(z)
    gap = link_gap(link, SoftmaxLink(3), z.numpy())
    assert gap.mean_kl == pytest.approx(float((p * (p / q).log()).sum(-1).mean()))
    assert gap.max_difference == pytest.approx(float((p - q).abs().max()))
    assert gap.agreement == float((p.argmax(-1) == q.argmax(-1)).double().mean())


def test_the_result_is_the_same_again_and_leaves_no_trace():
    link, z = bent().train(), points(50)
    before, state = torch.get_rng_state(), {name: t.clone() for name, t in link.state_dict().items()}
    with torch.inference_mode():
        first = distill(link, z, n_nests=2)
    second = distill(link, z, n_nests=2)
    assert first.gap.mean_kl == pytest.approx(second.gap.mean_kl, rel=1e-6)
    assert torch.equal(before, torch.get_rng_state())
    assert link.training
    assert all(torch.equal(t, state[name]) for name, t in link.state_dict().items())


def test_saturated_points_do_no_harm():
    z = torch.cat([points(50), 1e4 * points(20), torch.full((1, 2), 1e300, dtype=torch.float64)])
    found = distill(bent(), z, n_nests=2, max_iter=20)
    assert all(np.isfinite(value) for value in found.gap.to_dict().values())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"link": CompositeLink(3, run_shape=(2,))}, "link must have no run axes"),
        ({"link": NoisyLink(CompositeLink(3), SymmetricNoise(3, 0.1))}, r"distill link\.clean"),
        ({"z": torch.zeros(5, 3)}, "z must"),
        ({"z": torch.full((3, 2), float("nan"))}, "z must be finite"),
        ({"n_nests": 0}, "n_nests"),
    ],
)
def test_bad_arguments_are_named(change, message):
    with pytest.raises(ValueError, match=message):
        distill(**{"link": CompositeLink(3), "z": torch.zeros(5, 2), **change})
