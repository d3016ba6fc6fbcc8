import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from legendretron.datasets import flip_labels, pair_transition, symmetric_noise, symmetric_transition


@given(st.integers(2, 30), st.floats(0, 1))
def test_symmetric_transition(n_classes, eta):
    transition = symmetric_transition(n_classes, eta)
    np.testing.assert_allclose(transition.sum(axis=1), 1)
    np.testing.assert_allclose(np.diag(transition), 1 - eta)
    np.testing.assert_allclose(transition[~np.eye(n_classes, dtype=bool)], eta / (n_classes - 1))


@given(st.integers(2, 30), st.floats(0, 1))
def test_pair_transition(n_classes, eta):
    transition = pair_transition(n_classes, eta)
    np.testing.assert_allclose(transition.sum(axis=1), 1)
    for label in range(n_classes):
        np.testing.assert_allclose(transition[label, [label, (label + 1) % n_classes]], [1 - eta, eta])
    assert np.count_nonzero(transition) <= 2 * n_classes
    if n_classes == 2:
        np.testing.assert_array_equal(transition, symmetric_transition(2, eta))


class Ends(np.random.RandomState):
    """Draws the smallest and the largest number that a uniform one can be."""

    def uniform(self, size):
        return np.array([0.0, np.nextafter(1.0, 0.0)])[:size]


def test_the_ends_of_the_uniform_numbers():
    first_and_last = [[0, 0.5, 0.5, 0], [0.25] * 4, [0.25] * 4, [0.25] * 4]
    np.testing.assert_array_equal(flip_labels([0, 0], first_and_last, Ends()), [1, 2])
    short = np.full((3, 3), (1 - 5e-6) / 3)  # rows that sum to one up to rounding
    np.testing.assert_array_equal(flip_labels([0, 0], short, Ends()), [0, 2])


def test_the_formula_of_the_docstring():
    y = np.random.default_rng(0).integers(3, size=200)
    transition = np.array([[0.2, 0.5, 0.3], [0.1, 0.1, 0.8], [0.6, 0.3, 0.1]])
    u = np.random.default_rng(7).uniform(size=200)
    expected = (u[:, None] >= transition[y].cumsum(axis=1)).sum(axis=1)
    np.testing.assert_array_equal(flip_labels(y, transition, np.random.default_rng(7)), expected)


def test_seeds_repeat_and_differ():
    y = np.arange(1000) % 10
    first, again, other = (symmetric_noise(y, 0.4, 10, seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
    assert 0.35 < (first != y).mean() < 0.45


def test_eta_of_zero_and_one():
    y = np.arange(12, dtype=np.int32) % 3
    same = symmetric_noise(y, 0, 3, 0)
    np.testing.assert_array_equal(same, y)
    assert same.dtype == np.int64
    assert not np.shares_memory(same, y)
    np.testing.assert_array_equal(symmetric_noise(y.astype(np.int64), 0.0, 3), y)
    assert not np.shares_memory(symmetric_noise(same, 0, 3), same)
    assert (symmetric_noise(y, 1, 3, 0) != y).all()


@pytest.mark.parametrize(("y", "message"), [
    ([0, 3], "got 3 in row 1"), ([-1, 0], "got -1 in row 0"), ([0.0, 1.0], "got float64"), ([[0, 1]], "one axis"),
    (["a"], "must contain integers"), ([True, False], "got bool"),
])  # fmt: skip
@pytest.mark.parametrize("eta", [0, 0.5])
def test_wrong_labels(y, message, eta):
    with pytest.raises(ValueError, match=message):
        symmetric_noise(y, eta, 3, 0)


@pytest.mark.parametrize(("transition", "message"), [
    ([[0.5, 0.5]], "shape"), ([[1.0]], "two classes"), ([[1, 0], [0.5, 0.4]], r"row 1 sums to 0.9"),
    ([[1.5, -0.5], [0, 1]], "negative, got -0.5"), ([[np.nan, 1], [0, 1]], "finite"), ([[1, 0], [0]], "square matrix"),
    ([[1, 0], [0, "x"]], "square matrix"),
])  # fmt: skip
def test_wrong_matrices(transition, message):
    with pytest.raises(ValueError, match=message):
        flip_labels([0, 1], transition, 0)


@pytest.mark.parametrize(("n_classes", "eta", "message"), [
    (1, 0.1, "n_classes"), (2.5, 0.1, "n_classes"), (3, -0.1, "eta"), (3, 1.1, "eta"), (3, float("nan"), "eta"),
    (3, True, "eta"), (3, "a", "eta"),
])  # fmt: skip
@pytest.mark.parametrize("make", [symmetric_transition, pair_transition])
def test_wrong_settings(make, n_classes, eta, message):
    with pytest.raises(ValueError, match=message):
        make(n_classes, eta)
