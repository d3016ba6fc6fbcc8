"""Joining a group of processes that ``torchrun`` has started."""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
from torch import distributed
from torch.distributed import PrefixStore  # type: ignore[attr-defined]
from torch.distributed.rendezvous import rendezvous

from legendretron.training.layout import Layout

_NAME = "legendretron"
_POLL = 0.05  # seconds


def fresh_store(store: Any, rank: int, size: int) -> Any:
    """Agree on a prefix that no earlier processes have used, and return the store below it.

    Processes that ``torchrun`` starts again find the store of those before them, with the addresses of processes that are no
    more, and would try to connect to these. How often each has been started again does not tell them apart either, since
    machines count for themselves. So each process leaves a new word under its rank. The first one shows a list of these words
    and a prefix, as often as it takes, and the others answer below the prefix once the list has their own word in it.

    Examples
    --------
    >>> from torch.distributed import HashStore
    >>> store = HashStore()
    >>> store.set("key", "of processes before")
    >>> fresh_store(store, 0, 1).check(["key"])
    False
    """
    word = uuid.uuid4().hex
    store.set(f"{_NAME}/word/{rank}", word)
    if rank == 0:
        prefix = f"{_NAME}/{uuid.uuid4().hex}"
        answers = [f"{prefix}/{other}" for other in range(1, size)]
        while True:
            words = [_read(store, f"{_NAME}/word/{other}") for other in range(size)]
            store.set(f"{_NAME}/list", json.dumps([prefix, words]))
            if not answers or store.check(answers):
                break
            time.sleep(_POLL)
    else:
        while True:
            prefix, words = json.loads(_read(store, f"{_NAME}/list") or '["", []]')
            if rank < len(words) and words[rank] == word:
                store.set(f"{prefix}/{rank}", "here")
                break
            time.sleep(_POLL)
    return PrefixStore(prefix, store)


def _read(store: Any, key: str) -> str:
    return store.get(key).decode() if store.check([key]) else ""


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
