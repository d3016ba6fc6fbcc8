"""Time of a training step, side by side with a plain implementation in the same run.

    OMP_NUM_THREADS=1 python benchmarks/training_speed.py --out docs/results/training_speed.json

One CPU thread (or a GPU with ``--device cuda``). Rounds of all contestants alternate, and the best of each is kept, so that
whatever else the machine is doing hits all of them alike. A step is everything training does for a batch: gather the
rows, predict, differentiate, penalise, update by Adam, keep the sums for the history.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from legendretron._internal.files import write_atomically
from legendretron._internal.provenance import provenance
from legendretron.links import CanonicalLink, CompositeLink, Link, SoftmaxLink
from legendretron.training import LinearModel, as_features
from legendretron.training.adam import Adam
from legendretron.training.penalty import Penalty
from legendretron.training.step import Step, make_step
from naive import naive_step
from timing import best_times

SHAPES = {"vehicle": (18, 4), "letter": (16, 26), "aloi": (128, 1000)}
BATCH = 64


def our_step(
    make_link: Callable[[], Link], n_features: int, n_classes: int, runs: int, dtype: torch.dtype, device: str
):
    """A step of the engine for ``runs`` models, as a function to call."""
    rows = 4 * BATCH
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(rows, n_features, generator=generator).numpy()
    features = as_features(x.astype(np.float32 if dtype == torch.float32 else np.float64), dtype, torch.device(device))
    model = LinearModel(
        torch.zeros(runs, n_features, n_classes - 1, dtype=dtype, device=device),
        torch.zeros(runs, n_classes - 1, dtype=dtype, device=device),
        [make_link().to(dtype) for _ in range(runs)],
    )
    strength = torch.full((runs,), 0.01, dtype=dtype, device=device)
    penalty = Penalty(model, strength, strength, intercept=True, symmetric=False)
    optimiser = Adam(model.flat)
    rate = torch.full((runs, 1), 0.01, dtype=dtype, device=device)
    totals = torch.zeros(2, runs, dtype=dtype, device=device)
    step = make_step(
        Step(model, features, penalty, optimiser, rate, totals, BATCH),
        [model.flat, optimiser.first, optimiser.second, optimiser.count, totals],
    )
    picked = torch.randint(rows, (runs, BATCH), generator=generator).to(device)
    labels = torch.randint(n_classes, (runs, BATCH), generator=generator).to(device)
    weight = torch.full((runs, BATCH), 1 / BATCH, dtype=dtype, device=device)
    return lambda: step(picked, labels, weight)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="JSON file to write")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.3, help="of each contestant in each round")
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    rows = []
    for shape, (d, c) in SHAPES.items():
        links: dict[str, Callable[[], Link]] = {
            "composite, ficnn": lambda c=c: CompositeLink(c, network="ficnn"),
            "composite, cpflow": lambda c=c: CompositeLink(c, network="cpflow"),
            "canonical": lambda c=c: CanonicalLink(c),
            "softmax": lambda c=c: SoftmaxLink(c),
        }
        for runs in (1, 20) if c < 1000 else (1,):
            for dtype in (torch.float64, torch.float32):
                contestants = {name: our_step(link, d, c, runs, dtype, options.device) for name, link in links.items()}
                contestants["naive, one model"] = naive_step(d, c, BATCH)
                if options.device != "cpu":
                    del contestants["naive, one model"]
                best = best_times(contestants, options.rounds, options.seconds, options.device)
                naive = best.pop("naive, one model", None)
                for name, ms in best.items():
                    rows.append(
                        {
                            "shape": shape,
                            "features": d,
                            "classes": c,
                            "models": runs,
                            "dtype": str(dtype).removeprefix("torch."),
                            "link": name,
                            "ms": round(ms, 4),
                            "naive_ms_a_model": None if naive is None else round(naive, 4),
                            "times_faster": None if naive is None else round(runs * naive / ms, 1),
                            "of_logistic_regression": round(ms / best["softmax"], 2),
                        }
                    )
                    speed = (
                        "" if naive is None else f"naive {naive:6.2f} ms a model, {runs * naive / ms:7.1f} x faster, "
                    )
                    print(
                        f"{shape:8} {runs:2d} models {rows[-1]['dtype']} {name:18} {ms:8.3f} ms  {speed}"
                        f"{ms / best['softmax']:5.2f} x logistic regression",
                        flush=True,
                    )
    if options.out:
        record = {
            "command": "OMP_NUM_THREADS=1 python benchmarks/training_speed.py",
            "batch": BATCH,
            "naive": "float64, autograd.grad(create_graph=True) a block, one model at a time",
            "rows": rows,
            **provenance(options.device),
        }
        write_atomically(options.out, (json.dumps(record, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
