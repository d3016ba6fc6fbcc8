"""Links within torch's modes: the same values in autocast and in inference mode as without, and after them."""

import copy

import pytest
import torch

from legendretron.links import CompositeLink
from tests.catalogue import generator, links_with, make_link, normal, proba
from tests.further import VARIANTS
from tests.modes import assert_nothing_changes, every_mode, half


def _case(name, c, frozen):
    return lambda: make_link(name, c, dtype=torch.float32).eval().requires_grad_(not frozen)


CASES = {
    **{f"{name}-{c}": _case(name, c, frozen=True) for name, c in links_with(2, 4)},
    "composite_ficnn-2-learning": _case("composite_ficnn", 2, frozen=False),
}
every_case = pytest.mark.parametrize("make", [
    pytest.param(make, id=key, marks=pytest.mark.exhaustive if key.split("-")[0] in VARIANTS else ())
    for key, make in CASES.items()
])  # fmt: skip


def values(link):
    """What every public method gives."""
    c = link.n_classes
    z, p = normal(7, c - 1, key="z", dtype=torch.float32), proba(7, c, key="p", dtype=torch.float32)
    found = [link(z), link.inverse(z), link.link(p), link.link_from_log(p.log()), link.jacobian(z)]
    return [*found, link.potential(z), link.conjugate(p)] if link.is_canonical else found


@every_case
@every_mode
def test_nothing_changes(make, mode):
    assert_nothing_changes(make, values, mode)


def test_autocast_does_not_change_what_a_first_batch_sets():
    links = [CompositeLink(4, network="cpflow", init="paper", generator=generator("first")) for _ in range(2)]
    batch = normal(20, 3, key="batch", dtype=torch.float32)
    links[0].initialize(batch)
    with half:
        links[1].initialize(batch)
    for ours, theirs in zip(links[1].parameters(), links[0].parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", ["composite_ficnn-2", "cosines-2"])
def test_a_link_made_in_inference_mode(name):
    with torch.inference_mode():
        link = CASES[name]()
        z = normal(7, 1, key="z", dtype=torch.float32)
        before = link.potential(z)
        # nothing counts the changes of its tensors, so nothing may be kept
        for tensor in link.state_dict().values():
            tensor.mul_(1.5)
        changed = link.potential(z)
        assert not torch.allclose(changed, before, rtol=1e-3)
    torch.testing.assert_close(copy.deepcopy(link).potential(z.clone()), changed)
