"""Wrong labels: rates, matrices, and the difference between noise and a model that does not fit."""

import dataclasses
from functools import partial

import numpy as np
import pytest
import scipy.sparse
import torch

from legendretron.datasets import flip_labels, pair_transition, symmetric_noise
from legendretron.links import SymmetricNoise
from legendretron.tuning import tune
from legendretron.tuning.logistic_path import LogisticPath
from legendretron.tuning.noise_matrix import estimate_matrix, has_pattern
from legendretron.tuning.problem import LabelledRows, link_candidates
from legendretron.tuning.wrong_labels import RateEstimate, estimate_rates, is_believable


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
    return LabelledRows(said, torch.as_tensor(labels), torch.ones(n, dtype=torch.float64))


@pytest.mark.parametrize("c", [2, 5])
@pytest.mark.parametrize("rate", [0.0, 0.2, 0.5])
@pytest.mark.parametrize("power", [1.0, 1.2**3])
def test_rate_and_temperature_are_found(c, rate, power):
    rows = predicted(20_000, c, rate, power)
    estimate, log_q = estimate_rates(rows, rows)
    assert abs(estimate.rate - rate) < 4.0 * estimate.error + 1e-3
    assert estimate.temperature == pytest.approx(power, rel=0.21)
    assert torch.allclose(log_q.exp().sum(1), torch.ones(len(log_q), dtype=torch.float64))
    low, high = estimate.interval
    assert 0.0 <= low <= estimate.rate <= high <= 1.0


def test_predictions_that_are_certain_and_wrong():
    rows = predicted(500, 3, 0.3)
    sharp = rows._replace(log_p=torch.log_softmax(rows.log_p * 1e4, dim=-1))
    estimate, log_q = estimate_rates(sharp, sharp)
    assert torch.isfinite(log_q[torch.arange(500), rows.labels]).all()
    assert 0.0 < estimate.rate < 1.0


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
    points, believed = path.search_noise(path.search(), always=False, fixed=False)
    estimate = points[0].estimate
    assert not believed
    assert estimate.agreement < 0.1
    assert estimate.most < 0.25 < 0.3 < estimate.lowest
    assert not is_believable(estimate, path.problem)
    noise = tune(make_problem(x, y, find_noise="if it helps"), [], logistic=True).noise
    assert (noise.rate, noise.low) == (0.0, 0.0)
    assert noise.high == pytest.approx(estimate.most)


def overlapping(seed):
    """Four classes that merely overlap."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(350, 5))
    return x, (0.25 * x @ rng.normal(size=(5, 4)) + rng.gumbel(size=(350, 4))).argmax(1)


def unclear():
    """Two classes that overlap: some noise would explain the labels, and nothing speaks against it but that."""
    rng = np.random.default_rng(1)
    x = rng.standard_t(2, size=(200, 3))
    return x, (rng.random(200) < 0.5 + 0.3 * np.tanh(4.0 * x[:, 0])).astype(int)


def corner(n=900, seed=0):
    """Right labels that no linear model fits: those of a corner are the other way round."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    return x, ((x[:, 0] > 0) ^ (x[:, 1] > 1.2)).astype(int)


RIGHT = {**{f"overlapping {seed}": partial(overlapping, seed) for seed in (7001, 7005, 7022)}, "unclear": unclear}


@pytest.mark.parametrize("name", [*RIGHT, pytest.param("corner", marks=pytest.mark.exhaustive)])
def test_right_labels_have_no_noise(make_problem, name):
    x, y = {**RIGHT, "corner": corner}[name]()
    problem = make_problem(x, y, find_noise="if it helps")
    assert tune(problem, [], logistic=True).noise.rate == 0.0


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
        patterns.append(has_pattern(path, path.search()))
    assert patterns == [True, False, False]
    tuning = tune(make_problem(x, pairs, find_noise="if it helps"), [], logistic=True)
    assert np.abs(tuning.noise_matrix - pair_transition(3, 0.3)).max() < 0.15
    shown = [row["label_noise"] for row in tuning.rows]
    assert shown == pytest.approx([tuning.noise.rate * 2 / 3] * len(shown), abs=1e-3)
    assert 0.2 < shown[0] < 0.4
    assert tune(make_problem(x, random, find_noise="if it helps"), [], logistic=True).noise_matrix is None


def test_what_the_table_says_of_noise(make_problem):
    x, y = sure_data()
    problem = make_problem(x, symmetric_noise(y, 0.2, 3, 0), find_noise="if it helps", steps=400)
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


def test_what_is_believed(make_problem):
    problem, of_two = make_problem(*sure_data(n=300)), make_problem(*sure_data(n=150, c=2))

    def believed(rate, of=problem, **checks):
        return is_believable(RateEstimate(1.0, rate, rate, 0.01, **checks), of)

    assert believed(0.8)
    assert not believed(0.9)  # close to labels without information
    assert not believed(0.5, most=0.35)
    assert not believed(0.5, agreement=0.2)
    assert believed(0.5, most=0.45)  # and cut
    assert not believed(0.3, clear=0.4, evidence=3.0)  # classes may overlap
    assert believed(0.3, clear=0.4, evidence=4.0)
    assert [believed(0.3, of_two, clear=c, evidence=e) for c, e in ((0.4, 4.0), (0.6, 4.0), (0.6, 3.0))] == [
        False,
        True,
        False,
    ]
