"""USPS digits as LIBSVM has them."""

import numpy as np
import pytest
import scipy.sparse

from legendretron.datasets import DATASETS, load_dataset
from legendretron.datasets.registry import DatasetStatus
from legendretron.paper import data
from legendretron.paper.data import load_prepared, smooth_digits, words_of_unit_length


@pytest.fixture
def strokes():
    """Sharp images: bars of ink on an empty ground, kept away from the edges."""
    rng = np.random.default_rng(0)
    images = np.full((40, 16, 16), -1.0)
    for image in images:
        column = rng.integers(5, 9)
        image[4:12, column : column + 3] = 1.0
        image[rng.integers(4, 10), 4:12] = 1.0
    images[:, 5:11, 5:11] = np.where(rng.random((40, 6, 6)) < 0.5, 1.0, images[:, 5:11, 5:11])
    return images.reshape(40, 256)


def test_smoothing_keeps_the_ink_and_is_done_once(strokes):
    smooth, changed = smooth_digits(strokes)
    assert changed
    assert smooth.shape == strokes.shape
    assert np.abs(smooth).max() <= 1.0 + 1e-12
    # a Gaussian of 0.75 pixels around ink that is away from the edges loses next to none of it
    np.testing.assert_allclose((smooth + 1).sum(1), (strokes + 1).sum(1), rtol=1e-4)
    assert smooth.std() < 0.85 * strokes.std()
    again, changed = smooth_digits(smooth)
    assert not changed
    assert again is smooth


def test_beyond_the_edges_is_background(strokes):
    """Of ink at an edge, what would lie beyond it is lost."""
    strokes = strokes.reshape(40, 16, 16)
    at_edge = np.roll(strokes, -4, axis=1)  # bars begin in the first row
    inside, cut = (smooth_digits(images.reshape(40, 256))[0].reshape(40, 16, 16) for images in (strokes, at_edge))
    np.testing.assert_allclose(cut[:, :8], inside[:, 4:12], atol=1e-6)


@pytest.mark.parametrize("scale", [lambda X: (X + 1) / 2, lambda X: 127.5 * (X + 1)])
def test_another_range_is_refused(strokes, scale):
    with pytest.raises(ValueError, match="pixels from -1, the background, to 1, but here they are from 0 to"):
        smooth_digits(scale(strokes))


def test_loading_says_what_it_did(strokes, tmp_path):
    labels = np.arange(40) % 10 + 1
    for name, X in (("sharp", strokes), ("smooth", smooth_digits(strokes)[0])):
        folder = tmp_path / name
        folder.mkdir()
        lines = (
            f"{label} " + " ".join(f"{j + 1}:{v:.6g}" for j, v in enumerate(row))
            for label, row in zip(labels, X, strict=True)
        )
        (folder / "usps.subset40").write_text("\n".join(lines) + "\n")
    sharp, smooth = (load_prepared("usps", tmp_path / name) for name in ("sharp", "smooth"))
    assert sharp.label == "usps (40 of 7,291 rows, smoothed here)"
    assert smooth.label == "usps (40 of 7,291 rows)"
    np.testing.assert_allclose(sharp.X, smooth.X, atol=1e-5)
    as_it_is = load_dataset("usps", tmp_path / "sharp")
    assert as_it_is.label == "usps (40 of 7,291 rows)"
    np.testing.assert_allclose(as_it_is.X, strokes, atol=1e-5)


def test_a_file_of_another_range_is_refused(strokes, tmp_path, monkeypatch):
    """With the way to the right one; a copy that was just downloaded is not kept."""
    lines = (
        f"{i % 10 + 1} " + " ".join(f"{j + 1}:{v:g}" for j, v in enumerate((row + 3) / 2))
        for i, row in enumerate(strokes)
    )
    path = tmp_path / "libsvm" / "usps.subset40"
    path.parent.mkdir()
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(ValueError, match=r"but here they are from 1 to 2\. .* usps has 7,291 rows .* Get https://"):
        load_prepared("usps", tmp_path)
    assert path.exists()
    monkeypatch.setattr(data, "find_dataset", lambda name, folder: DatasetStatus(DATASETS["usps"], None, "missing"))
    with pytest.raises(ValueError, match=r"It came from 'https://.*usps.bz2' and was not kept\."):
        load_prepared("usps", tmp_path)
    assert not path.exists()


# --- words of documents, scaled as LIBSVM's file has them ---


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


def test_loading_says_how_words_were_scaled(counts, tmp_path):
    lines = []
    for i, row in enumerate(counts):
        pairs = " ".join(f"{j + 1}:{v:g}" for j, v in zip(row.indices, row.data, strict=True))
        lines.append(f"{i % 20 + 1} {pairs}")
    (tmp_path / "news20.subset200.scale").write_text("\n".join(lines) + "\n")
    data = load_prepared("news20", tmp_path)
    assert data.label == "news20 (200 of 15,935 rows, scaled here)"
    np.testing.assert_allclose(scipy.sparse.linalg.norm(data.X, axis=1), 1.0)
