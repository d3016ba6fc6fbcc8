import copy

import pytest
import torch
from tests.heads import LINKS, features, make_head
from torch import nn

from legendretron import CanonicalLink, CompositeLink
from legendretron.links import NoisyLink, SoftmaxLink, SymmetricNoise
from legendretron.nn import ClassParallel, LegendreHead, LegendreLink, parameter_groups


@pytest.fixture(params=list(LINKS))
def settings(request):
    return LINKS[request.param]


def test_head_is_the_link_of_the_linear_layer(settings):
    head = make_head(settings)
    x = features()
    torch.testing.assert_close(head(x), head.link(x @ head.linear.weight.T + head.linear.bias))
    assert not head(x)._is_view()
    assert head(x).exp().sum(-1).allclose(torch.ones(7))
    assert head(x.reshape(7, 1, 6)).shape == (7, 1, 5)
    assert make_head(settings, bias=False).linear.bias is None


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_a_head_that_is_split_by_class_is_the_same(mesh_of_one, settings, reduction):
    from torch.distributed.tensor.parallel import parallelize_module

    head, x, y = make_head(settings).eval(), features(), torch.tensor([0, 4, -100, 2, -100, 1, 3])
    whole = copy.deepcopy(head)
    expected = whole.loss(x, y, reduction)  # without the rows that are ignored
    expected.sum().backward()
    parallelize_module(head, mesh_of_one, ClassParallel())
    loss = head.loss(x, y, reduction)
    torch.testing.assert_close(loss, expected)
    loss.sum().backward()
    for (name, parameter), like in zip(head.named_parameters(), whole.parameters(), strict=True):
        if like.grad is not None:
            torch.testing.assert_close(parameter.grad.full_tensor(), like.grad, msg=name)


