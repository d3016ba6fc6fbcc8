"""Where training starts: values for parameters and buffers, whatever memory they live in."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from legendretron._internal.process_groups import write_from_first_rank

__all__ = ["blank", "set_start"]


def blank(like: Tensor) -> Tensor:
    """Return a plain tensor to draw a start in, of the whole shape of one that may be a ``DTensor``.

    Slices of it are views, which those of a ``DTensor`` are not.
    """
    return torch.empty(like.shape, dtype=like.dtype, device=like.device)


@torch.no_grad()
def set_start(tensor: Tensor, value: Tensor) -> None:
    """Write a plain tensor into a parameter or buffer; all processes that hold parts of it must take part.

    Examples
    --------
    >>> weight = nn.Parameter(torch.empty(2))
    >>> set_start(weight, torch.ones(2))
    >>> weight.detach()
    tensor([1., 1.])
    """
    if not tensor.is_meta and not _just_loaded(tensor):
        write_from_first_rank(tensor, value)


def _just_loaded(tensor: Tensor) -> bool:
    """Whether Transformers has read the tensor from a file and now initialises what the file did not hold.

    ``from_pretrained`` initialises every module of which something was missing, and marks what it has read. While it
    initialises, it replaces the functions of ``torch.nn.init`` by its own, which leave marked tensors alone; so do we. At
    any other time a mark means nothing: users may want a new start.
    """
    return getattr(tensor, "_is_hf_initialized", False) and nn.init.uniform_.__module__ != "torch.nn.init"
