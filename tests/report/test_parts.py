"""What the page is made from: draws, folds, links and losses, labels, and pieces of HTML."""

import re

import numpy as np
import pytest
from scipy.special import log_softmax

from legendretron.diagnostics import smooth_calibration_curve
from legendretron.diagnostics.decomposition import folds_for
from legendretron.diagnostics.intervals import drawn_means, interval
from legendretron.plots import ReliabilityDisplay
from legendretron.plots.chart import Chart, Line
from legendretron.report.charts import chart_figure
from legendretron.report.measured import Measured
from legendretron.report.rows import Contestant, rows_of
from legendretron.report.sections.labels import judge_labels
from tests.report.conftest import Given, draw_labels


def test_draws_have_the_spread_of_a_mean():
    rng = np.random.default_rng(0)
    values, weight = rng.normal(size=(500, 2)), rng.uniform(0.5, 2, 500)
    draws = drawn_means(values.T, weight, seed=0)
    mean = weight @ values / weight.sum()
    spread = np.sqrt((weight[:, None] ** 2 * (values - mean) ** 2).sum(0)) / weight.sum()
    np.testing.assert_allclose(draws.mean(0), mean, atol=0.005)
    np.testing.assert_allclose(draws.std(0), spread, rtol=0.08)
    found = interval(float(mean[0]), draws[:, 0])
    assert found.high - found.low == pytest.approx(2 * 1.96 * spread[0], rel=0.12)


def rows_for(y, n_classes=3, weight=None):
    return rows_of(Given(tuple(range(n_classes))), y, weight)


def test_the_error_of_an_area_is_that_of_draws_of_weighted_rows():
    rng = np.random.default_rng(0)
    y, weight = rng.integers(2, size=400), np.exp(rng.normal(size=400))
    log_p = log_softmax(rng.normal(size=(400, 2)) + np.eye(2)[y], axis=1)
    measured = Measured(rows_for(y, 2, weight), {"model": Contestant.of("model", y, log_p)}, {}, seed=0)
    drawn = measured.score("model", "auc")
    np.testing.assert_allclose(measured.areas["model"].error, (drawn.high - drawn.low) / (2 * 1.96), rtol=0.12)


@pytest.mark.parametrize(("n", "n_folds"), [(29, 0), (30, 5), (5000, 5), (5001, 2)])
def test_no_row_is_predicted_by_a_fit_that_has_seen_it(n, n_folds):
    y = np.arange(n) % 3
    folds = folds_for(len(y), seed=0)
    assert len(folds) == n_folds
    for fold in folds:
        assert not np.intersect1d(fold.fit, fold.predict).size
        assert len(fold.fit) + len(fold.predict) == n
    if folds:
        np.testing.assert_array_equal(np.sort(np.concatenate([fold.predict for fold in folds])), np.arange(n))


def test_held_out_rows_cannot_be_told_from_the_others():
    """How often a class is drawn says nothing about other rows, but would if folds had equal shares of it."""
    y = np.random.default_rng(0).integers(40, size=400)
    loss = []
    for fold in folds_for(len(y), seed=0):
        share = (np.bincount(y[fold.fit], minlength=40) + 1.0) / (len(fold.fit) + 40)
        loss.append(-np.log(share[y[fold.predict]]).mean())
    assert np.mean(loss) > np.log(40)


def test_a_flipped_label_is_the_most_suspicious():
    log_p, y = draw_labels(200, spread=4.0)
    y = log_p.argmax(1)
    surest = int(log_p.max(1).argmax())
    y[surest] = (y[surest] + 1) % 3
    rows = rows_for(y)
    posterior = judge_labels(Given((0, 1, 2)), None, rows, log_p)
    np.testing.assert_allclose(posterior.sum(1), 1.0)
    quality = posterior[np.arange(200), y]
    assert quality.argmin() == surest
    assert quality[surest] < 0.5


def paths(picture, kind="line"):
    """Points of the paths of a picture, ``(n, 2)`` for each part of each path."""
    picture = picture.split('<ul class="legend">')[0]
    found = re.findall(rf'<path class="{kind} [^"]*"[^>]* d="([^"Z]+)Z?"', picture)
    return [[np.array([p.split() for p in part.split("L")], float) for part in d.split("M")[1:]] for d in found]


def test_a_chart_has_the_points_of_its_display():
    log_p, y = draw_labels(400)
    curve = smooth_calibration_curve(y, np.exp(log_p), n_bootstrap=10)
    display = ReliabilityDisplay({"<model>": curve})
    picture = chart_figure(display.chart(), "caption")
    assert f"&lt;model&gt; (calibration error {curve.error:.3f})" in picture
    diagonal, parts = paths(picture)[:2]
    (ax, ay), (bx, by) = diagonal[0]
    np.testing.assert_allclose([ax, bx], [46, 388])  # from one side of the axes to the other
    known = np.isfinite(curve.frequency)
    for part in parts:
        x, height = (part[:, 0] - ax) / (bx - ax), (part[:, 1] - ay) / (by - ay)
        np.testing.assert_allclose(height, np.interp(x, curve.confidence[known], curve.frequency[known]), atol=0.01)
    assert len(parts) == (np.diff(known.astype(int), prepend=0) == 1).sum()
    assert paths(picture, "band")
    counts = chart_figure(display.counts(log=False), "caption")
    tallest = max(float(height) for height in re.findall(r'<rect [^>]* height="([\d.]+)"', counts))
    bars = display.counts().lines[0].y
    drawn = [float(height) / tallest for height in re.findall(r'<rect [^>]* height="([\d.]+)"', counts)]
    np.testing.assert_allclose(drawn, bars / bars.max(), atol=0.01)


@pytest.mark.parametrize("size", [1.0, 1e3, 12_345_678.0])
def test_titles_of_axes_are_beside_the_labels(size):
    chart = Chart("x", "a title", [Line(np.arange(3.0), np.array([0.0, 0.75, 1.0]) * size, "line", 0)])
    picture = chart_figure(chart, "caption")
    (title,) = re.findall(r"translate\(([\d.]+) [^>]*>a title", picture)
    ends = re.findall(r'<text class="tick" x="([\d.]+)" y="[\d.]+" text-anchor="end">([^<]*)<', picture)
    assert len(ends) > 2
    for end, text in ends:
        assert float(end) - 6.2 * len(text) > float(title) + 6.0  # half the height of its letters


def test_what_has_no_place_in_a_chart_is_left_out():
    """Zero has no place on a logarithmic axis, and NaN interrupts a curve."""
    x, y = np.array([0.0, 0.01, 0.1, 1.0, 10.0]), np.array([1.0, 2.0, np.nan, 2.0, 3.0])
    marked = Line(x, y, "tried", 0, marker="o", low=y - 0.1, high=y + 0.1, opacity=0.4)
    picture = chart_figure(Chart("alpha", "loss", [marked], log="x"), "caption")
    assert [len(part) for part in paths(picture)[0]] == [1, 2]
    assert picture.count("<circle") == picture.count('class="whisker') == 3
    assert "tried\nalpha: 0.010\nloss: 2.000 (1.900 to 2.100)" in picture
    assert picture.count('opacity="0.4"') == 7
    flat = chart_figure(Chart("epoch", "loss", [Line(np.arange(1, 4), np.full(3, 0.5), "a", 0)], log="y"), "caption")
    assert ">0.5<" in flat
