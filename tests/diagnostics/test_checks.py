import numpy as np
import pytest
import torch
from scipy.special import expit

from legendretron import CanonicalLink, CanonicalLoss, CompositeLink, canonicality, properness
from legendretron.diagnostics import monotonicity
from legendretron.losses import AsymmetricBinaryLoss, LogLoss
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


def test_one_dimension_is_always_symmetric_and_increasing():
    report = canonicality(CompositeLink(2, init="paper", dtype=torch.float64), normal(50, 1, key="z"))
    assert report.max_asymmetry == 0
    assert report.least_eigenvalue_ratio == pytest.approx(1.0, rel=1e-15)  # a number by its own norm


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


def test_bad_input():
    link = CanonicalLink(3)
    with pytest.raises(ValueError, match="z must hold at least one point"):
        canonicality(link, torch.empty(0, 2))
    with pytest.raises(ValueError, match="z must be finite"):
        canonicality(link, torch.full((3, 2), float("nan")))
    with pytest.raises(ValueError, match="z must have shape"):
        canonicality(link, torch.zeros(3, 3))
    with pytest.raises(ValueError, match="link must be a legendretron Link, got Linear"):
        canonicality(torch.nn.Linear(2, 2), torch.zeros(3, 2))
    with pytest.raises(ValueError, match="link must have no run axes"):
        canonicality(CanonicalLink(3, run_shape=(2,)), torch.zeros(2, 2))
    with pytest.raises(ValueError, match="max_pairs must be an integer of at least 1, got 0"):
        canonicality(link, torch.zeros(3, 2), max_pairs=0)


# --- the report counts what is there ---


def test_an_inverse_link_passes():
    report = monotonicity(expit, np.linspace(-5, 5, 101))
    assert report.is_link
    assert report.to_dict()["n_points"] == 101


def test_falls_flats_and_values_outside_are_counted():
    values = np.array([-0.1, 0.2, 0.2, 0.5, 0.3, 1.0, 1.2])
    report = monotonicity(lambda z: values, np.arange(7.0))
    assert report.falling_share == pytest.approx(1 / 6)
    assert report.flat_share == pytest.approx(1 / 6)
    assert report.largest_fall == pytest.approx(0.2)
    assert report.outside_share == pytest.approx(2 / 7)
    assert report.saturated_share == pytest.approx(1 / 7)
    assert (report.lowest, report.highest) == (-0.1, 1.2)
    assert not report.is_link


def test_errors():
    with pytest.raises(ValueError, match="inverse_link must be a function, got int"):
        monotonicity(3, [0.0, 1.0])
    with pytest.raises(ValueError, match="z must hold at least two distinct finite points, got 1"):
        monotonicity(expit, [1.0, 1.0])
    for bad in (np.nan, np.inf):
        with pytest.raises(ValueError, match=r"inverse_link must return finite values, .* first at z=1"):
            monotonicity(lambda z, bad=bad: np.where(z >= 1, bad, 0.5), [0.0, 1.0, 2.0])
    with pytest.raises(ValueError, match=r"must return the shape it is given, \(2,\), got \(\)"):
        monotonicity(lambda z: 0.5, [0.0, 1.0])


@pytest.mark.parametrize("c", [2, 3, 10])
def test_finds_the_violation_of_an_improper_loss(c):
    """The linear loss rewards certainty: under p the best prediction is the corner of the likeliest class."""
    report = properness(lambda q: 1 - q, c)
    assert report.worst_violation > 0.05
    p, q = torch.tensor(report.p), torch.tensor(report.q)
    own, other = (p * (1 - p)).sum(), (p * (1 - q)).sum()
    assert ((own - other) / (1 + own)).item() == pytest.approx(report.worst_violation, rel=1e-4)


@pytest.mark.parametrize("c", [2, 3, 10, 100])
def test_finds_a_slight_violation(c):
    """A log-loss that scores a slightly tempered prediction is proper for nobody."""
    report = properness(lambda q: -torch.log_softmax(1.001 * torch.log(q), -1), c, n_starts=16)
    assert report.worst_violation > 1e-8


def test_takes_precision_from_the_loss():
    # few rounds: a link that learns makes a table of its potential in each
    assert properness(CanonicalLoss(CompositeLink(2)), n_starts=16, n_rounds=10).worst_violation < 1e-5


def test_refuses_what_is_no_loss():
    with pytest.raises(ValueError, match="loss must be a ProperLoss or a function, got int"):
        properness(3, 3)


def test_repeatable():
    assert properness(LogLoss(), 3, seed=1) == properness(LogLoss(), 3, seed=1)


def test_number_of_classes():
    assert len(properness(AsymmetricBinaryLoss(0.2)).p) == 2
    with pytest.raises(ValueError, match="n_classes must be given"):
        properness(LogLoss())
    with pytest.raises(ValueError, match="n_classes must be 2 for this loss, got 3"):
        properness(AsymmetricBinaryLoss(0.2), 3)
    with pytest.raises(ValueError, match="n_classes must be an integer of at least 2, got 1"):
        properness(LogLoss(), 1)
