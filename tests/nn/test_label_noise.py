"""Networks on labels of which some are wrong: the observed side to train on, the true side to predict."""

import copy

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.heads import LINKS, C, D, features, make_head
from torch import nn
from torch.nn.functional import nll_loss

from legendretron.links import CanonicalLink, NoisyLink, SoftmaxLink, SymmetricNoise, TransitionNoise
from legendretron.nn import LegendreHead, LegendreLink, parameter_groups

FLIPS = 0.7 * torch.eye(C) + 0.3 * torch.eye(C).roll(1, 1)
NOISES = {"learn": "learn", "class-conditional": "class-conditional", "known": 0.2, "matrix": FLIPS}


@pytest.fixture(params=list(LINKS))
def settings(request):
    return LINKS[request.param]


@pytest.fixture(params=list(NOISES))
def noise(request):
    return NOISES[request.param]


# --- what it computes ---


def test_observed_to_train_on_and_true_to_predict(settings, noise):
    head, plain = make_head(settings, noise), make_head(settings, None)
    x, y = features(), torch.tensor([0, 4, -100, 2, 1, 3, 3])
    true = plain(x)
    q = (true.exp() @ head.noise_matrix).log()
    torch.testing.assert_close(head.train()(x), q)
    torch.testing.assert_close(head.eval()(x), true, rtol=0, atol=0)
    for mode in (True, False):
        head.train(mode)
        torch.testing.assert_close(head.log_proba_observed(x), q)
        for reduction in ("mean", "sum", "none"):
            torch.testing.assert_close(head.loss(x, y, reduction), nll_loss(q, y, reduction=reduction))
    assert head(x.reshape(7, 1, D)).shape == (7, 1, C)
    assert head.train()(x[0]).shape == (C,)
    torch.testing.assert_close(head(x[0]), q[0])
    torch.testing.assert_close(head(x.reshape(1, 7, D))[0], q)


def test_rates_and_matrices():
    for rate in (0.2, np.float32(0.2), np.array(0.2), torch.tensor(0.2)):
        assert LegendreHead(D, C, label_noise=rate).noise_rate == pytest.approx(0.2)
    torch.testing.assert_close(
        LegendreHead(D, C, label_noise=0.2).noise_matrix, 0.75 * torch.eye(C) + 0.05 * torch.ones(C, C)
    )
    for label_noise, replaced in (("learn", 0.25), ("symmetric", 0.25), ("class-conditional", 0.1)):
        head = LegendreHead(D, C, label_noise=label_noise)
        assert head.noise_rate == pytest.approx(replaced * (1 - 1 / C))  # some are replaced by themselves
        torch.testing.assert_close(head.noise_matrix, (1 - replaced) * torch.eye(C) + replaced / C)
        assert not head.noise_matrix.requires_grad
    for matrix in (FLIPS, FLIPS.numpy().astype(np.float64), FLIPS.tolist()):
        head = LegendreHead(D, C, label_noise=matrix)
        assert head.noise_rate == pytest.approx(0.3)
        assert head(features()).dtype == torch.float32
        torch.testing.assert_close(head.noise_matrix, FLIPS)
    own = SymmetricNoise(C, 0.4)
    assert LegendreHead(D, C, label_noise=own).noise is own
    assert LegendreHead(D, C, link=CanonicalLink(C), label_noise=own).noise_rate == pytest.approx(0.32)


def test_label_quality_is_the_posterior_of_the_given_label(settings, noise):
    head = make_head(settings, noise).eval()
    x, y = features(), torch.arange(7) % C
    p, matrix = head(x).exp(), head.noise_matrix
    joint = p * matrix[:, y].T
    expected = (joint / joint.sum(1, keepdim=True))[torch.arange(7), y]
    torch.testing.assert_close(head.label_quality(x, y), expected)
    torch.testing.assert_close(head.label_quality(x.reshape(1, 7, D), y.reshape(1, 7)), expected.reshape(1, 7))
    torch.testing.assert_close(head.label_quality(x[3], y[3]), expected[3])
    torch.testing.assert_close(head.train().label_quality(x, y), expected)


