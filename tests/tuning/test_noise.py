"""Wrong labels: rates, matrices, and the difference between noise and a model that does not fit."""

import dataclasses
import math

import numpy as np
import pytest
import scipy.sparse
import torch
from sklearn.datasets import load_wine

from legendretron import MultinomialLogisticClassifier
from legendretron.datasets import flip_labels, pair_transition, symmetric_noise
from legendretron.links import SymmetricNoise, TransitionNoise
from legendretron.tuning.logistic_path import LogisticPath
from legendretron.tuning.noise_matrix import estimate_matrix, has_pattern
from legendretron.tuning.problem import LabeledRows, Trees, link_candidates
from legendretron.tuning.tune import tune
from legendretron.tuning.wrong_labels import (
    SLACK,
    RateEstimate,
    bound_share,
    estimate_rates,
    is_believable,
)


def sure_data(n=300, c=3, d=4, seed=0):
    """Classes that a linear model tells apart nearly surely."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    return x, (6.0 * x @ rng.normal(size=(d, c))).argmax(1)


def predicted(n, c, rate, power=1.0, seed=0):
    """Predictions for rows whose labels were drawn from them, sharpened or not, and then replaced at random."""
    rng = np.random.default_rng(seed)
    log_p = 3.0 * rng.normal(size=(n, c))
    log_p -= np.logaddexp.reduce(log_p, axis=1, keepdims=True)
    labels = (log_p + rng.gumbel(size=(n, c))).argmax(1)
    labels = np.where(rng.random(n) < rate, rng.integers(0, c, n), labels)
    # predictions are the truth to a power
    said = torch.log_softmax(torch.as_tensor(log_p) / power, dim=-1)
    return LabeledRows(said, torch.as_tensor(labels), torch.ones(n, dtype=torch.float64))


@pytest.mark.parametrize("c", [2, 5])
@pytest.mark.parametrize("rate", [0.0, 0.2, 0.5])
@pytest.mark.parametrize("power", [1.0, 1.2**3])
def test_rate_and_temperature_are_found(c, rate, power):
    rows = predicted(20_000, c, rate, power)
    estimate, observed = estimate_rates(rows, rows)
    assert abs(estimate.rate - rate) < 4.0 * estimate.error + 1e-3
    assert estimate.temperature == pytest.approx(power, rel=0.21)
    assert torch.allclose(observed.log_p.exp().sum(1), torch.ones(len(rows.labels), dtype=torch.float64))
    low, high = estimate.interval
    assert 0.0 <= low <= estimate.rate <= high <= 1.0


def test_the_rate_has_the_least_loss():
    rows = predicted(500, 3, 0.3)
    estimate, observed = estimate_rates(rows, rows, temperatures=(1.0,))
    own = rows.log_p.exp()[torch.arange(500), rows.labels]
    grid = torch.linspace(0.0, 0.97, 400, dtype=torch.float64)[:, None]
    losses = -torch.log((1 - grid) * own + grid / 3).mean(1)
    mine = -observed.label_log_p.mean()
    assert float(mine) <= float(losses.min()) + 1e-9
    assert abs(estimate.held_out - float(grid[losses.argmin()])) < 0.005


def test_predictions_that_are_certain_and_wrong():
    rows = predicted(500, 3, 0.3)
    sharp = rows._replace(log_p=torch.log_softmax(rows.log_p * 1e4, dim=-1))
    estimate, observed = estimate_rates(sharp, sharp)
    assert torch.isfinite(observed.label_log_p).all()
    assert 0.0 < estimate.rate < 1.0


def test_both_rates_and_the_doubt():
    estimate = RateEstimate(1.0, held_out=0.4, training=0.2, error=0.01)
    assert estimate.rate == pytest.approx(0.3)
    assert estimate.interval == pytest.approx((0.2 - 0.025, 0.4 + 0.025))
    assert pytest.approx((1 - estimate.rate) * (1 - estimate.doubt)) == 1 - 0.3 - math.hypot(0.1, 0.025)
    above = RateEstimate(1.0, held_out=0.2, training=0.25, error=0.0)
    assert (above.rate, above.lowest) == (0.2, 0.2)
    assert above.interval == (0.2, 0.25)
    assert RateEstimate(1.0, held_out=0.0, training=0.0, error=0.5).doubt == 0.0  # no noise, no doubt
    assert RateEstimate(1.0, held_out=0.9, training=0.5, error=math.inf).doubt < 1.0


@pytest.mark.parametrize(("n_classes", "wrong"), [(2, 0.0), (4, 0.2), (2, 0.4)])
def test_the_clearest_rows_bound_the_share_of_wrong_labels(make_problem, n_classes, wrong):
    x, y = sure_data(n=1500, c=n_classes)
    labels = symmetric_noise(y, wrong, n_classes, 0)
    low, high = bound_share(make_problem(x, labels).trees)
    assert low <= (labels != y).mean() <= high < (labels != y).mean() + 0.12


def test_sparse_rows_grow_the_same_trees(make_problem):
    x, y = sure_data(n=600, c=3)
    x, weight = np.where(np.abs(x) < 0.5, 0.0, x), np.arange(600) % 2  # rows without weight are left out
    sparse, dense = (make_problem(rows, y, weight=weight).trees for rows in (scipy.sparse.csr_array(x), x))
    np.testing.assert_array_equal(sparse.rows, dense.rows)
    assert (sparse.rows % 2 == 1).all()
    np.testing.assert_allclose(sparse.proba.sum(1), 1.0)
    assert np.corrcoef(sparse.proba.ravel(), dense.proba.ravel())[0, 1] > 0.95


def titanic():
    """Sex, class and whether they survived, of those on board: nobody's label is wrong, and few were certain."""
    on_board = {(0, 1): (118, 62), (0, 2): (154, 25), (0, 3): (422, 88), (0, 4): (670, 192)}  # sex, class: lost, saved
    on_board |= {(1, 1): (4, 141), (1, 2): (13, 93), (1, 3): (106, 90), (1, 4): (3, 20)}
    rows = [(*who, saved) for who, counts in on_board.items() for saved in (0, 1) for _ in range(counts[saved])]
    table = np.random.default_rng(0).permutation(np.array(rows))
    return table[:, :2].astype(float), table[:, 2]


