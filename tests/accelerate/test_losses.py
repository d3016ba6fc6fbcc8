"""The canonical loss by compiled functions is that by plain operations, whatever the settings."""

import copy
import itertools
import pickle
import sys
from itertools import product

import pytest
import torch
from torch.autograd import forward_ad

from legendretron import CanonicalLoss, SoftmaxLink
from legendretron._internal.tensor_cache import TensorCache
from legendretron.links import NoisyLink, SymmetricNoise, TransitionNoise
from tests.catalogue import LINKS_OF_TWO, make_link, normal

MATRIX = [[0.9, 0.1], [0.3, 0.7]]
LINKS = {
    "canonical": lambda: make_link("canonical", 4),
    "one_nest": lambda: make_link("canonical_identity", 4),
    "many": lambda: make_link("canonical", 300),
    "noisy": lambda: NoisyLink(make_link("canonical", 4), SymmetricNoise(4, 0.3, learned=False, dtype=torch.float64)),
    "noisy_softmax": lambda: NoisyLink(SoftmaxLink(4), SymmetricNoise(4, 0.3, learned=False, dtype=torch.float64)),
    "canonical_of_two": lambda: make_link("canonical", 2),
    "composite_of_two": lambda: make_link("composite_ficnn", 2),
    "noisy_of_two": lambda: NoisyLink(make_link("composite_ficnn", 2), TransitionNoise(MATRIX, dtype=torch.float64)),
    **LINKS_OF_TWO,
}
every_link = pytest.mark.parametrize("name", LINKS)


def both(loss, x, y):
    """Value and gradient by the compiled function, and by plain operations."""
    found = []
    for of in (loss._fused_loss, loss._loss_of_logits):
        leaf = x.clone().requires_grad_()
        value = of(leaf, y)
        assert value is not None
        found.append((value, *torch.autograd.grad(value.sum(), leaf)))
    return found


def logits(c, n=150, dtype=torch.float64):
    return normal(n, c, key="x", scale=3.0, dtype=dtype), torch.arange(n) % c


@every_link
@pytest.mark.parametrize("smoothing", [0.0, 0.1, pytest.param(1.0, marks=pytest.mark.exhaustive)])
def test_as_by_plain_operations(name, smoothing):
    normalized = smoothing > 0.0 and "noisy" not in name
    loss = CanonicalLoss(LINKS[name](), ignore_index=-1, label_smoothing=smoothing, normalized=normalized)
    c = loss.n_classes
    x, y = logits(c)
    y[::7] = -1
    for dtype, rtol, atol in ((torch.float64, 1e-10, 1e-12), (torch.float32, 1e-5, 1e-5)):
        loss.to(dtype)
        for weight, reduction in product((None, torch.linspace(0.0, 2.0, c, dtype=dtype)), ("mean", "sum", "none")):
            loss.weight, loss.reduction = weight, reduction
            torch.testing.assert_close(*both(loss, x.to(dtype), y), rtol=rtol, atol=atol)
            for rows, labels in ((x[:0], y[:0]), (x, torch.full_like(y, -1))):  # none that counts
                found, plain = both(loss, rows.to(dtype), labels)
                torch.testing.assert_close(found[0], plain[0], equal_nan=True)
                assert smoothing > 0.0 or (found[1] == 0).all()
    y[4] = c
    assert loss._fused_loss(x.float(), y) is None


def test_derivatives_and_masks_with_smoothed_labels():
    loss = CanonicalLoss(
        make_link("canonical", 4), label_smoothing=0.2, weight=torch.tensor([1.0, 0.0, 2.0, 1.0]).double()
    )
    x, y = logits(4, 5)
    assert torch.autograd.gradgradcheck(lambda x: loss(x, y), x.requires_grad_())
    masked = x.detach().clone()
    masked[:, 1] = -torch.inf  # without weight, so that it costs nothing
    torch.testing.assert_close(*both(loss, masked[y != 1], y[y != 1]))
    assert loss(masked[y != 1], y[y != 1]).isfinite()


