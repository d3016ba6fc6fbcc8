"""The choice itself: along the path of logistic regression, among links, and between the two."""

import dataclasses
import functools
import math
import signal

import numpy as np
import pytest
import scipy.sparse
import torch
from sklearn.linear_model import LogisticRegression

from legendretron import MultinomialLogisticClassifier
from legendretron.datasets import symmetric_noise
from legendretron.training import as_features
from legendretron.training.history import Progress
from legendretron.tuning import link_search, logistic_path
from legendretron.tuning.logistic_path import LogisticPath
from legendretron.tuning.problem import Candidate, link_candidates
from legendretron.tuning.table import COLUMNS
from legendretron.tuning.tune import FALLBACK_ALPHA, tune
from tests.tuning.conftest import bent_data, logistic_data

LINKS = link_candidates(None, None)

MODEL_NAMES = ("logistic regression", "learned link")


def chosen_rows(tuning):
    return [row for row in tuning.rows if row["chosen"]]


@pytest.mark.parametrize("shape", [{"n": 60}, {"n": 40, "d": 30}, {"c": 2}], ids=str)
def test_the_path_ends_near_the_best_of_a_fine_grid(make_problem, shape):
    x, y = logistic_data(**shape)
    path = LogisticPath(make_problem(x, y))
    best = path.search()
    assert len(path.points) <= 14
    grid = {e: path.loss(path.fit(10.0**e)) for e in np.arange(-8, 2.01, 0.25)}
    least = min(grid, key=grid.get)
    assert abs(math.log10(best.alpha) - least) <= 0.5 + 1e-9
    assert path.loss(best) <= grid[least] + 5e-3


def test_the_path_goes_to_both_ends(make_problem):
    x, _ = logistic_data(n=60)
    noise = [np.random.default_rng(seed).integers(0, 3, 60) for seed in range(5)]
    assert np.median([LogisticPath(make_problem(x, y)).search().alpha for y in noise]) > 0.1
    sure = (x[:, 0] > 0).astype(int)
    assert LogisticPath(make_problem(x, sure)).search().alpha < 2e-3


@pytest.mark.parametrize("first", [-3.0, 1.0])
def test_all_folds_find_the_same_from_a_strength_far_off(make_problem, first):
    x, y = logistic_data()
    problem = make_problem(x, y)
    best, one_fold = LogisticPath(problem).search(), LogisticPath(problem, n_folds=1)
    found = one_fold.with_all_folds(one_fold.at(first))
    assert abs(math.log10(found[0].alpha / best.alpha)) <= 0.5
    assert len(found[0].losses) == len(y)


def test_folds_of_sparse_features_have_units_of_their_own(make_problem, monkeypatch):
    """Held-out rows may have rare features that are large in the units of the others, as rows to predict may."""
    monkeypatch.setattr(logistic_path, "fit_logistic", functools.partial(logistic_path.fit_logistic, tol=1e-8))
    rng = np.random.default_rng(0)
    x, y = np.where(rng.random((90, 6)) < 0.05, rng.random((90, 6)), 0.0), rng.integers(0, 3, 90)
    x = x / np.where(x.std(0) > 0, x.std(0), 1.0)
    problem = make_problem(scipy.sparse.csr_array(x), y, standardized=True)
    point = LogisticPath(problem).fit(0.1)
    for number, (train, held) in enumerate(problem.folds):
        scale = x[train].std(0) + (x[train].std(0) == 0.0)
        share = len(train) / len(y)
        own = LogisticRegression(C=share / (0.1 * len(train)), tol=1e-10, max_iter=10_000).fit(
            x[train] / scale, y[train]
        )
        log_p = own.predict_log_proba(x[held] / scale)[np.arange(len(held)), y[held]]
        np.testing.assert_allclose(-log_p, point.log_losses[problem.held_out.fold == number], atol=1e-4)


def test_a_link_is_scored_with_the_lower_bound_that_it_will_have(make_problem):
    x, y = bent_data(60)
    problem = make_problem(x, y)
    rows = problem.label(torch.tensor([[0.0, -700.0]] * len(y), dtype=torch.float64), np.arange(len(y)))
    losses, _ = link_search._score(problem, rows, rows, np.arange(len(y)), 0.0, noisy=False)
    assert losses.max() == pytest.approx(math.log(2 / problem.doubt), rel=1e-3)


def test_a_strength_means_the_same_for_scikit_learn_in_every_fold(make_problem, monkeypatch):
    exactly = functools.partial(logistic_path.fit_logistic, tol=1e-9, max_iter=1000)
    monkeypatch.setattr(logistic_path, "fit_logistic", exactly)
    x, y = logistic_data(n=80)
    weight = np.random.default_rng(1).random(80) + 0.5
    problem = make_problem(x, y, weight=weight)
    point = LogisticPath(problem).fit(0.01)
    expected = []
    for train, held in problem.folds:
        model = LogisticRegression(C=1 / (0.01 * weight.sum()), tol=1e-9, max_iter=10_000)
        log_p = model.fit(x[train], y[train], weight[train]).predict_log_proba(x[held])
        expected += (
            -(1 - problem.doubt) * log_p[np.arange(len(held)), y[held]] - problem.doubt * log_p.mean(1)
        ).tolist()
    assert point.losses == pytest.approx(expected, abs=1e-4)


