"""Losses, links and predictions of three classes in the triangle."""

import math

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from matplotlib.colors import to_rgb
from sklearn.ensemble import RandomForestClassifier

from legendretron import CanonicalLoss, CompositeLink
from legendretron.links.canonicality import jacobian_defects
from legendretron.losses import LogLoss, SquareLoss
from legendretron.plots import LabelQualityDisplay, ProbabilityMapDisplay, TriangleDisplay, TuningDisplay
from legendretron.plots.axes import COLORS
from legendretron.plots.triangle import CORNERS, to_plane


def test_values_over_the_triangle_are_those_of_the_loss(three):
    _, _, _, canonical = three
    display = TriangleDisplay.from_estimator(canonical, scale="own", n_grid=20)
    assert list(display.values) == [
        "Bayes risk", "loss if setosa is true", "loss if versicolor is true", "loss if virginica is true",
    ]  # fmt: skip
    loss, p = CanonicalLoss(canonical.link_, normalized=True), torch.as_tensor(display.p)
    assert np.allclose(display.values["Bayes risk"], loss.bayes_risk(p).numpy(), atol=1e-9)
    partial = np.stack(list(display.values.values())[1:], 1)
    assert np.allclose(partial, loss.partial_losses(p).numpy())
    assert len(display.axes_) == 4
    assert [panel.get_title() for panel in display.axes_] == list(display.values)
    assert display.ax_ is display.axes_[0]
    assert [text.get_text() for text in display.ax_.texts] == ["setosa", "versicolor", "virginica"]
    # a perfect forecast costs nothing, the wrong one most
    nearest = display.p.argmax(0)
    assert (partial.argmin(0) == nearest).all()


def test_scaled_to_the_log_loss():
    display = TriangleDisplay.from_loss(SquareLoss(), quantity="bayes_risk", n_grid=30)
    middle = np.abs(display.p - 1 / 3).max(1).argmin()
    assert np.isclose(display.values["Bayes risk"][middle], math.log(3))
    log = TriangleDisplay.from_loss(LogLoss(), quantity="partial_losses", classes=["a", "b", "c"], n_grid=10)
    assert list(log.values) == ["loss if a is true", "loss if b is true", "loss if c is true"]
    assert np.allclose(np.stack(list(log.values.values()), 1), -np.log(log.p))


def test_a_composite_loss_says_that_it_is_the_log_loss_on_probabilities(three):
    display = TriangleDisplay.from_estimator(three[2], quantity="bayes_risk", n_grid=10)
    assert display.figure_.get_suptitle() == "Log-loss: the link is not canonical"
    assert np.allclose(display.values["Bayes risk"], -(display.p * np.log(display.p)).sum(1))
    _, ax = plt.subplots()
    within = TriangleDisplay.from_estimator(three[2], quantity="bayes_risk", n_grid=10, ax=ax)
    assert within.ax_ is ax
    assert "the link is not canonical" in ax.get_title()


def test_triangle_bad_input(two, three):
    with pytest.raises(ValueError, match="three classes, got 2; LossDisplay"):
        TriangleDisplay.from_estimator(two[2])
    with pytest.raises(ValueError, match="quantity must be one of"):
        TriangleDisplay.from_estimator(three[3], quantity="risk")
    with pytest.raises(ValueError, match="ax must contain 4 axes, one for each panel, got 1"):
        TriangleDisplay.from_estimator(three[3], ax=plt.subplots()[1])
    with pytest.raises(ValueError, match="loss must be a proper loss, got int"):
        TriangleDisplay.from_loss(3)
    with pytest.raises(ValueError, match=r"p must have shape \(m, 3\)"):
        TriangleDisplay(np.ones((5, 2)), {"a": np.ones(5)})
    with pytest.raises(ValueError, match="values of 'a' must be 5 finite numbers"):
        TriangleDisplay(np.ones((5, 3)), {"a": np.full(5, np.inf)})


def points(display):
    return {name: np.column_stack(line.get_data()) for name, line in display.lines_.items()}


def test_data_are_where_their_predictors_are(three):
    X, y, composite, _ = three
    display = ProbabilityMapDisplay.from_estimator(composite, X, y, n_grid=40)
    z = composite.linear_predictor(X)
    for label in composite.classes_:
        assert np.allclose(points(display)[label], z[y == label])
    left, right, bottom, top = display.ax_.images[0].get_extent()
    assert left < z[:, 0].min() < z[:, 0].max() < right
    assert bottom < z[:, 1].min() < z[:, 1].max() < top
    # the first and the last pixel
    found = np.asarray(display.ax_.images[0].get_array())[[0, -1], [0, -1]]
    p = composite.link_.inverse(torch.tensor([[left, bottom], [right, top]], dtype=torch.float64)).detach().numpy()
    pale = [1 - 0.55 * (1 - np.array(to_rgb(color))) for color in COLORS[:3]]
    assert np.allclose(found, p @ pale)


