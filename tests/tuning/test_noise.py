"""Noise in the labels: rates, matrices, and whether predictions of recorded labels are better with them."""

import dataclasses
import math

import numpy as np
import pytest
import torch

from legendretron.datasets import flip_labels, pair_transition, symmetric_noise
from legendretron.links import SymmetricNoise, TransitionNoise
from legendretron.tuning.logistic_path import LogisticPath
from legendretron.tuning.noise import FoundNoise, RateEstimate, estimate_rates
from legendretron.tuning.noise_matrix import estimate_matrix, is_worth_a_search
from legendretron.tuning.problem import LabeledRows, link_candidates
from legendretron.tuning.scores import Difference
from legendretron.tuning.tune import is_better, tune
from tests.tuning.conftest import bent_data


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
    assert above.rate == 0.2
    assert above.interval == (0.2, 0.25)
    assert RateEstimate(1.0, held_out=0.0, training=0.0, error=0.5).doubt == 0.0  # no noise, no doubt
    assert RateEstimate(1.0, held_out=0.9, training=0.5, error=math.inf).doubt < 1.0


@pytest.mark.parametrize("find_noise", ["auto", "symmetric"])
def test_labels_that_are_a_matter_of_chance(make_problem, find_noise):
    """Chance looks like wrong labels: a floor fits, and what is predicted by default is what was compared."""
    x, y = bent_data()
    tuning = tune(make_problem(x, y, find_noise=find_noise), [], logistic=True)
    plain = tune(make_problem(x, y), [], logistic=True)
    loss, known = (next(row["log_loss"] for row in one.rows if row["chosen"]) for one in (tuning, plain))
    assert tuning.noise.rate == pytest.approx(0.1, abs=0.05)
    assert loss < known
    assert tuning.noise.recorded == (find_noise == "auto")
    assert (tuning.noise.floor >= tuning.noise.rate) == (find_noise == "auto")  # that of held-out rows


def test_a_floor_must_gain_more_than_its_two_numbers_do_by_chance():
    away = Difference(-0.02, 0.01)
    assert is_better(away)
    assert is_better(away, 2, 1000)
    assert not is_better(away, 2, 150)
    assert not is_better(Difference(-0.009, 0.01))


@pytest.mark.parametrize("seed", [7001, 7005, 7022])
def test_classes_that_merely_overlap_have_no_floor(make_problem, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(350, 5))
    y = (0.25 * x @ rng.normal(size=(5, 4)) + rng.gumbel(size=(350, 4))).argmax(1)
    assert tune(make_problem(x, y, find_noise="auto"), [], logistic=True).noise.rate == 0.0


def test_a_floor_is_found_where_there_is_one(make_problem):
    c = 2
    x, y = sure_data(c=c, seed=1)
    labels = symmetric_noise(y, 0.2, c, 0)
    noise = tune(make_problem(x, labels, find_noise="auto"), [], logistic=True).noise
    share = (labels != y).mean()
    assert noise.wrong == pytest.approx(share, abs=0.06)
    assert noise.interval[0] <= share <= noise.interval[1]
    path = LogisticPath(make_problem(x, labels, find_noise="auto"))
    losses = [path.loss(point) for point in path.search_floors(path.search())]
    assert losses == sorted(losses)


def test_no_search_where_a_floor_cannot_help(make_problem, monkeypatch):
    monkeypatch.setattr(LogisticPath, "search_floors", lambda *_: pytest.fail("searched"))
    noise = tune(make_problem(*sure_data(), find_noise="auto"), [], logistic=True).noise
    assert (noise.rate, noise.low, noise.floor) == (0.0, 0.0, 0.0)
    assert 0.0 < noise.high < 0.3


def test_a_row_of_weight_zero_says_nothing(make_problem):
    x, y = sure_data(n=600)
    labels, weight = symmetric_noise(y, 0.4, 3, 0), np.ones(600)
    labels[:450], weight[450:] = y[:450], 0.0
    problem = make_problem(x, labels, weight=weight, find_noise="auto")
    folds = [(train[train < 450], held[held < 450]) for train, held in problem.folds]
    assert tune(dataclasses.replace(problem, folds=folds), [], logistic=True).noise.rate == 0.0
    weight[450:] = 1.0
    assert tune(dataclasses.replace(problem, weight=weight), [], logistic=True).noise.rate > 0.05


