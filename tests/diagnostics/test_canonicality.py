import pytest
import torch

from legendretron import CanonicalLink, CompositeLink, canonicality
from tests.catalogue import generator, links_with, make_link, normal


@pytest.mark.parametrize(("name", "c"), links_with(2, 3, 10))
def test_links_that_are_canonical_show_it(name, c):
    link = make_link(name, c)
    report = canonicality(link, normal(100, c - 1, key="z", scale=4.0))
    if link.is_canonical:
        assert report.max_asymmetry < 1e-12
        assert report.indefinite_share == 0
        assert report.nonmonotone_share == 0
    else:
        assert report.median_asymmetry > 1e-6


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_saturated_points_are_no_false_alarm(dtype):
    link = make_link("canonical", 5, dtype=dtype)
    report = canonicality(link, normal(300, 4, key="z", scale=40.0, dtype=dtype))
    assert report.indefinite_share == 0
    assert report.nonmonotone_share == 0


def test_finds_violations_of_monotonicity():
    """Two points between which the paper's construction moves backwards."""
    link = _steep_composite()
    report = canonicality(link, normal(200, 2, key="z"))
    assert report.median_asymmetry > 0.05
    assert report.indefinite_share > 0.2
    assert report.least_eigenvalue_ratio < -0.02
    assert report.nonmonotone_share > 0


def _steep_composite() -> CompositeLink:
    link = CompositeLink(3, n_blocks=2, init="paper", dtype=torch.float64, generator=generator("steep", 2))
    with torch.no_grad():
        for block in link.blocks:
            block.weight.mul_(6.0)
            block.raw_alpha.fill_(-2.0)
            block.raw_gamma.fill_(3.0)
    return link


def test_pairs_are_drawn_repeatably_and_at_most_as_many():
    link = make_link("composite_ficnn", 3)
    z = normal(100, 2, key="z")
    first, second = (canonicality(link, z, max_pairs=50, seed=3) for _ in range(2))
    assert first == second
    assert first.n_pairs == 50
    assert canonicality(link, z).n_pairs == 100 * 99 // 2
    assert set(first.to_dict()) >= {"median_asymmetry", "indefinite_share", "nonmonotone_share"}


@pytest.mark.parametrize(("link", "z", "message"), [
    (CanonicalLink(3), torch.empty(0, 2), "z must contain at least one point"),
    (CanonicalLink(3), torch.full((3, 2), float("nan")), "z must be finite"),
    (torch.nn.Linear(2, 2), torch.zeros(3, 2), "link must be a legendretron Link, got Linear"),
    (CanonicalLink(3, run_shape=(2,)), torch.zeros(2, 2), "link must have no run axes"),
])  # fmt: skip
def test_bad_input(link, z, message):
    with pytest.raises(ValueError, match=message):
        canonicality(link, z)
