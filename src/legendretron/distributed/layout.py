"""How processes divide the work: rows over some of them, classes over others."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
from torch import Tensor, distributed
from torch.distributed.rendezvous import rendezvous

from legendretron.distributed.fresh_store import fresh_store

__all__ = ["PATIENCE", "Layout", "joined", "started_by_torchrun"]

#: How long a process waits for the others, that may still read or choose penalties, before it takes them for lost.
PATIENCE = timedelta(hours=2)


@dataclass(frozen=True)
class Layout:
    """The part of one process in the work of all.

    Attributes
    ----------
    rank, n_processes : int
        Its number, and how many there are.
    device : torch.device
        Where it computes.
    data_rank, n_data : int
        Which of how many groups of rows it works on.
    data_group : ProcessGroup, optional
        The processes that hold the same classes, one for each group of rows; None for all processes.
    classes : DeviceMesh, optional
        The processes that work on the same rows, each for a part of the classes; None if classes are not divided.
    """

    rank: int
    n_processes: int
    device: torch.device
    data_rank: int
    n_data: int
    data_group: Any = None
    classes: Any = None

    @classmethod
    def alone(cls, device: str | torch.device = "cpu") -> Layout:
        """One process that does everything."""
        return cls(0, 1, torch.device(device), 0, 1)

    @classmethod
    def of_group(cls, device: str | torch.device, class_parallel: int = 1) -> Layout:
        """The layout of the default process group, with classes over so many processes each."""
        rank, size = distributed.get_rank(), distributed.get_world_size()
        device = torch.device(device)
        if size % class_parallel:
            raise ValueError(
                f"class_parallel={class_parallel} must divide the number of processes, {size}; start a multiple of it."
            )
        if class_parallel == 1:
            return cls(rank, size, device, rank, size)
        from torch.distributed.device_mesh import init_device_mesh

        shape = (size // class_parallel, class_parallel)
        mesh = init_device_mesh(device.type, shape, mesh_dim_names=("rows", "classes"))
        return cls(
            rank, size, device, mesh.get_local_rank("rows"), shape[0], mesh.get_group("rows"), mesh["classes"]
        )  # fmt: skip

    @property
    def first(self) -> bool:
        """Whether this is the process that writes files and speaks."""
        return self.rank == 0

    @property
    def class_rank(self) -> int:
        """Which part of the classes it holds."""
        return 0 if self.classes is None else int(self.classes.get_local_rank())

    @property
    def n_class_parts(self) -> int:
        """How many parts of the classes there are."""
        return 1 if self.classes is None else int(self.classes.size())

    def shards(self, n_shards: int) -> list[int]:
        """The shards of the rows that this process reads."""
        return list(range(self.data_rank, n_shards, self.n_data))

    def sum_over_rows(self, tensor: Tensor) -> Tensor:
        """Sum of what processes have found on their rows."""
        if self.n_data == 1:
            return tensor
        total = tensor.clone()
        distributed.all_reduce(total, group=self.data_group)
        return total

    def everyone(self, value: Any) -> list[Any]:
        """The values of all processes, in the order of their ranks; plain Python objects that are small."""
        if self.n_processes == 1:
            return [value]
        found: list[Any] = [None] * self.n_processes
        distributed.all_gather_object(found, value)
        return found

    def at_first(self, value: Any) -> list[Any]:
        """The values of all processes on the first one; an empty list on the others."""
        if self.n_processes == 1:
            return [value]
        found: list[Any] | None = [None] * self.n_processes if self.first else None
        distributed.gather_object(value, found, dst=0)
        return found or []

    def from_first(self, value: Any) -> Any:
        """The value of the first process, on every one."""
        if self.n_processes == 1:
            return value
        held = [value]
        distributed.broadcast_object_list(held, src=0, device=self.device if self.device.type == "cuda" else None)
        return held[0]


def started_by_torchrun() -> bool:
    """Whether ``torchrun``, or a launcher like it, has started this process as one of a group."""
    return "RANK" in os.environ and "WORLD_SIZE" in os.environ and "MASTER_ADDR" in os.environ


@contextmanager
def joined(device: str, class_parallel: int = 1) -> Iterator[Layout]:
    """Join the group of processes that ``torchrun`` describes in the environment; leave it at the end.

    With a GPU for each process, ``device="cuda"``, messages go through NCCL; on the CPU through Gloo.
    """
    kind = torch.device(device).type
    if kind == "cuda":
        own = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(own)
    else:
        own = torch.device(device)
    store, rank, size = next(rendezvous("env://", timeout=PATIENCE))
    distributed.init_process_group(
        "cpu:gloo,cuda:nccl" if kind == "cuda" else "gloo",
        store=fresh_store(store, rank, size),
        rank=rank,
        world_size=size,
        timeout=PATIENCE,
    )
    try:
        yield Layout.of_group(own, class_parallel)
    finally:
        distributed.destroy_process_group()
