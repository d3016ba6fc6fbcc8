"""A place for processes to find each other in, without what those before them have left there."""

from __future__ import annotations

import json
import time
import uuid
from typing import Any

from torch.distributed import PrefixStore  # type: ignore[attr-defined]

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
