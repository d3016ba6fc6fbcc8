"""Time of a compiled training step on the CPU, side by side with the same step by plain operations in the same run.

    OMP_NUM_THREADS=1 python benchmarks/compiled_step.py

One thread. A step is everything training does for a batch; compiled steps are taken by the dozen, as training does.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
import torch

from legendretron.links import CompositeLink, Link, SoftmaxLink
from legendretron.training import LinearModel, as_features
from legendretron.training.adam import Adam
from legendretron.training.penalty import Penalty
from legendretron.training.step import CompiledStep, Step, make_step
from timing import best_times

#: Runs, rows of a batch, features, classes.
SHAPES = (
    *((1, 64, 10, 11), (5, 64, 10, 11), (60, 64, 10, 11), (1, 256, 16, 26)),
    *((5, 64, 18, 4), (1, 256, 256, 10), (1, 1024, 50, 5)),
)
STEPS = 12


def contestants(
    make_link: Callable[[], Link], runs: int, rows: int, n_features: int, n_classes: int, dtype: torch.dtype
) -> tuple[Callable[[], None], Callable[[], None]]:
    """One plain step, and a dozen compiled ones, each with a model of its own."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(4 * rows, n_features, generator=generator).numpy()
    features = as_features(x.astype(np.float32 if dtype == torch.float32 else np.float64), dtype, torch.device("cpu"))
    shape = (STEPS, runs, rows)
    picked = torch.randint(4 * rows, shape, generator=generator)
    labels = torch.randint(n_classes, shape, generator=generator)
    weights = torch.full(shape, 1 / rows, dtype=dtype)
    rates = torch.full((STEPS, runs), 0.001, dtype=dtype)

    def step() -> tuple[Step, list[torch.Tensor]]:
        links = [make_link().to(dtype) for _ in range(runs)]
        weight = torch.zeros(runs, n_features, n_classes - 1, dtype=dtype)
        model = LinearModel(weight, weight[:, 0].clone(), links)
        strength = torch.full((runs,), 0.01, dtype=dtype)
        penalty = Penalty(model, strength, strength, intercept=True, symmetric=False)
        optimiser, totals = Adam(model.flat), torch.zeros(2, runs, dtype=dtype)
        return Step(model, features, penalty, optimiser, rates[:1].mT.clone(), totals, rows), [model.flat]

    plain = step()[0]
    compiled = make_step(*step())
    assert isinstance(compiled, CompiledStep)
    return lambda: plain(picked[0], labels[0], weights[0]), lambda: compiled.many(picked, labels, weights, rates)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.2, help="of each contestant in each round")
    parser.add_argument("--link", choices=("composite", "softmax"), default="composite")
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    for dtype in (torch.float32, torch.float64):
        name = str(dtype).removeprefix("torch.")
        for number, (runs, rows, d, c) in enumerate(SHAPES):

            def link(c: int = c) -> Link:
                return SoftmaxLink(c) if options.link == "softmax" else CompositeLink(c, 2, hidden=8, depth=4)

            plain, compiled = contestants(link, runs, rows, d, c, dtype)
            began = time.perf_counter()
            compiled()
            if number == 0:
                print(f"{name}: first call {time.perf_counter() - began:.2f} s", flush=True)
            best = best_times({"plain": plain, "compiled": compiled}, options.rounds, options.seconds, "cpu")
            best["compiled"] /= STEPS
            each = {key: 1e3 * ms / (runs * rows) for key, ms in best.items()}
            print(
                f"{name} R={runs:2d} m={rows:4d} d={d:3d} C={c:2d}: compiled {best['compiled']:8.4f} ms"
                f" ({each['compiled']:6.3f} us a row and run), plain {best['plain']:8.3f} ms"
                f" ({each['plain']:6.2f} us), {best['plain'] / best['compiled']:5.1f} x faster",
                flush=True,
            )


if __name__ == "__main__":
    main()
