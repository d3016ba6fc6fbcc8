"""What every link must satisfy, over the whole catalogue."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from legendretron.links import CompositeLink, Link, NotCanonicalError, SoftmaxLink
from legendretron.simplex import append_reference
from tests.catalogue import (
    CLASSES,
    LINKS,
    LINKS_OF_MANY,
    SHAPES,
    derivatives,
    links_with,
    make_link,
    normal,
    proba,
)

every_link = pytest.mark.parametrize("name", LINKS)
every_link_of_many = pytest.mark.parametrize("name", LINKS_OF_MANY)
every_link_and_c = pytest.mark.parametrize(("name", "c"), links_with(*CLASSES))


@every_link_and_c
@pytest.mark.parametrize(("leading", "runs"), SHAPES)
def test_probabilities_and_round_trip(name, c, leading, runs):
    link = make_link(name, c, runs)
    z = normal(*runs, *leading, c - 1, key="z", scale=3.0)
    log_p = link(z)
    p = link.inverse(z)
    assert log_p.shape == p.shape == (*runs, *leading, c)
    assert torch.allclose(log_p.exp(), p, rtol=1e-14)
    assert (p > 0).all()
    assert torch.allclose(p.sum(-1), torch.ones(p.shape[:-1], dtype=torch.float64), rtol=1e-14)
    assert torch.allclose(link.link(p), z, rtol=1e-8, atol=1e-8)
    assert torch.allclose(link.link_from_log(log_p), z, rtol=1e-8, atol=1e-8)
    if leading and not runs:
        z[(0,) * len(leading)] = float("nan")  # stays in its row
        assert link(z).isnan().all(-1).sum() == link(z).isnan().any(-1).sum() == 1


@every_link
@settings(max_examples=15)
@given(data=st.data())
def test_round_trip_over_the_range(name, data):
    c = data.draw(st.integers(2, 6)) if name in LINKS_OF_MANY else 2
    link = make_link(name, c)
    z = torch.tensor(data.draw(st.lists(st.floats(-1e4, 1e4), min_size=c - 1, max_size=c - 1)), dtype=torch.float64)
    back = link.link_from_log(link(z))
    assert torch.isfinite(back).all()
    # log-odds hold the information up to rounding of their own size; the slopes of these links lie between 0.01 and 100
    assert (back - z).abs().max() <= 1e-8 * (1 + z.abs().max())


@every_link_and_c
@pytest.mark.parametrize(("leading", "runs"), SHAPES)
def test_jacobian_against_autograd(name, c, leading, runs):
    link = make_link(name, c, runs)
    z = normal(*runs, *leading, c - 1, key="z").requires_grad_()
    v = normal(*runs, *leading, c - 1, key="v")
    jacobian = link.jacobian(z)
    assert jacobian.shape == (*z.shape, c - 1)
    (pulled,) = torch.autograd.grad(link.inverse(z)[..., :-1], z, v)
    assert torch.allclose((jacobian.mT @ v.unsqueeze(-1)).squeeze(-1), pulled, rtol=1e-10, atol=1e-13)


@every_link_and_c
def test_the_potential_is_there_exactly_when_the_link_is_canonical(name, c):
    link = make_link(name, c)
    assert link.is_canonical == (not name.startswith(("composite", "leaky")) or c == 2)
    z = normal(5, c - 1, key="z", scale=2.0).requires_grad_()
    p = proba(5, c, key="p")
    if not link.is_canonical:
        for call in (lambda: link.potential(z), lambda: link.conjugate(p)):
            with pytest.raises(NotCanonicalError, match="use CanonicalLink"):
                call()
        return
    value = link.potential(z)
    assert value.shape == (5,)
    (gradient,) = torch.autograd.grad(value.sum(), z, create_graph=True)
    assert torch.allclose(gradient, link.inverse(z)[..., :-1], rtol=1e-9, atol=1e-12)
    jacobian = link.jacobian(z)
    assert torch.allclose(jacobian, jacobian.mT, rtol=1e-12, atol=1e-16)
    # Fenchel-Young: equality at the link, inequality everywhere
    at = link.link(p)
    conjugate = link.conjugate(p)
    assert torch.allclose(conjugate, (at * p[..., :-1]).sum(-1) - link.potential(at), rtol=1e-10, atol=1e-12)
    other = normal(50, c - 1, key="other", scale=3.0)
    gap = conjugate.unsqueeze(-1) + link.potential(other) - p[..., :-1] @ other.T
    assert (gap >= -1e-10).all()


@pytest.mark.parametrize(
    ("name", "c"),
    [pytest.param(name, c, marks=pytest.mark.exhaustive if c == 2 else ()) for name, c in links_with(2, 4)],
)
def test_gradcheck(name, c):
    link = make_link(name, c)
    z = normal(2, c - 1, key="z").requires_grad_()
    assert torch.autograd.gradcheck(link, z)
    assert torch.autograd.gradgradcheck(link, z)
    p = link.inverse(z).detach()

    def from_logits(t):  # stays on the simplex while entries are moved
        return link.link(torch.softmax(t, -1))

    assert torch.autograd.gradcheck(from_logits, p.log().requires_grad_())
    if link.is_canonical:
        assert torch.autograd.gradcheck(link.potential, z)
        assert torch.autograd.gradcheck(lambda t: link.conjugate(torch.softmax(t, -1)), p.log().requires_grad_())


@pytest.mark.parametrize(("name", "c"), links_with(2, 4))
def test_derivatives_of_the_link_to_third_order(name, c):
    link = make_link(name, c)
    at, along, out = normal(3, c, key="at"), normal(3, c, key="along"), normal(3, c - 1, key="out")
    line = derivatives(lambda s: (out * link.link(torch.softmax(at + s * along, -1))).sum(), orders=3)
    for found, expected in line:
        assert found == pytest.approx(expected, rel=1e-6, abs=1e-7)


@every_link_and_c
def test_extreme_inputs_in_float32(name, c):
    link = make_link(name, c, dtype=torch.float32)
    z = 1e4 * torch.sign(normal(8, c - 1, key="signs", dtype=torch.float32))
    z = torch.cat([z, torch.full((1, c - 1), 1e4), torch.full((1, c - 1), -1e4)]).requires_grad_()
    log_p = link(z)
    assert torch.isfinite(log_p).all()
    assert torch.allclose(link.inverse(z).sum(-1), torch.ones(10), rtol=1e-6)
    loss = torch.nn.functional.nll_loss(log_p, torch.arange(10) % c)
    for gradient in torch.autograd.grad(loss, [z, *link.parameters()]):
        assert torch.isfinite(gradient).all()
    assert torch.isfinite(link.jacobian(z)).all()
    if link.is_canonical:
        value = link.potential(z)
        assert torch.isfinite(value).all()
        assert torch.isfinite(torch.autograd.grad(value.sum(), z)[0]).all()


@pytest.mark.parametrize(("name", "c"), [(name, 10 if name in LINKS_OF_MANY else 2) for name in LINKS])
def test_float32_is_close_to_float64(name, c):
    z = normal(20, c - 1, key="z", scale=3.0)
    exact, single = make_link(name, c), make_link(name, c, dtype=torch.float32)
    assert single(z.float()).dtype == torch.float32
    assert torch.allclose(single(z.float()).double(), exact(z), rtol=1e-4, atol=1e-4)
    back = single.link_from_log(single(z.float()))
    assert torch.allclose(back.double(), z, rtol=1e-4, atol=1e-4)


def test_a_canonical_link_has_to_define_its_potential():
    unfinished = type("Unfinished", (SoftmaxLink,), {"is_canonical": True, "_potential": Link._potential})
    with pytest.raises(NotImplementedError, match="Unfinished is canonical, but does not define _potential"):
        unfinished(3).potential(torch.zeros(1, 2))


@every_link_of_many
def test_wrong_input_is_refused_with_its_name(name):
    link = make_link(name, 4)
    for act, message in (
        (lambda: link(torch.zeros(5, 4)), r"z must have shape \(\.\.\., 3\), got \(5, 4\)"),
        (lambda: link(torch.zeros(5, 3, dtype=torch.int64)), "z must have a floating-point dtype, got torch.int64"),
        (lambda: link.link(torch.full((5, 3), 1 / 3)), r"p must have shape \(\.\.\., 4\), got \(5, 3\)"),
        (lambda: link.link(torch.full((5, 4), 0.5)), "p must sum to 1 along its last axis, but is off by 1"),
        (lambda: link.link(torch.tensor([1.0, 0.5, -0.5, 0.0])), "p must contain probabilities, .* is -0.5"),
        (
            lambda: link.link(torch.full((4,), float("nan"))),
            "p must contain probabilities, but its smallest entry is nan",
        ),
        (lambda: link.link(torch.tensor([0.5, 0.5, 0.0, 0.0])), "p must lie inside the simplex"),
    ):
        with pytest.raises(ValueError, match=message):
            act()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_classes": 1}, "n_classes must be an integer of at least 2, got 1"),
        ({"n_classes": 2.5}, "n_classes must be an integer of at least 2, got 2.5"),
        ({"n_blocks": 0}, "n_blocks must be an integer of at least 1, got 0"),
        ({"depth": -1}, "depth must be an integer of at least 1, got -1"),
        ({"network": "mlp"}, "network must be one of 'ficnn', 'cpflow', got 'mlp'"),
        ({"init": None}, "init must be one of 'identity', 'centred', 'paper', got None"),
    ],
)
def test_bad_settings_of_the_composite_link(settings, message):
    with pytest.raises(ValueError, match=message):
        CompositeLink(**{"n_classes": 3, **settings})


@pytest.mark.parametrize("c", CLASSES)
@pytest.mark.parametrize("network", ["ficnn", "cpflow"])
def test_identity_start_is_near_softmax_plus(c, network):
    link = CompositeLink(c, network=network, init="identity", dtype=torch.float64)
    z = normal(200, c - 1, key="z", scale=2.0)
    link.initialize(z)
    total_variation = (link.inverse(z) - torch.softmax(append_reference(z), -1)).abs().sum(-1) / 2
    assert total_variation.max() < 0.03


def test_first_training_batch_sets_the_normalization_and_no_other_call_does():
    link = CompositeLink(4, network="cpflow", init="paper")
    z = torch.randn(64, 3, generator=torch.Generator().manual_seed(0))
    link.inverse(z)
    link.jacobian(z)
    link.eval()(z)
    assert link.needs_batch
    link.train()
    link(z[:1])  # one row has no variance
    assert link.needs_batch
    link(z)
    assert not link.needs_batch
    before = {k: v.clone() for k, v in link.state_dict().items()}
    link(5 * z)
    assert all(torch.equal(v, before[k]) for k, v in link.state_dict().items())
    by_hand = CompositeLink(4, network="cpflow", init="paper")
    by_hand.load_state_dict({**before, **{k: v * 0 for k, v in before.items() if "initialized" in k}})
    assert by_hand.needs_batch
