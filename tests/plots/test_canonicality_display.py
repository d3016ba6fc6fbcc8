"""Canonicality of links over the data."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from legendretron import MultinomialLogisticClassifier, canonicality
from legendretron.links import SoftmaxLink
from legendretron.plots import CanonicalityDisplay


def test_points_are_the_jacobians_at_the_rows(three):
    X, _, composite, canonical = three
    display = CanonicalityDisplay.from_estimator({"composite": composite, "canonical": canonical}, X)
    z = torch.as_tensor(composite.linear_predictor(X))
    jacobian = composite.link_.jacobian(z).detach()
    asymmetry = torch.linalg.matrix_norm(jacobian - jacobian.mT) / torch.linalg.matrix_norm(jacobian)
    x, height = display.lines_["composite"].get_data()
    assert np.allclose(x, asymmetry)
    eigenvalues = torch.linalg.eigvalsh((jacobian + jacobian.mT) / 2)
    assert np.allclose(height, eigenvalues[:, 0] / eigenvalues.abs().amax(-1))
    check = display.measured["composite"].check
    assert check == canonicality(composite.link_, z)
    assert check.indefinite_share == (height < 0).mean() > 0.2
    x, height = display.lines_["canonical"].get_data()
    assert x.max() < 1e-12
    assert height.min() > 0
    texts = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert f"indefinite at {check.indefinite_share:.0%} of 150 rows" in texts[0]
    assert texts[1].startswith("canonical: ")


def test_of_many_rows_some_are_drawn_the_same_for_all_models():
    X, y = load_digits(return_X_y=True)
    clf = MultinomialLogisticClassifier(alpha=1e-2).fit(X, y)
    display = CanonicalityDisplay.from_estimator([clf, clf], X, max_points=50)
    first, second = display.line_
    assert len(first.get_xdata()) == 50
    assert np.array_equal(first.get_ydata(), second.get_ydata())


def test_links_and_bad_input(two):
    display = CanonicalityDisplay.from_links({"softmax": SoftmaxLink(4)}, torch.randn(5, 3, dtype=torch.float64))
    assert (display.line_.get_ydata() > 0).all()
    with pytest.raises(ValueError, match="max_points must be an integer of at least 1, got 0"):
        CanonicalityDisplay.from_estimator(two[2], two[0], max_points=0)
    with pytest.raises(ValueError, match="link must be a legendretron Link, got int"):
        CanonicalityDisplay.from_links({"a": 3}, torch.zeros(1, 2))
