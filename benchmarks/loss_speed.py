"""Time of forward and backward of the losses of links, beside torch.nn.functional.cross_entropy in the same run.

    python benchmarks/loss_speed.py --out docs/results/loss_speed.json

Both get the logits of all classes, float32, which require a gradient, and integer labels. Times are medians over alternating
rounds; the ratio is that of the medians. On the CPU it is processor time, so that other programs on the machine count for
less; with --device cuda it is the time until the device has finished.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from legendretron._internal.files import write_atomically
from legendretron._internal.provenance import provenance
from legendretron.links import CanonicalLink, CompositeLink, NoisyLink, SoftmaxLink, SymmetricNoise
from legendretron.losses import CanonicalLoss, CompositeLoss, Criterion, LogLoss
from legendretron.trons import PiecewiseLinearLink

SIZES = [(256, 2), (256, 10), (256, 1000), (65_536, 2), (65_536, 10)]
ON_CUDA = [(65_536, 1000)]
OF_MANY: dict[str, Callable[[int], Criterion]] = {
    "log-loss": lambda c: LogLoss(),
    "softmax": lambda c: CanonicalLoss(SoftmaxLink(c)),
    "canonical, 4 nests": lambda c: CanonicalLoss(CanonicalLink(c)),
    "canonical, 1 nest": lambda c: CanonicalLoss(CanonicalLink(c, n_nests=1)),
    "softmax with noise": lambda c: CanonicalLoss(NoisyLink(SoftmaxLink(c), SymmetricNoise(c, 0.2, learned=False))),
}
OF_TWO: dict[str, Callable[[int], Criterion]] = {
    "composite": lambda c: CanonicalLoss(CompositeLink(c)),
    "table": lambda c: CanonicalLoss(PiecewiseLinearLink([-2.0, 0.0, 1.0], [0.1, 0.6, 0.9]).float()),
}
NOT_CANONICAL: dict[str, Callable[[int], Criterion]] = {
    "composite, its log-loss": lambda c: CompositeLoss(CompositeLink(c))
}


def medians(contestants: dict[str, Callable[[], None]], rounds: int, seconds: float, device: str) -> dict[str, float]:
    """Median milliseconds a call of each."""

    def timed(step: Callable[[], None], calls: int) -> float:
        clock = time.perf_counter if device == "cuda" else time.process_time
        if device == "cuda":
            torch.cuda.synchronize()
        began = clock()
        for _ in range(calls):
            step()
        if device == "cuda":
            torch.cuda.synchronize()
        return (clock() - began) / calls

    for step in contestants.values():
        step()  # compiled functions are compiled, or read from disk, by their first call
    calls = {name: max(1, int(seconds / max(timed(step, 3), 1e-7))) for name, step in contestants.items()}
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, step in contestants.items():
            times[name].append(timed(step, calls[name]))
    return {name: 1e3 * statistics.median(values) for name, values in times.items()}


def step_of(loss: Callable[[Tensor, Tensor], Tensor], logits: Tensor, y: Tensor) -> Callable[[], None]:
    def step() -> None:
        logits.grad = None
        loss(logits, y).backward()

    return step


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="JSON file to write")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=0.05, help="of each contestant in each round")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--label-smoothing", type=float, default=0.0, help="of all losses")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    rows = []
    for n, c in SIZES + (ON_CUDA if options.device == "cuda" else []):
        logits = torch.randn(n, c).to(options.device).requires_grad_()
        y = torch.randint(c, (n,)).to(options.device)
        losses = {**OF_MANY, **(OF_TWO if c == 2 else NOT_CANONICAL)}
        criteria = {name: make(c).to(options.device) for name, make in losses.items()}
        for criterion in criteria.values():
            criterion.label_smoothing = options.label_smoothing
        contestants = {name: step_of(criterion, logits, y) for name, criterion in criteria.items()}
        plain = partial(cross_entropy, label_smoothing=options.label_smoothing)
        found = medians(
            {"cross_entropy": step_of(plain, logits, y), **contestants},
            options.rounds,
            options.seconds,
            options.device,
        )
        base = found["cross_entropy"]
        for name, ms in found.items():
            rows.append({"rows": n, "classes": c, "loss": name, "ms": round(ms, 4), "ratio": round(ms / base, 2)})
            print(f"{n:6} x {c:4}  {name:24} {ms:9.4f} ms  {ms / base:6.2f} times", flush=True)
    if options.out:
        record = {
            "command": f"python benchmarks/loss_speed.py --rounds {options.rounds} --seconds {options.seconds} "
            f"--threads {options.threads} --device {options.device} --label-smoothing {options.label_smoothing}",
            "threads": options.threads,
            "rows": rows,
            **provenance(options.device),
        }
        write_atomically(options.out, (json.dumps(record, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