@every_link
def test_logits_of_any_size(name):
    loss = CanonicalLoss(LINKS[name](), reduction="sum")
    c = loss.n_classes
    for scale in (1e-3, 1e2, 1e4, 1e6):
        x, y = scale * normal(40, c, key="x"), torch.arange(40) % c
        torch.testing.assert_close(*both(loss, x, y), rtol=1e-9, atol=1e-9)


def test_masked_classes_and_what_is_no_number():
    for link in (make_link("canonical", 4), NoisyLink(SoftmaxLink(4), SymmetricNoise(4, 0.0, learned=False)).double()):
        loss = CanonicalLoss(link, reduction="none")
        x, y = logits(4, 3)
        x[0, 3], x[1, 2] = -torch.inf, torch.nan
        value = loss._fused_loss(x, y)
        assert value[0].isfinite()
        assert value[1].isnan()
        assert value[2].isfinite()
        assert loss._fused_loss(x[:1], torch.tensor([3])) == torch.inf


@pytest.mark.parametrize("name", ["noisy", "noisy_softmax", "noisy_of_two"])
def test_a_masked_class_is_refused_with_noise(name):
    loss = CanonicalLoss(LINKS[name]())
    for label in range(loss.n_classes):
        x, y = logits(loss.n_classes, 20)
        x[-1, 0], y[-1] = -torch.inf, label
        with pytest.raises(ValueError, match="with noise its label remains possible"):
            loss(x, y)
        x[-1, 0] = torch.nan
        assert loss(x, y).isnan()


@pytest.mark.parametrize("name", ["canonical", "composite_of_two"])
def test_any_axes_strides_and_integers(name):
    loss = CanonicalLoss(LINKS[name](), reduction="none", dim=1)
    c = loss.n_classes
    x, y = normal(3, c, 5, 2, key="x"), torch.arange(30).reshape(3, 5, 2) % c
    expected = loss._loss_of_logits(x.movedim(1, -1), y)
    for labels in (y, y.to(torch.uint8), y.to(torch.int32), y.mT.contiguous().mT):
        torch.testing.assert_close(loss(x, labels), expected)
    leaf = x.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(loss(leaf, y).sum(), leaf)
    assert gradient.shape == x.shape
    torch.testing.assert_close(loss(x[:, :-1] - x[:, -1:], y), expected)


@pytest.mark.parametrize("name", ["canonical", "composite_of_two"])
def test_derivatives(name):
    loss = CanonicalLoss(LINKS[name]())
    x, y = logits(loss.n_classes, 5)
    x.requires_grad_()
    value = loss(x, y)
    once, again = (torch.autograd.grad(value, x, retain_graph=True)[0] for _ in range(2))
    torch.testing.assert_close(once, again)
    with_graph = torch.autograd.grad(loss(x, y), x, create_graph=True)[0]
    torch.testing.assert_close(with_graph, once)
    assert torch.autograd.gradgradcheck(lambda x: loss(x, y), x)
    with torch.no_grad():
        torch.testing.assert_close(loss(x, y), value)
    direction = normal(*x.shape, key="direction")
    with forward_ad.dual_level():
        tangent = forward_ad.unpack_dual(loss(forward_ad.make_dual(x.detach(), direction), y)).tangent
    torch.testing.assert_close(tangent, (once * direction).sum())


@pytest.mark.parametrize("name", ["canonical", "composite_of_two", "noisy"])
def test_changes_of_the_link_are_seen(name):
    loss, other = CanonicalLoss(LINKS[name]()), CanonicalLoss(LINKS[name]())
    x, y = logits(loss.n_classes, 40)
    before = loss(x, y)
    with torch.no_grad():
        for buffer in other.buffers():
            buffer.mul_(1.1)
    expected = other._loss_of_logits(x, y)
    assert not torch.allclose(before, expected)
    torch.testing.assert_close(other(x, y), expected)
    loss.load_state_dict(other.state_dict())
    for copied in (loss, copy.deepcopy(loss), pickle.loads(pickle.dumps(loss))):
        torch.testing.assert_close(copied(x, y), expected)
    copied = copy.deepcopy(loss)
    with torch.no_grad():
        next(copied.buffers()).add_(1.0)
    torch.testing.assert_close(loss(x, y), expected)
    torch.testing.assert_close(copied(x, y), copied._loss_of_logits(x, y))
    with torch.inference_mode():
        torch.testing.assert_close(loss(x, y), expected)
    for buffer in loss.buffers():  # as averages of models are made, which torch does not count as a change
        buffer.data.mul_(0.9)
    found = loss(x, y)
    torch.testing.assert_close(found, copy.deepcopy(loss)(x, y))
    assert not torch.allclose(found, expected)
    torch.testing.assert_close(loss._loss_of_logits(x, y), found)


