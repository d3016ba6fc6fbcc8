"""Models of Transformers: what a file does not hold starts where it should, and what it holds stays."""

import copy
from functools import partial

import pytest
import torch
from torch import nn

from legendretron.links import CanonicalLink, CompositeLink
from legendretron.losses import CanonicalLoss, CompositeLoss, load_loss, save_loss
from legendretron.nn import LegendreHead

C = 3  # classes
HEADS = {
    "composite": {},
    "cpflow": {"network": "cpflow"},
    "noise": {"label_noise": "learn"},
    "known matrix": {"link": "softmax", "label_noise": [[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]]},
}


@pytest.fixture(scope="module")
def bert():
    """The networks; what they import takes seconds, so only where they are needed."""
    pytest.importorskip("transformers")
    from tests.nn import bert

    return bert


@pytest.fixture(scope="module")
def pretrained(bert, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pretrained")
    bert.BertModel(bert.CONFIG).save_pretrained(folder)
    return folder


@pytest.fixture
def spoiled(monkeypatch):
    """Memory that is allocated, but not initialized, as bad as it may be."""

    def empty_like(tensor, **options):
        like = torch.zeros_like(tensor, **options)
        return like.fill_(True if like.dtype == torch.bool else 7000.0)

    monkeypatch.setattr(torch, "empty_like", empty_like)


@pytest.fixture(params=list(HEADS))
def head(request):
    return HEADS[request.param]


def train(model):
    tokens = torch.randint(5, (60, 4), generator=torch.Generator().manual_seed(0))
    labels = tokens[:, 0] % C
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    losses = []
    for _ in range(15):
        optimizer.zero_grad()
        loss = nn.functional.nll_loss(model.train()(tokens), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def test_fine_tuning_starts_at_the_start_and_what_was_trained_is_read_again(bert, pretrained, spoiled, head, tmp_path):
    torch.manual_seed(0)
    model = bert.Classifier.from_pretrained(pretrained, head=head)
    expected = LegendreHead(8, C, **head).state_dict()
    for name, tensor in model.head.state_dict().items():
        assert tensor.shape == expected[name].shape
        assert tensor.float().abs().max() < 10.0, name
        if tensor.numel() == 1:  # nothing is drawn
            torch.testing.assert_close(tensor, expected[name])
    assert model.head.link.needs_batch == (head.get("network") == "cpflow")
    losses = train(model)
    assert losses[-1] < losses[0]
    trained = copy.deepcopy(model.state_dict())
    model.save_pretrained(tmp_path)
    again = bert.Classifier.from_pretrained(tmp_path, head=head)
    for name, tensor in again.state_dict().items():
        assert torch.equal(tensor, trained[name]), name
    assert not again.head.link.needs_batch
    again.head.reset_parameters()  # what was read is reset if it is asked for
    assert not torch.equal(again.head.linear.weight, trained["head.linear.weight"])


def drawn(kind):
    return kind(C, init="random" if kind is CanonicalLink else "paper", generator=torch.Generator().manual_seed(3))


LOSSES = {
    "canonical": lambda: CanonicalLoss(drawn(CanonicalLink), normalized=True, weight=torch.tensor([1.0, 2.0, 3.0])),
    "composite": lambda: CompositeLoss(drawn(CompositeLink)),
}


@pytest.mark.parametrize(("name", "way"), [("canonical", "from a file"), ("composite", "from a link")])
def test_a_loss_made_while_the_network_has_no_memory_is_what_it_was_made_of(
    bert, pretrained, spoiled, tmp_path, name, way
):
    expected = LOSSES[name]()
    if way == "from a file":
        save_loss(expected, tmp_path / "loss")
        loss = partial(load_loss, tmp_path / "loss")
    else:
        loss = partial(CompositeLoss, expected._link)
    model = bert.WithLoss.from_pretrained(pretrained, loss=loss)
    found = model.criterion.state_dict()
    assert found.keys() == expected.state_dict().keys()
    assert all(torch.equal(found[name], value) for name, value in expected.state_dict().items())
    z, y = torch.randn(6, C - 1, generator=torch.Generator().manual_seed(0)), torch.arange(6) % C
    torch.testing.assert_close(model.criterion(z, y), expected(z, y))
    model.save_pretrained(tmp_path / "saved")
    again = bert.WithLoss.from_pretrained(tmp_path / "saved", loss=loss).criterion.state_dict()
    assert all(torch.equal(again[name], value) for name, value in expected.state_dict().items())
