"""Partial losses and Bayes risk of two classes."""

import math

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch

from legendretron import LegendreTronClassifier, MultinomialLogisticClassifier
from legendretron.losses import LogLoss, SquareLoss
from legendretron.plots import LossDisplay
from legendretron.trons import BregmanTronClassifier


def test_curves_are_the_canonical_loss_of_the_link(two):
    r"""Partial losses by the link alone: :math:`\ell_2' = -(1 - q) \psi'` and :math:`\ell_1' = q \psi'`."""
    _, _, clf = two
    display = LossDisplay.from_estimator(clf, scale="own", name="learned")
    q = display.probability
    link = clf.link_.link(torch.as_tensor(np.stack([q, 1 - q], 1)))[:, 0].detach().numpy()  # the second class is first
    middle = (q[1:] + q[:-1]) / 2
    drawn = first, second, risk = [line.get_ydata() for line in display.line_]
    inside = slice(10, -10)  # where steps are short
    assert np.allclose(np.diff(first)[inside], (middle * np.diff(link))[inside], rtol=1e-3)
    assert np.allclose(np.diff(second)[inside], (-(1 - middle) * np.diff(link))[inside], rtol=1e-3)
    assert np.allclose(risk, (1 - q) * first + q * second)
    assert 0 < first[0] < 0.01 * first.max()  # a perfect forecast costs nothing
    assert 0 < second[-1] < 0.01 * second.max()
    assert display.ax_.get_xlabel() == "predicted probability of rain"
    assert display.figure_ is display.ax_.figure
    assert np.all(np.diff(drawn[0]) > 0)  # being certain of rain is expensive if it stays dry
    texts = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert texts == ["log-loss", "learned", "loss if dry is true", "loss if rain is true", "Bayes risk"]


def test_scaled_losses_have_the_risk_of_the_log_loss_at_one_half(two):
    _, _, clf = two
    display = LossDisplay.from_estimator(clf)
    (risk,) = display.bayes_risk_.values()
    assert np.isclose(np.interp(0.5, display.probability, risk), math.log(2), rtol=1e-6)
    gap = np.abs(risk + (q := display.probability) * np.log(q) + (1 - q) * np.log1p(-q))
    assert gap.max() > 0.01  # the labels do not come from a sigmoid


def test_all_models_are_drawn(two):
    X, y, clf = two
    models = [clf, MultinomialLogisticClassifier(alpha=1e-3).fit(X, y), BregmanTronClassifier().fit(X, y), clf]
    _, ax = plt.subplots()
    display = LossDisplay.from_estimator(models, ax=ax)
    assert display.ax_ is ax
    first, *others = (f"{name}Classifier" for name in ("LegendreTron", "MultinomialLogistic", "BregmanTron"))
    names = [f"{first} 1", *others, f"{first} 2"]
    assert list(display.lines_) == names
    assert sum(np.isfinite(line.get_ydata()).any() for line in ax.lines) == 3 * 5
    logistic = display.lines_["MultinomialLogisticClassifier"]
    assert np.allclose(logistic[1].get_ydata(), -np.log(display.probability), atol=1e-5)
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert texts[1:5] == names
    colors = {display.lines_[name][0].get_color() for name in names}
    assert len(colors) == 4


def test_named_losses():
    display = LossDisplay.from_losses({"log": LogLoss(), "square": SquareLoss()}, classes=("no", "yes"), scale="own")
    q = display.probability
    assert np.allclose(display.lines_["log"][0].get_ydata(), -np.log1p(-q))
    assert np.allclose(display.lines_["log"][1].get_ydata(), -np.log(q))
    ratio = display.lines_["square"][1].get_ydata() / (1 - q) ** 2
    assert np.allclose(ratio, ratio[0])
    assert display.ax_.get_xlabel() == "predicted probability of yes"


def test_bad_input(two, three):
    X, y, clf = two
    with pytest.raises(ValueError, match="two classes, got 3; TriangleDisplay"):
        LossDisplay.from_estimator(three[2])
    with pytest.raises(ValueError, match="estimator must contain at least one model"):
        LossDisplay.from_estimator([])
    with pytest.raises(ValueError, match="name is for a single model"):
        LossDisplay.from_estimator([clf], name="a")
    with pytest.raises(ValueError, match="named by strings, got 1"):
        LossDisplay.from_estimator({1: clf})
    other = MultinomialLogisticClassifier(alpha=1e-3).fit(X, y == "rain")
    with pytest.raises(ValueError, match="must have the same classes"):
        LossDisplay.from_estimator([clf, other])
    with pytest.raises(ValueError, match="scale must be one of"):
        LossDisplay.from_estimator(clf, scale="big")
    with pytest.raises(ValueError, match="losses must be proper losses, got LegendreTronClassifier"):
        LossDisplay.from_losses(LegendreTronClassifier())
    with pytest.raises(ValueError, match=r"losses of 'a' must have shape \(2, 2\), got \(2, 3\)"):
        LossDisplay([0.1, 0.5], {"a": np.zeros((2, 3))})
    with pytest.raises(ValueError, match="must be positive to be scaled, got 0; use scale='own'"):
        LossDisplay([0.1, 0.9], {"a": np.zeros((2, 2))})
    with pytest.raises(ValueError, match="classes must name 2 different classes"):
        LossDisplay([0.1, 0.9], {"a": np.ones((2, 2))}, classes=["a", "a"])