def test_links_are_tried_on_the_first_repeat_and_compared_on_it(make_problem):
    x, y = bent_data()
    problem = make_problem(x, y, cv=None, link_folds=5, steps=1000, learning_rate=0.03)
    tuning = tune(problem, LINKS[:1], logistic=True)
    logistic, link = (next(row for row in tuning.rows if row["model"] == name) for name in MODEL_NAMES)
    assert (logistic["held_out_rows"], link["held_out_rows"]) == (600, 600)
    path = LogisticPath(problem)
    best = path.search()
    assert len(best.losses) == 3 * 600
    first = problem.held_out.first(5).mean(best.losses[:600]).mean
    assert link["log_loss"] - link["difference"] == pytest.approx(first)
    assert path.loss(best) != pytest.approx(first, rel=1e-6)


def test_rows_that_are_held_out_again_make_nothing_more_certain(make_problem):
    """Every fold four times, as a splitter with repeats may give them: tests, rates and errors are those of one time."""
    x, y = logistic_data(n=90)
    one = dataclasses.replace(make_problem(x, y, find_noise="symmetric"), between_folds=True)
    found = []
    for problem in (one, dataclasses.replace(one, folds=one.folds * 4)):
        path = LogisticPath(problem, alpha=0.1)
        point = path.fit(0.1)
        noisy, *_ = path.search_floors(point)
        link = link_search.LinkScore(
            LINKS[0], 1, point.losses, tuple(link_search.FittedLink(*init_link(problem)) for _ in problem.folds)
        )
        assert len(path.predict(point.fitted)[0].labels) == len(y)
        assert len(link_search.predict_held_out(problem, link).labels) == len(y)
        test, seen = path.test_links(point), noisy.noise
        found.append(
            [
                test.statistic,
                test.p_value,
                seen.rate,
                seen.error,
                seen.gain,
                seen.gain_error,
                *path.held_out.mean(point.losses),
            ]
        )
    assert found[0] == pytest.approx(found[1], rel=1e-4)


def init_link(problem):
    """A start, which is logistic regression that knows nothing."""
    zeros = torch.zeros(problem.features.n_features + 1, problem.n_classes - 1)
    return zeros[1:], zeros[0], problem.make_link(torch.Generator(), torch.float32)


def test_sparse_data_and_single_precision(make_problem):
    x, y = logistic_data()
    x = x * (x > -0.5)
    dense = make_problem(x, y)
    for form, dtype in ((scipy.sparse.csr_array, torch.float64), (np.asarray, torch.float32)):
        features = as_features(form(x), dtype, torch.device("cpu"))
        other = dataclasses.replace(dense, features=features)
        found = [LogisticPath(problem).fit(0.01).losses for problem in (dense, other)]
        assert found[0] == pytest.approx(found[1], abs=1e-2)  # to the tolerance of the path
        links = [next(link_search.search_links(problem, LINKS[:2], None)).losses for problem in (dense, other)]
        assert links[0] == pytest.approx(links[1], abs=1e-3)


def test_logistic_regression_is_chosen_where_it_is_true(make_problem):
    x, y = logistic_data()
    tuning = tune(make_problem(x, y), LINKS, logistic=True)
    assert tuning.chosen.is_logistic
    (row,) = chosen_rows(tuning)
    assert row["model"] == "logistic regression"
    assert (row["alpha"], row["link_alpha"]) == tuple(tuning.chosen)
    assert (row["difference"], row["difference_error"]) == (0.0, 0.0)
    assert row["log_loss"] == min(r["log_loss"] for r in tuning.rows if r["steps"] is None)
    assert tuning.logistic.weight.shape == (3, 3, 2)


def test_stages_and_what_the_table_says(make_problem):
    x, y = bent_data(n=200)
    tuning = tune(make_problem(x, y, cv=4), LINKS, logistic=False)
    assert all(tuple(row) == COLUMNS for row in tuning.rows)
    steps = [row["steps"] for row in tuning.rows]
    assert steps == [10] * 4 + [20] * 2
    short = sorted(tuning.rows[:4], key=lambda row: row["log_loss"])
    finalists = {(row["alpha"], row["link_alpha"]) for row in tuning.rows[4:]}
    assert finalists == {(row["alpha"], row["link_alpha"]) for row in short[:2]}
    assert [row["chosen"] for row in tuning.rows] == [False] * 5 + [True]
    assert all(math.isnan(row["difference"]) for row in tuning.rows)
    frame = tuning.to_frame()
    assert list(frame.columns) == list(COLUMNS)
    assert frame["chosen"].tolist() == [True] + [False] * 5
    assert frame["log_loss"][1:].is_monotonic_increasing