def test_hatched_where_the_jacobian_is_indefinite(three):
    X, y, composite, canonical = three
    display = ProbabilityMapDisplay.from_estimator(composite, X, y, n_grid=30)
    left, right, bottom, top = display.ax_.images[0].get_extent()
    grid = np.stack(np.meshgrid(np.linspace(left, right, 30), np.linspace(bottom, top, 30)), -1)
    share = jacobian_defects(composite.link_, torch.as_tensor(grid)).indefinite.double().mean()
    assert np.isclose(display.indefinite_share_, float(share))
    assert display.indefinite_share_ > 0.05
    assert "hatched" in display.ax_.get_title()
    safe = ProbabilityMapDisplay.from_estimator(canonical, X, y, n_grid=30)
    assert safe.indefinite_share_ == 0.0
    assert "hatched" not in safe.ax_.get_title()


def test_the_plane_in_the_triangle(three):
    X, y, _, canonical = three
    display = ProbabilityMapDisplay.from_estimator(canonical, X, y, space="triangle")
    p = canonical.predict_proba(X)
    for label in canonical.classes_:
        assert np.allclose(points(display)[label], p[y == label] @ CORNERS)
    lines = [line for line in display.ax_.lines if line.get_color() in ("0.75", "0.2")]
    assert len(lines) == 2 * 10
    for line in lines:
        x, height = line.get_data()
        assert ((height >= -1e-12) & (height <= np.sqrt(3) * np.minimum(x, 1 - x) + 1e-9)).all()
    # lines of both links meet in the middle, where the softmax has predictors of zero
    middle = to_plane(np.full(3, 1 / 3))
    for color in ("0.75", "0.2"):
        near = [
            np.abs(np.column_stack(line.get_data()) - middle).sum(1).min()
            for line in lines
            if line.get_color() == color
        ]
        assert sum(distance < 0.02 for distance in near) == 2


def test_predictions_of_any_model_and_links_without_data(three):
    X, y, composite, _ = three
    forest = RandomForestClassifier(20, random_state=0).fit(X, y)
    p = forest.predict_proba(X)
    display = ProbabilityMapDisplay.from_predictions(y, p)
    assert np.allclose(points(display)["setosa"], p[y == "setosa"] @ CORNERS)
    assert display.ax_.get_title() == "Predicted probabilities"
    bare = ProbabilityMapDisplay.from_estimator(composite, n_grid=10)
    assert not any(len(found) for found in points(bare).values())
    unlabelled = ProbabilityMapDisplay.from_estimator(composite, X, n_grid=10)
    assert len(points(unlabelled)["data"]) == len(X)


def test_map_bad_input(two, three):
    X, y, composite, _ = three
    with pytest.raises(ValueError, match="a link of three classes, got 2 classes"):
        ProbabilityMapDisplay.from_estimator(two[2])
    with pytest.raises(ValueError, match="y needs X"):
        ProbabilityMapDisplay.from_estimator(composite, y=y)
    with pytest.raises(ValueError, match="space must be one of"):
        ProbabilityMapDisplay.from_estimator(composite, space="square")
    with pytest.raises(ValueError, match="label 'rose', which is not among the classes"):
        ProbabilityMapDisplay.from_estimator(composite, X[:1], ["rose"])
    with pytest.raises(ValueError, match="there must be a label for each row of data, got 2 labels"):
        ProbabilityMapDisplay.from_estimator(composite, X[:1], y[:2])
    with pytest.raises(ValueError, match="p must contain probabilities"):
        ProbabilityMapDisplay.from_predictions(y, np.ones((150, 3)))
    with pytest.raises(ValueError, match="space='predictors' needs a link"):
        ProbabilityMapDisplay.from_predictions(y, np.full((150, 3), 1 / 3)).plot()
    with pytest.raises(ValueError, match="z must contain finite predictors"):
        ProbabilityMapDisplay(CompositeLink(3), z=np.ones((4, 3)))


@pytest.mark.parametrize("several", [[1, 2], {"a": 1, "b": 2}], ids=["list", "dict"])
@pytest.mark.parametrize(
    ("display", "data"),
    [(TriangleDisplay, ()), (ProbabilityMapDisplay, ()), (TuningDisplay, ()), (LabelQualityDisplay, ([[1.0]], [0]))],
)
def test_displays_of_one_model_say_so(display, data, several):
    match = f"{display.__name__} draws one model, got a (list|dict) of 2; draw one figure for each"
    with pytest.raises(ValueError, match=match):
        display.from_estimator(several, *data)
