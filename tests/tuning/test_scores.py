"""Losses on held-out rows, the candidates they are compared for, and settings by the number of rows."""

import math

import numpy as np
import pytest
import torch

from legendretron.estimators.settings import batch_size_for, hidden_for
from legendretron.tuning.problem import ALPHAS, LINK_ALPHA, Candidate, LabeledRows, link_candidates
from legendretron.tuning.rules import link_folds_for, steps_for
from legendretron.tuning.scores import HeldOut, doubted_rows

FOLDS = [
    (np.array([5, 6]), np.array([0, 1, 2])),
    (np.array([0, 1]), np.array([3, 4])),
    (np.array([0]), np.array([5, 6])),
]
RNG = np.random.default_rng(0)
LOSS, OTHER = RNG.random(7), RNG.random(7)


def test_mean_and_standard_error_of_equal_weights():
    held_out = HeldOut.of(FOLDS, np.full(7, 3.0), False)
    assert held_out.row.tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert held_out.fold.tolist() == [0, 0, 0, 1, 1, 2, 2]
    mean, error = held_out.mean(LOSS)
    assert mean == pytest.approx(LOSS.mean())
    assert error == pytest.approx(LOSS.std(ddof=1) / np.sqrt(7))
    difference = held_out.difference(LOSS, OTHER)
    assert difference.mean == pytest.approx((LOSS - OTHER).mean())
    assert difference.error == pytest.approx((LOSS - OTHER).std(ddof=1) / np.sqrt(7))
    assert held_out.difference(LOSS, LOSS) == (0.0, 0.0)


def test_weights():
    weight = np.array([2.0, 1.0, 1.0, 0.5, 1.0, 3.0, 1.0])
    held_out = HeldOut.of(FOLDS, weight, False)
    mean, error = held_out.mean(LOSS)
    assert mean == pytest.approx(np.average(LOSS, weights=weight))
    share = weight / weight.sum()
    count = 1 / (share**2).sum()  # rows that count as much as these together
    assert error == pytest.approx(np.sqrt(share @ (LOSS - mean) ** 2 / (count - 1)))


def test_a_row_that_is_held_out_again_is_no_further_row():
    once, twice = HeldOut.of(FOLDS, np.ones(7), False), HeldOut.of(FOLDS * 2, np.ones(7), False)
    assert once.n_rows == twice.n_rows == 7
    assert twice.mean(np.tile(LOSS, 2)) == pytest.approx(once.mean(LOSS))
    both = np.concatenate([LOSS, OTHER])
    assert twice.mean(both) == pytest.approx(once.mean((LOSS + OTHER) / 2))


def test_errors_between_folds_do_not_fall_with_repeats():
    once, twice = HeldOut.of(FOLDS, np.ones(7), True), HeldOut.of(FOLDS * 4, np.ones(7), True)
    loss = np.array([1.0, 1.0, 1.0, 2.0, 2.0, 3.0, 3.0])
    assert twice.mean(np.tile(loss, 4)) == pytest.approx(once.mean(loss))


def test_copies_of_a_row_are_one_row():
    """Shares of the classes of a row with a soft label: its loss is the mean of theirs."""
    copies, share = np.array([0, 0, 1, 1, 1, 2, 3]), np.array([0.5, 0.5, 0.2, 0.3, 0.5, 1.0, 1.0])
    folds = [(np.arange(2, 7), np.array([0, 1])), (np.array([0, 1]), np.arange(2, 7))]
    held_out = HeldOut.of(folds, share, False, copies)
    of_row = np.bincount(copies, share * LOSS)
    assert held_out.n_rows == 4
    assert held_out.mean(LOSS) == pytest.approx((of_row.mean(), of_row.std(ddof=1) / 2.0))
    assert held_out.first(1).mean(LOSS[:2]).mean == pytest.approx(of_row[0])


def test_losses_of_the_first_folds():
    """Their weights sum to one again."""
    weight = np.array([2.0, 1.0, 1.0, 0.5, 1.0, 3.0, 1.0])
    held_out, first = HeldOut.of(FOLDS, weight, False), HeldOut.of(FOLDS[:2], weight, False)
    assert held_out.first(2).mean(LOSS[:5]) == pytest.approx(first.mean(LOSS[:5]))
    assert held_out.difference(LOSS[:5], OTHER) == pytest.approx(first.difference(LOSS[:5], OTHER[:5]))


