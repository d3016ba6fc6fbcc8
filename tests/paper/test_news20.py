"""Words of documents, scaled as LIBSVM's file has them."""

import numpy as np
import pytest
import scipy.sparse

from legendretron.paper.data import load_prepared, words_of_unit_length


@pytest.fixture
def counts():
    values = np.random.default_rng(0).poisson(0.3, size=(200, 50))
    values[values.sum(1) == 0, 0] = 2
    return scipy.sparse.csr_matrix(values.astype(float))


def as_written(X):
    """Six digits, as text files have them."""
    return scipy.sparse.csr_matrix(([float(f"{v:.6g}") for v in X.data], X.indices, X.indptr), shape=X.shape)


def test_any_counts_become_words_of_unit_length_once(counts):
    shares = (counts @ scipy.sparse.diags(1.0 / counts.max(axis=0).toarray().ravel())).tocsr()
    expected = (counts.toarray() > 0) / np.sqrt((counts.toarray() > 0).sum(1, keepdims=True))
    for X in (counts, shares, (counts > 0).astype(float)):
        scaled, changed = words_of_unit_length(X)
        assert changed
        np.testing.assert_allclose(scaled.toarray(), expected, rtol=1e-14)
    written = as_written(scaled)
    again, changed = words_of_unit_length(written)
    assert not changed
    assert again is written


def test_the_first_document_of_the_published_file():
    """29 words: 0.185695 each, as the LIBLINEAR guide prints it."""
    document = scipy.sparse.csr_matrix(np.arange(1.0, 30.0)[None])
    assert words_of_unit_length(document)[0].data.round(6).tolist() == [0.185695] * 29


def test_empty_documents_and_stored_zeros():
    X = scipy.sparse.csr_matrix(([2.0, 0.0], [0, 1], [0, 2, 2]), shape=(2, 3))
    scaled, changed = words_of_unit_length(X)
    assert changed
    np.testing.assert_array_equal(scaled.toarray(), [[1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    assert X.data.tolist() == [2.0, 0.0]


def test_counts_are_not_negative():
    with pytest.raises(ValueError, match="counts or shares of words, but here is -1"):
        words_of_unit_length(scipy.sparse.csr_matrix([[1.0, -1.0]]))


def test_loading_says_what_it_did(counts, tmp_path):
    lines = []
    for i, row in enumerate(counts):
        pairs = " ".join(f"{j + 1}:{v:g}" for j, v in zip(row.indices, row.data, strict=True))
        lines.append(f"{i % 20 + 1} {pairs}")
    (tmp_path / "news20.subset200.scale").write_text("\n".join(lines) + "\n")
    data = load_prepared("news20", tmp_path)
    assert data.label == "news20 (200 of 15,935 rows, scaled here)"
    np.testing.assert_allclose(scipy.sparse.linalg.norm(data.X, axis=1), 1.0)
