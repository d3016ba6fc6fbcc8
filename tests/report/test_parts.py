"""What the page is made from: draws, folds, links and losses, labels, and pieces of HTML."""

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.metrics import log_loss

from legendretron import LegendreTronClassifier, MultinomialLogisticClassifier
from legendretron.diagnostics.decomposition import folds_for, recalibrate
from legendretron.diagnostics.intervals import Estimate, drawn_means, interval
from legendretron.plots.loss import LossDisplay
from legendretron.report.charts import Chart, ticks
from legendretron.report.evaluation import logistic_regression
from legendretron.report.markup import table, verdict
from legendretron.report.measured import Measured
from legendretron.report.rows import Contestant, rows_of
from legendretron.report.sections.labels import judge_labels
from legendretron.report.sections.learned import FORECASTS, SCORES, gap, is_softmax, link_sections, loss_sections
from tests.report.conftest import Given, draw_labels


def test_draws_have_the_spread_of_a_mean():
    rng = np.random.default_rng(0)
    values, weight = rng.normal(size=(500, 2)), rng.uniform(0.5, 2, 500)
    draws = drawn_means(values, weight, seed=0)
    mean = weight @ values / weight.sum()
    spread = np.sqrt((weight[:, None] ** 2 * (values - mean) ** 2).sum(0)) / weight.sum()
    np.testing.assert_allclose(draws.mean(0), mean, atol=0.005)
    np.testing.assert_allclose(draws.std(0), spread, rtol=0.08)
    found = interval(float(mean[0]), draws[:, 0])
    assert found.high - found.low == pytest.approx(2 * 1.96 * spread[0], rel=0.12)


def test_groups_of_rows_vary_as_rows_do(monkeypatch):
    rng = np.random.default_rng(0)
    values, weight = np.sort(rng.normal(size=(900, 1)), axis=0), rng.uniform(0.5, 2, 900)  # an order that says much
    rows = drawn_means(values, weight, seed=0)
    monkeypatch.setattr("legendretron.diagnostics.intervals._GROUPS", 300)
    groups = drawn_means(values, weight, seed=0)
    np.testing.assert_allclose(groups.mean(0), rows.mean(0), atol=0.01)
    np.testing.assert_allclose(groups.std(0), rows.std(0), rtol=0.15)


def test_signs_of_intervals():
    assert [Estimate(0, *ends).sign for ends in ((1, 2), (-1, 2), (-2, -1))] == [1, 0, -1]


def rows_for(y, n_classes=3, weight=None):
    return rows_of(Given(tuple(range(n_classes))), y, weight)


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


