"""What every proper loss must satisfy, over the whole catalogue."""

import pytest
import torch

from legendretron.diagnostics import properness
from legendretron.losses import Criterion
from tests.catalogue import CLASSES, EXISTING_LOSSES, EXISTING_SMOOTH_LOSSES, LEADING, LOSSES, normal, possible, proba

every_loss = pytest.mark.parametrize(("name", "c"), EXISTING_LOSSES)
every_smooth_loss = pytest.mark.parametrize(("name", "c"), EXISTING_SMOOTH_LOSSES)


def possible_proba(name, *shape, **how):
    return possible(name, proba(*shape, **how))


@every_loss
@pytest.mark.parametrize("leading", LEADING)
def test_shapes_and_definitions(name, c, leading):
    loss = LOSSES[name](c)
    p, q = possible_proba(name, *leading, c, key="p"), possible_proba(name, *leading, c, key="q")
    partial = loss.partial_losses(q)
    assert partial.shape == q.shape
    expected = loss.expected_loss(p, q)
    assert expected.shape == leading
    assert torch.allclose(expected, (p * partial).sum(-1), rtol=1e-13)
    assert torch.allclose(loss.bayes_risk(p), loss.expected_loss(p, p), rtol=1e-11, atol=1e-13)
    regret = loss.regret(p, q)
    assert torch.allclose(regret, expected - loss.bayes_risk(p), rtol=1e-9, atol=1e-11)
    assert (regret > 0 if loss.strictly_proper else regret >= -1e-15).all()
    assert torch.allclose(loss.regret(p, p), torch.zeros(leading, dtype=torch.float64), atol=1e-11)
    if name == "composite":  # its link is any, not the canonical one of the log-loss
        assert torch.allclose(loss.predict_proba(loss.link(p)), p, rtol=1e-9)
    else:
        difference = loss.partial_losses(p)[..., -1:] - loss.partial_losses(p)[..., :-1]
        assert torch.allclose(loss.link(p), difference, atol=1e-9)


@every_loss
def test_proper(name, c):
    loss = LOSSES[name](c)
    if name == "canonical_noisy":  # the search would leave the probabilities that are possible
        p, q = (
            possible(name, torch.eye(c).double().lerp(proba(c, c, key="p"), 1e-6)),
            possible_proba(name, 64, c, key="q"),
        )
        gap = loss.expected_loss(p.unsqueeze(1), q) - loss.bayes_risk(p).unsqueeze(1)
        assert (gap > 0).all()
        return
    report = properness(loss, c, n_starts=16 if c == 100 or name.startswith("canonical") else 64)
    assert report.worst_violation < 1e-12


