"""Initial values of parameters and buffers, drawn or given, in any kind of memory."""

from __future__ import annotations

from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from legendretron._internal.process_groups import is_sharded, write_from_first_rank
from legendretron._internal.validation import has_values

#: Attribute of a module with the arrays of its own tensors, by name. No tensors, so that nothing moves or converts them.
_START = "_start_values"


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
    """Whether Transformers has read the tensor from a file and now initializes what the file did not hold.

    ``from_pretrained`` marks what it has read, and replaces the functions of ``torch.nn.init`` by its own, which leave marked
    tensors alone; so do we. At any other time a mark means nothing: users may want a new start.
    """
    return getattr(tensor, "_is_hf_initialized", False) and nn.init.uniform_.__module__ != "torch.nn.init"


@torch.no_grad()
def init_linear(fan_in: int, generator: torch.Generator | None, *tensors: Tensor) -> None:
    r"""Fill weight and bias, one after the other, with draws from :math:`\pm 1/\sqrt{\mathtt{fan\_in}}`.

    These are the draws of ``torch.nn.Linear(fan_in, n)``, if the weight comes first and has shape ``(n, fan_in)``.

    Examples
    --------
    >>> generator = torch.Generator().manual_seed(0)
    >>> _ = torch.manual_seed(0)
    >>> weight, bias = torch.empty(2, 3), torch.empty(2)
    >>> init_linear(3, generator, weight, bias)
    >>> torch.allclose(weight, torch.nn.Linear(3, 2).weight)
    True
    """
    bound = fan_in**-0.5
    for tensor in tensors:
        tensor.uniform_(-bound, bound, generator=generator)


# --- modules whose start is given by values: what was frozen, or read from a file ---


def keep_values(module: nn.Module) -> None:
    """Make the values of all tensors the start: from now on ``reset_parameters`` restores them, also of each part.

    A part with tensors without values, on the meta device, keeps what it had.

    Examples
    --------
    >>> layer = nn.Linear(1, 1, bias=False)
    >>> with torch.no_grad():
    ...     _ = layer.weight.fill_(3.0)
    >>> keep_values(layer)
    >>> _ = nn.init.zeros_(layer.weight)
    >>> layer.reset_parameters()
    >>> layer.weight.item()
    3.0
    """
    for part in module.modules():
        own = _get_own_tensors(part)
        if all(has_values(tensor) and not is_sharded(tensor) for tensor in own.values()):
            setattr(part, _START, {name: _array(tensor) for name, tensor in own.items()})
        if hasattr(type(part), "reset_parameters"):
            # on the object: classes define their own, for objects whose start is drawn
            part.__dict__["reset_parameters"] = partial(_reset, part)


def keep_loaded(module: nn.Module, keys: Any) -> None:
    """Keep the values that a state dict brought, as a hook; unless it had not all: some may not have been set yet."""
    if not keys.missing_keys:
        keep_values(module)


def restore_values(module: nn.Module) -> bool:
    """Write the values that were kept, also into memory that holds none yet; whether all of them were known."""
    known = True
    for part in module.modules():
        kept: dict[str, np.ndarray] = getattr(part, _START, {})
        for name, tensor in _get_own_tensors(part).items():
            if name in kept and kept[name].shape == tuple(tensor.shape):
                set_start(tensor, torch.from_numpy(kept[name]))  # which no default device redirects
            else:
                known = False
    return known


def _reset(module: nn.Module, generator: torch.Generator | None = None) -> None:
    if not restore_values(module):  # never had values: its start is that of its class
        type(module).reset_parameters(module, generator)  # type: ignore[attr-defined]


def _get_own_tensors(module: nn.Module) -> dict[str, Tensor]:
    return dict(chain(module.named_parameters(recurse=False), module.named_buffers(recurse=False)))


def _array(tensor: Tensor) -> np.ndarray:
    values = tensor.detach().cpu()
    # NumPy has no bfloat16; every number of it is one of float32
    found: np.ndarray = (values.float() if values.dtype == torch.bfloat16 else values).numpy().copy()
    return found