def test_nothing_is_learned_from_noise():
    """A fit that had seen the rows it is judged on would be better than guessing."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(150, 30)), np.arange(150) % 3
    rows = rows_for(y)
    log_p, fitted_to = logistic_regression(X, rows, folds_for(len(y), 0))
    assert fitted_to == 120
    assert log_loss(y, np.exp(log_p)) > np.log(3) - 0.02
    seen = MultinomialLogisticClassifier(alpha=1e-4).fit(X, y)
    assert log_loss(y, seen.predict_proba(X)) < np.log(3) - 0.1


def test_recalibration_undoes_what_was_done():
    log_p, y = draw_labels(900)
    rows = rows_for(y)
    sharp = 3.0 * log_p
    sharp -= np.log(np.exp(sharp).sum(1, keepdims=True))
    found = recalibrate(sharp, y, rows.weight, folds_for(len(y), 0))
    assert np.mean(found.temperatures) == pytest.approx(3.0, rel=0.15)
    best, before = log_loss(y, np.exp(log_p)), log_loss(y, np.exp(sharp))
    for after in (found.temperature, found.calibrated):
        assert log_loss(y, np.exp(after)) < best + 0.1 * (before - best)
    contestants = {"model": Contestant.of("sharp", y, sharp)}
    measured = Measured(rows, contestants, {"model": found.calibrated}, seed=0)
    for score, loss in (("log_loss", "log"), ("brier", "brier")):
        parts = measured.parts["model", loss]
        assert parts.score.value == pytest.approx(measured.score("model", score).value)
        assert parts.calibration.sign == 1


def test_more_rows_than_are_ranked_are_drawn(monkeypatch):
    log_p, y = draw_labels(400)
    rows, one = rows_for(y), {"model": Contestant.of("one", y, log_p)}
    whole = Measured(rows, one, {}, 0).score("model", "auc")
    monkeypatch.setattr("legendretron.report.measured._MOST_RANKED", 600)
    measured = Measured(rows, one, {}, 0)
    part = measured.score("model", "auc")
    assert len(measured.ranked) == 200
    assert part.high - part.low == pytest.approx(np.sqrt(2) * (whole.high - whole.low), rel=0.25)
    assert part.low < whole.value < part.high


def test_softmax_is_the_sigmoid_and_the_log_loss():
    X, y = make_classification(150, 5, n_informative=4, n_redundant=0, n_classes=3, random_state=0)
    model = MultinomialLogisticClassifier(alpha=0.01).fit(X, y)
    assert is_softmax(model)
    share = np.bincount(y) / len(y)
    sections = link_sections(model, model.linear_predictor(X).mean(0), share)
    assert sorted(sections) == [0, 1, 2]
    assert max(map(gap, sections.values())) < 1e-6
    for loss in loss_sections(model, [0, 1, 2], share).values():
        np.testing.assert_allclose(loss, -np.log(FORECASTS), atol=1e-6)


def test_the_loss_of_two_classes_is_that_of_its_plot():
    X, y = make_classification(150, 4, random_state=0)
    model = LegendreTronClassifier(alpha=1e-3, link_alpha=1e-3, max_epochs=20, random_state=0).fit(X, y)
    section = loss_sections(model, [1], np.array([0.5, 0.5]))[1]
    drawn = LossDisplay.from_estimator(model)
    wanted = np.interp(FORECASTS, drawn.probability, drawn.losses["LegendreTronClassifier"][:, 1])
    middle = slice(4, -4)
    np.testing.assert_allclose(section[middle], wanted[middle], rtol=1e-2, atol=1e-3)
    link = link_sections(model, np.zeros(1), np.array([0.5, 0.5]))[1]
    at = np.interp([-np.log(3), np.log(3)], SCORES, link)
    np.testing.assert_allclose(at, [0.25, 0.75], atol=0.002)


def test_a_composite_link_of_three_classes_has_no_loss_to_draw():
    X, y = make_classification(90, 5, n_informative=4, n_redundant=0, n_classes=3, random_state=0)
    model = LegendreTronClassifier(alpha=1e-3, link_alpha=1e-3, max_epochs=3, random_state=0).fit(X, y)
    assert loss_sections(model, [0], np.full(3, 1 / 3)) is None
    gaps = [gap(p) for p in link_sections(model, np.zeros(2), np.full(3, 1 / 3)).values()]
    assert gaps == sorted(gaps, reverse=True)  # the furthest from the sigmoid is told of first
    assert gaps[0] > gaps[-1]


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


def test_estimators_judge_labels_by_their_own_noise():
    X, y = make_classification(120, 4, random_state=0)
    model = LegendreTronClassifier(alpha=0.01, link_alpha=0.01, max_epochs=5, random_state=0, label_noise=0.2).fit(X, y)
    found = judge_labels(model, X, rows_for(y, 2), model.predict_log_proba(X))
    np.testing.assert_allclose(found, model.label_posterior(X, y, cv=None))


def test_cells_keep_values_to_sort_by():
    html = table(["<b>x</b>", "y", "z"], [["<i>", 0.12345678, float("nan")]])
    assert (
        '<th scope="row" data-head="&lt;b&gt;x&lt;/b&gt;"><span>&lt;i&gt;</span>' in html
    )  # text is not sorted as a number
    assert "&lt;b&gt;x&lt;/b&gt;</th>" in html
    assert 'data-v="0.123457"' in html
    assert 'data-v=""' in html
    assert verdict(True, "<i>") == '<span class="good">&lt;i&gt;</span>'
    assert verdict(False, "worse") == '<span class="bad">worse</span>'


@pytest.mark.parametrize(("low", "high"), [(0, 1), (-6, 6), (0.31, 0.32), (0, 1e-7), (2.0, 2.0)])
def test_ticks_are_few_and_inside(low, high):
    found = ticks(low, high)
    assert 1 <= len(found) <= 8
    assert min(found) >= low - 1e-9
    assert max(found) <= high + 1e-9


def test_charts_break_lines_where_there_is_nothing():
    chart = Chart("x", "y", (0, 3), (0, 1)).line([0, 1, 2, 3], [0.1, np.nan, 0.5, np.inf], "c0")
    assert chart.svg().count("M") == 2
    assert "nan" not in chart.svg()
    assert "inf" not in chart.svg()
