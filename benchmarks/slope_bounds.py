"""Time of regressions with bounded slopes: 60,000 points, and 500 beside a generic solver of the same problem.

    OMP_NUM_THREADS=1 python benchmarks/slope_bounds.py --out docs/results/slope_bounds.json

Labels are drawn from a sigmoid of normal predictors of several spreads. The generic solver is scipy's ``lsq_linear`` with
``method="bvls"`` in the increments. Seconds are medians of processor time.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from scipy.optimize import lsq_linear
from scipy.special import expit

from harness import Benchmark, show, take_turns
from legendretron.trons import BregmanGenerator, bregman_projection, lipschitz_isotonic

SPREADS = (0.01, 1.0, 3.0, 30.0)
BOUNDS = {"lower": 1e-3, "upper": 0.3, "y_min": 1e-3, "y_max": 1 - 1e-3}


def seconds_of(call: Callable[[], object], digits: int, rounds: int) -> float:
    return round(take_turns({"": call}, rounds, 0.0)[""].median / 1e3, digits)


def data(n: int, spread: float) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    z = rng.normal(size=n) * spread
    return z, (rng.random(n) < expit(z)).astype(float)


def generic(z: np.ndarray, y: np.ndarray) -> np.ndarray:
    order = np.argsort(z)
    steps = np.diff(z[order])
    A = np.tril(np.ones((len(z), len(z))))
    bounds = (np.append(-1e6, 0 * steps), np.append(1e6, steps))
    return A @ lsq_linear(A, y[order], bounds=bounds, method="bvls", tol=1e-12, max_iter=5000).x


def main() -> None:
    benchmark = Benchmark(__doc__)
    benchmark.add_argument("--points", type=int, default=60_000)
    options = benchmark.start()
    rows = []
    for spread in SPREADS:
        z, y = data(options.points, spread)
        slopes = {**BOUNDS, "lower": min(1e-3, 0.4 / np.ptp(z))}
        labels, smooth = np.clip(y, 1e-3, 1 - 1e-3), np.clip(expit(z), 1e-3, 1 - 1e-3)
        project = partial(bregman_projection, generator=BregmanGenerator.entropy(), **slopes)
        few = data(500, spread)
        off = np.abs(lipschitz_isotonic(*few)[np.argsort(few[0])] - generic(*few)).max()
        row = {
            "spread": spread,
            "lipschitz_isotonic_s": seconds_of(partial(lipschitz_isotonic, z, y), 3, 3),
            "bregman_of_labels_s": seconds_of(partial(project, z, labels), 3, 3),
            "bregman_of_values_s": seconds_of(partial(project, z, smooth), 3, 3),
            "generic_500_s": seconds_of(partial(generic, *few), 3, 1),
            "lipschitz_isotonic_500_s": seconds_of(partial(lipschitz_isotonic, *few), 5, 3),
            "largest_difference_500": float(off),
        }
        rows.append(show(row))
    benchmark.write(**{"bounds of the Bregman projection": BOUNDS}, rows=rows)


if __name__ == "__main__":
    main()
