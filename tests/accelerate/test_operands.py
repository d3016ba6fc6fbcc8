"""Compiled functions read memory by its address: they get tensors of their link only, and plain operations the others."""

import functools

import numpy as np
import pytest
import torch
from torch import nn

from legendretron import CanonicalLoss, LegendreTronClassifier
from legendretron.accelerate.forms import trained_form
from legendretron.accelerate.log_proba import log_proba
from legendretron.accelerate.predictions import row_probabilities
from legendretron.accelerate.steps import autograd_step, nll_step
from legendretron.links import CanonicalLink, CompositeLink, NoisyLink, SymmetricNoise
from legendretron.losses.criterion import Criterion
from legendretron.potentials import FICNN, NestedLogSumExp
from legendretron.training.model import LinearModel
from tests.given import GIVEN

pytest.importorskip("numba")


class Subclass(torch.Tensor):
    """Keeps its numbers elsewhere, for all that compiled functions know."""


def make(kind, c=50, **how):
    generator = torch.Generator().manual_seed(0)
    link = {"composite": CompositeLink, "canonical": CanonicalLink}[kind](c, generator=generator, **how)
    return link.requires_grad_(False)


def rows(c=50, n=5, **how):
    return torch.randn(n, c - 1, generator=torch.Generator().manual_seed(1), **how)


def set_data(name, value):
    def change(link):
        part = link.blocks[0] if isinstance(link, CompositeLink) else link.nests
        tensor = getattr(part, name)
        tensor.data = value(tensor.data)

    return change


def set_all(**values):
    def change(link):
        for block in link.blocks:
            for name, value in values.items():
                setattr(block, name, value)

    return change


def set_part(name, value):
    return lambda link: setattr(link.blocks[1], name, value)


CHANGES = {
    "smaller block": ("composite", lambda link: link.blocks.__setitem__(1, FICNN(2))),
    "smaller blocks": (
        "composite",
        lambda link: link.blocks.extend([FICNN(2)]) and link.blocks.__delitem__(slice(0, 2)),
    ),
    "smaller nests": ("canonical", lambda link: setattr(link, "nests", NestedLogSumExp(3))),
    "n_nests": ("canonical", lambda link: setattr(link.nests, "n_nests", 9)),
    "no nests": ("canonical", lambda link: setattr(link.nests, "n_nests", 0)),
    "hidden": ("composite", set_all(hidden=5)),
    "depth": ("composite", set_all(depth=9)),
    "hidden and depth of the same rank": ("composite", set_all(hidden=4, depth=2)),
    "no units": ("composite", set_all(hidden=0)),
    "one softplus": ("composite", set_part("final_softplus", False)),
    "n_classes": ("composite", lambda link: setattr(link, "n_classes", 60)),
    "small weight": ("composite", set_data("weight", lambda _: torch.zeros(1, 1))),
    "part of a weight": ("composite", set_data("weight", lambda t: t[:1])),
    "part of the offsets": ("canonical", set_data("offsets", lambda t: t[:, :3])),
    "bias of one": ("composite", set_data("bias", lambda t: t[:1])),
    "weight by columns": ("composite", set_data("weight", lambda t: t.mT.contiguous().mT)),
    "expanded weight": ("composite", set_data("weight", lambda t: t[:1].expand(t.shape))),
    "double weight": ("composite", set_data("weight", lambda t: t.double())),
    "bits of the offsets": ("canonical", set_data("offsets", lambda t: t.view(torch.int32))),
    "emptied weight": ("composite", lambda link: link.blocks[0].weight.resize_(0)),
    "subclass": ("canonical", lambda link: setattr(link.nests, "offsets", as_subclass(link.nests.offsets))),
    "none": ("composite", set_part("bias", None)),
    "meta": ("composite", lambda link: link.to("meta")),
    "runs of parameters": ("composite", lambda link: stack(link, 3)),
}
every_change = pytest.mark.parametrize(("kind", "change"), CHANGES.values(), ids=CHANGES)


def as_subclass(parameter):
    return nn.Parameter(parameter.detach().as_subclass(Subclass), requires_grad=False)


def stack(link, runs):
    for part in link.modules():
        for name, parameter in list(part.named_parameters(recurse=False)):
            setattr(part, name, nn.Parameter(torch.stack([parameter] * runs), requires_grad=False))


def outcome(function):
    """What a function returns, or the error that it raises."""
    try:
        return function()
    except Exception as error:
        return type(error), str(error)


def assert_same_outcome(found, expected):
    if isinstance(expected, torch.Tensor):
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    else:
        assert found == expected


