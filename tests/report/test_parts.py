"""What the page is made from: draws, folds, links and losses, labels, and pieces of HTML."""

import numpy as np
import pytest
from sklearn.metrics import log_loss

from legendretron import MultinomialLogisticClassifier
from legendretron.diagnostics.decomposition import folds_for
from legendretron.diagnostics.intervals import drawn_means, interval
from legendretron.report.evaluation import logistic_regression
from legendretron.report.rows import rows_of
from legendretron.report.sections.labels import judge_labels
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