@every_smooth_loss
def test_gradients_of_the_bayes_risk(name, c):
    """Along the simplex its slope is the partial losses; of the projected one, the link is minus the gradient."""
    loss = LOSSES[name](c)
    tilde = possible_proba(name, 6, c, key="p", spread=1.0)[..., :-1].clone().requires_grad_()
    p = torch.cat([tilde, 1 - tilde.sum(-1, keepdim=True)], -1)
    gradient, of_tilde = torch.autograd.grad(loss.bayes_risk(p).sum(), [p, tilde])
    v = normal(6, c, key="v")
    v = v - v.mean(-1, keepdim=True)
    slope, expected = (gradient * v).sum(-1), (loss.partial_losses(p) * v).sum(-1)
    assert torch.allclose(slope, expected, rtol=1e-8, atol=1e-9)
    if name != "composite":  # whose link is not the canonical one
        assert torch.allclose(loss.link(p.detach()), -of_tilde, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize(("name", "c"), [(n, c) for n, c in EXISTING_SMOOTH_LOSSES if c in (2, 3)])
def test_gradcheck(name, c):
    loss = LOSSES[name](c)
    t = normal(2, c, key="t").requires_grad_()
    p = possible_proba(name, 2, c, key="p")
    assert torch.autograd.gradcheck(lambda t: loss.partial_losses(possible(name, torch.softmax(t, -1))), t)
    assert torch.autograd.gradcheck(lambda t: loss.regret(p, possible(name, torch.softmax(t, -1))), t)
    assert torch.autograd.gradcheck(lambda t: loss.bayes_risk(possible(name, torch.softmax(t, -1))), t)


@every_loss
def test_certain_labels_and_predictions(name, c):
    """The corners of the simplex: no NaN, and no regret at the truth."""
    loss = LOSSES[name](c)
    for dtype, tolerance in ((torch.float64, 1e-12), (torch.float32, 1e-5)):
        loss = loss.to(dtype)
        corner = torch.eye(c, dtype=dtype)
        if name == "canonical_noisy":
            with pytest.raises(ValueError, match="p holds observed probabilities that no true ones can give"):
                loss.partial_losses(corner)
            continue
        inside = possible_proba(name, c, c, key="q", dtype=dtype)
        for p, q in ((corner, inside), (corner, corner), (inside, corner)):
            assert not loss.partial_losses(q).isnan().any()
            assert not loss.expected_loss(p, q).isnan().any()
            assert not loss.regret(p, q).isnan().any()
        assert loss.bayes_risk(corner).isfinite().all()
        assert (loss.regret(corner, corner).abs() <= tolerance).all()


CRITERIA = [name for name in LOSSES if isinstance(LOSSES[name](2), Criterion)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("name", "c"), [(n, c) for n, c in EXISTING_LOSSES if n in CRITERIA and c <= 10])
def test_extreme_logits_give_no_nan(name, c, dtype):
    """Confident answers, right and wrong, and masked classes: all values and gradients are numbers, or limits of them."""
    loss = LOSSES[name](c).to(dtype)
    one = torch.eye(c, dtype=torch.bool)
    high, low = [180.0, 1e3, 1e30], [-180.0, -1e3, -1e30, -torch.inf]
    rows = [torch.zeros(c, c, dtype=dtype).masked_fill(one, value) for value in (*high, *low)]
    if c > 2:  # two masked classes
        rows.append(torch.zeros(c, c, dtype=dtype).masked_fill(one | one.roll(1, 0), -torch.inf))
    logits = torch.cat(rows).repeat_interleave(c, 0)
    labels = torch.arange(len(logits)) % c
    for smoothing in (0.0, 0.1):
        loss.label_smoothing = smoothing
        for x, y in zip(logits.split(c), labels.split(c), strict=True):
            for target in (y, torch.nn.functional.one_hot(y, c).to(dtype)):
                x = x.detach().requires_grad_()
                if refuses_masks(name, x):
                    with pytest.raises(ValueError, match="logits hold a masked class"):
                        loss(x, target)
                    continue
                value = loss(x, target)
                (gradient,) = torch.autograd.grad(value, x)
                assert not value.isnan()
                assert gradient.isfinite().all()


def refuses_masks(name, x):
    """A composite link compares all classes, and with noise a masked label stays possible."""
    if name == "canonical_noisy":
        return bool(x.isneginf().any())
    return name == "composite" and x.shape[-1] > 2 and bool(x.amax() - x.amin() >= 1e30)


@every_loss
def test_bad_input_is_refused_with_its_name(name, c):
    loss = LOSSES[name](c)
    p = possible_proba(name, 4, c, key="p")
    with pytest.raises(ValueError, match="p must contain probabilities"):
        loss.partial_losses(-p)
    with pytest.raises(ValueError, match="q must sum to 1"):
        loss.expected_loss(p, 2 * p)
    with pytest.raises(ValueError, match=r"(must have the same classes|q must have shape)"):
        loss.regret(p, possible_proba(name, 4, c + 1, key="q"))


@every_loss
def test_mean_loss(name, c):
    loss = LOSSES[name](c)
    p, y = possible_proba(name, 20, c, key="p"), torch.arange(20) % c
    picked = loss.partial_losses(p)[torch.arange(20), y]
    weight = torch.linspace(0, 2, 20, dtype=torch.float64)
    assert torch.allclose(loss.mean_loss(p, y), picked.mean())
    assert torch.allclose(loss.mean_loss(p, y, weight), (picked * weight).sum() / weight.sum())
    with pytest.raises(ValueError, match=f"y must contain labels from 0 to {c - 1}, got {c}"):
        loss.mean_loss(p, y + 1 if c < 20 else y.clone().fill_(c))
    with pytest.raises(ValueError, match=r"y must have shape \(20,\), got \(5,\)"):
        loss.mean_loss(p, y[:5])


@pytest.mark.parametrize("c", CLASSES)
def test_the_learned_loss_of_softmax_is_the_log_loss(c):
    p, q = proba(10, c, key="p"), proba(10, c, key="q")
    log, learned = LOSSES["log"](c), LOSSES["canonical_softmax"](c)
    assert torch.allclose(log.partial_losses(p), learned.partial_losses(p), rtol=1e-12)
    assert torch.allclose(log.regret(p, q), learned.regret(p, q), rtol=1e-10)