@pytest.mark.parametrize("steps", [1, 3, 4])
@pytest.mark.parametrize("n_candidates", [1, 2, 3])
@pytest.mark.parametrize("cv", [2, 3])
def test_one_is_chosen_however_few_steps_and_candidates_there_are(make_problem, steps, n_candidates, cv):
    x, y = logistic_data(n=40)
    tuning = tune(make_problem(x, y, cv=cv, steps=steps), LINKS[:n_candidates], logistic=False)
    (row,) = chosen_rows(tuning)
    assert (row["alpha"], row["link_alpha"]) == tuple(tuning.chosen)
    assert len(tuning.rows) == min(2, n_candidates) + (3 if steps == 4 and n_candidates == 3 else 0)


@pytest.mark.parametrize(("make", "rejected"), [(bent_data, True), (lambda: logistic_data(n=600, c=2), False)])
def test_links_of_two_classes_are_tried_if_the_test_that_is_shown_rejects_softmax(make_problem, make, rejected):
    tuning = tune(make_problem(*make(), steps=8), LINKS[:1], logistic=True)
    assert tuning.link_test.is_rejected == rejected
    assert any(row["model"] == "learned link" for row in tuning.rows) == rejected


def test_links_of_two_classes_are_not_tried_where_noise_explains_the_labels(make_problem):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(800, 3))
    y = (rng.random(800) < 1 / (1 + np.exp(-4 * (x[:, 0] + x[:, 1])))).astype(int)
    y = symmetric_noise(y, 0.2, 2, 0)
    tuning = tune(make_problem(x, y, steps=8, find_noise="auto"), LINKS[:1], logistic=True)
    assert tuning.noise.rate > 0.2
    assert not tuning.link_test.is_rejected
    assert all(row["model"] == "logistic regression" for row in tuning.rows)


def test_a_strength_that_is_given(make_problem):
    x, y = logistic_data(n=60)
    tuning = tune(make_problem(x, y), [], logistic=True, alpha=0.7)
    assert tuning.chosen == (0.7, math.inf)
    assert len(tuning.rows) == 1
    both = tune(make_problem(x, y, steps=8), link_candidates(0.7, None), logistic=True, alpha=0.7)
    assert {row["alpha"] for row in both.rows} == {0.7}


def test_without_folds_nothing_is_tried(make_problem):
    x, y = logistic_data(n=20)
    problem = make_problem(x, y, folds=[])
    assert tune(problem, LINKS, logistic=True).chosen == (FALLBACK_ALPHA, math.inf)
    assert tune(problem, LINKS, logistic=False).chosen == LINKS[0]
    assert tune(problem, LINKS, logistic=True, alpha=0.3).chosen == (0.3, math.inf)
    assert tune(problem, LINKS, logistic=True).rows == []


@pytest.mark.parametrize(("at", "in_path"), [(2, False), (6, False), (3, True)])
def test_ctrl_c_ends_the_search(make_problem, monkeypatch, at, in_path):
    """In a part of the training of links, or in an iteration of the path."""
    pressed, fit = [], logistic_path.fit_logistic

    def press(*_):
        pressed.append(True)
        if len(pressed) == at:
            signal.raise_signal(signal.SIGINT)

    if in_path:
        pressing = functools.partial(fit, after_iteration=press)
        monkeypatch.setattr(logistic_path, "fit_logistic", pressing)
    else:
        monkeypatch.setattr(Progress, "update", press)
    with pytest.raises(KeyboardInterrupt):
        tune(make_problem(*bent_data(n=200)), LINKS, logistic=True)
    assert len(pressed) == at


@pytest.mark.filterwarnings("error")
def test_candidates_that_diverge_are_passed_over(make_problem):
    x, y = bent_data(n=400)
    problem = make_problem(x, y, cv=2, learning_rate=1e30)
    tuning = tune(problem, LINKS, logistic=True)
    assert tuning.chosen.is_logistic
    assert any(row["log_loss"] == math.inf for row in tuning.rows)
    alone = tune(problem, LINKS, logistic=False)
    assert len(chosen_rows(alone)) == 1
    some = tune(make_problem(x, y, cv=2), [Candidate(1e30, 1e30), *LINKS[:2]], logistic=False)
    assert some.chosen in LINKS[:2]


def test_the_path_goes_on_where_the_loss_is_flat():
    """The signal is in differences of features that are nearly equal: strong penalties see nothing of it."""
    rng = np.random.default_rng(0)
    own = rng.normal(size=(400, 10))
    X = rng.normal(size=(400, 1)) + 0.02 * own
    y = (rng.random(400) < 1 / (1 + np.exp(-2 * (own[:, 0] - own[:, 1])))).astype(int)
    clf = MultinomialLogisticClassifier(random_state=0).fit(X, y)
    assert clf.alpha_ < 1e-3
    assert clf.history_["train_loss"][-1] < 0.5
