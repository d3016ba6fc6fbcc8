"""Logits of classes that are masked: exact where a link can leave a class out, refused where it cannot."""

import math

import pytest
import torch
from torch import nn

from legendretron.links import SoftmaxLink
from legendretron.losses import CanonicalLoss, CompositeLoss
from legendretron.nn import LegendreLink

C = 4
EXACT = {"softmax": {"link": "softmax"}, "canonical": {"link": "canonical", "init": "random"}}
OTHERS = {
    "composite": {"link": "composite", "init": "paper"},
    "cpflow": {"link": "composite", "network": "cpflow"},
    "leaky": {"link": "leaky"},
}
IDENTITY = torch.eye(C)
NOISES = {"none": None, "rate": 0.2, "no rate": 0.0, "learn": "learn", "matrix": "class-conditional", "known": IDENTITY}
LOW = [-1e9, -3e38, -math.inf]


@pytest.fixture(params=list(EXACT))
def exact(request):
    return EXACT[request.param]


@pytest.fixture(params=list(OTHERS))
def other(request):
    import tests.leaky_link  # noqa: F401 - registers its name

    return OTHERS[request.param]


def make(settings, dtype=torch.float32, **more):
    generator = torch.Generator().manual_seed(3) if settings["link"] not in ("softmax", "leaky") else None
    return LegendreLink(C, **settings, generator=generator, **more).to(dtype)


def rows(dtype=torch.float32):
    return torch.tensor([[1.0, 2.0, 3.0, 0.5], [-2.0, 0.0, 1.0, 4.0]], dtype=dtype)


def masked_rows(k, low, dtype=torch.float32):
    logits = rows(dtype)
    logits[:, k] = low
    return logits.requires_grad_()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("low", LOW)
@pytest.mark.parametrize("k", range(C))
def test_a_masked_class_does_not_count(exact, k, low, dtype):
    link = make(exact, dtype)
    logits = masked_rows(k, low, dtype)
    log_p = link(logits)
    # the limit of low logits, from numbers that every formula can take
    near = make(exact, torch.float64)(masked_rows(k, -1e4, torch.float64)).exp()
    p = log_p.exp()
    assert (p[:, k] == 0.0).all()
    assert log_p[:, k].isneginf().all() or not math.isinf(low)
    torch.testing.assert_close(p.double(), near, rtol=1e-5, atol=1e-6)
    labels = torch.tensor([(k + 1) % C, (k + 2) % C])
    nn.functional.nll_loss(log_p, labels).backward()
    assert (logits.grad[:, k] == 0.0).all()
    assert logits.grad.isfinite().all()
    assert (logits.grad.abs().sum(-1) > 0.0).all()
    assert all(p.grad.isfinite().all() for p in link.parameters())


def test_gradients_of_unmasked_logits_are_those_of_finite_differences(exact):
    link = make(exact, torch.float64)
    free = rows(torch.float64)[:, :-1].clone().requires_grad_()

    def of_free(z):
        low = torch.full((2, 1), -math.inf, dtype=torch.float64)
        return link(torch.cat([z, low], -1))[:, :-1]

    assert torch.autograd.gradcheck(of_free, free)
    assert torch.autograd.gradgradcheck(of_free, free)


@pytest.mark.parametrize("noise", list(NOISES))
def test_wrong_labels_of_masked_classes(exact, noise):
    link = make(exact, label_noise=NOISES[noise])
    plain = make(exact)
    logits = masked_rows(2, -math.inf)
    q, p = link(logits), plain(logits)
    torch.testing.assert_close(q.exp(), p.exp() @ link.noise_matrix)
    nn.functional.nll_loss(q, torch.tensor([0, 3])).backward()
    assert logits.grad.isfinite().all()
    assert (logits.grad[:, 2] == 0.0).all()
    assert all(p.grad.isfinite().all() for p in link.parameters())
    torch.testing.assert_close(link.eval()(logits), p)


def test_a_row_without_classes_is_nan(exact):
    logits = rows()
    logits[0] = -math.inf
    log_p = make(exact)(logits)
    assert log_p[0].isnan().all()
    assert log_p[1].isfinite().all()


