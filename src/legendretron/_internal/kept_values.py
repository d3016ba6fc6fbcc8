"""Modules whose start is given by values, not drawn: what was frozen, or read from a file."""

from __future__ import annotations

from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from legendretron._internal.process_groups import is_sharded
from legendretron._internal.start import set_start
from legendretron._internal.validation import has_values

__all__ = ["keep_loaded", "keep_values", "restore_values"]

#: Attribute of a module with the arrays of its own tensors, by name. No tensors, so that nothing moves or converts them.
_KEPT = "_kept_values"


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
        own = _own(part)
        if all(has_values(tensor) and not is_sharded(tensor) for tensor in own.values()):
            setattr(part, _KEPT, {name: _array(tensor) for name, tensor in own.items()})
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
        kept: dict[str, np.ndarray] = getattr(part, _KEPT, {})
        for name, tensor in _own(part).items():
            if name in kept and kept[name].shape == tuple(tensor.shape):
                set_start(tensor, torch.from_numpy(kept[name]))  # which no default device redirects
            else:
                known = False
    return known


def _reset(module: nn.Module, generator: torch.Generator | None = None) -> None:
    if not restore_values(module):  # never had values: its start is that of its class
        type(module).reset_parameters(module, generator)  # type: ignore[attr-defined]


def _own(module: nn.Module) -> dict[str, Tensor]:
    return dict(chain(module.named_parameters(recurse=False), module.named_buffers(recurse=False)))


def _array(tensor: Tensor) -> np.ndarray:
    values = tensor.detach().cpu()
    # NumPy has no bfloat16; every number of it is one of float32
    found: np.ndarray = (values.float() if values.dtype == torch.bfloat16 else values).numpy().copy()
    return found