def test_the_likeliest_matrix(make_problem):
    matrix = np.array([[0.8, 0.2, 0.0], [0.1, 0.9, 0.0], [0.0, 0.3, 0.7]])
    rows = predicted(30_000, 3, 0.0)
    rows = rows._replace(labels=torch.as_tensor(flip_labels(rows.labels.numpy(), matrix, 0)))
    start = SymmetricNoise(3, 0.3, learned=False, dtype=torch.float64).matrix()
    found = estimate_matrix(rows, start)
    assert torch.allclose(found, torch.as_tensor(matrix), atol=0.03)
    assert torch.allclose(found.sum(1), torch.ones(3, dtype=torch.float64))


def test_a_matrix_is_found_unasked(make_problem):
    x, y = sure_data(n=500)
    pairs, random = flip_labels(y, pair_transition(3, 0.3), 0), symmetric_noise(y, 0.2, 3, 0)
    worth = []
    for labels in (pairs, random, y):
        path = LogisticPath(make_problem(x, labels, find_noise="auto"))
        worth.append(is_worth_a_search(path, path.search()))
    assert worth == [True, False, False]
    few = LogisticPath(make_problem(x[:100], pairs[:100], find_noise="auto"))
    assert not is_worth_a_search(few, few.search())  # nine entries
    tuning = tune(make_problem(x, pairs, find_noise="auto"), [], logistic=True)
    assert np.abs(tuning.noise.matrix - pair_transition(3, 0.3)).max() < 0.15
    shown = [row["label_noise"] for row in tuning.rows]
    assert shown == pytest.approx([tuning.noise.wrong] * len(shown), abs=2e-3)
    assert 0.2 < shown[0] < 0.4


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
    problem = make_problem(x, symmetric_noise(y, 0.2, 3, 0), cv=5, find_noise="auto", steps=400)
    tuning = tune(problem, link_candidates(0.1, 0.01), logistic=True)
    (chosen,) = [row for row in tuning.rows if row["chosen"]]
    assert chosen["label_noise"] == pytest.approx(tuning.noise.wrong)
    assert 0.1 < chosen["label_noise"] < 0.3
    assert any(row["label_noise"] == 0.0 for row in tuning.rows)
    links = [row["label_noise"] for row in tuning.rows if row["model"] == "learned link"]
    assert min(links) > 0.05  # links are tried with a floor, too
    none = tune(dataclasses.replace(problem, find_noise=None), [], logistic=True)
    assert none.noise is None
    assert all(row["label_noise"] == 0.0 for row in none.rows)


@pytest.mark.parametrize("matrix", [None, np.array([[0.9, 0.1], [0.3, 0.7]])], ids=["rate", "matrix"])
@pytest.mark.parametrize("recorded", [True, False])
def test_what_predictions_are_of(matrix, recorded):
    noise = FoundNoise(2, rate=0.4, training=0.4, floor=0.2, recorded=recorded, matrix=matrix)
    p = torch.tensor([[0.75, 0.25]], dtype=torch.float64)
    mixed = p.numpy() if matrix is None or not recorded else p.numpy() @ matrix
    shown = noise.make_prediction_noise().log_observed(p.log()).exp()
    np.testing.assert_allclose(shown, 0.8 * mixed + 0.1)
    again = FoundNoise.from_state(noise.to_state(), 2)
    np.testing.assert_equal(vars(again), vars(noise))
    assert FoundNoise(2, recorded=recorded).make_prediction_noise() is None


@pytest.mark.parametrize(
    "change", [{"low": 0.5, "high": 0.1}, {"floor": 1.0}, {"temperature": 0.0}, {"recorded": 1}, {"matrix": np.eye(3)}]
)
def test_noise_that_cannot_be(change):
    with pytest.raises(ValueError, match=next(iter(change)) if "low" not in change else "interval"):
        FoundNoise.from_state(FoundNoise(2).to_state() | change, 2)