@pytest.mark.parametrize("tool", ["export", "vmap"])
def test_tools(exact, tool):
    link = make(exact).eval()
    logits = masked_rows(3, -math.inf).detach()
    run = torch.func.vmap(link) if tool == "vmap" else torch.export.export(link, (rows(),)).module()
    torch.testing.assert_close(run(logits), link(logits))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("k", range(C))
def test_every_class_keeps_the_digits_of_the_others_or_is_refused(other, k, dtype):
    """The last class, to which the others are compared, as well as any other one."""
    link, exact = make(other, dtype).eval(), make(other, torch.float64).eval()
    others = [j for j in range(C) if j != k]
    refused = []
    for low in [-1e3, -1e4, -1e5, -1e6, -1e7, -1e8, -4e8, *(-(10.0**power) for power in range(9, 31)), -math.inf]:
        logits = masked_rows(k, low, dtype)
        try:
            log_p = link(logits)
        except ValueError:
            refused.append(low)
            continue
        # low ones change nothing any more, and float64 has digits enough for this one
        expected = exact(masked_rows(k, max(low, -1e5), torch.float64))
        torch.testing.assert_close(log_p[:, others].double(), expected[:, others], rtol=1e-5, atol=1e-5)
        assert (log_p[:, k].exp() < 1e-30).all()
        log_p[:, others].sum().backward()
        assert logits.grad.isfinite().all()
    assert refused == sorted(refused, reverse=True)  # once refused, all that is lower is refused too
    with pytest.raises(ValueError, match="hold a masked class, -inf"):
        link(masked_rows(k, -math.inf, dtype))
    assert refused[0] < (-4e8 if dtype == torch.float32 else -2e9)


def test_gradients_of_rows_whose_last_class_is_masked(other):
    link, exact = make(other).eval(), make(other, torch.float64).eval()
    logits, wide = masked_rows(C - 1, -1e8), masked_rows(C - 1, -1e8, torch.float64)
    labels = torch.tensor([0, 2])
    nn.functional.nll_loss(link(logits), labels).backward()
    nn.functional.nll_loss(exact(wide), labels).backward()
    torch.testing.assert_close(logits.grad.double(), wide.grad, rtol=1e-5, atol=1e-6)
    for name, parameter in link.named_parameters():
        torch.testing.assert_close(
            parameter.grad.double(), exact.get_parameter(name).grad, rtol=1e-5, atol=1e-6, msg=name
        )
    loss = CompositeLoss(link.link)
    torch.testing.assert_close(loss(logits, labels), nn.functional.nll_loss(link(logits), labels))


def test_a_canonical_link_of_ones_own_refuses_a_mask_of_which_differences_lose_digits():
    class Own(SoftmaxLink):
        pass

    loss = CanonicalLoss(Own(C))
    logits, labels = rows(), torch.tensor([0, 2])
    torch.testing.assert_close(loss(logits, labels), nn.functional.cross_entropy(logits, labels))
    logits[0, -1] = -1e5
    with pytest.raises(ValueError, match="logits hold a masked class, -1e\\+05, but Own compares all classes"):
        loss(logits, labels)


@pytest.mark.parametrize("k", range(C))
def test_where_values_are_not_read_lost_digits_give_nan(other, k):
    link, exact = make(other).eval(), make(other, torch.float64).eval()
    others = [j for j in range(C) if j != k]
    for low in (-1e3, -1e4, -1e5, -1e6, -1e7, -1e8, -1e9, -1e30, -math.inf):
        log_p = torch.func.vmap(link)(masked_rows(k, low).detach())
        if not log_p.isnan().all():
            assert k < C - 1 or low >= -1e4
            expected = exact(masked_rows(k, max(low, -1e5), torch.float64))
            torch.testing.assert_close(log_p[:, others].double(), expected[:, others], rtol=1e-3, atol=1e-3)
        elif k < C - 1:
            assert low <= -1e9


def test_a_link_takes_logits_of_all_classes_by_name(exact):
    link = make(exact).link
    torch.testing.assert_close(link(rows(), all_classes=True), link(rows()[:, :-1] - rows()[:, -1:]))
    for given, all_classes in ((rows()[:, :-1], True), (rows(), False)):
        with pytest.raises(ValueError, match="must have shape"):
            link(given, all_classes=all_classes)
