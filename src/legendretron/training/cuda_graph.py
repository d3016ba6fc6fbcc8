"""Capturing a training step as a CUDA graph."""

from __future__ import annotations

from collections.abc import Callable

import torch

__all__ = ["capture_graph"]

_WARM_UP_STEPS = 3


def capture_graph(step: Callable[[], None], device: torch.device) -> torch.cuda.CUDAGraph:
    """Record a step that reads and writes fixed tensors on a CUDA device; ``replay`` runs it again in one launch.

    Capturing needs some steps to warm up, on a stream of their own: the caller restores what they have changed.
    """
    with torch.cuda.device(device):  # a graph is captured on the current device
        side = torch.cuda.Stream(device)
        side.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(side):
            for _ in range(_WARM_UP_STEPS):
                step()
        torch.cuda.current_stream(device).wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step()
    return graph
