"""The kernels of a training step against plain operations: on the CPU by Triton's interpreter, on a GPU as they are."""

import pytest
import torch

from legendretron.accelerate.forms import link_form
from legendretron.accelerate.steps import autograd_step
from legendretron.links import CanonicalLink, CompositeLink, NoisyLink, SoftmaxLink, SymmetricNoise
from legendretron.training import LinearModel

pytest.importorskip("triton")
from legendretron.accelerate.cuda.training import LinkStep

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
RATE = 0.3


def composite(*settings):
    return lambda dtype, generator: CompositeLink(*settings, init="paper", generator=generator, dtype=dtype)


def canonical(n_classes, n_nests):
    return lambda dtype, generator: CanonicalLink(n_classes, n_nests, init="random", generator=generator, dtype=dtype)


LINKS = {
    "softmax": lambda dtype, _: SoftmaxLink(5).to(dtype),
    "softmax of two": lambda dtype, _: SoftmaxLink(2).to(dtype),
    "composite of two": composite(2, 1, 2, 1, "ficnn"),
    "cpflow of two": composite(2, 1, 1, 1, "cpflow"),
    "canonical": canonical(5, 3),
    "softmax, many classes": lambda dtype, _: SoftmaxLink(1100).to(dtype),
}
#: Sizes that take other ways through the kernels than the small links do.
LARGE = {
    "cpflow, odd sizes": composite(40, 3, 3, 2, "cpflow"),
    "composite, eight units and many classes": composite(70, 1, 8, 4, "ficnn"),
    "canonical, many classes": canonical(70, 4),
    "composite, very many classes": composite(1200, 1, 1, 1, "ficnn"),
}


def model_and_batch(name, dtype, n=5, runs=2, noise=None):
    generator = torch.Generator().manual_seed(0)
    links = [{**LINKS, **LARGE}[name](dtype, generator) for _ in range(runs)]
    if noise is not None:
        links = [NoisyLink(link, SymmetricNoise(link.n_classes, RATE, learned=noise, dtype=dtype)) for link in links]
    k = links[0].n_classes - 1
    draw = {"generator": generator, "dtype": dtype}
    model = LinearModel(torch.randn(runs, 3, k, **draw).to(DEVICE), torch.randn(runs, k, **draw).to(DEVICE), links)
    z = 2.0 * torch.randn(runs, n, k, **draw).to(DEVICE)
    if model.link.needs_batch:
        model.link.initialize(2.0 * torch.randn(runs, 20, k, **draw).to(DEVICE))
    labels = torch.randint(k + 1, (runs, n), generator=generator).to(DEVICE)
    labels[0, 0] = k  # the reference class, which may lie in the same tile as others
    return model, z, labels, torch.rand(runs, n, **draw).to(DEVICE)


def compare(model, z, labels, weight, tolerance):
    runs, n, _ = z.shape
    nll, hit, dz, of_link = autograd_step(model.link)(z, labels, weight)
    expected = torch.cat([dz.sum(1), *(part.reshape(runs, -1) for part in of_link)], dim=1)
    untouched = 7.0
    gradient = torch.full_like(model.flat, untouched)
    totals = torch.ones(2, runs, dtype=z.dtype, device=DEVICE)
    found = LinkStep(link_form(model.link), model.flat, model.n_weights)(z, labels, weight, gradient, totals)
    close = {"rtol": tolerance, "atol": tolerance}
    torch.testing.assert_close(found, dz, **close)
    assert (gradient[:, : model.n_weights] == untouched).all()
    for own, other in zip(gradient[:, model.n_weights :], expected, strict=True):
        torch.testing.assert_close(own, other, rtol=tolerance, atol=tolerance * float(1.0 + other.abs().max()))
    torch.testing.assert_close(totals, 1.0 + n * torch.stack([(nll * weight).sum(-1), (hit * weight).sum(-1)]), **close)


@pytest.mark.parametrize("name", [*LINKS, *(pytest.param(name, marks=pytest.mark.exhaustive) for name in LARGE)])
def test_gradients_and_totals_are_those_of_plain_operations(name):
    compare(*model_and_batch(name, torch.float64, n=2 if "," in name else 5), 1e-12)


@pytest.mark.parametrize("name", ["softmax of two", pytest.param("canonical", marks=pytest.mark.exhaustive)])
def test_hard_batches(name):
    """Noise, more rows than are added up at once, ties, extreme predictors, single precision."""
    compare(*model_and_batch(name, torch.float64, noise=True), 1e-12)
    compare(*model_and_batch(name, torch.float64, n=33, runs=1), 1e-12)
    model, z, labels, weight = model_and_batch(name, torch.float64)
    compare(model, torch.zeros_like(z), labels, weight, 1e-12)
    model, z, labels, weight = model_and_batch(name, torch.float32)
    compare(model, 1e3 * z, labels, weight, 1e-4)


@pytest.mark.filterwarnings("ignore:All-NaN:RuntimeWarning")  # of the interpreter
def test_a_row_of_nan_is_seen_in_the_loss_of_its_run_alone():
    model, z, labels, weight = model_and_batch("softmax", torch.float32)
    z[1, 2, 0] = torch.nan
    gradient, totals = torch.zeros_like(model.flat), torch.zeros(2, 2, device=DEVICE)
    LinkStep(link_form(model.link), model.flat, model.n_weights)(z, labels, weight, gradient, totals)
    assert torch.isfinite(totals[0]).tolist() == [True, False]
    assert torch.isfinite(gradient[0]).all()
