"""Calibration by kernel regression."""

import numpy as np
import pytest

from legendretron.diagnostics import smooth_calibration_curve, smooth_calibration_error

RNG = np.random.default_rng(0)


def sample(n, power=1.0):
    q = RNG.random(n)
    return (RNG.random(n) < q**power).astype(int), np.stack([1 - q, q], 1)


def reflected(t, c, sigma):
    """Gaussian kernel with its images beyond 0 and 1, ``(len(t), len(c))``."""
    images = [sign * c + 2 * shift for shift in range(-3, 4) for sign in (1, -1)]
    gauss = sum(np.exp(-0.5 * ((t[:, None] - image) / sigma) ** 2) for image in images)
    return gauss / (np.sqrt(2 * np.pi) * sigma)


@pytest.mark.parametrize("sigma", [0.03, 0.3])
def test_the_formula(sigma):
    """Against sums over all predictions and images."""
    y, p = sample(300, 1.5)
    curve = smooth_calibration_curve(y, p, kind="classwise", column=1, bandwidth=sigma, n_bootstrap=0)
    t, c = curve.confidence[::64], p[:, 1]
    kernel = reflected(t, c, sigma)
    expected = np.clip(t + kernel @ (y - c) / kernel.sum(1), 0, 1)
    found = curve.frequency[::64]
    shown = np.isfinite(found)
    assert shown.mean() > 0.8
    assert np.allclose(found[shown], expected[shown], atol=2e-3)
    assert curve.count.sum() == 300
    assert np.isnan(curve.low).all()


def test_the_bandwidth_predicts_outcomes_that_are_left_out():
    """Against leaving out one prediction after the other, for all bandwidths around the one that was chosen."""
    q = np.random.default_rng(1).random(250)
    y = (np.random.default_rng(2).random(250) < (q > 0.5) * 0.6 + 0.2).astype(int)
    chosen = smooth_calibration_curve(y, np.stack([1 - q, q], 1), kind="classwise", column=1, n_bootstrap=0).bandwidth

    def left_out(sigma):
        kernel = reflected(q, q, sigma)
        np.fill_diagonal(kernel, 0.0)
        return np.sum((y - q - kernel @ (y - q) / kernel.sum(1)) ** 2)

    assert 0.02 < chosen < 0.4
    assert left_out(chosen) < 1.001 * min(left_out(sigma) for sigma in np.geomspace(0.01, 0.5, 24))
    assert left_out(chosen) < 0.98 * left_out(0.01)


def test_the_error_is_its_own_bandwidth():
    y, p = sample(1000, 2.0)
    error = smooth_calibration_error(y, p, kind="classwise", column=1)
    t = (np.arange(2000) + 0.5) / 2000
    integral = np.abs(reflected(t, p[:, 1], error) @ (y - p[:, 1]) / 1000).mean()
    assert np.isclose(integral, error, rtol=0.01)
    # the mean of q - q^2 over even q is 1/6
    assert abs(error - 1 / 6) < 0.03
    assert smooth_calibration_curve(y, p, kind="classwise", column=1, n_bootstrap=0).error == error


def test_honest_and_boastful_predictions():
    p = RNG.dirichlet(np.ones(3), 20_000)
    y = (p.cumsum(1) < RNG.random((20_000, 1))).sum(1)
    sharp = p**3 / (p**3).sum(1, keepdims=True)
    for kind in ("top", "all"):
        assert smooth_calibration_error(y, p, kind=kind) < 0.02
        assert smooth_calibration_error(y, sharp, kind=kind) > 0.1
    curve = smooth_calibration_curve(y, p, n_bootstrap=0)
    shown = np.isfinite(curve.frequency)
    assert np.abs(curve.frequency - curve.confidence)[shown].max() < 0.05


def test_the_curve_follows_the_truth_and_the_band_covers_it():
    y, p = sample(4000, 2.0)
    curve = smooth_calibration_curve(y, p, kind="classwise", column=1, n_bootstrap=100)
    shown = np.isfinite(curve.frequency)
    t = curve.confidence[shown]
    assert np.abs(curve.frequency[shown] - t**2).max() < 0.1
    covered = (curve.low[shown] <= t**2) & (t**2 <= curve.high[shown])
    assert covered.mean() > 0.6
    assert (curve.low[shown] <= curve.high[shown]).all()
    wider = smooth_calibration_curve(y, p, kind="classwise", column=1, n_bootstrap=100, level=0.99)
    assert (wider.high - wider.low)[shown].mean() > 1.2 * (curve.high - curve.low)[shown].mean()


def test_extreme_predictions():
    """All certain, all the same, and one row."""
    certain = np.array([[1.0, 0.0], [0.0, 1.0]] * 50)
    assert smooth_calibration_error([0, 1] * 50, certain) < 1e-3
    assert smooth_calibration_error([1, 0] * 50, certain) > 0.4
    assert smooth_calibration_error([1] * 50, certain[::2][:50]) == pytest.approx(1.0, abs=1e-3)
    same = smooth_calibration_curve([0, 1] * 50, np.full((100, 2), 0.5))
    assert np.nanmax(np.abs(same.frequency - 0.5)) < 0.02
    one = smooth_calibration_curve([0], np.array([[0.7, 0.3]]), n_bootstrap=3)
    assert np.isnan(one.frequency).all()  # one prediction is not enough
    single = smooth_calibration_curve(
        *(np.asarray(a, dtype=d) for a, d in zip(sample(500), (int, np.float32), strict=True))
    )
    assert np.isfinite(single.error)


@pytest.mark.parametrize(("changes", "message"), [
    ({"kind": "classwise"}, "column must be given with kind='classwise', and only then"),
    ({"column": 1}, "column must be given with kind='classwise', and only then"),
    ({"kind": "classwise", "column": 2}, "column must be less than the 2 columns of p, got 2"),
    ({"bandwidth": "wide"}, "bandwidth must be"),
    ({"seed": -1}, "seed must be"),
    *(({"sample_weight": bad}, "sample_weight must contain 10") for bad in ([1.0], [-1.0] * 10, [0.0] * 10, [np.nan] * 10)),
])  # fmt: skip
def test_bad_input(changes, message):
    with pytest.raises(ValueError, match=message):
        smooth_calibration_curve(*sample(10), **changes)
