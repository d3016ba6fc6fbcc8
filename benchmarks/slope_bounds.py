"""Time of regressions with bounded slopes: 60,000 points, and 500 beside a generic solver of the same problem.

    OMP_NUM_THREADS=1 python benchmarks/slope_bounds.py --out docs/results/slope_bounds.json

Labels are drawn from a sigmoid of normal predictors of several spreads. The generic solver is scipy's ``lsq_linear`` with
``method="bvls"`` in the increments. Seconds are the best of three, of the processor.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
from scipy.optimize import lsq_linear
from scipy.special import expit

from legendretron._internal.files import write_atomically
from legendretron._internal.provenance import provenance
from legendretron.experiments.rounding import rounded
from legendretron.trons import BregmanGenerator, bregman_projection, lipschitz_isotonic

SPREADS = (0.01, 1.0, 3.0, 30.0)
BOUNDS = {"lower": 1e-3, "upper": 0.3, "y_min": 1e-3, "y_max": 1 - 1e-3}


def best(call, repeats: int = 3) -> float:
    seconds = []
    for _ in range(repeats):
        began = time.process_time()
        call()
        seconds.append(time.process_time() - began)
    return min(seconds)


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
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rows = []
    for spread in SPREADS:
        z, y = data(60_000, spread)
        slopes = {**BOUNDS, "lower": min(1e-3, 0.4 / np.ptp(z))}
        labels, smooth = np.clip(y, 1e-3, 1 - 1e-3), np.clip(expit(z), 1e-3, 1 - 1e-3)
        entropy = BregmanGenerator.entropy()
        few_z, few_y = data(500, spread)
        off = np.abs(lipschitz_isotonic(few_z, few_y)[np.argsort(few_z)] - generic(few_z, few_y)).max()
        row = {
            "spread": spread,
            "lipschitz_isotonic_s": round(best(lambda z=z, y=y: lipschitz_isotonic(z, y)), 3),
            "bregman_of_labels_s": round(
                best(lambda z=z, v=labels, s=slopes, g=entropy: bregman_projection(z, v, g, **s)), 3
            ),
            "bregman_of_values_s": round(
                best(lambda z=z, v=smooth, s=slopes, g=entropy: bregman_projection(z, v, g, **s)), 3
            ),
            "generic_500_s": round(best(lambda z=few_z, y=few_y: generic(z, y), 1), 3),
            "lipschitz_isotonic_500_s": round(best(lambda z=few_z, y=few_y: lipschitz_isotonic(z, y)), 5),
            "largest_difference_500": float(off),
        }
        rows.append(row)
        print(row, flush=True)
    if options.out:
        record = {
            "command": "OMP_NUM_THREADS=1 python benchmarks/slope_bounds.py",
            "bounds of the Bregman projection": BOUNDS,
            "seed": 0,
            "rows": rounded(rows),
            **provenance(),
        }
        write_atomically(options.out, (json.dumps(record, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
