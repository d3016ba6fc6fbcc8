"""Time of a training step, side by side with logistic regression and a plain implementation in the same run.

    OMP_NUM_THREADS=1 python benchmarks/training_speed.py --out docs/results/training_speed.json

One CPU thread (or a GPU with ``--device cuda``). A step is everything training does for a batch: gather the rows, predict,
differentiate, penalise, update by Adam, keep the sums for the history. Steps are taken as training takes them: several at
once where they are compiled. Logistic regression is the same engine with the softmax link.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from harness import Benchmark, show, take_turns
from legendretron.accelerate.steps import NLLStep
from legendretron.links import CanonicalLink, CompositeLink, Link, SoftmaxLink
from legendretron.training import LinearModel, as_features
from legendretron.training.adam import Adam
from legendretron.training.penalty import Penalty
from legendretron.training.step import Step, make_step
from naive import naive_step

BATCH = 64
NAIVE = "float64, autograd.grad(create_graph=True) a block, one model at a time"


class Case(NamedTuple):
    shape: str
    features: int
    classes: int
    models: int
    steps: int  #: at once
    naive: bool = True  #: whether the plain implementation is beside it, on the CPU


CASES = {
    "cpu": {
        "vehicle": Case("vehicle", 18, 4, 1, 64),
        "20 x vehicle": Case("vehicle", 18, 4, 20, 4),
        "letter": Case("letter", 16, 26, 1, 32),
        "20 x letter": Case("letter", 16, 26, 20, 2),
        "aloi": Case("aloi", 128, 1000, 1, 4),
        "100,000 classes": Case("100,000 classes", 128, 100_000, 1, 1, naive=False),
    },
    # where steps are captured, and one model leaves most of the device idle
    "cuda": {
        "letter": Case("letter", 16, 26, 1, 64),
        "20 x letter": Case("letter", 16, 26, 20, 64),
        "60 x letter": Case("letter", 16, 26, 60, 64),
        "aloi": Case("aloi", 128, 1000, 1, 64),
        "20 x aloi": Case("aloi", 128, 1000, 20, 32),
        "60 x aloi": Case("aloi", 128, 1000, 60, 32),
    },
}
LINKS: dict[str, Callable[[int], Link]] = {
    "composite, ficnn": lambda c: CompositeLink(c, network="ficnn"),
    "composite, hidden=8": lambda c: CompositeLink(c, hidden=8),
    "composite, cpflow": lambda c: CompositeLink(c, network="cpflow"),
    "canonical": CanonicalLink,
    "softmax": SoftmaxLink,
}
#: Links whose kernels on a GPU are compared with torch.compile.
COMPILED = ("composite, ficnn", "composite, hidden=8", "canonical")


def our_steps(
    make_link: Callable[[int], Link], case: Case, dtype: torch.dtype, device: str, by_compiler: bool = False
) -> Callable[[], None]:
    """Some steps of the engine for all models, as a function to call; with torch.compile in place of our kernels."""
    runs, n_classes, rows, on = case.models, case.classes, 4 * BATCH, {"dtype": dtype, "device": device}
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(rows, case.features, generator=generator).numpy()
    features = as_features(x.astype(np.float32 if dtype == torch.float32 else np.float64), dtype, torch.device(device))
    model = LinearModel(
        torch.zeros(runs, case.features, n_classes - 1, **on),
        torch.zeros(runs, n_classes - 1, **on),
        [make_link(n_classes).to(dtype) for _ in range(runs)],
    )
    strength = torch.full((runs,), 0.01, **on)
    penalty = Penalty(model, strength, strength, intercept=True, symmetric=False)
    optimiser, totals = Adam(model.flat), torch.zeros(2, runs, **on)
    rate = torch.full((runs, 1), 0.01, **on)
    plain = Step(model, features, penalty, optimiser, rate, totals, BATCH)
    if by_compiler:
        plain.kernels, model.nll_step = None, compile_nll_step(model.link)
    step = make_step(plain, [model.flat, optimiser.first, optimiser.second, optimiser.count, totals])
    if isinstance(step, Step):
        raise RuntimeError("this machine has neither compiled nor captured steps; install numba, or Triton for a GPU")
    shape = (case.steps, runs, BATCH)
    picked = torch.randint(rows, shape, generator=generator).to(device)
    labels = torch.randint(n_classes, shape, generator=generator).to(device)
    weight, rates = torch.full(shape, 1 / BATCH, **on), rate.mT.expand(case.steps, -1)
    return lambda: step.take_all(picked, labels, weight, rates)


def compile_nll_step(link: Link) -> NLLStep:
    """The gradients of a step by torch.compile, from the plain operations of a link."""
    parameters = list(link.parameters())
    log_proba = torch.compile(link._log_proba, dynamic=False)

    def step(z: Tensor, labels: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor, list[Tensor]]:
        with torch.enable_grad():
            leaf = z.detach().requires_grad_()
            log_p = log_proba(leaf)
            nll = -torch.gather(log_p, -1, labels.unsqueeze(-1)).squeeze(-1)
            dz, *gradients = torch.autograd.grad((nll * weight).sum(), [leaf, *parameters])
        return nll.detach(), log_p.detach().argmax(-1) == labels, dz, gradients

    return step


def measure(case: Case, dtype: torch.dtype, options: Any) -> list[dict[str, Any]]:
    """A row for each link."""
    contestants = {link: our_steps(make, case, dtype, options.device) for link, make in LINKS.items()}
    for link in COMPILED if options.device != "cpu" and (case.shape, case.models) == ("letter", 20) else ():
        contestants[f"{link}, torch.compile"] = our_steps(LINKS[link], case, dtype, options.device, by_compiler=True)
    if options.device == "cpu" and case.naive:
        contestants["naive"] = naive_step(case.features, case.classes, BATCH)
    times = take_turns(contestants, options.rounds, options.seconds, options.device)
    naive = times.pop("naive", None)
    compiled = {link: times.pop(f"{link}, torch.compile", None) for link in COMPILED}
    rows = []
    for link, own in times.items():
        row = {
            "shape": case.shape,
            "features": case.features,
            "classes": case.classes,
            "models": case.models,
            "dtype": str(dtype).removeprefix("torch."),
            "link": link,
            **own.columns(case.steps),
            "naive_ms_a_model": naive and round(naive.median, 3),
            "times_faster": naive and round(case.models * naive.median * case.steps / own.median, 1),
            "of_logistic_regression": round(own.median / times["softmax"].median, 2),
        }
        if by_compiler := compiled.get(link):
            row["torch_compile_to_ours"] = round(by_compiler.median / own.median, 2)
        rows.append(show(row))
    return rows


def main() -> None:
    benchmark = Benchmark(__doc__, rounds=11, cuda=True)
    benchmark.add_argument("--cases", nargs="+", help="all that are for the device")
    options = benchmark.start()
    cases = CASES[options.device]
    rows = [
        row
        for name in options.cases or cases
        for dtype in (torch.float64, torch.float32)
        for row in measure(cases[name], dtype, options)
    ]
    benchmark.write(batch=BATCH, naive=NAIVE, rows=rows)


if __name__ == "__main__":
    main()