@every_change
def test_a_link_that_was_changed_is_left_to_plain_operations(kind, change):
    link, z = make(kind), rows()
    change(link)
    expected = outcome(lambda: link(z))
    assert_same_outcome(outcome(lambda: link(z, by=log_proba)), expected)
    z.requires_grad_()
    assert_same_outcome(outcome(lambda: link(z, by=log_proba).detach()), expected)
    assert row_probabilities(link, torch.float32) is None


@pytest.mark.parametrize(("kind", "change"), [
    CHANGES[name] for name in ("smaller nests", "part of the offsets", "double weight", "subclass", "runs of parameters")
])  # fmt: skip
def test_a_frozen_link_that_was_changed_is_left_to_plain_operations(kind, change):
    link = NoisyLink(make(kind, 2), SymmetricNoise(2, 0.1, learned=False))  # all links of two classes are canonical
    loss, z, y = CanonicalLoss(link), torch.randn(4, 2), torch.tensor([0, 1, 1, 0])
    loss(z, y)
    change(loss.canonical_link.clean)
    assert_same_outcome(outcome(lambda: loss(z, y)), outcome(lambda: Criterion.forward(loss, z, y)))


def test_a_loss_whose_weights_or_classes_were_changed():
    y = torch.tensor([0, 1])
    for name, value in (("weight", torch.ones(1)), ("n_classes", 7)):
        loss = CanonicalLoss(make("canonical", 5), weight=torch.ones(5))
        setattr(loss, name, value)
        z = torch.randn(2, loss.n_classes)
        expected = outcome(lambda loss=loss, z=z: Criterion.forward(loss, z, y))
        assert expected[0] is ValueError
        assert outcome(lambda loss=loss, z=z: loss(z, y)) == expected


@pytest.mark.parametrize(("kind", "name"), [("composite", "blocks.1.weight"), ("canonical", "nests.offsets")])
def test_memory_that_was_freed(kind, name):
    link = make(kind)
    link.get_parameter(name).untyped_storage().resize_(0)
    with pytest.raises(RuntimeError, match=r"a tensor of shape \(\d+, 49\) has no memory"):
        link(rows(), by=log_proba)


CHANGED_SINCE = {
    "smaller": ("weight", lambda _: torch.zeros(1, 1)),
    "of double precision": ("weight", lambda t: t.double()),
    "of another layout": ("weight", lambda t: t.mT.contiguous().mT),
}


