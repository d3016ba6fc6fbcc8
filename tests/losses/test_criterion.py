"""Losses called as torch.nn.CrossEntropyLoss is."""

import pytest
import torch
from torch.nn.functional import cross_entropy

from legendretron import CanonicalLoss, CompositeLink, SoftmaxLink
from legendretron.links import NoisyLink, SymmetricNoise
from legendretron.losses import CompositeLoss, LogLoss, MatsushitaLoss, SphericalLoss, SquareLoss
from legendretron.nn import LegendreHead
from legendretron.simplex import append_reference
from tests.catalogue import make_link, normal, proba

NAMED = [LogLoss, SquareLoss, SphericalLoss, MatsushitaLoss]
every_named = pytest.mark.parametrize("kind", NAMED)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("label_smoothing", [0.0, 0.2])
@pytest.mark.parametrize("make", [lambda **kw: CanonicalLoss(SoftmaxLink(4), **kw), LogLoss], ids=["canonical", "log"])
def test_is_cross_entropy(make, label_smoothing, weighted, reduction):
    weight = torch.linspace(0.5, 2, 4, dtype=torch.float64) if weighted else None
    how = {"weight": weight, "reduction": reduction, "label_smoothing": label_smoothing}
    logits, y = normal(3, 4, 5, 6, key="logits"), torch.arange(90).reshape(3, 5, 6) % 4
    y[0, 0] = 9
    ours, theirs = make(dim=1, ignore_index=9, **how), cross_entropy(logits, y, ignore_index=9, **how)
    torch.testing.assert_close(ours(logits, y), theirs)
    soft = proba(3, 5, 6, 4, key="soft").movedim(-1, 1)
    torch.testing.assert_close(make(dim=1, **how)(logits, soft), cross_entropy(logits, soft, **how))
    torch.testing.assert_close(ours.predict_proba(logits), torch.softmax(logits, 1))
    torch.testing.assert_close(ours.losses_at(logits), -torch.log_softmax(logits, 1))


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("label_smoothing", [0.0, 0.2])
def test_loss_of_a_head(label_smoothing, reduction):
    head = LegendreHead(5, 3, link="softmax", dtype=torch.float64)
    x, y = normal(8, 5, key="x"), torch.tensor([0, 1, 2, -100, 0, 1, 2, 0])
    logits = torch.cat([head.linear(x), torch.zeros(8, 1, dtype=torch.float64)], -1)
    how = {"weight": torch.tensor([1.0, 2.0, 0.5], dtype=torch.float64), "label_smoothing": label_smoothing}
    torch.testing.assert_close(head.loss(x, y, reduction, **how), cross_entropy(logits, y, reduction=reduction, **how))
    soft = proba(8, 3, key="soft")
    expected = cross_entropy(logits, soft, reduction=reduction, **how)
    torch.testing.assert_close(head.loss(x, soft, reduction, **how), expected)
    with pytest.raises(ValueError, match=r"label_smoothing must be a number from 0 to 1, as in torch, got -1"):
        head.loss(x, y, label_smoothing=-1)
    with pytest.raises(ValueError, match=r"weight must have shape \(3,\), one number for each class, got \(2,\)"):
        head.loss(x, y, weight=torch.ones(2))


@every_named
@pytest.mark.parametrize("c", [2, 3, 10])
def test_named_losses_score_the_softmax(kind, c):
    loss = kind(reduction="none")
    logits, y = normal(7, c, key="logits", scale=2.0).requires_grad_(), torch.arange(7) % c
    p = torch.softmax(logits, -1)
    expected = loss.partial_losses(p).gather(-1, y[:, None]).squeeze(-1)
    torch.testing.assert_close(loss(logits, y), expected)
    torch.testing.assert_close(loss.predict_proba(logits), p)
    assert torch.autograd.gradcheck(lambda x: loss(x, y), logits)
    soft = proba(7, c, key="soft")
    torch.testing.assert_close(loss(logits, soft), loss.expected_loss(soft, p))


