"""Links of labels of which some are wrong: what holds for them, and what does not."""

import math

import numpy as np
import pytest
import torch

from legendretron.links import (
    CompositeLink,
    NoisyLink,
    NotCanonicalError,
    SoftmaxLink,
    SymmetricNoise,
    TransitionNoise,
    link_config,
    load_link,
    make_link,
    save_link,
    stack_runs,
    take_run,
)
from tests.catalogue import LINKS_OF_MANY, normal, proba
from tests.catalogue import make_link as a_link

CLASSES = (2, 3, 10)
canonical_links = pytest.mark.parametrize("name", ["softmax", "canonical"])


def random_matrix(c, seed=0, diagonal=1.0):
    """Rows that sum to 1, with more on the diagonal."""
    rng = np.random.default_rng(seed)
    matrix = rng.dirichlet(np.ones(c), size=c) + diagonal * np.eye(c)
    return torch.tensor(matrix / matrix.sum(1, keepdims=True))


def symmetric(c, rate=0.3, learned=False, **kw):
    return SymmetricNoise(c, rate, learned=learned, dtype=torch.float64, **kw)


def noises(c):
    return [
        symmetric(c),
        symmetric(c, learned=True),
        TransitionNoise(random_matrix(c)),
        TransitionNoise(random_matrix(c), learned=True),
    ]