@pytest.mark.parametrize(("name", "value"), CHANGED_SINCE.values(), ids=CHANGED_SINCE)
def test_parameters_that_changed_between_the_two_passes(name, value):
    link = make("composite").requires_grad_(True)
    log_p = link(rows(), by=log_proba)
    expected = torch.autograd.grad(log_p[:, 3].sum(), list(link.parameters()), retain_graph=True)
    set_data(name, value)(link)
    if (
        value(link.blocks[0].weight.detach()).shape == expected[0].shape
        and link.blocks[0].weight.dtype == torch.float32
    ):
        for a, b in zip(torch.autograd.grad(log_p[:, 3].sum(), list(link.parameters())), expected, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
    else:
        with pytest.raises(RuntimeError):
            log_p[:, 3].sum().backward()


def pack_by_columns(tensor):
    return tensor.mT.contiguous() if tensor.dim() == 2 else tensor


@pytest.mark.parametrize("kind", ["composite", "canonical"])
def test_hooks_may_bring_saved_tensors_back_in_another_layout(kind):
    link, z, g = make(kind, 6).requires_grad_(True), rows(6, n=7).requires_grad_(), torch.randn(7, 6)
    inputs = [z, *link.parameters()]
    expected = torch.autograd.grad(link(z, by=log_proba), inputs, g)
    with torch.autograd.graph.saved_tensors_hooks(pack_by_columns, lambda t: t.mT if t.dim() == 2 else t):
        found = link(z, by=log_proba)
    for a, b in zip(torch.autograd.grad(found, inputs, g), expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_stacked_parameters_are_no_link():
    """``functional_call`` without ``vmap``: an error, not the first of the stacked models."""
    links, z = [make("composite", 4), make("composite", 4)], rows(4)
    parameters, buffers = torch.func.stack_module_state(links)
    how = {"by": log_proba}
    for given in (z, z.expand(2, *z.shape), z.reshape(5, 1, 3)):
        with pytest.raises((RuntimeError, ValueError)):
            torch.func.functional_call(links[0], (parameters, buffers), (given,), how)
    with pytest.raises(RuntimeError):
        torch.func.functional_call(links[0], {"blocks.0.weight": torch.zeros(2, 2)}, (z,), how)


def test_imaginary_parts_are_negated_when_they_are_read():
    link = make("composite", 2)
    z = torch.complex(torch.zeros(1, 1), torch.ones(1, 1)).conj().imag
    assert z.is_neg()
    assert z.is_contiguous()
    torch.testing.assert_close(link(z, by=log_proba), link(-torch.ones(1, 1)))


# --- the operators, which anyone may call ---

SIZES = [0, 4, 2, 2, 4, 2, 1, 0, 0]  # of CompositeLink(4)


def call(z=None, tensors=None, sizes=SIZES):
    own = [tensor for block in make("composite", 4).blocks for tensor in block._tensors()]
    return torch.ops.legendretron.link(rows(4) if z is None else z, own if tensors is None else tensors, sizes)


def test_operators_check_what_they_are_given():
    expected, _ = call()
    torch.testing.assert_close(expected, make("composite", 4)(rows(4)))
    for bad in (
        {"tensors": []},
        {"z": rows(5)},
        {"z": rows(4)[0]},
        {"z": torch.tensor(1.0)},
        {"z": rows(4).double()},
        {"z": rows(4).half()},
        {"tensors": [torch.zeros(1)] * 10},
        {"sizes": [0, 400, *SIZES[2:]]},
    ):
        with pytest.raises(ValueError, match="tensors must be those of a link with sizes="):
            call(**bad)
    for sizes in (
        [],
        SIZES[:5],
        [0, 4, 2, -2, 4, 2, 1, 0, 0],
        [0, 4, -2, 2, 4, 2, 1, 0, 0],
        [0, 4, 2, 2, 4, 9, 1, 0, 0],
    ):
        with pytest.raises(ValueError, match="sizes must be those of a link"):
            call(sizes=sizes)
    own = [tensor for block in make("composite", 4).blocks for tensor in block._tensors()]
    backward = torch.ops.legendretron.link_backward
    backward(expected, rows(4), expected, torch.empty(0), own, SIZES)
    for changed in ({"g": expected[:1]}, {"log_p": expected[:, :1]}, {"z": rows(4, n=9)}):
        given = {"g": expected, "z": rows(4), "log_p": expected} | changed
        with pytest.raises(ValueError, match="tensors must be those of a link"):
            backward(*given.values(), torch.empty(0), own, SIZES)


# --- training and predictions ---


def reordered(link):
    block = link.blocks[0]
    gamma = block.raw_gamma
    del block.raw_gamma
    bias = block.bias
    del block.bias
    block.raw_gamma, block.bias = gamma, bias


@pytest.mark.parametrize("change", [
    reordered,
    lambda link: link.register_parameter("extra", nn.Parameter(torch.zeros(3))),
    lambda link: link.blocks.__setitem__(1, link.blocks[0]),
    *(change for kind, change in (CHANGES[name] for name in ("hidden", "smaller block", "bias of one"))),
], ids=["order", "another parameter", "shared parameters", "hidden", "block", "shape"])  # fmt: skip
def test_compiled_training_takes_links_as_they_were_made_only(change):
    link = make("composite", 4)
    assert trained_form(link) is not None
    assert trained_form(NoisyLink(link, SymmetricNoise(4, 0.1, learned=True))) is not None
    change(link)
    assert trained_form(link) is None
    assert trained_form(NoisyLink(link, SymmetricNoise(4, 0.1, learned=True))) is None


def test_gradients_are_in_the_order_of_the_parameters():
    links = [make("composite", 4), make("composite", 4)]
    for link in links:
        reordered(link)
    model = LinearModel(torch.zeros(2, 3, 3), torch.zeros(2, 3), links)
    z, labels, weight = torch.randn(2, 6, 3), torch.arange(12).reshape(2, 6) % 4, torch.full((2, 6), 1.0 / 6)
    *_, found = nll_step(model.link, model.flat)(z, labels, weight)
    *_, expected = autograd_step(model.link)(z, labels, weight)
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b)


@functools.cache
def fitted():
    X = np.random.default_rng(0).standard_normal((60, 4)).astype(np.float32)
    return X, LegendreTronClassifier(max_epochs=1, random_state=0, **GIVEN).fit(X, np.arange(60) % 3)


@pytest.mark.parametrize("n_rows", [1, 60])
def test_predictions_with_a_link_for_other_classes(n_rows):
    X, clf = fitted()
    before = clf.link_
    try:
        clf.link_ = CompositeLink(50, dtype=next(before.parameters()).dtype)
        with pytest.raises(ValueError, match=r"z must have shape \(\.\.\., 49\)"):
            clf.predict_proba(X[:n_rows])
    finally:
        clf.link_ = before