def test_labels_that_are_a_matter_of_chance_are_not_wrong(make_problem):
    """A floor fits them better, and suspicious rows are alone. But where labels are clearest, hardly any are wrong."""
    x, y = titanic()
    path = LogisticPath(make_problem(x, y))
    points, believed = path.search_noise(path.search(), always=False)
    estimate = points[0].estimate
    assert not believed
    assert estimate.agreement < 0.1
    assert SLACK * estimate.most < estimate.lowest
    assert not is_believable(estimate, path.problem)
    noise = tune(make_problem(x, y, find_noise="if it helps"), [], logistic=True).noise
    assert (noise.rate, noise.low) == (0.0, 0.0)
    assert noise.high == pytest.approx(estimate.most)


def test_the_bound_is_the_least_upper_limit():
    proba = np.linspace(0.5, 1.0, 1000)
    labels = np.zeros(1000, dtype=int)
    labels[:500] = np.arange(500) % 2  # half of those that are least sure are wrong
    trees = Trees(np.arange(1000), np.stack([proba, 1 - proba], axis=1), labels)
    m, z = 500, 2.5  # none of the surest are wrong: z^2 / (m + z^2)
    assert bound_share(trees) == pytest.approx((0.0, z**2 / (m + z**2)))
    few = Trees(np.arange(39), trees.proba[:39], labels[:39])
    assert bound_share(few) == (0.0, 1.0)


