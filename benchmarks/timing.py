"""Times of contestants side by side, in one run."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import NamedTuple

import torch


class Times(NamedTuple):
    """Milliseconds a call over all rounds: the median, and the quartiles as a measure of spread."""

    median: float
    lower: float
    upper: float

    @classmethod
    def of(cls, rounds: list[float]) -> Times:
        """From the milliseconds of each round."""
        if len(rounds) < 2:
            return cls(rounds[0], rounds[0], rounds[0])
        lower, median, upper = statistics.quantiles(rounds, n=4, method="inclusive")
        return cls(median, lower, upper)


def _times(
    contestants: dict[str, Callable[[], None]], rounds: int, seconds: float, device: str
) -> dict[str, list[float]]:
    """Milliseconds a call of each contestant in each of some alternating rounds of about so many seconds."""

    def timed(step: Callable[[], None], calls: int) -> float:
        if device != "cpu":
            torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(calls):
            step()
        if device != "cpu":
            torch.cuda.synchronize()
        return 1e3 * (time.perf_counter() - began) / calls

    calls = {}
    for name, step in contestants.items():
        timed(step, 1)  # the first call may compile
        calls[name] = max(1, int(1e3 * seconds / max(timed(step, 2), 1e-4)))
    found: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, step in contestants.items():
            found[name].append(timed(step, calls[name]))
    return found


def best_times(
    contestants: dict[str, Callable[[], None]], rounds: int, seconds: float, device: str
) -> dict[str, float]:
    """Best milliseconds a call of each, in alternating rounds of about so many seconds."""
    return {name: min(found) for name, found in _times(contestants, rounds, seconds, device).items()}


def median_times(
    contestants: dict[str, Callable[[], None]], rounds: int, seconds: float, device: str
) -> dict[str, Times]:
    """Median milliseconds a call of each with quartiles, in alternating rounds of about so many seconds."""
    return {name: Times.of(found) for name, found in _times(contestants, rounds, seconds, device).items()}