def test_after_logits(noise):
    link = LegendreLink(C, dim=1, label_noise=noise)
    logits, labels = torch.randn(2, C, 3, 4), torch.randint(C, (2, 3, 4))
    true = copy.deepcopy(link).eval()(logits)
    q = (true.movedim(1, -1).exp() @ link.noise_matrix).log().movedim(-1, 1)
    torch.testing.assert_close(link(logits), q)
    torch.testing.assert_close(link.log_proba_observed(logits), q)
    torch.testing.assert_close(link.eval().log_proba_observed(logits), q)
    quality = link.label_quality(logits, labels)
    own = torch.gather(true - q, 1, labels[:, None])[:, 0].exp() * link.noise_matrix.diagonal()[labels]
    torch.testing.assert_close(quality, own)
    nn.NLLLoss()(link.train()(logits), labels).backward()
    assert all(torch.isfinite(p.grad).all() for p in link.parameters())


# --- precision ---


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_and_half_precision(settings, noise, dtype):
    head = make_head(settings, noise)
    x, y = features(), torch.arange(7) % C
    with torch.autocast("cpu", dtype=dtype):
        z, log_q = head.linear(x), head(x)
        quality = head.label_quality(x, y)
    torch.testing.assert_close(log_q, head.noise.log_observed(head.link(z.float())))
    assert quality.dtype == log_q.dtype == torch.float32
    nll_loss(log_q, y).backward()
    assert all(torch.isfinite(p.grad).all() for p in head.parameters())
    half = copy.deepcopy(head).to(dtype)
    assert half(x.to(dtype)).dtype == torch.float32
    half.loss(x.to(dtype), y).backward()
    assert all(p.grad.dtype == dtype and torch.isfinite(p.grad).all() for p in half.parameters())


def test_extreme_features(settings, noise):
    head = make_head(settings, noise)
    x = features() * torch.tensor([1e-30, 1.0, 1e2, 1e4, -1e4, 0.0, 1e6])[:, None]
    log_q = head(x)
    assert torch.isfinite(log_q).all() or noise is FLIPS  # some flips never happen
    head.loss(x, torch.arange(7) % C).backward()
    assert all(torch.isfinite(p.grad).all() for p in head.parameters())
    quality = head.label_quality(x, torch.arange(7) % C)
    assert ((quality >= 0) & (quality <= 1 + 1e-6)).all()


# --- torch's tools ---


def test_exports_the_side_of_its_mode(noise):
    # what kind of link it is makes no difference to the noise, so one of them is with the paper's
    head = make_head(LINKS["composite" if noise == "learn" else "softmax"], noise)
    x = features(11)
    for mode in (True, False):
        head.train(mode)
        program = torch.export.export(head, (features(),), dynamic_shapes=({0: torch.export.Dim("n")},))
        torch.testing.assert_close(program.module()(x), head(x))


def test_safetensors_round_trip(settings, noise, tmp_path):
    head = make_head(settings, noise)
    with torch.no_grad():
        for p in head.parameters():
            p.add_(0.3)
    save_file(head.state_dict(), tmp_path / "head.safetensors")
    torch.manual_seed(5)
    other = LegendreHead(D, C, **settings, label_noise=noise)
    other.load_state_dict(load_file(tmp_path / "head.safetensors"))
    torch.testing.assert_close(other(features()), head(features()), rtol=0, atol=0)
    # a head that only predicts needs nothing of the noise
    plain = LegendreHead(D, C, **settings)
    missing, unexpected = plain.load_state_dict(load_file(tmp_path / "head.safetensors"), strict=False)
    assert not missing
    assert len(unexpected) == 1
    torch.testing.assert_close(plain(features()), head.eval()(features()), rtol=0, atol=0)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@pytest.mark.parametrize("noise", [None, *NOISES.values()], ids=["none", *NOISES])
