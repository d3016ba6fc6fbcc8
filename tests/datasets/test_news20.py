"""Counts of words, and documents of unit length."""

import numpy as np
import pytest
import scipy.sparse

from legendretron.datasets import load_dataset
from legendretron.datasets.news20 import documents_of_unit_length, word_counts


@pytest.fixture
def counts():
    """Counts of which each word has a single one somewhere, so that nothing is lost by dividing."""
    rng = np.random.default_rng(0)
    values = rng.poisson(0.3, size=(200, 50)) * rng.integers(1, 40, size=(200, 50))
    values[rng.integers(200, size=50), np.arange(50)] = 1
    values[values.sum(1) == 0, 0] = 2
    return scipy.sparse.csr_matrix(values.astype(float))


def as_written(X):
    """Six digits, as text files have them."""
    return scipy.sparse.csr_matrix(([float(f"{v:.6g}") for v in X.data], X.indices, X.indptr), shape=X.shape)


def over_column_maximum(counts):
    shares = (counts @ scipy.sparse.diags(1.0 / counts.max(axis=0).toarray().ravel())).tocsr()
    shares.sort_indices()
    return as_written(shares)


def test_counts_come_back_from_six_digits(counts):
    np.testing.assert_array_equal(word_counts(over_column_maximum(counts)).toarray(), counts.toarray())


def test_documents_get_unit_length_once(counts):
    expected = counts.toarray() / np.linalg.norm(counts.toarray(), axis=1, keepdims=True)
    for X in (counts, over_column_maximum(counts)):
        unit, changed = documents_of_unit_length(X)
        assert changed
        np.testing.assert_allclose(unit.toarray(), expected, rtol=1e-12)
    again, changed = documents_of_unit_length(as_written(unit))
    assert not changed
    np.testing.assert_allclose(again.toarray(), expected, atol=1e-5)


def test_other_values_are_left_alone():
    for values in ([[0.3, -1.0], [1.0, 0.2]], [[0.0, 0.0]], [[0.5, 0.2], [0.1, 0.7]]):
        X = scipy.sparse.csr_matrix(np.array(values))
        same, changed = documents_of_unit_length(X)
        assert not changed
        assert same is X


def test_loading_says_what_it_did(counts, tmp_path):
    lines = []
    for i, row in enumerate(over_column_maximum(counts)):
        pairs = " ".join(f"{j + 1}:{v:g}" for j, v in zip(row.indices, row.data, strict=True))
        lines.append(f"{i % 20 + 1} {pairs}")
    (tmp_path / "news20.subset200.scale").write_text("\n".join(lines) + "\n")
    data = load_dataset("news20", tmp_path)
    assert data.label == "news20 (200 of 15,935 rows, normalised here)"
    np.testing.assert_allclose(scipy.sparse.linalg.norm(data.X, axis=1), 1.0)
