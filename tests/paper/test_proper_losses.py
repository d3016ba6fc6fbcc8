from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

from legendretron import LegendreTronClassifier
from legendretron.experiments import Resources, read_records, sweep
from legendretron.paper import EXPERIMENTS
from legendretron.paper.auc import BinaryImages
from legendretron.paper.proper_losses import (
    GRID,
    learned_loss,
    markdown,
    named_losses,
    shape_of_link,
)
from legendretron.trons import (
    BregmanTronClassifier,
    GLMTronClassifier,
    GPLinkgisticClassifier,
    ISGPLinkgisticClassifier,
    SlIsotronClassifier,
)
from tests.given import GIVEN
from tests.paper.made_up import write_images

FIGURE = EXPERIMENTS["figure_proper_losses"]
LEARNERS = {
    "LegendreTron": LegendreTronClassifier(max_epochs=30, random_state=0, **GIVEN),
    "ISGP-Linkgistic": ISGPLinkgisticClassifier(max_iter=5, alpha=1e-3, random_state=0),
    "BregmanTron": BregmanTronClassifier(max_iter=10),
    "BregmanTron_label": BregmanTronClassifier("label", max_iter=10),
    "SlIsotron": SlIsotronClassifier(max_iter=10),
    "GLMTron": GLMTronClassifier(max_iter=10),
}


@pytest.fixture(scope="module")
def data():
    X, y = load_breast_cancer(return_X_y=True)
    X = (X - X.mean(0)) / X.std(0)
    return BinaryImages(X, y == 1, X, y == 1, {})


@pytest.fixture(scope="module", params=LEARNERS)
def learner(request, data):
    return LEARNERS[request.param].fit(data.X, data.y)


def test_learned_losses_are_proper(learner):
    """p l_1' + (1 - p) l_0' = 0, for differences: the slopes' ratio is that of a probability in between."""
    learned = learned_loss(learner)
    p, loss_1, loss_0 = (np.array(learned[name]) for name in ("probability", "loss_1", "loss_0"))
    falls, rises = -np.diff(loss_1), np.diff(loss_0)
    assert (falls >= 0).all()
    assert (rises >= 0).all()
    # p (falls + rises) <= rises <= (the next p) (falls + rises), up to the digits kept
    total = falls + rises
    assert (rises >= p[:-1] * total - 2e-6).all()
    assert (rises <= p[1:] * total + 2e-6).all()
    assert np.interp(0.5, p, loss_1) == pytest.approx(np.log(2), abs=1e-6)


def test_the_sigmoid_gives_the_log_loss(data):
    learned = learned_loss(LEARNERS["GLMTron"].fit(data.X, data.y))
    assert learned["factor"] == pytest.approx(1.0, abs=1e-12)
    assert learned["loss_1"] == pytest.approx(-np.log(GRID), abs=1e-6)
    assert learned["loss_0"] == pytest.approx(-np.log1p(-GRID), abs=1e-6)


def test_named_losses_are_the_papers_up_to_a_factor():
    q = GRID
    formulas = {
        "log": -np.log(q),
        "square": (1 - q) ** 2,
        "Matsushita": 0.5 * np.sqrt((1 - q) / q),
        "0-1": np.where(q == 0.5, 0.5, q < 0.5),
        "spherical": 1 - q / np.hypot(q, 1 - q),
    }
    found = {curve.name: curve for curve in named_losses()}
    assert found.keys() == formulas.keys()
    for name, curve in found.items():
        assert curve.loss_1 / curve.factor == pytest.approx(formulas[name], abs=1e-12)
        assert curve.loss_0 == pytest.approx(curve.loss_1[::-1], abs=1e-12)
        assert curve.loss_1[99] == pytest.approx(np.log(2))


def test_a_function_that_falls_has_no_loss():
    x = np.linspace(-3, 3, 400)[:, None]
    y = (x[:, 0] > -1) & ((x[:, 0] < 0.5) | (x[:, 0] > 1.5))  # likelier to the right, but for a gap
    bump = BinaryImages(x, y, x, y, {})
    falling = GPLinkgisticClassifier(max_iter=3, random_state=0).fit(x, y)
    assert not hasattr(falling, "loss_")
    assert learned_loss(falling) == {}
    assert shape_of_link(falling, bump)["falling_share"] > 0.0


def short(model, problem):
    settings = FIGURE.settings(model, problem)
    return settings | {name: 3 for name in ("max_epochs", "max_iter") if name in settings}


@pytest.mark.exhaustive
def test_from_images_to_the_picture(tmp_path):
    write_images(tmp_path / "data" / "mnist")
    asked = replace(FIGURE, settings=short).narrow(datasets=["MNIST, class 0"])
    resources = Resources(tmp_path / "data")
    state = sweep(asked, tmp_path, resources, command="trial")
    assert (state.now, state.failed) == (8, [])
    assert sweep(asked, tmp_path, resources).now == 0

    records = read_records(tmp_path)
    files = FIGURE.report(records, tmp_path)
    assert [file.name.partition(".")[2] for file in files] == ["md", "csv", "png"]
    assert files[2].stat().st_size > 30_000
    # a method without a loss is named, in words and in the picture, and not drawn
    for record in records:
        if record["model"] == "GP-Linkgistic":
            for name in ("factor", "probability", "loss_1", "loss_0"):
                record.pop(name, None)
            record["falling_share"] = 0.031
    assert "GP-Linkgistic on MNIST, class 0 (150 images), seed 0: what it learned falls on 3.1%" in "\n".join(
        markdown(records)
    )
    without_note = FIGURE.report([record for record in records if "loss_1" in record], tmp_path)[2].read_bytes()
    assert FIGURE.report(records, tmp_path)[2].read_bytes() != without_note
