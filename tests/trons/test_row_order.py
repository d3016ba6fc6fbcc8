"""Weights and repetitions are the same sample, to the last bit."""

import numpy as np
import pytest
import scipy.sparse

from legendretron.trons import GPLinkgisticClassifier, ISGPLinkgisticClassifier
from legendretron.trons.linkgistic import in_one_order

RNG = np.random.default_rng(0)
X = RNG.normal(size=(25, 3)) * (RNG.random((25, 3)) < 0.7)
Y = np.arange(25) % 2
COUNTS = RNG.integers(1, 5, size=25)
#: the sample with weights, and with repetitions in another order
REPEATED = RNG.permutation(np.repeat(np.arange(25), COUNTS))
containers = pytest.mark.parametrize("container", [np.asarray, scipy.sparse.csr_matrix, scipy.sparse.csr_array])


@containers
def test_weights_are_repetitions(container):
    weighted = in_one_order(container(X), Y, COUNTS.astype(float))
    repeated = in_one_order(container(X)[REPEATED], Y[REPEATED], np.ones(len(REPEATED)))
    dense = [part.toarray() if scipy.sparse.issparse(part) else part for part in (weighted[0], repeated[0])]
    assert np.array_equal(*dense)
    assert np.array_equal(weighted[1], repeated[1])
    assert np.array_equal(weighted[2], repeated[2])
    assert sorted(map(tuple, np.column_stack([dense[0], *weighted[1:]]))) == sorted(
        map(tuple, np.column_stack([X, Y, COUNTS]))
    )


def test_rows_that_differ_in_the_label_are_not_merged():
    same = np.zeros((4, 2))
    found = in_one_order(same, np.array([0, 1, 0, 0]), np.array([1.0, 2.0, 3.0, 4.0]))
    assert sorted(zip(found[1].tolist(), found[2].tolist(), strict=True)) == [(0, 8.0), (1, 2.0)]


def test_a_sample_without_weights_and_repetitions_stays_as_it_is():
    weight = np.full(25, 0.5)
    for found, given in zip(in_one_order(X, Y, weight), (X, Y, weight), strict=True):
        assert found is given


def test_columns_of_a_sparse_row_in_any_order():
    one = scipy.sparse.csr_matrix((np.array([1.0, 2.0, 1.0, 2.0]), [0, 2, 0, 2], [0, 2, 4]), shape=(2, 3))
    other = scipy.sparse.csr_matrix((np.array([1.0, 2.0, 2.0, 1.0]), [0, 2, 2, 0], [0, 2, 4]), shape=(2, 3))
    for matrix in (one, other):
        assert in_one_order(matrix, np.zeros(2), np.ones(2))[0].shape == (1, 3)
    assert not other.has_sorted_indices  # what was given is left alone


@containers
@pytest.mark.parametrize("cls", [ISGPLinkgisticClassifier, GPLinkgisticClassifier])
def test_models_of_weights_and_repetitions_are_equal(cls, container):
    weighted = cls(random_state=0).fit(container(X), Y, COUNTS)
    repeated = cls(random_state=0).fit(container(X)[REPEATED], Y[REPEATED])
    assert np.array_equal(weighted.coef_, repeated.coef_)
    assert np.array_equal(weighted.predict_proba(container(X)), repeated.predict_proba(container(X)))
