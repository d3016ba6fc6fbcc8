"""Scores of probabilities: against scikit-learn's, and weights against repetitions."""

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, average_precision_score, log_loss, precision_recall_curve, roc_auc_score

from legendretron.diagnostics import calibration_curve, smooth_calibration_curve, smooth_calibration_error
from legendretron.diagnostics.intervals import exact_interval
from legendretron.diagnostics.scores import RankingCurve, area_under_curve, class_scores, scores_of


@pytest.fixture
def predictions():
    rng = np.random.default_rng(0)
    p = rng.dirichlet([0.7, 0.7, 0.7], 400).round(2) + 0.01  # rounded, so that there are ties
    p /= p.sum(1, keepdims=True)
    y = (p.cumsum(1) < rng.random((400, 1))).sum(1).clip(max=2)
    return y, np.log(p), rng.integers(1, 5, 400)


def test_scores_are_those_of_scikit_learn(predictions):
    y, log_p, weight = predictions
    p, found = np.exp(log_p), scores_of(y, log_p, weight)
    assert found.accuracy == pytest.approx(accuracy_score(y, p.argmax(1), sample_weight=weight))
    assert found.log_loss == pytest.approx(log_loss(y, p, sample_weight=weight))
    assert found.brier == pytest.approx(np.average(((p - np.eye(3)[y]) ** 2).sum(1), weights=weight))
    areas = [roc_auc_score(y == k, p[:, k], sample_weight=weight) for k in range(3)]
    assert found.auc == pytest.approx(np.mean(areas))
    two, of_two = y < 2, log_p[:, :2] - np.logaddexp(log_p[:, :1], log_p[:, 1:2])
    area = roc_auc_score(y[two], (of_two[:, 1] - of_two[:, 0])[two], sample_weight=weight[two])
    assert scores_of(y[two], of_two[two], weight[two]).auc == pytest.approx(area)


def test_weights_are_repetitions(predictions):
    y, log_p, weight = predictions
    rows = np.repeat(np.arange(len(y)), weight)
    weighted, repeated = scores_of(y, log_p, weight), scores_of(y[rows], log_p[rows])
    for name in ("accuracy", "log_loss", "brier", "calibration_error", "auc"):
        assert getattr(weighted, name) == pytest.approx(getattr(repeated, name))
    predicted = log_p.argmax(1)
    pairs = zip(class_scores(y, predicted, 3, weight), class_scores(y[rows], predicted[rows], 3), strict=True)
    for one, other in pairs:
        assert one["precision"] == pytest.approx(other["precision"])
        assert one["recall"] == pytest.approx(other["recall"])


@pytest.mark.parametrize("kind", ["top", "all"])
def test_weighted_calibration_is_that_of_repeated_rows(predictions, kind):
    y, log_p, weight = predictions
    p, rows = np.exp(log_p), np.repeat(np.arange(len(y)), weight)
    one = calibration_curve(y, p, kind=kind, sample_weight=weight)
    other = calibration_curve(y[rows], p[rows], kind=kind)
    np.testing.assert_allclose(one.frequency, other.frequency)
    np.testing.assert_allclose(one.count * weight.sum() / len(y), other.count)
    smooth = {"kind": kind, "bandwidth": 0.05, "n_bootstrap": 0}
    one = smooth_calibration_curve(y, p, sample_weight=weight, **smooth)
    other = smooth_calibration_curve(y[rows], p[rows], **smooth)
    both = np.isfinite(one.frequency) & np.isfinite(other.frequency)
    assert both.sum() > 500
    np.testing.assert_allclose(one.frequency[both], other.frequency[both], atol=1e-9)
    assert one.error == pytest.approx(other.error, abs=1e-5)
    assert one.error == pytest.approx(smooth_calibration_error(y, p, kind=kind, sample_weight=10 * weight), abs=1e-5)


def test_a_band_of_weighted_rows_is_wider(predictions):
    """A few heavy rows are few rows."""
    y, log_p, _ = predictions
    uneven = np.where(np.arange(len(y)) % 8 == 0, 100.0, 1.0)
    even, heavy = (smooth_calibration_curve(y, np.exp(log_p), sample_weight=w) for w in (None, uneven))
    assert np.nanmean(heavy.high - heavy.low) > 1.5 * np.nanmean(even.high - even.low)


def test_weighted_rows_are_as_good_as_fewer_in_an_exact_interval():
    weight = np.repeat([1.0, 0.0], [40, 60])
    assert exact_interval(1, weight) == pytest.approx(exact_interval(1, np.ones(40)))
    uneven = np.repeat([1.0, 3.0], 50)  # as good as 200**2 / 500 rows
    assert exact_interval(0, uneven) == pytest.approx(exact_interval(0, np.ones(80)))
    assert exact_interval(0, uneven).high == pytest.approx(1 - 0.025 ** (1 / 80))


def test_influence_on_the_area_gives_the_bootstrap(predictions):
    y, log_p, weight = predictions
    area, adds = area_under_curve(log_p[:, 0], y == 0, weight, influence=True)
    assert weight @ adds == pytest.approx(0.0, abs=1e-9)
    rng = np.random.default_rng(1)
    exact, linear = [], []
    for _ in range(200):
        rows = rng.integers(len(y), size=len(y))
        exact.append(area_under_curve(log_p[rows, 0], y[rows] == 0, weight[rows])[0])
        linear.append(area + np.average(adds[rows], weights=weight[rows]))
    assert np.corrcoef(exact, linear)[0, 1] > 0.99
    assert np.std(linear) == pytest.approx(np.std(exact), rel=0.05)


def test_curves_of_a_ranking_are_those_of_scikit_learn(predictions):
    y, log_p, weight = predictions
    scores, positive = np.round(log_p[:, 0], 1), y == 0  # with ties
    curve = RankingCurve.of(scores, positive, weight)
    precision, recall, _ = precision_recall_curve(positive, scores, sample_weight=weight)
    np.testing.assert_allclose([curve.precision[::-1], curve.recall[::-1]], [precision, recall], atol=1e-9)
    assert curve.average_precision == pytest.approx(average_precision_score(positive, scores, sample_weight=weight))
    area, _ = area_under_curve(scores, positive, weight)
    assert area == pytest.approx(roc_auc_score(positive, scores, sample_weight=weight))
    assert np.trapezoid(curve.roc[1], curve.roc[0]) == pytest.approx(area)