def test_cuda_equals_cpu(settings, noise):
    head = make_head(settings, noise)
    x, y = features(), torch.arange(7) % C
    other = copy.deepcopy(head).cuda()
    head.loss(x, y).backward()
    other.loss(x.cuda(), y.cuda()).backward()
    for a, b in zip(other.parameters(), head.parameters(), strict=True):
        torch.testing.assert_close(a.grad.cpu(), b.grad, rtol=1e-4, atol=1e-5)


# --- learning ---


def wrong_blobs(n, transition, seed=0):
    """Well separated classes in two dimensions, with labels that a matrix has made wrong."""
    rng = np.random.default_rng(seed)
    true = rng.integers(0, C, n)
    angle = 2 * np.pi * true / C
    x = 4.0 * np.stack([np.cos(angle), np.sin(angle)], 1) + rng.normal(size=(n, 2))
    u = rng.random(n)
    seen = (u[:, None] >= np.asarray(transition)[true].cumsum(1)).sum(1).clip(max=C - 1)
    return torch.tensor(x, dtype=torch.float32), torch.tensor(true), torch.tensor(seen)


def train_net(x, y, label_noise):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), LegendreHead(32, C, link="softmax", label_noise=label_noise))
    optimizer = torch.optim.AdamW(parameter_groups(net, noise={"lr": 0.03}), lr=3e-3)
    for _ in range(15):
        for rows in torch.randperm(len(x)).split(100):
            optimizer.zero_grad()
            nll_loss(net(x[rows]), y[rows]).backward()
            optimizer.step()
    return net.eval()


def test_the_rate_is_learned():
    share = 0.4
    x, true, seen = wrong_blobs(3000, (1 - share) * np.eye(C) + share / (C - 1) * (1 - np.eye(C)))
    net = train_net(x, seen, "learn")
    assert net[2].noise_rate == pytest.approx(share, abs=0.06)
    assert nll_loss(net(x), true) < 0.5 * nll_loss(train_net(x, seen, None)(x), true)
    quality = net[2].label_quality(net[:2](x), seen)
    right = seen == true
    assert quality[right].mean() > 0.95
    assert quality[~right].mean() < 0.15


# --- errors ---


@pytest.mark.parametrize("owner", [lambda **kw: LegendreHead(D, C, **kw), lambda **kw: LegendreLink(C, **kw)])
@pytest.mark.parametrize(
    ("label_noise", "message"),
    [
        ("much", "label_noise must be None, 'learn', 'symmetric', 'class-conditional', a share.*got 'much'"),
        (True, "got True"),
        (0.8, "from 0 to below 0.8 for 5 classes, got 0.8"),
        (float("nan"), "got nan"),
        (torch.eye(4), r"of shape \(5, 5\), a row for each true class, got tensor"),
        (2 * torch.eye(C), "label_noise is not a matrix of transition probabilities: .*row 0 sums to 2"),
        (torch.full((C, C), 0.2), "label_noise is not.*must be invertible"),
        (SymmetricNoise(4), "label_noise must be for n_classes=5"),
    ],
)
def test_bad_noise(owner, label_noise, message):
    with pytest.raises(ValueError, match=message):
        owner(label_noise=label_noise)


def test_other_errors():
    with pytest.raises(ValueError, match=r"does not apply to a NoisyLink.*give its clean link"):
        LegendreHead(D, C, link=NoisyLink(SoftmaxLink(C), TransitionNoise(FLIPS)), label_noise="learn")
    with pytest.raises(ValueError, match="build the LegendreHead with label_noise='learn'"):
        LegendreHead(D, C).label_quality(features(), torch.zeros(7, dtype=torch.long))
    with pytest.raises(ValueError, match="labels must contain labels from 0 to 4, got 5"):
        LegendreHead(D, C, label_noise=0.1).label_quality(features(), torch.full((7,), 5))
    with pytest.raises(ValueError, match=r"labels must have shape \(7,\)"):
        LegendreHead(D, C, label_noise=0.1).label_quality(features(), torch.zeros(6, dtype=torch.long))
