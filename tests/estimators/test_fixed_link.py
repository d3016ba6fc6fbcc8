"""Loss transfer: a link or a loss that is kept as it is, and a convex problem that is solved to the minimum."""

import copy

import numpy as np
import pytest
import scipy.sparse
import torch
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning

from legendretron import (
    CanonicalLink,
    CanonicalLoss,
    CompositeLink,
    LegendreTronClassifier,
    NotCanonicalError,
    SoftmaxLink,
    distill,
)
from legendretron.links import NoisyLink, SymmetricNoise
from legendretron.losses import CompositeLoss
from legendretron.training import logistic

X, y = load_iris(return_X_y=True)
LINK = CanonicalLink(3, init="random", generator=torch.Generator().manual_seed(3), dtype=torch.float64)
FROZEN = copy.deepcopy(LINK).requires_grad_(False)


def frozen_two():
    link = CompositeLink(2, init="paper", generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    return link.requires_grad_(False)


def gradient(clf, X, y):
    """Of the penalized canonical loss by autograd, in the units of training."""
    held = clf._standardized
    weight, bias = held.weight.double().requires_grad_(), held.bias.double().requires_grad_()
    z = torch.as_tensor((X - held.mean) / held.scale) @ weight + bias
    index = {label: i for i, label in enumerate(clf.link_classes_)}
    loss = CanonicalLoss(copy.deepcopy(clf.link_).double())(z, torch.tensor([index[label] for label in y]))
    penalty = weight.square().sum()
    if weight.shape[1] > 1:  # the same whichever class is the reference
        penalty = penalty - weight.sum(1).square().sum() / (weight.shape[1] + 1)
    total = loss + 0.5 * clf.alpha_ * penalty
    return max(float(g.abs().max()) for g in torch.autograd.grad(total, [weight, bias]))


@pytest.mark.parametrize(
    "given", [FROZEN, CanonicalLoss(LINK), CanonicalLoss(LINK).canonical_link], ids=["link", "loss", "buffers"]
)
@pytest.mark.parametrize("solver", ["auto", "lbfgs"])
def test_the_minimum_is_certified(given, solver):
    clf = LegendreTronClassifier(given, alpha=0.01, solver=solver).fit(X, y)
    assert clf.converged_
    assert clf.gradient_norm_ <= 1e-6
    assert gradient(clf, X, y) == pytest.approx(clf.gradient_norm_, abs=1e-9)
    assert clf.link_alpha_ == np.inf
    for name, tensor in clf.link_.state_dict().items():  # nothing of the link has moved
        assert torch.equal(tensor, LINK.state_dict()[name])
    assert isinstance(clf.loss_, CanonicalLoss)
    assert clf.history_["train_loss"][-1] == pytest.approx(-np.log(clf.predict_proba(X)[np.arange(150), y]).mean())
    assert clf.history_["accuracy"][-1] == pytest.approx(clf.score(X, y))


@pytest.mark.parametrize("two", [False, True])
def test_newton_and_lbfgs_agree(two, monkeypatch):
    given, rows = (frozen_two(), slice(50, 150)) if two else (FROZEN, slice(0, 150))
    settings = {"alpha": 0.01, "tol": 1e-8}
    newton = LegendreTronClassifier(given, **settings).fit(X[rows], y[rows])
    monkeypatch.setattr(logistic, "_NEWTON_PARAMETERS_WITH_LINK", 0)
    lbfgs = LegendreTronClassifier(given, **settings).fit(X[rows], y[rows])
    assert gradient(newton, X[rows], y[rows]) <= 1e-5  # the potential of a link of two classes is a table
    assert newton.converged_
    assert 2 * newton.n_iter_ < lbfgs.n_iter_
    np.testing.assert_allclose(newton.coef_, lbfgs.coef_, rtol=1e-3, atol=1e-4)


def test_with_softmax_it_is_logistic_regression():
    plain = LegendreTronClassifier("softmax", alpha=0.01, tol=1e-9).fit(X, y)
    by_loss = LegendreTronClassifier(CanonicalLoss(SoftmaxLink(3)), alpha=0.01, tol=1e-9).fit(X, y)
    np.testing.assert_allclose(by_loss.coef_, plain.coef_, rtol=1e-4, atol=1e-6)
    assert not hasattr(plain, "gradient_norm_")


def test_the_strength_is_chosen():
    clf = LegendreTronClassifier(FROZEN, random_state=0, cv=3).fit(X, y)
    table = clf.tuning_
    assert set(table["model"]) == {"fixed link"}
    assert table["alpha"].nunique() > 3
    assert clf.alpha_ == table["alpha"][table["log_loss"].idxmin()]
    assert clf.converged_
    assert not hasattr(clf, "noise_rate_")


def test_sparse_float32_weights_and_strings():
    weight = np.arange(150) % 3
    dense = LegendreTronClassifier(FROZEN, alpha=0.1, standardize=False, tol=1e-8).fit(X, y, weight)
    sparse = LegendreTronClassifier(FROZEN, alpha=0.1, standardize=False, tol=1e-8).fit(
        scipy.sparse.csr_matrix(X), np.array(["a", "b", "c"])[y], weight
    )
    np.testing.assert_allclose(sparse.coef_, dense.coef_, rtol=1e-4, atol=1e-5)
    repeated = LegendreTronClassifier(FROZEN, alpha=0.1, standardize=False, tol=1e-8).fit(
        np.repeat(X, weight, 0), np.repeat(y, weight)
    )
    np.testing.assert_allclose(repeated.coef_, dense.coef_, rtol=1e-4, atol=1e-5)
    single = LegendreTronClassifier(FROZEN, alpha=0.1, standardize=False).fit(X.astype(np.float32), y, weight)
    assert single.coef_.dtype == np.float32
    assert single.converged_
    np.testing.assert_allclose(single.coef_, dense.coef_, rtol=0.01, atol=1e-3)


def test_warm_start():
    with pytest.warns(ConvergenceWarning, match="not converged"):
        assert not LegendreTronClassifier(FROZEN, alpha=1e-3, max_epochs=2).fit(X, y).converged_
    clf = LegendreTronClassifier(FROZEN, alpha=0.01, warm_start=True, tol=1e-8).fit(X, y)
    n_iter, coef = clf.n_iter_, clf.coef_
    clf.fit(X, y)
    assert clf.n_iter_ < n_iter
    np.testing.assert_allclose(clf.coef_, coef, rtol=1e-4, atol=1e-6)
    other = CanonicalLink(3, init="random", generator=torch.Generator().manual_seed(9)).requires_grad_(False)
    for link in (other, "softmax"):
        with pytest.raises(ValueError, match=r"training continues with the (fixed|learned) link of the first fit"):
            clf.set_params(link=link).fit(X, y)
    # without warm_start nothing of it is left
    assert not hasattr(clf.set_params(link="softmax", warm_start=False).fit(X, y), "gradient_norm_")


def test_a_composite_link_has_to_be_distilled():
    link = CompositeLink(3, init="paper", generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    link.requires_grad_(False)
    for given in (link, CompositeLoss(link), CompositeLoss(link).composite_link):
        with pytest.raises(NotCanonicalError, match="distill"):
            LegendreTronClassifier(given, alpha=0.01).fit(X, y)
    found = distill(link, torch.randn(100, 2, dtype=torch.float64), n_nests=2, max_iter=30)
    assert LegendreTronClassifier(found.link, alpha=0.01).fit(X, y).converged_


def broken():
    link = copy.deepcopy(FROZEN)
    link.nests.offsets.data[0, 0] = float("nan")
    return link


@pytest.mark.parametrize(
    ("link", "parameters", "message"),
    [
        (FROZEN, {"solver": "adam"}, "solver does not apply"),
        (FROZEN, {"early_stopping": 0.2}, "early_stopping does not apply"),
        (FROZEN, {"link_alpha": 0.1}, "link_alpha does not apply"),
        (FROZEN, {"label_noise": "symmetric"}, "label_noise does not apply"),
        (FROZEN, {"checkpoint": "c", "random_state": 0}, "checkpoint does not apply"),
        (FROZEN, {"link_params": {"n_nests": 5}}, "link_params holds 'n_nests'"),
        (CanonicalLoss(CanonicalLink(4)), {}, "3 classes of y, got a CanonicalLink for 4"),
        (CanonicalLoss(LINK, label_smoothing=0.1), {}, "label_smoothing=0.1"),
        (CanonicalLoss(LINK, weight=torch.ones(3, dtype=torch.float64)), {}, "class_weight"),
        (CanonicalLink(3, run_shape=(2,)).requires_grad_(False), {}, "link must have no run axes"),
        (NoisyLink(FROZEN, SymmetricNoise(3, 0.2, learned=False)).requires_grad_(False), {}, r"link\.clean"),
        (broken(), {}, "not finite"),
    ],
)
def test_what_does_not_apply_is_refused(link, parameters, message):
    clf = LegendreTronClassifier(link, **{"alpha": 0.01, **parameters})
    with pytest.raises(ValueError, match=message):
        clf.fit(X, y)
    assert not hasattr(clf, "coef_")
    with pytest.raises(ValueError, match="partial_fit needs a link that is trained"):
        LegendreTronClassifier(FROZEN).partial_fit(X, y, classes=[0, 1, 2])
