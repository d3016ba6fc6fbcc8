"""What depends on the number of processes: sums over all of them, and sharded tensors."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, distributed, nn


def n_ranks() -> int:
    """Processes of the default group; 1 if there is none."""
    return distributed.get_world_size() if distributed.is_available() and distributed.is_initialized() else 1


def sum_over_ranks(tensor: Tensor) -> Tensor:
    """Sum of a tensor over all processes of the default group, the same on each; itself if there is only one."""
    if n_ranks() == 1:
        return tensor
    total = tensor.clone()
    distributed.all_reduce(total)
    return total


def _in_group() -> bool:
    """Whether there is a process group; otherwise there is no need to import what takes a second."""
    return distributed.is_available() and distributed.is_initialized()


def is_sharded(value: Any) -> bool:
    """Whether a value is a ``DTensor``, that is one of which each process may hold a part."""
    if not _in_group():
        return False
    from torch.distributed.tensor import DTensor

    return isinstance(value, DTensor)


def is_fully_sharded(module: nn.Module) -> bool:
    """Whether ``fully_shard`` was applied to this module itself, so that it gathers parameters when it is called."""
    if not _in_group():
        return False
    from torch.distributed.fsdp import FSDPModule

    return isinstance(module, FSDPModule)


def holds_shards(module: nn.Module, n_own_dims: int = 0) -> bool:
    """Whether parameters are still the shards of ``fully_shard``: ``DTensor``s on a mesh of more dimensions than their own.

    Modules inside to which ``fully_shard`` was applied gather theirs when they are called, and are not asked.
    """
    if not _in_group():
        return False
    own = module.parameters(recurse=False)
    if any(is_sharded(p) and p.device_mesh.ndim > n_own_dims for p in own):  # type: ignore[attr-defined]
        return True
    return any(holds_shards(part, n_own_dims) for part in module.children() if not is_fully_sharded(part))


def whole(tensor: Tensor) -> Tensor:
    """Return the plain tensor behind a ``DTensor``, gathered or summed up; a plain one is returned as is."""
    return tensor.full_tensor() if is_sharded(tensor) else tensor  # type: ignore[attr-defined]


def reduce_shards(tensor: Tensor) -> Tensor:
    """Reduce a ``DTensor`` whose parts are yet to be added up, or compared, in one message; a plain one is returned as is."""
    if not is_sharded(tensor):
        return tensor
    from torch.distributed.tensor import Replicate

    return tensor.redistribute(placements=[Replicate()] * tensor.device_mesh.ndim)  # type: ignore[attr-defined]


def replicate(tensor: Tensor, like: Tensor) -> Tensor:
    """Return a plain tensor as a replicated ``DTensor`` on the mesh of another; unchanged if the other is plain."""
    if not is_sharded(like):
        return tensor
    from torch.distributed.tensor import DTensor, Replicate

    mesh = like.device_mesh  # type: ignore[attr-defined]
    return DTensor.from_local(tensor, mesh, [Replicate()] * mesh.ndim, run_check=False)


def write_whole(target: Tensor, value: Tensor) -> None:
    """Copy a plain tensor, the same on all processes, into a plain one or into the parts of a ``DTensor``."""
    if is_sharded(target):
        value = replicate(value, target).redistribute(placements=target.placements)  # type: ignore[attr-defined]
    with torch.no_grad():
        target.copy_(value)


def write_from_first_rank(target: Tensor, value: Tensor) -> None:
    """As :func:`write_whole`, for values that may differ between processes: those of the first one count."""
    if is_sharded(target):
        from torch.distributed.tensor import Replicate, distribute_tensor

        mesh, value = target.device_mesh, value.to(target.device, target.dtype)  # type: ignore[attr-defined]
        value = distribute_tensor(value, mesh, [Replicate()] * mesh.ndim).to_local()
    write_whole(target, value)