def test_a_perfect_forecast_costs_nothing_in_the_normalized_form():
    for name, c in (("softmax", 3), ("canonical", 4), ("composite_ficnn", 2), ("table", 2), ("cosines", 2)):
        link = make_link(name, c)
        plain, normalized = CanonicalLoss(link), CanonicalLoss(link, normalized=True)
        certain = 1e5 * (2.0 * torch.eye(c, dtype=torch.float64) - 1.0)
        y = torch.arange(c)
        torch.testing.assert_close(normalized(certain, y), torch.zeros((), dtype=torch.float64), rtol=0, atol=1e-7)
        z = normal(30, c - 1, key="z", scale=3.0)
        assert (normalized.losses_at(z) >= -1e-9).all()
        difference = normalized.losses_at(z) - plain.losses_at(z)
        torch.testing.assert_close(difference, difference[:1].expand_as(difference))
        p, q = proba(9, c, key="p"), proba(9, c, key="q")
        torch.testing.assert_close(normalized.regret(p, q), plain.regret(p, q))
        corners = normalized.bayes_risk(torch.eye(c, dtype=torch.float64))
        torch.testing.assert_close(corners, torch.zeros_like(corners), rtol=0, atol=1e-7)
    noisy = NoisyLink(SoftmaxLink(3), SymmetricNoise(3, 0.2, learned=False))
    with pytest.raises(ValueError, match="normalized=True needs a loss with a least value"):
        CanonicalLoss(noisy, normalized=True)


def test_composite_loss_is_the_log_loss_through_the_link():
    link = make_link("composite_ficnn", 3)
    loss = CompositeLoss(link)
    z, y = normal(9, 2, key="z").requires_grad_(), torch.arange(9) % 3
    torch.testing.assert_close(loss(z, y), torch.nn.functional.nll_loss(link(z), y))
    assert torch.autograd.gradcheck(lambda z: loss(z, y), z)
    p, q = proba(9, 3, key="p"), proba(9, 3, key="q")
    torch.testing.assert_close(loss.regret(p, q), LogLoss().regret(p, q))
    torch.testing.assert_close(loss.predict_proba(loss.link(p)), p)
    assert loss.canonicality.max_asymmetry > 1e-3
    with pytest.raises(ValueError, match="link must be a legendretron Link, got int"):
        CompositeLoss(3)


@pytest.mark.parametrize("make", [LogLoss, lambda **how: CanonicalLoss(make_link("canonical", 5), **how)])
def test_axes_that_could_be_either_are_pointed_out(make):
    """Not as ``CrossEntropyLoss``, which takes axis 1; for other shapes, the labels tell."""
    z, y = normal(2, 5, 5, 5, key="z"), torch.arange(50).reshape(2, 5, 5) % 5
    with pytest.warns(UserWarning, match=r"z of shape \(2, 5, 5, 5\).*give dim=3 or dim=1 to say which"):
        last = make()(z, y)
    torch.testing.assert_close(make(dim=3)(z, y), last)
    torch.testing.assert_close(make(dim=1)(z, y), make(dim=3)(z.movedim(1, -1), y))
    make()(z[:, :4], y[:, :4])
    with pytest.raises(ValueError, match=r"y .* must have shape \(2, 5, 4\), got \(2, 4, 5\)"):
        make()(z[..., :4, :], y[:, :4])


def make_single(name, n_classes):
    return make_link(name, n_classes, dtype=torch.float32)


