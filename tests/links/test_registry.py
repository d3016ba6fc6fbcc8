"""Settings of links: the tensors that they ask for are known without building the link."""

import pytest
import torch

from legendretron.links import CanonicalLink, CompositeLink, SoftmaxLink, link_config
from legendretron.links.registry import state_layout

LINKS = [
    SoftmaxLink(3),
    CanonicalLink(2, n_nests=1),
    CanonicalLink(5, n_nests=3),
    *(
        CompositeLink(n_classes, n_blocks, hidden, depth, network)
        for n_classes, n_blocks, hidden, depth in ((2, 1, 1, 1), (3, 2, 2, 4), (4, 3, 5, 2))
        for network in ("ficnn", "cpflow")
    ),
]


@pytest.mark.parametrize("link", LINKS, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_layout_is_that_of_the_link(link, dtype):
    link = link.to(dtype)
    expected = {(name, tuple(tensor.shape), tensor.dtype) for name, tensor in link.state_dict().items()}
    assert set(state_layout(link_config(link), dtype)) == expected


@pytest.mark.parametrize("size", [10**6, 10**30])
def test_a_layout_costs_nothing_whatever_its_numbers(size):
    config = {"kind": "composite", "n_classes": size, "n_blocks": size, "hidden": size, "depth": size}
    first = next(iter(state_layout({**config, "network": "cpflow"}, torch.float64)))
    assert first == ("blocks.0.weight", (size * size + 1, size - 1), torch.float64)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (None, "must be a dict"),
        ({}, "kind must be one of"),
        ({"kind": ["softmax"]}, "kind must be one of"),
        ({"kind": "softmax"}, "must have the settings n_classes"),
        ({"kind": "softmax", "n_classes": 3, "n_nests": 2}, "must have the settings n_classes"),
        ({"kind": "softmax", "n_classes": 1}, "n_classes must be an integer of at least 2"),
        ({"kind": "canonical", "n_classes": 3, "n_nests": 2.0}, "n_nests must be an integer"),
        ({"kind": "canonical", "n_classes": 3, "n_nests": True}, "n_nests must be an integer"),
        (link_config(LINKS[3]) | {"network": "other"}, "network must be one of"),
    ],
)
def test_other_settings_are_refused(config, message):
    with pytest.raises(ValueError, match=message):
        list(state_layout(config, torch.float64))
