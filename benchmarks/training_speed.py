"""Time of a training step, side by side with logistic regression and a plain implementation in the same run.

    OMP_NUM_THREADS=1 python benchmarks/training_speed.py --out docs/results/training_speed.json

One CPU thread (or a GPU with ``--device cuda``). Rounds of all contestants alternate, so that whatever else the machine is
doing hits all of them alike; medians are compared, and quartiles tell their spread. A step is everything training does for a
batch: gather the rows, predict, differentiate, penalise, update by Adam, keep the sums for the history. Steps are taken as
training takes them: several at once where they are compiled. Logistic regression is the same engine with the softmax link.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from legendretron._internal.files import write_atomically
from legendretron._internal.provenance import provenance
from legendretron.accelerate.steps import NLLStep
from legendretron.links import CanonicalLink, CompositeLink, Link, SoftmaxLink
from legendretron.training import LinearModel, as_features
from legendretron.training.adam import Adam
from legendretron.training.penalty import Penalty
from legendretron.training.step import Step, make_step
from naive import naive_step
from timing import median_times

BATCH = 64


class Case(NamedTuple):
    """A shape, with what the ratios of medians are to reach."""

    shape: str
    features: int
    classes: int
    models: int
    steps: int  #: at once
    of_softmax: dict[str, float]  #: at most so many times logistic regression's step
    of_naive: float | None = None  #: at least so many times faster than the plain implementation, model by model


CASES = {
    "vehicle": Case("vehicle", 18, 4, 1, 64, {}, 15.0),
    "20 x vehicle": Case("vehicle", 18, 4, 20, 4, {}, 100.0),
    "letter": Case("letter", 16, 26, 1, 32, {"composite, ficnn": 2.5, "canonical": 2.5}, 15.0),
    "20 x letter": Case("letter", 16, 26, 20, 2, {"composite, ficnn": 2.5, "canonical": 2.5}, 100.0),
    "aloi": Case("aloi", 128, 1000, 1, 4, {"composite, ficnn": 1.6, "canonical": 1.6}, 8.0),
    "100,000 classes": Case("100,000 classes", 128, 100_000, 1, 1, {"composite, ficnn": 1.5}),
}

#: On a GPU, where steps are captured, and one model leaves most of it idle.
WITH_CUDA = {
    "letter": Case("letter", 16, 26, 1, 64, {}),
    "20 x letter": Case("letter", 16, 26, 20, 64, {"composite, ficnn": 2.0, "canonical": 2.0}),
    "60 x letter": Case("letter", 16, 26, 60, 64, {"composite, ficnn": 2.0, "canonical": 2.0}),
    "aloi": Case("aloi", 128, 1000, 1, 64, {}),
    "20 x aloi": Case("aloi", 128, 1000, 20, 32, {"composite, ficnn": 1.5, "canonical": 1.5}),
    "60 x aloi": Case("aloi", 128, 1000, 60, 32, {"composite, ficnn": 1.5, "canonical": 1.5}),
}

LINKS: dict[str, Callable[[int], Link]] = {
    "composite, ficnn": lambda c: CompositeLink(c, network="ficnn"),
    "composite, hidden=8": lambda c: CompositeLink(c, hidden=8),
    "composite, cpflow": lambda c: CompositeLink(c, network="cpflow"),
    "canonical": CanonicalLink,
    "softmax": SoftmaxLink,
}


def our_steps(
    make_link: Callable[[int], Link], case: Case, dtype: torch.dtype, device: str, by_compiler: bool = False
) -> Callable[[], None]:
    """Some steps of the engine for all models, as a function to call; with torch.compile in place of our kernels."""
    runs, n_classes, steps = case.models, case.classes, case.steps
    rows = 4 * BATCH
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(rows, case.features, generator=generator).numpy()
    features = as_features(x.astype(np.float32 if dtype == torch.float32 else np.float64), dtype, torch.device(device))
    model = LinearModel(
        torch.zeros(runs, case.features, n_classes - 1, dtype=dtype, device=device),
        torch.zeros(runs, n_classes - 1, dtype=dtype, device=device),
        [make_link(n_classes).to(dtype) for _ in range(runs)],
    )
    strength = torch.full((runs,), 0.01, dtype=dtype, device=device)
    penalty = Penalty(model, strength, strength, intercept=True, symmetric=False)
    optimiser = Adam(model.flat)
    rate = torch.full((runs, 1), 0.01, dtype=dtype, device=device)
    totals = torch.zeros(2, runs, dtype=dtype, device=device)
    plain = Step(model, features, penalty, optimiser, rate, totals, BATCH)
    if by_compiler:
        plain.kernels, model.nll_step = None, compiled_nll_step(model.link)
    step = make_step(
        plain,
        [model.flat, optimiser.first, optimiser.second, optimiser.count, totals],
    )
    shape = (steps, runs, BATCH)
    picked = torch.randint(rows, shape, generator=generator).to(device)
    labels = torch.randint(n_classes, shape, generator=generator).to(device)
    weight = torch.full(shape, 1 / BATCH, dtype=dtype, device=device)
    if isinstance(step, Step):
        raise RuntimeError("this machine has neither compiled nor captured steps; install numba, or Triton for a GPU")
    rates = rate.mT.expand(steps, -1)
    return lambda: step.take_all(picked, labels, weight, rates)


def compiled_nll_step(link: Link) -> NLLStep:
    """The gradients of a step by torch.compile, from the plain operations of a link."""
    parameters = list(link.parameters())
    log_proba = torch.compile(link._log_proba, dynamic=False)

    def step(
        z: torch.Tensor, labels: torch.Tensor, weight: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, list[torch.Tensor]]:
        with torch.enable_grad():
            leaf = z.detach().requires_grad_()
            log_p = log_proba(leaf)
            nll = -torch.gather(log_p, -1, labels.unsqueeze(-1)).squeeze(-1)
            dz, *gradients = torch.autograd.grad((nll * weight).sum(), [leaf, *parameters])
        return nll.detach(), log_p.detach().argmax(-1) == labels, dz, gradients

    return step


def measured(
    name: str, case: Case, dtype: torch.dtype, rounds: int, seconds: float, device: str
) -> list[dict[str, object]]:
    """A row for each link."""
    contestants = {link: our_steps(make, case, dtype, device) for link, make in LINKS.items()}
    if device != "cpu" and case.models == 20:
        for link in ("composite, ficnn", "composite, hidden=8", "canonical"):
            contestants[f"{link}, torch.compile"] = our_steps(LINKS[link], case, dtype, device, by_compiler=True)
    if device == "cpu" and case.of_naive is not None:
        contestants["naive, one model"] = naive_step(case.features, case.classes, BATCH)
    times = median_times(contestants, rounds, seconds, device)
    naive = times.pop("naive, one model", None)
    rows = []
    for link, calls in times.items():
        ms, lower, upper = (part / case.steps for part in calls)
        ratio = calls.median / times["softmax"].median
        faster = None if naive is None else case.models * naive.median / ms
        kind = str(dtype).removeprefix("torch.")
        rows.append(
            {
                "shape": case.shape,
                "features": case.features,
                "classes": case.classes,
                "models": case.models,
                "dtype": kind,
                "link": link,
                "ms": float(f"{ms:.4g}"),
                "quartiles_ms": [float(f"{lower:.4g}"), float(f"{upper:.4g}")],
                "naive_ms_a_model": None if naive is None else round(naive.median, 3),
                "times_faster": None if faster is None else round(faster, 1),
                "wanted_times_faster": None if faster is None or link == "softmax" else case.of_naive,
                "of_logistic_regression": round(ratio, 2),
                "wanted_of_logistic_regression": case.of_softmax.get(link),
            }
        )
        beside = "" if faster is None else f", {faster:6.1f} x faster than naive"
        wanted = f" (wanted {case.of_softmax[link]})" if link in case.of_softmax else ""
        print(
            f"{name:15} {kind} {link:18} {ms:9.4f} ms [{lower:.4f}, {upper:.4f}], "
            f"{ratio:5.2f} x logistic regression{wanted}{beside}",
            flush=True,
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="JSON file to write")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--seconds", type=float, default=0.1, help="of each contestant in each round")
    parser.add_argument("--cases", nargs="+", choices={**CASES, **WITH_CUDA}, help="all that are for the device")
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    rows = []
    cases = CASES if options.device == "cpu" else WITH_CUDA
    for name in options.cases or cases:
        for dtype in (torch.float64, torch.float32):
            rows += measured(name, cases[name], dtype, options.rounds, options.seconds, options.device)
    if options.out:
        record = {
            "command": f"OMP_NUM_THREADS=1 python benchmarks/training_speed.py --device {options.device} "
            f"--rounds {options.rounds} --seconds {options.seconds}",
            "seed": 0,
            "batch": BATCH,
            "rounds": options.rounds,
            "seconds": options.seconds,
            "naive": "float64, autograd.grad(create_graph=True) a block, one model at a time",
            "rows": rows,
            **provenance(options.device),
        }
        write_atomically(options.out, (json.dumps(record, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
