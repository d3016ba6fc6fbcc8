"""Times of contestants that take turns in one process: medians and quartiles."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any


def quartiles(contestants: dict[str, Callable[[], Any]], rounds: int, seconds: float) -> dict[str, dict[str, float]]:
    """Median milliseconds a call of each, and the quartiles, over rounds of about so many seconds of processor time.

    It is the processor's time, so that other programs on the machine count for less.
    """

    def timed(call: Callable[[], Any], calls: int) -> float:
        began = time.process_time()
        for _ in range(calls):
            call()
        return (time.process_time() - began) / calls

    for call in contestants.values():
        call()  # compiled functions are compiled, or read from disk, by their first call
    calls = {name: max(1, int(seconds / max(timed(call, 1), 1e-7))) for name, call in contestants.items()}
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, call in contestants.items():
            times[name].append(1e3 * timed(call, calls[name]))
    found = {}
    for name, values in times.items():
        low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
        found[name] = {"ms": float(f"{middle:.4g}"), "quartiles": [float(f"{low:.4g}"), float(f"{high:.4g}")]}
    return found
