"""Joining a group of processes that ``torchrun`` has started."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import torch
from torch import distributed
from torch.distributed.rendezvous import rendezvous

from legendretron.distributed.fresh_store import fresh_store
from legendretron.training.layout import Layout

#: How long a process waits for the others, that may still read or choose penalties, before it takes them for lost.
PATIENCE = timedelta(hours=2)


def started_by_torchrun() -> bool:
    """Whether ``torchrun``, or a launcher like it, has started this process as one of a group."""
    return "RANK" in os.environ and "WORLD_SIZE" in os.environ and "MASTER_ADDR" in os.environ


@contextmanager
def join_group(device: str, class_parallel: int = 1) -> Iterator[Layout]:
    """Join the group of processes that ``torchrun`` describes in the environment; leave it at the end.

    With a GPU for each process, ``device="cuda"``, messages go through NCCL; on the CPU through Gloo.
    """
    kind = torch.device(device).type
    if kind == "cuda":
        target = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(target)
    else:
        target = torch.device(device)
    store, rank, size = next(rendezvous("env://", timeout=PATIENCE))
    distributed.init_process_group(
        "cpu:gloo,cuda:nccl" if kind == "cuda" else "gloo",
        store=fresh_store(store, rank, size),
        rank=rank,
        world_size=size,
        timeout=PATIENCE,
    )
    try:
        yield Layout.join(target, class_parallel)
    finally:
        distributed.destroy_process_group()
