"""The two links that the trons learn satisfy what every link must."""

import numpy as np
import pytest
import torch
from scipy.special import expit

from legendretron.trons import PiecewiseLinearLink, TrigonometricLink
from legendretron.trons.link_prior import GaussianLogOdds, IntegratedSquare
from tests.catalogue import KNOTS, normal
from tests.catalogue import LINKS_OF_TWO as LINKS


def test_the_potential_follows_the_state():
    first = TrigonometricLink((-2.0, 2.0), [0.0, 1.0, 0.1, -0.2], "sine")
    second = TrigonometricLink((-3.0, 1.0), [0.5, 2.0, 0.3, 0.1], "sine")
    z = normal(5, 1, key="z")
    before, expected = first.potential(z), second.potential(z)
    assert not torch.allclose(before, expected, rtol=1e-2)
    first.load_state_dict(second.state_dict())
    assert torch.allclose(first.potential(z), expected, rtol=1e-12)
    single = first.float().potential(z.float())
    assert single.dtype == torch.float32
    assert torch.allclose(single.double(), expected, rtol=1e-5)
    # assigned tensors, of which nothing counts the changes, may take the place in memory of those before
    for scale in (1.0, 2.0, 3.0):
        state = {"interval": second.interval.clone(), "coefficients": second.coefficients * scale}
        first.load_state_dict(state, assign=True)
        again = TrigonometricLink((-3.0, 1.0), second.coefficients.numpy() * scale, "sine")
        assert torch.allclose(first.potential(z), again.potential(z), rtol=1e-12)
        del state
    table = first._quadrature_cache._kept.value
    first.potential(2 * z)
    assert first._quadrature_cache._kept.value is table


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs two devices")
def test_the_potential_follows_the_device():
    link = LINKS["sines"]()
    z = normal(5, 1, key="z")
    expected = link.potential(z)
    assert torch.allclose(link.cuda().potential(z.cuda()).cpu(), expected, rtol=1e-10)
    assert torch.allclose(link.cpu().potential(z), expected, rtol=1e-12)


def test_table_is_reproduced():
    values = np.sort(np.random.default_rng(3).uniform(0.02, 0.9, 30))
    link = PiecewiseLinearLink(KNOTS, values)
    assert np.allclose(link.inverse(torch.as_tensor(KNOTS)[:, None])[:, 0], values, rtol=1e-14)
    few = PiecewiseLinearLink.from_points(KNOTS[::-1], values[::-1], max_knots=5)
    assert len(few.knots) == 5
    assert few.knots[[0, -1]].tolist() == [KNOTS.min(), KNOTS.max()]


@pytest.mark.parametrize("cls", [IntegratedSquare, GaussianLogOdds])
def test_prior_derivatives_and_closed_form(cls):
    prior = cls((-3.0, 2.0), n_basis=6, amplitude=0.8, length_scale=0.1)
    rng = np.random.default_rng(0)
    xi, g = rng.normal(size=prior.n_latent), rng.normal(size=2 + prior.waves)
    h = 1e-6
    steps = np.eye(prior.n_latent) * h
    numeric = np.stack([(prior.coefficients(xi + s) - prior.coefficients(xi - s)) / (2 * h) for s in steps], axis=1)
    assert np.allclose(prior.jacobian(xi), numeric, rtol=1e-6, atol=1e-8)
    hessian = np.stack([(prior.jacobian(xi + s) - prior.jacobian(xi - s)).T @ g / (2 * h) for s in steps])
    assert np.allclose(prior.curvature(g), hessian, rtol=1e-6, atol=1e-7)
    z = np.linspace(-4, 3, 57)
    phi, d_phi = prior.features(z, slopes=True)
    up, down = prior.features(z + h)[0], prior.features(z - h)[0]
    smooth = np.abs(z[:, None] - np.array(prior.interval)).min(1) > 1e-3
    assert np.allclose(d_phi[smooth], ((up - down) / (2 * h))[smooth], rtol=1e-5, atol=1e-5)
    link = TrigonometricLink(prior.interval, prior.coefficients(0 * xi), prior.kind)
    assert np.allclose(link.inverse(torch.as_tensor(z)[:, None])[:, 0], expit(phi @ prior.coefficients(0 * xi)))
    assert np.allclose(phi @ prior.coefficients(0 * xi), z)  # the prior's mean is the identity


