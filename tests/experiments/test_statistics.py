import numpy as np
import pytest
from scipy import stats

from legendretron.experiments.statistics import (
    Mean,
    add_holm,
    holm,
    mean_of,
    paired_test,
    verdict,
    welch_from_means,
    welch_test,
)

RNG = np.random.default_rng(0)
A, B = RNG.normal(80, 1, 20), RNG.normal(81, 3, 20)


def test_tests_are_scipys():
    assert welch_test(A, B) == pytest.approx(stats.ttest_ind(A, B, equal_var=False).pvalue, rel=1e-10)
    assert paired_test(A, B) == pytest.approx(stats.ttest_rel(A, B).pvalue, rel=1e-10)
    assert welch_from_means(mean_of(A), mean_of(B)) == welch_test(A, B)


def test_without_variance():
    same, other = [56.0] * 5, [57.0] * 5
    assert (welch_test(same, same), welch_test(same, other)) == (1.0, 0.0)
    assert (paired_test(A, A), paired_test(A, A + 1.0)) == (1.0, 0.0)
    assert np.isnan(welch_test([1.0], [2.0]))
    assert np.isnan(paired_test([1.0], [2.0]))
    with pytest.raises(ValueError, match="a and b must be pairs, got 3 and 2 values"):
        paired_test([1, 2, 3], [1, 2])


def test_difference_in_standard_errors():
    assert Mean(80.0, 3.0, 20).minus(Mean(75.0, 4.0, 20)) == pytest.approx(1.0)
    assert Mean(80.0, 0.0, 20).minus(Mean(80.0, 0.0, 20)) == 0.0
    assert Mean(81.0, 0.0, 20).minus(Mean(80.0, 0.0, 20)) == np.inf


def test_holm_by_hand():
    p = [0.01, 0.02, np.nan, 0.04, 0.005]
    assert holm(p) == pytest.approx([0.03, 0.04, np.nan, 0.04, 0.02], nan_ok=True)
    assert holm([0.5, 0.9]).max() == 1.0
    assert holm([]).shape == (0,)
    with pytest.raises(ValueError, match="p_values must be between 0 and 1"):
        holm([1.2])


@pytest.mark.parametrize("values", [[], [np.nan, 1.0], [[1.0]], [np.inf]])
def test_means_of_nonsense_are_refused(values):
    with pytest.raises(ValueError, match="values must be a vector of finite numbers"):
        mean_of(values)


@pytest.mark.parametrize(
    ("difference", "p", "adjusted", "said"),
    [
        (1.0, 0.001, 0.001, "better"),
        (-1.0, 0.001, 0.001, "worse"),
        (1.0, 0.001, 0.01, "(better)"),
        (-1.0, 0.001, 0.5, "(worse)"),
        (-1.0, 0.001, None, "worse"),
        (1.0, 0.01, 0.01, "="),
        (1.0, float("nan"), float("nan"), ""),
    ],
)
def test_the_verdict_of_a_test(difference, p, adjusted, said):
    assert verdict(difference, p, adjusted) == said
    words = said.replace("better", "A").replace("worse", "B")
    assert verdict(difference, p, adjusted, better="A", worse="B") == words


def test_holm_over_several_columns_is_one_family():
    rows = [{"a": 0.01, "b": 0.04}, {"a": 0.03}]
    add_holm(rows, ["a", "b"])
    assert rows == [{"a": 0.01, "b": 0.04, "a, Holm": 0.03, "b, Holm": 0.06}, {"a": 0.03, "a, Holm": 0.06}]