def test_what_is_believed(make_problem):
    problem = make_problem(*sure_data(n=300))

    def believed(rate, **checks):
        return is_believable(RateEstimate(1.0, rate, rate, 0.01, **checks), problem)

    assert believed(0.8, evidence=4.0)
    assert not believed(0.9, evidence=4.0)  # close to labels without information
    assert not believed(0.5, evidence=4.0, most=0.35)
    assert not believed(0.5, evidence=4.0, agreement=0.2)
    cut = RateEstimate(1.0, 0.5, 0.5, 0.01, evidence=4.0, most=0.45)
    assert is_believable(cut, problem)
    assert cut.rate == 0.45
    assert cut.doubt > RateEstimate(1.0, 0.5, 0.5, 0.01).doubt  # labels that are too many for noise may be right
    assert not believed(0.3, clear=0.6, evidence=3.0)  # of few rows, classes may overlap
    assert believed(0.3, clear=0.4, evidence=4.0)
    of_two = make_problem(*sure_data(n=150, c=2))
    unclear = RateEstimate(1.0, 0.3, 0.3, 0.01, clear=0.4, evidence=4.0)
    assert not is_believable(unclear, of_two)
    assert is_believable(unclear._replace(clear=0.6), of_two)
    many = make_problem(*sure_data(n=450))
    assert is_believable(RateEstimate(1.0, 0.3, 0.3, 0.01, clear=0.4, evidence=3.0), many)


@pytest.mark.parametrize("seed", [7001, 7005, 7022])
def test_classes_that_merely_overlap_have_no_noise(make_problem, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(350, 5))
    y = (0.25 * x @ rng.normal(size=(5, 4)) + rng.gumbel(size=(350, 4))).argmax(1)
    assert tune(make_problem(x, y, find_noise="if it helps"), [], logistic=True).noise.rate == 0.0


def test_a_few_hundred_rows_without_clear_ones_have_no_noise(make_problem):
    """Classes that overlap: some noise would explain the labels, and nothing speaks against it but that."""
    rng = np.random.default_rng(1)
    x = rng.standard_t(2, size=(200, 3))
    y = (rng.random(200) < 0.5 + 0.3 * np.tanh(4.0 * x[:, 0])).astype(int)
    problem = make_problem(x, y, find_noise="if it helps")
    assert tune(problem, [], logistic=True).noise.rate == 0.0


@pytest.mark.exhaustive
def test_a_few_rows_of_three_classes_have_no_noise():
    found = []
    for seed in range(6):  # of three classes, where a matrix might explain the labels
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(120, 3))
        y = (1.5 * x * [1.0, 1.0, 0.0] + rng.gumbel(size=(120, 3))).argmax(1)
        found.append(MultinomialLogisticClassifier(label_noise="auto", random_state=0).fit(x, y).noise_rate_ > 0.0)
    assert sum(found) <= 1


def test_noise_is_found_where_there_is_some(make_problem):
    c = 2
    x, y = sure_data(c=c, seed=1)
    problem = make_problem(x, symmetric_noise(y, 0.2, c, 0), find_noise="if it helps")
    path = LogisticPath(problem)
    points, found = path.search_noise(path.search(), always=False)
    share = points[0].estimate.rate * (c - 1) / c
    assert found
    assert abs(share - 0.2) < 0.06
    assert [path.loss(point) for point in points] == sorted(path.loss(point) for point in points)


def test_no_noise_where_there_is_none(make_problem):
    x, y = sure_data()
    path = LogisticPath(make_problem(x, y))
    points, found = path.search_noise(path.search(), always=False)
    assert not found
    assert [point.rate for point in points] == [0.0]  # only asked