def test_the_integral_of_the_square_is_exact():
    prior = IntegratedSquare((-3.0, 2.0), n_basis=6, amplitude=0.8, length_scale=0.1)
    xi = np.random.default_rng(0).normal(size=prior.n_latent)
    fine = np.linspace(*prior.interval, 20_001)
    theta = np.pi * (fine - fine[0]) / prior.width
    f = 1.0 + np.cos(theta[:, None] * np.arange(7)) @ (prior.scale * xi[1:])
    area = np.concatenate([[0.0], np.cumsum((f[1:] ** 2 + f[:-1] ** 2) / 2 * np.diff(fine))])
    t = prior.features(fine)[0] @ prior.coefficients(xi)
    assert np.allclose(t - t[0], area, rtol=0, atol=1e-6)
    assert np.isclose(np.interp(prior.middle, fine, t), prior.middle + 10.0 * xi[0])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PiecewiseLinearLink([0.0, 0.0], [0.1, 0.2]), "knots must be finite and strictly increasing"),
        (lambda: PiecewiseLinearLink([0.0, 1.0], [0.2, 0.2]), "values must be strictly increasing"),
        (lambda: PiecewiseLinearLink([0.0, 1.0], [0.0, 0.2]), "strictly between 0 and 1"),
        (lambda: PiecewiseLinearLink([], []), r"one shape \(m,\) with m >= 1"),
        (lambda: PiecewiseLinearLink([0.0], [0.5], rate=0.0), "rate must be a positive number, got 0.0"),
        (lambda: TrigonometricLink((0.0, 1.0), [0.0, 1.0, 5.0], "sine"), "log-odds that increase"),
        (lambda: TrigonometricLink((1.0, 0.0), [0.0, 1.0], "sine"), "interval must be two finite numbers"),
        (lambda: TrigonometricLink((0.0, 1.0), [0.0, 1.0], "tangent"), "kind must be one of 'sine', 'cosine'"),
    ],
)
def test_errors(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_buffers_of_lower_precision(dtype):
    link, z = LINKS["sines"](), normal(5, 1, key="z")
    expected = link.inverse(z)
    link = link.to(dtype)
    found = link.inverse(z.float())
    assert found.dtype == torch.float32
    assert torch.allclose(found.double(), expected, atol=0.05)
    assert torch.isfinite(link.potential(z.float())).all()
    assert torch.isfinite(link.jacobian(z.float())).all()


@pytest.mark.parametrize(("name", "wrong"), [("knots", -1.0), ("values", -1.0), ("values", 3.0), ("rate", -1.0)])
def test_a_state_that_is_no_increasing_table_is_refused(name, wrong):
    link, z = LINKS["table"](), normal(5, 1, key="z")
    before = link(z)
    state = {key: value.clone() for key, value in link.state_dict().items()}
    state[name] = state[name] * wrong
    for assign in (False, True):
        with pytest.raises(ValueError, match="must be those of an increasing table"):
            link.load_state_dict(state, assign=assign)
        assert torch.equal(link(z), before)


def test_a_state_with_log_odds_that_fall_is_refused():
    link, z = LINKS["sines"](), normal(5, 1, key="z")
    before = link(z)
    state = {name: value.clone() for name, value in link.state_dict().items()}
    state["coefficients"][1] = -1.0
    with pytest.raises(ValueError, match="log-odds that increase"):
        link.load_state_dict(state)
    assert torch.equal(link(z), before)