def test_errors_between_folds():
    """Folds that differ as a whole, as groups do, tell more about the error than rows."""
    loss = np.array([1.0, 1.0, 1.0, 2.0, 2.0, 3.0, 3.0])
    rows, folds = (HeldOut.of(FOLDS, np.ones(7), between) for between in (False, True))
    assert rows.mean(loss).mean == pytest.approx(folds.mean(loss).mean)
    share, mean = np.array([3, 2, 2]) / 7, 13 / 7
    between = np.sqrt(share @ (np.array([1.0, 2.0, 3.0]) - mean) ** 2 / (1 / (share**2).sum() - 1))
    assert folds.mean(loss).error == pytest.approx(between)
    assert folds.mean(loss).error > rows.mean(loss).error
    same = np.array([0.0, 1.0, 0.5, 0.0, 1.0, 0.0, 1.0])  # folds that do not differ: the error is that of rows
    assert folds.mean(same) == rows.mean(same)
    assert not HeldOut.of(FOLDS[:1], np.ones(7), True).between_folds  # nothing is between one


@pytest.mark.parametrize("bad", [np.inf, np.nan])
def test_losses_that_are_none(bad):
    loss = LOSS.copy()
    loss[3] = bad
    held_out = HeldOut.of(FOLDS, np.ones(7), False)
    assert held_out.mean(loss) == (math.inf, math.inf)
    assert held_out.difference(LOSS, loss) == (math.inf, math.inf)


def test_loss_with_doubt():
    log_p = torch.log_softmax(torch.randn(10, 3, generator=torch.Generator().manual_seed(0)), -1)
    rows = LabeledRows(log_p, torch.tensor([0, 1, 2, 1, 0, 0, 1, 2, 2, 2]), torch.ones(10))
    own = np.take_along_axis(log_p.numpy(), rows.labels.numpy()[:, None], -1)[:, 0]
    assert rows.losses(0.0).numpy() == pytest.approx(-own)
    expected = -0.9 * own - 0.1 * log_p.numpy().mean(-1)
    assert rows.losses(0.1).numpy() == pytest.approx(expected)
    # without doubt, more confidence on rows that are all right would be better without end
    sure = torch.log_softmax(torch.tensor([[5.0, 0.0], [50.0, 0.0]]), -1)
    loss = LabeledRows(sure, torch.tensor([0, 0]), torch.ones(2)).losses(0.01)
    assert loss[1] > loss[0]


def test_candidates():
    every = link_candidates(None, None)
    assert set(every) == {Candidate(a, LINK_ALPHA) for a in ALPHAS}
    assert link_candidates(0.7, 0.2) == [(0.7, 0.2)]
    assert link_candidates(None, 0.2) == [(a, 0.2) for a in ALPHAS]
    assert link_candidates(0.7, None) == [(0.7, LINK_ALPHA)]
    tied = link_candidates(None, None, tied=True)
    assert all(alpha == link_alpha for alpha, link_alpha in tied)
    assert len(set(tied)) == len(tied) > len(ALPHAS)
    assert Candidate(0.1, math.inf).is_logistic
    assert not Candidate(0.1, 1e-4).is_logistic


def test_doubt_follows_the_margins():
    """Wide margins that vary little leave none; margins that come near 0, as many as allowed."""
    rng = np.random.default_rng(0)

    def losses(middle, spread, n=150):
        return np.logaddexp(0.0, -(middle + spread * rng.normal(size=n)))

    assert doubted_rows(losses(6.0, 1.0), 150) < 1e-3
    assert doubted_rows(losses(6.0, 4.0), 150) == 0.25
    assert doubted_rows(losses(-1.0, 1.0), 150) == 0.25
    some = losses(3.6, 1.0)
    assert 0.0 < doubted_rows(some, 150) < 0.25
    # a row that is held out again is no further row that can fail
    assert doubted_rows(np.tile(some, 3), 150) == pytest.approx(doubted_rows(some, 150))
    assert doubted_rows(np.full(9, 0.3), 9) == 0.25  # all alike: nothing is known of how they vary
    assert 0.0 <= doubted_rows(np.array([0.0, 1e-300, 800.0, np.inf]), 4) <= 0.25


def test_settings_by_the_number_of_rows():
    assert [steps_for(n, 3) for n in (1, 120, 10_000, 1_000_000)] == [80, 876, 8000, 25298]
    assert steps_for(10_000, 2) == 4000
    assert [batch_size_for(n) for n in (50, 1000, 2000, 10_000)] == [50, 64, 125, 256]
    assert [hidden_for(*shape) for shape in ((299, 3), (300, 3), (300, 2))] == [4, 8, 2]
    assert [link_folds_for(n) for n in (4999, 5000)] == [5, 1]