def corner(n=900, seed=0):
    """Right labels that no linear model fits: those of a corner are the other way round."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    return x, ((x[:, 0] > 0) ^ (x[:, 1] > 1.2)).astype(int)


@pytest.mark.exhaustive
def test_a_model_that_does_not_fit_is_not_noise(make_problem):
    x, y = corner()
    path = LogisticPath(make_problem(x, y))
    points, _ = path.search_noise(path.search(), always=False)
    assert path.check_estimate(points[0]).estimate.agreement > 0.2
    problem = make_problem(x, y, find_noise="if it helps")
    tuning = tune(problem, [], logistic=True)
    assert (tuning.noise.training, tuning.noise.rate) == (0.0, 0.0)
    asked = tune(dataclasses.replace(problem, find_noise="always"), [], logistic=True).noise
    assert asked.rate > 0.0
    assert asked.low <= asked.rate <= asked.high


def test_the_likeliest_matrix(make_problem):
    matrix = np.array([[0.8, 0.2, 0.0], [0.1, 0.9, 0.0], [0.0, 0.3, 0.7]])
    rows = predicted(30_000, 3, 0.0)
    rows = rows._replace(labels=torch.as_tensor(flip_labels(rows.labels.numpy(), matrix, 0)))
    start = SymmetricNoise(3, 0.3, learned=False, dtype=torch.float64).matrix()
    found = estimate_matrix(rows, start)
    assert torch.allclose(found, torch.as_tensor(matrix), atol=0.03)
    assert torch.allclose(found.sum(1), torch.ones(3, dtype=torch.float64))


def test_a_pattern_is_found_unasked(make_problem):
    x, y = sure_data(n=500)
    pairs, random = flip_labels(y, pair_transition(3, 0.3), 0), symmetric_noise(y, 0.2, 3, 0)
    patterns = []
    for labels in (pairs, random, y):
        path = LogisticPath(make_problem(x, labels, find_noise="if it helps"))
        patterns.append(has_pattern(path, path.search(), symmetric=labels is random))
    assert patterns == [True, False, False]
    tuning = tune(make_problem(x, pairs, find_noise="if it helps"), [], logistic=True)
    assert np.abs(tuning.noise_matrix - pair_transition(3, 0.3)).max() < 0.15
    shown = [row["label_noise"] for row in tuning.rows]
    assert shown == pytest.approx([tuning.noise.rate * 2 / 3] * len(shown), abs=1e-3)
    assert 0.2 < shown[0] < 0.4


def test_a_pattern_in_few_rows(make_problem):
    """Halves of them cannot tell, but a fit can."""
    x, y = load_wine(return_X_y=True)
    x = (x - x.mean(0)) / x.std(0)
    pairs = flip_labels(y, pair_transition(3, 0.3), np.random.default_rng(1))
    found = [tune(make_problem(x, labels, cv=5, find_noise="if it helps"), [], logistic=True) for labels in (pairs, y)]
    assert np.abs(found[0].noise_matrix - pair_transition(3, 0.3)).max() < 0.2
    assert found[1].noise_matrix is None


def test_known_noise_changes_the_path(make_problem):
    x, y = sure_data()
    noisy = symmetric_noise(y, 0.3, 3, 0)
    plain = LogisticPath(make_problem(x, noisy)).fit(1e-3)
    rate = SymmetricNoise(3, 0.45, learned=False, dtype=torch.float64)
    by_rate = LogisticPath(make_problem(x, noisy, known_noise=rate)).fit(1e-3)
    by_matrix = LogisticPath(make_problem(x, noisy, known_noise=TransitionNoise(rate.matrix()))).fit(1e-3)
    assert by_rate.log_losses.mean() < plain.log_losses.mean() - 0.05
    assert by_rate.log_losses.mean() == pytest.approx(by_matrix.log_losses.mean(), abs=1e-3)


def test_what_the_table_says_of_noise(make_problem):
    x, y = sure_data()
    problem = make_problem(x, symmetric_noise(y, 0.2, 3, 0), cv=5, find_noise="if it helps", steps=400)
    tuning = tune(problem, link_candidates(0.1, 0.01), logistic=True)
    (chosen,) = [row for row in tuning.rows if row["chosen"]]
    assert chosen["label_noise"] == pytest.approx(tuning.noise.rate * 2 / 3)
    assert 0.1 < chosen["label_noise"] < 0.3
    assert any(row["label_noise"] == 0.0 for row in tuning.rows)
    link = next(row for row in tuning.rows if row["model"] == "learned link")
    assert link["label_noise"] > 0.05  # links are tried with noise too
    none = tune(dataclasses.replace(problem, find_noise="never"), [], logistic=True)
    assert none.noise is None
    assert all(row["label_noise"] == 0.0 for row in none.rows)


def test_a_link_that_explains_what_looked_like_noise(make_problem):
    x, y = corner()
    tuning = tune(make_problem(x, y, find_noise="if it helps", steps=400), link_candidates(0.03, 1e-4), logistic=True)
    assert tuning.noise.rate == 0.0
    assert all(row["steps"] != 400 or row["label_noise"] == 0.0 for row in tuning.rows)
