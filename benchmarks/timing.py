"""Times of contestants side by side, in one run."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch


def best_times(
    contestants: dict[str, Callable[[], None]], rounds: int, seconds: float, device: str
) -> dict[str, float]:
    """Best milliseconds a call of each, in alternating rounds of about so many seconds."""

    def timed(step: Callable[[], None], calls: int) -> float:
        if device != "cpu":
            torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(calls):
            step()
        if device != "cpu":
            torch.cuda.synchronize()
        return (time.perf_counter() - began) / calls

    calls = {name: max(3, int(seconds / max(timed(step, 5), 1e-7))) for name, step in contestants.items()}
    best = dict.fromkeys(contestants, float("inf"))
    for _ in range(rounds):
        for name, step in contestants.items():
            best[name] = min(best[name], timed(step, calls[name]))
    return {name: 1e3 * value for name, value in best.items()}