@pytest.mark.parametrize("name", ["canonical", "composite_of_two"])
def test_threads_share_a_loss_in_two_precisions(name):
    """Another thread may take its turn between any two lines of what they share."""
    loss = CanonicalLoss(LINKS[name]().float())
    x, y = logits(loss.n_classes, 7, torch.float32)
    single, double = (x, y), (x.double(), y)
    expected = [float(copy.deepcopy(loss)(*given)) for given in (single, double)]
    found = []

    def take_turns(at_line):
        """Loss of one, while that of the other is computed at a line; whether there is such a line."""
        lines = 0

        def trace_line(frame, event, _):
            nonlocal lines
            lines += event == "line"
            if event == "line" and lines == at_line:
                found.append((float(loss(*double)), expected[1]))
            return trace_line

        before = sys.gettrace()
        sys.settrace(lambda frame, *_: trace_line if frame.f_code is TensorCache.get.__code__ else None)
        try:
            found.append((float(loss(*single)), expected[0]))
        finally:
            sys.settrace(before)
        return lines >= at_line

    assert sum(itertools.takewhile(bool, map(take_turns, itertools.count(1)))) > 3
    for value, right in found:
        assert value == pytest.approx(right, rel=1e-4)


@pytest.mark.parametrize("name", ["canonical", "composite_of_two"])
def test_threads_share_the_rows(name, monkeypatch):
    from legendretron.accelerate.cpu import links

    monkeypatch.setattr(links, "_PART", 100)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    for reduction in ("mean", "sum", "none"):
        loss = CanonicalLoss(LINKS[name](), reduction=reduction, ignore_index=-1)
        x, y = logits(loss.n_classes)
        y[::7] = -1
        torch.testing.assert_close(*both(loss, x, y), rtol=1e-10, atol=1e-12)
        y[100] = 7
        with pytest.raises(ValueError, match="got 7"):
            loss(x, y)


@pytest.mark.parametrize(
    "name",
    ["canonical", "table", *(pytest.param(n, marks=pytest.mark.exhaustive) for n in ("noisy", "composite_of_two"))],
)
def test_kernels_for_cuda(name):
    """On the CPU by Triton's interpreter, on a GPU as they are."""
    weighted_losses = pytest.importorskip("legendretron.accelerate.cuda.losses").weighted_losses
    device = "cuda" if torch.cuda.is_available() else "cpu"
    for dtype, tolerance in ((torch.float64, 1e-10), (torch.float32, 1e-5)):
        loss = CanonicalLoss(LINKS[name]().to(dtype), reduction="none", normalized=name in ("canonical", "table"))
        c = loss.n_classes
        x, y = logits(c, 11, dtype)
        y[3] = -100
        losses, gradient = both(loss, x, y)[1]
        rows = loss.to(device)._make_row_losses(x.to(device))
        link = rows.numbers, rows.sizes, rows.is_table
        given = [t.to(device) for t in (x, y)]
        weight = torch.linspace(0.5, 2.0, c, dtype=dtype)
        counts = weight[y.clamp(min=0)] * (y != -100)
        expected = [torch.stack([losses.detach() * counts, counts]), gradient * counts[:, None]]
        found = weighted_losses(*given, weight.to(device), *link, -100, True)
        torch.testing.assert_close([t.cpu() for t in found], expected, rtol=tolerance, atol=tolerance)
        given[1][2] = c
        assert weighted_losses(*given, None, *link, -100, True)[0][0].isnan().tolist() == [i == 2 for i in range(11)]