@pytest.mark.parametrize(("name", "c"), [*((n, c) for n in LINKS_OF_MANY for c in CLASSES), ("softmax", 101)])
def test_observed_probabilities_are_those_of_the_matrix(name, c):
    clean = a_link(name, c)
    z = normal(20, c - 1, key="z", scale=3.0)
    for noise in noises(c):
        link = NoisyLink(clean, noise)
        matrix = noise.matrix().detach()
        assert torch.allclose(matrix.sum(1), torch.ones(c, dtype=torch.float64))
        expected = clean.inverse(z) @ matrix
        assert torch.allclose(link.inverse(z), expected, rtol=1e-12)
        assert torch.allclose(link(z).exp(), expected, rtol=1e-12)
        assert torch.allclose(noise.log_clean(link(z)), clean(z), atol=1e-6)
        assert torch.allclose(link.link(expected), z, rtol=1e-5, atol=1e-5)
        v, leaf = normal(20, c - 1, key="v"), z.clone().requires_grad_()
        (pulled,) = torch.autograd.grad(link.inverse(leaf)[..., :-1], leaf, v)
        assert torch.allclose((link.jacobian(z).mT @ v.unsqueeze(-1)).squeeze(-1), pulled, rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("c", [2, 4])
def test_gradcheck(c):
    for noise in noises(c):
        link = NoisyLink(CompositeLink(c, hidden=2, depth=2, init="paper", dtype=torch.float64), noise)
        parameters = dict(link.named_parameters())
        z = normal(3, c - 1, key="z").requires_grad_()

        def f(z, *values, link=link, names=tuple(parameters)):
            return torch.func.functional_call(link, dict(zip(names, values, strict=True)), (z,))

        assert torch.autograd.gradcheck(f, (z, *parameters.values()))


@canonical_links
@pytest.mark.parametrize("c", CLASSES)
@pytest.mark.parametrize("rate", [0.0, 0.01, 0.5, 0.99])
def test_symmetric_noise_keeps_a_canonical_link_canonical(name, c, rate):
    clean, noise = a_link(name, c), symmetric(c, rate)
    link = NoisyLink(clean, noise)
    assert link.is_canonical
    z = normal(30, c - 1, key="z", scale=3.0).requires_grad_()
    potential = link.potential(z)
    expected = (1 - rate) * clean.potential(z) + rate / c * z.sum(-1)
    assert torch.allclose(potential, expected, rtol=1e-11, atol=1e-11)
    (gradient,) = torch.autograd.grad(potential.sum(), z, create_graph=True)
    assert torch.allclose(gradient, link.inverse(z)[..., :-1], rtol=1e-9, atol=1e-12)
    jacobian = link.jacobian(z.detach())
    assert torch.allclose(jacobian, jacobian.mT, atol=1e-14)
    assert (torch.linalg.eigvalsh(jacobian) >= -1e-14).all()
    # the conjugate, by Fenchel-Young
    if rate < 0.9:
        p = link.inverse(z.detach())
        expected = (z * p[..., :-1]).sum(-1) - potential
        assert torch.allclose(link.conjugate(p), expected, rtol=1e-8, atol=1e-8)
    # the canonical loss is l_y - eps * mean(l)
    losses = clean._losses_at(z)
    assert torch.allclose(link._losses_at(z), losses - rate * losses.mean(-1, keepdim=True), rtol=1e-10, atol=1e-11)


def test_other_matrices_do_not():
    """With three classes or more, the Jacobian of a canonical link is symmetric no longer, unless labels are replaced."""
    c, seed = 4, 0
    clean = a_link("canonical", c)
    z = normal(10, c - 1, key=("z", seed))
    link = NoisyLink(clean, TransitionNoise(random_matrix(c, seed)))
    assert not link.is_canonical
    jacobian = link.jacobian(z)
    assert (jacobian - jacobian.mT).abs().max() > 1e-3
    with pytest.raises(NotCanonicalError, match="NoisyLink with n_classes=4 is not the gradient"):
        link.potential(z)
    pi = torch.tensor(np.random.default_rng(seed).dirichlet(np.ones(c)))
    replaced = 0.7 * torch.eye(c, dtype=torch.float64) + 0.3 * pi
    jacobian = NoisyLink(clean, TransitionNoise(replaced)).jacobian(z)
    assert torch.allclose(jacobian, 0.7 * clean.jacobian(z), atol=1e-14)


def test_two_classes_stay_canonical_unless_labels_are_turned_around():
    clean = a_link("composite_ficnn", 2)
    z = normal(20, 1, key="z", scale=2.0).requires_grad_()
    link = NoisyLink(clean, TransitionNoise([[0.9, 0.1], [0.3, 0.7]], dtype=torch.float64))
    assert link.is_canonical
    (gradient,) = torch.autograd.grad(link.potential(z).sum(), z)
    assert torch.allclose(gradient, link.inverse(z)[..., :-1], rtol=1e-8)
    turned = NoisyLink(clean, TransitionNoise([[0.1, 0.9], [0.7, 0.3]], dtype=torch.float64))
    assert not turned.is_canonical
    with pytest.raises(NotCanonicalError):
        turned.potential(z)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("c", CLASSES)
def test_the_log_loss_is_bounded(dtype, c):
    link = NoisyLink(SoftmaxLink(c), SymmetricNoise(c, 0.05, learned=False, dtype=dtype))
    z = torch.tensor([-1e30, -1e4, 0.0, 1e4, 1e30], dtype=dtype)[:, None].expand(-1, c - 1).clone().requires_grad_()
    log_q = link(z)
    assert torch.isfinite(log_q).all()
    assert (-log_q <= math.log(c / 0.05) * (1 + 1e-6)).all()
    assert torch.isclose((-log_q).max(), torch.tensor(math.log(c / 0.05), dtype=dtype))
    log_q.sum().backward()
    assert torch.isfinite(z.grad).all()


@pytest.mark.parametrize("c", [2, 6])
def test_posterior_of_the_true_class(c):
    p = proba(40, c, key="p")
    labels = torch.arange(40) % c
    for noise in noises(c):
        matrix = noise.matrix().detach()
        joint = p * matrix.T[labels]
        posterior = noise.log_posterior(p.log(), labels).exp().detach()
        assert torch.allclose(posterior, joint / joint.sum(1, keepdim=True), rtol=1e-10)
    sure = symmetric(c, 0.0).log_posterior(p.log(), labels).exp()
    assert torch.equal(sure, torch.nn.functional.one_hot(labels, c).double())


def test_run_axes():
    c, runs = 4, 3
    singles = [NoisyLink(a_link("composite_ficnn", c), symmetric(c, 0.1 * (k + 1), learned=True)) for k in range(runs)]
    stacked = stack_runs(singles)
    z = normal(runs, 7, c - 1, key="z")
    assert stacked.noise.rate().shape == (runs,)
    for k, single in enumerate(singles):
        assert torch.allclose(stacked(z)[k], single(z[k]), rtol=1e-13)
        assert torch.allclose(stacked.jacobian(z)[k], single.jacobian(z[k]), rtol=1e-12)
        assert torch.allclose(stacked.link_from_log(stacked(z))[k], z[k], atol=1e-7)
        assert torch.equal(take_run(stacked, k)(z[k]), single(z[k]))
    matrices = NoisyLink(
        SoftmaxLink(c, run_shape=(runs,)), TransitionNoise(random_matrix(c), learned=True, run_shape=(runs,))
    )
    assert matrices(z).shape == (runs, 7, c)
    known = NoisyLink(SoftmaxLink(c, run_shape=(runs,)), TransitionNoise(random_matrix(c)))
    assert torch.allclose(known(z), matrices(z))


def test_inverse_outside_the_shrunk_simplex():
    link = NoisyLink(SoftmaxLink(3), symmetric(3, 0.3))
    with pytest.raises(ValueError, match=r"every class has at least 0\.1, got a class 0\.05 beyond"):
        link.link(torch.tensor([0.05, 0.05, 0.9], dtype=torch.float64))
    link.link(torch.tensor([0.11, 0.11, 0.78], dtype=torch.float64))
    matrix = NoisyLink(SoftmaxLink(3), TransitionNoise(random_matrix(3)))
    with pytest.raises(ValueError, match="mixtures of the rows of its matrix"):
        matrix.link(torch.tensor([1e-6, 1e-6, 1 - 2e-6], dtype=torch.float64))


@pytest.mark.parametrize("learned", [True, False])
@pytest.mark.parametrize("kind", ["symmetric", "class-conditional"])
def test_saved_and_built_again(kind, learned, tmp_path):
    c = 4
    noise = symmetric(c, 0.35, learned) if kind == "symmetric" else TransitionNoise(random_matrix(c), learned=learned)
    link = NoisyLink(a_link("composite_ficnn", c), noise)
    config = link_config(link)
    assert config["noise"] == kind
    assert config["link"]["kind"] == "composite"
    save_link(link, tmp_path / "link")
    again = load_link(tmp_path / "link")
    assert [name for name, _ in again.named_parameters()] == [name for name, _ in link.named_parameters()]
    z = normal(9, c - 1, key="z")
    assert torch.equal(again(z), link(z))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"link": "softmax", "noise": "symmetric", "learned": True}, "link must be a dict"),
        ({"link": {"kind": "noisy"}, "noise": "symmetric", "learned": True}, "link must be a dict"),
        ({"link": {"kind": "softmax"}, "noise": "some", "learned": True}, "noise must be 'symmetric' or"),
        ({"link": {"kind": "softmax"}, "noise": "symmetric", "learned": 1}, "learned must be True or False"),
        ({"link": {"kind": "canonical"}, "noise": "symmetric", "learned": True}, "must have the settings n_nests"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        make_link("noisy", 3, **settings)


TWO = SoftmaxLink(2)
BAD = {
    **{f"rate {rate}": (lambda rate=rate: SymmetricNoise(3, rate), "rate must be a number from 0 to below 1")
       for rate in (-0.1, 1.0, math.nan, "much", True)},
    "no rate": (lambda: SymmetricNoise(3, 0.0), "rate must be above 0 to be learned"),
    "shape": (lambda: TransitionNoise([[1.0, 0.0]]), r"shape \(C, C\)"),
    "sum": (lambda: TransitionNoise([[0.5, 0.6], [0.5, 0.5]]), "row 0 sums to 1.1"),
    "negative": (lambda: TransitionNoise([[1.5, -0.5], [0.5, 0.5]]), "none below 0"),
    "nan": (lambda: TransitionNoise([[math.nan, 1.0], [0.5, 0.5]]), "finite"),
    "zeros": (lambda: TransitionNoise(torch.eye(3), learned=True), "above 0 everywhere to be learned"),
    "classes": (lambda: NoisyLink(TWO, SymmetricNoise(4)), "classes and run axes of the link"),
    "runs": (lambda: NoisyLink(SoftmaxLink(2, run_shape=(2,)), SymmetricNoise(2)), "classes and run axes of the link"),
    "noise of noise": (lambda: NoisyLink(NoisyLink(TWO, SymmetricNoise(2)), SymmetricNoise(2)), "without noise"),
    "no noise": (lambda: NoisyLink(TWO, 0.1), "noise must be a SymmetricNoise"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_noise(name):
    make, message = BAD[name]
    with pytest.raises(ValueError, match=message):
        make()