@pytest.mark.parametrize("make", [
    lambda: CanonicalLoss(make_single("canonical", 3), normalized=True),
    lambda: CanonicalLoss(make_single("composite_ficnn", 2)),
    lambda: CanonicalLoss(NoisyLink(SoftmaxLink(3), SymmetricNoise(3, 0.2, learned=False))),
    lambda: CompositeLoss(make_single("composite_ficnn", 3), label_smoothing=0.1),
    lambda: CompositeLoss(make_single("composite_ficnn", 3).bfloat16()),
], ids=["canonical", "two", "noisy", "composite", "half"])  # fmt: skip
def test_logits_in_double_precision(make):
    """A loss in single precision takes them, as ``CrossEntropyLoss`` does, and is as precise as they are."""
    loss = make()
    c = loss.n_classes
    double = make().double()
    z, y = normal(9, c, key="z").requires_grad_(), torch.arange(9) % c
    found, expected = loss(z, y), double(z, y)
    assert found.dtype == torch.float64
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)  # the least losses were rounded
    (found,), (expected,) = torch.autograd.grad(found, z), torch.autograd.grad(expected, z)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)
    p = double.predict_proba(z.detach())
    torch.testing.assert_close(loss.predict_proba(z.detach()), p)
    torch.testing.assert_close(loss.link(p), double.link(p))
    torch.testing.assert_close(loss.partial_losses(p), double.partial_losses(p), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(loss(z.detach().float(), y).double(), loss(z.detach(), y), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", [CompositeLoss, lambda link: LegendreHead(2, 3, link=link).link])
def test_an_infinite_logit_is_no_mask(kind):
    """As in torch, its row has no probabilities; the others are not concerned."""
    module = kind(CompositeLink(3))
    logits = torch.tensor([[1.0, torch.inf, 0.0], [1.0, 2.0, 1.04], [torch.inf, 0.0, 1.0], [0.0, 1.0, torch.inf]])
    log_p = (
        module.predict_proba(logits).log() if isinstance(module, CompositeLoss) else module(logits, all_classes=True)
    )
    assert log_p.isnan().all(-1).tolist() == [True, False, True, True]
    assert log_p[1].isfinite().all()
    logits[1, 0] = -torch.inf
    with pytest.raises(ValueError, match="logits hold a masked class, -inf"):
        module.predict_proba(logits) if isinstance(module, CompositeLoss) else module(logits, all_classes=True)


@pytest.mark.parametrize(("loss", "shape", "message"), [
    (LogLoss(), (4, 1), "z must have the logits of all classes, two or more, along axis dim=-1, got shape"),
    (LogLoss(weight=torch.ones(2)), (4, 3), "weight has 2 entries, but z has 3 classes; give one for each"),
])  # fmt: skip
def test_refusals(loss, shape, message):
    with pytest.raises(ValueError, match=message):
        loss(torch.zeros(shape), torch.zeros(4, dtype=torch.int64))


@pytest.mark.parametrize("size", [1e8, 1e30])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("kind", [CanonicalLoss, CompositeLoss])
def test_predictors_of_a_run_that_diverges_are_no_mask(kind, n_classes, size):
    name = "composite_ficnn" if kind is CompositeLoss or n_classes == 2 else "canonical"
    loss = kind(make_link(name, n_classes, dtype=torch.float32))
    z = torch.zeros(2, n_classes - 1)
    z[0, 0], z[1, 0] = size, -size
    y = torch.tensor([n_classes - 1, 0])
    for given in (z, append_reference(z)) if n_classes == 2 or size < 5e8 else (z,):
        p = loss.predict_proba(given)
        assert p.isfinite().all()
        torch.testing.assert_close(p.sum(-1), torch.ones(2))
        assert (p[0, 0] > 0.99) == (p[1, 0] < 0.01)
        assert loss(given, y) > size * 1e-3
        assert loss(given, y).isfinite()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_one_of_two_classes_may_be_impossible(dtype):
    loss = CanonicalLoss(CompositeLink(2, dtype=dtype))
    z = torch.tensor([[1.0, -torch.inf], [-torch.inf, 1.0]], dtype=dtype)
    assert torch.equal(loss.predict_proba(z), torch.eye(2, dtype=dtype))
    assert loss.predict_proba(torch.full((1, 2), torch.nan, dtype=dtype)).isnan().all()
