"""Parts of a score, against made-up predictions whose truth is known."""

import numpy as np
import pytest
from scipy.special import entr, rel_entr

from legendretron import CanonicalLink
from legendretron.diagnostics import decompose
from legendretron.losses import CanonicalLoss, LogLoss, SphericalLoss, SquareLoss


def draw(n, n_classes=3, power=2.0, seed=0):
    """True probabilities, predictions that are too sure, and labels."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet([1.0] * n_classes, n)
    y = (p.cumsum(1) < rng.random((n, 1))).sum(1).clip(max=n_classes - 1)
    q = p**power
    return p, q / q.sum(1, keepdims=True), y


LOSSES = ["log", "brier", LogLoss(), SphericalLoss(), CanonicalLoss(CanonicalLink(3, n_nests=2))]


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss if isinstance(loss, str) else type(loss).__name__)
def test_parts_add_up(loss):
    _, q, y = draw(400)
    weight = np.random.default_rng(0).uniform(0.5, 2, 400)
    parts = decompose(y, q, loss, sample_weight=weight)
    assert parts.calibration.value + parts.refinement.value == pytest.approx(parts.score.value, rel=1e-12)
    assert parts.uncertainty.value - parts.resolution.value == pytest.approx(parts.refinement.value, rel=1e-12)
    for part in parts:
        assert part.low <= part.value <= part.high


def test_weights_are_repetitions():
    p, q, y = draw(60)
    times = np.where(y == 0, 3, 1)
    weighted = decompose(y, q, sample_weight=times, calibrated=p)
    repeated = decompose(*(np.repeat(rows, times, 0) for rows in (y, q)), calibrated=np.repeat(p, times, 0))
    for one, other in zip(weighted, repeated, strict=True):
        assert one.value == pytest.approx(other.value, rel=1e-9)


def test_parts_are_the_true_ones():
    p, q, y = draw(40_000)
    truth = {
        "log": (rel_entr(p, q).sum(1).mean(), entr(p).sum(1).mean(), entr(p.mean(0)).sum()),
        "brier": (((p - q) ** 2).sum(1).mean(), 1 - (p**2).sum(1).mean(), 1 - (p.mean(0) ** 2).sum()),
    }
    for loss, (cost, rest, most) in truth.items():
        parts = decompose(y, q, loss)
        assert parts.calibration.value == pytest.approx(cost, rel=0.1)
        assert parts.refinement.value == pytest.approx(rest, rel=0.02)
        assert parts.uncertainty.value == pytest.approx(most, rel=0.02)
        assert parts.resolution.value == pytest.approx(most - rest, rel=0.06)
        assert parts.calibration.low < cost < parts.calibration.high


def test_right_probabilities_cost_nothing():
    p, _, y = draw(5000)
    parts = decompose(y, p)
    assert parts.calibration.value == pytest.approx(0.0, abs=0.003)
    assert parts.score.value == pytest.approx(entr(p).sum(1).mean(), rel=0.03)


def test_named_losses_are_those_of_the_library():
    _, q, y = draw(300)
    for name, loss, factor in (("log", LogLoss(), 1.0), ("brier", SquareLoss(), 2.0)):
        for one, other in zip(decompose(y, q, name), decompose(y, q, loss), strict=True):
            assert one.value == pytest.approx(factor * other.value, rel=1e-6)


def test_what_was_recalibrated_elsewhere_is_taken():
    p, q, y = draw(20)
    parts = decompose(y, q, calibrated=p)
    assert parts.refinement.value == pytest.approx(-np.log(p[np.arange(20), y]).mean())
    with pytest.raises(ValueError, match=r"at least 30 rows.*got 20; pass recalibrated probabilities as calibrated"):
        decompose(y, q)
    with pytest.raises(ValueError, match="loss must be one of 'log', 'brier', got 'hinge'"):
        decompose(y, q, "hinge", calibrated=p)
    with pytest.raises(ValueError, match="p must contain probabilities"):
        decompose(y, 2 * q)


def test_an_impossible_label_does_not_make_all_infinite():
    p = np.array([[1.0, 0.0]] * 100)
    parts = decompose(np.arange(100) % 2, p)
    assert np.isfinite([part.value for part in parts]).all()
    assert parts.calibration.low > 10