def test_link_takes_differences_to_the_last_logit(settings):
    torch.manual_seed(0)
    link = LegendreLink(5, **settings).eval()
    logits = torch.randn(7, 5)
    torch.testing.assert_close(link(logits + 3.0), link(logits), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(link(logits), link(logits[:, :4] - logits[:, 4:]))


def test_classes_on_another_axis():
    link = LegendreLink(5, dim=1)
    images = torch.randn(2, 5, 3, 4)
    log_proba = link(images)
    assert log_proba.shape == images.shape
    torch.testing.assert_close(log_proba[1, :, 2, 3], link.link(images[1, :4, 2, 3] - images[1, 4, 2, 3]))
    nn.NLLLoss()(log_proba, torch.zeros(2, 3, 4, dtype=torch.long)).backward()


def test_loss_is_nll_of_forward(settings):
    head = make_head(settings)
    x, y = features(), torch.tensor([0, 4, -100, 2, 1, 3, 3])
    for reduction in ("mean", "sum", "none"):
        expected = nn.functional.nll_loss(head(x), y, reduction=reduction)
        torch.testing.assert_close(head.loss(x, y, reduction), expected)
        sequences = head.loss(x.reshape(1, 7, 6), y.reshape(1, 7), reduction)
        torch.testing.assert_close(sequences, expected.reshape(1, 7) if reduction == "none" else expected)


def test_a_link_of_ones_own():
    link = CanonicalLink(5, n_nests=2)
    assert LegendreHead(6, 5, link=link).link is link
    with pytest.raises(ValueError, match="n_classes=4"):
        LegendreHead(6, 4, link=link)
    with pytest.raises(ValueError, match="must have no run axes"):
        LegendreLink(5, link=CompositeLink(5, run_shape=(2,)))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_parameters_of_half_precision(settings, dtype):
    head = make_head(settings)
    half = copy.deepcopy(head).to(dtype)
    raised = copy.deepcopy(half).float()  # the same rounded parameters, in single precision
    x = features().to(dtype)
    log_proba = half(x)
    assert log_proba.dtype == torch.float32
    z = half.linear(x).float()
    torch.testing.assert_close(log_proba, raised.link(z), rtol=1e-5, atol=1e-5)
    half.loss(x, torch.arange(7) % 5).backward()
    assert all(p.grad.dtype == dtype and torch.isfinite(p.grad).all() for p in half.parameters())


def test_exports(settings):
    head = make_head(settings).eval()
    program = torch.export.export(head, (features(),), dynamic_shapes=({0: torch.export.Dim("n")},))
    x = features(11)
    torch.testing.assert_close(program.module()(x), head(x))


def test_maps_over_rows_and_over_models(settings):
    heads = [make_head(settings).eval(), make_head(settings).eval()]
    with torch.no_grad():
        heads[1].linear.weight.mul_(2.0)
    x = features()
    torch.testing.assert_close(torch.func.vmap(heads[0])(x), heads[0](x))
    parameters, buffers = torch.func.stack_module_state(heads)
    skeleton = copy.deepcopy(heads[0])

    def call(parameters, buffers, x):
        return torch.func.functional_call(skeleton, (parameters, buffers), (x,))

    both = torch.func.vmap(call, (0, 0, None))(parameters, buffers, x)
    torch.testing.assert_close(both, torch.stack([head(x) for head in heads]))


def make_uninitialized():
    torch.manual_seed(0)
    return LegendreHead(6, 5, network="cpflow", init="paper")


def test_the_first_batch_counts_once_however_the_parameters_came():
    trained = make_uninitialized()
    trained(features(50))
    routes = {
        "copied": make_uninitialized(),
        "averaged": torch.optim.swa_utils.AveragedModel(make_uninitialized(), use_buffers=True),
    }
    with torch.no_grad():
        for a, b in zip(routes["copied"].parameters(), trained.parameters(), strict=True):
            a.copy_(b)
        for a, b in zip(routes["copied"].buffers(), trained.buffers(), strict=True):
            a.copy_(b)
    routes["averaged"].update_parameters(trained)
    for head in routes.values():
        head.train()(3.0 * features(20))
        for (name, a), b in zip(head.named_parameters(), trained.parameters(), strict=True):
            assert torch.equal(a, b), name


def test_transforms_and_exports_ask_for_a_first_batch():
    head = make_uninitialized()
    with pytest.raises(ValueError, match=r"link.initialize\(z\)"):
        torch.func.vmap(head)(features(4).reshape(4, 1, 6).expand(4, 3, 6))
    parameters = dict(head.named_parameters())
    with pytest.raises(ValueError, match=r"model.eval\(\)"):
        torch.func.grad(lambda p: torch.func.functional_call(head, p, (features(),)).sum())(parameters)
    with pytest.raises(Exception, match="first batch"):
        torch.export.export(head, (features(),))
    torch.func.functional_call(head, parameters, (features(),))  # without a transform it is a plain call
    assert not head.link.needs_batch


def test_parameter_groups_split_links_and_noise_from_the_rest():
    frozen = nn.Linear(6, 6).requires_grad_(False)
    net = nn.Sequential(nn.Linear(6, 6), LegendreHead(6, 5, label_noise="learn"), LegendreLink(5), frozen)
    options = {"lr": 0.1, "betas": (0.9, 0.99), "momentum": 0.9}  # of different optimizers
    network, link, noise = parameter_groups(net, link=options, network={"weight_decay": 0.2}, noise={"lr": 0.3})
    of_links = {id(p) for module in (net[1].link, net[2].link) for p in module.parameters()}
    assert {id(p) for p in link["params"]} == of_links
    assert len(network["params"]) == 4
    assert noise["params"] == [net[1].noise.raw_rate]
    assert noise["weight_decay"] == 0.0
    optimizer = torch.optim.AdamW([network, link, noise], lr=0.5)
    assert [g["lr"] for g in optimizer.param_groups] == [0.5, 0.1, 0.3]
    for label_noise in (None, 0.2):  # nothing to learn
        assert len(parameter_groups(LegendreHead(6, 5, label_noise=label_noise), noise={"lr": 0.1})) == 2


def test_noise_inside_a_link_is_in_one_group_only():
    link = NoisyLink(SoftmaxLink(5), SymmetricNoise(5, 0.1, learned=True))
    groups = parameter_groups(nn.Sequential(nn.Linear(6, 4), link))
    assert [(group["name"], len(group["params"])) for group in groups] == [("network", 2), ("noise", 1)]


@pytest.mark.parametrize("group", ["link", "network", "noise"])
@pytest.mark.parametrize(("options", "message"), [
    ({"weight_decay": 0.1, "learning_rate": 1}, "holds 'learning_rate', which is an option of no optimizer"),
    (0.1, "must be a dict"),
    ({"params": []}, "must be a dict"),
])  # fmt: skip
def test_parameter_groups_refuse_options_that_would_be_ignored(group, options, message):
    with pytest.raises(ValueError, match=f"{group} {message}"):
        parameter_groups(LegendreHead(6, 5, label_noise="learn"), **{group: options})


@pytest.mark.parametrize(("act", "named"), [
    (lambda head: head(torch.randn(7, 4)), r"features must have shape \(..., 6\), got \(7, 4\)"),
    (lambda head: head(torch.ones(7, 6, dtype=torch.int64)), r"features.float\(\)"),
    (lambda head: head(torch.ones(7, 6, dtype=torch.float16)), "float16, but the head's weights.*autocast"),
    (lambda head: head.loss(torch.randn(2, 6), torch.tensor([0, 7])), "labels .*got 7"),
    (lambda head: head.loss(torch.randn(2, 6), torch.tensor([0])), r"labels .*\(2,\)"),
    (lambda head: head.loss(torch.randn(2, 6), torch.tensor([0, 1]), reduction="all"), "reduction"),
    (lambda _: LegendreLink(5)(torch.ones(7, 6)), r"n_classes=5, or 4.*got shape \(7, 6\)"),
    (lambda _: LegendreLink(5, dim=3)(torch.ones(7, 5)), "dim=3"),
    (lambda _: LegendreHead(6, 1), "n_classes"),
    (lambda _: LegendreHead(0, 5), "in_features"),
    (lambda _: LegendreHead(6, 5, dtype=torch.complex64), "dtype"),
    (lambda head: head.load_state_dict(LegendreHead(6, 4).state_dict()), "in_features=6 and n_classes=4"),
    (lambda head: head.load_state_dict(LegendreHead(6, 5, hidden=4).state_dict()), r"shape \(17, 4\) in the state dict"),
    (lambda _: LegendreLink(5).load_state_dict(LegendreLink(4).state_dict()), r"shape \(9, 3\) in the state dict, but"),
    (lambda head: head.load_state_dict({f"linear.{k}": v for k, v in nn.Linear(6, 5).state_dict().items()}), "last row"),
])  # fmt: skip
def test_errors_name_the_argument_and_the_value(act, named):
    with pytest.raises(ValueError, match=named):
        act(LegendreHead(6, 5))
