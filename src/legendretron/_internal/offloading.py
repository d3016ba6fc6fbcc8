"""Tensors that the library accelerate keeps in other memory, or on disk, between forward passes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from itertools import chain
from typing import Any

import torch
from torch import nn


def bring_tensors(module: nn.Module) -> AbstractContextManager[None]:
    """Inside, the parts of a module have the tensors that ``cpu_offload`` or ``disk_offload`` has taken away.

    Hooks bring the tensors of a part when its ``forward`` is called. Links and noise compute with the tensors of all of their
    parts together, without calling any of them.

    Examples
    --------
    >>> with bring_tensors(nn.Linear(1, 1)):  # nothing was taken away
    ...     pass
    """
    if torch.compiler.is_compiling():
        return nullcontext()
    hooks = [(part, part.__dict__["_hf_hook"]) for part in module.modules() if "_hf_hook" in part.__dict__]
    return _call_hooks(hooks) if hooks else nullcontext()


@contextmanager
def _call_hooks(hooks: list[tuple[nn.Module, Any]]) -> Iterator[None]:
    with ExitStack() as after:
        for part, hook in hooks:
            own = chain(part.parameters(recurse=False), part.buffers(recurse=False))
            if any(tensor.is_meta for tensor in own):
                hook.pre_forward(part)
                after.callback(hook.post_forward, part, None)
        yield
