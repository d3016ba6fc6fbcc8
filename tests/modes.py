"""Torch's modes in which values must be the same as without, and after them."""

import pytest
import torch

half = torch.autocast("cpu", dtype=torch.bfloat16)
every_mode = pytest.mark.parametrize("mode", [half, torch.inference_mode()], ids=["autocast", "inference"])


def same(found, expected):
    # the same operations in the same precision; half precision would be off by 1e-3, half a table by 1e-4
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-6)


def assert_nothing_changes(make, values, mode):
    """Values of an object are the same inside and outside a mode, whichever comes first and leaves what it keeps."""
    inside_first, outside_first = make(), make()
    with mode:
        cold = values(inside_first)
    same(values(inside_first), cold)
    expected = values(outside_first)
    same(cold, expected)
    with mode:
        same(values(outside_first), expected)
