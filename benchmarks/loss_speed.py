"""Time of forward and backward of the losses of links, beside torch.nn.functional.cross_entropy in the same run.

    python benchmarks/loss_speed.py --out docs/results/loss_speed.json

Both get the logits of all classes, float32, which require a gradient, and integer labels.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from harness import Benchmark, show, take_turns
from legendretron.links import CanonicalLink, CompositeLink, NoisyLink, SoftmaxLink, SymmetricNoise
from legendretron.losses import CanonicalLoss, CompositeLoss, Criterion, LogLoss
from legendretron.trons import PiecewiseLinearLink

SIZES = {"cpu": [(256, 2), (256, 10), (256, 1000), (65_536, 2), (65_536, 10)]}
SIZES["cuda"] = [*SIZES["cpu"], (65_536, 1000)]
LOSSES: dict[str, Callable[[int], Criterion]] = {
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
OF_MANY: dict[str, Callable[[int], Criterion]] = {"composite, its log-loss": lambda c: CompositeLoss(CompositeLink(c))}


def step_of(loss: Callable[[Tensor, Tensor], Tensor], logits: Tensor, y: Tensor) -> Callable[[], None]:
    def step() -> None:
        logits.grad = None
        loss(logits, y).backward()

    return step


def main() -> None:
    benchmark = Benchmark(__doc__, rounds=15, seconds=0.05, cuda=True)
    benchmark.add_argument("--threads", type=int, default=1)
    benchmark.add_argument("--label-smoothing", type=float, default=0.0, help="of all losses")
    options = benchmark.start()
    torch.set_num_threads(options.threads)
    rows = []
    for n, c in SIZES[options.device]:
        logits = torch.randn(n, c).to(options.device).requires_grad_()
        y = torch.randint(c, (n,)).to(options.device)
        plain = partial(cross_entropy, label_smoothing=options.label_smoothing)
        contestants = {"cross_entropy": step_of(plain, logits, y)}
        for name, make in {**LOSSES, **(OF_TWO if c == 2 else OF_MANY)}.items():
            criterion = make(c).to(options.device)
            criterion.label_smoothing = options.label_smoothing
            contestants[name] = step_of(criterion, logits, y)
        found = take_turns(contestants, options.rounds, options.seconds, options.device)
        for name, times in found.items():
            ratio = round(times.median / found["cross_entropy"].median, 2)
            rows.append(show({"rows": n, "classes": c, "loss": name, **times.columns(), "ratio": ratio}))
    benchmark.write(rows=rows)


if __name__ == "__main__":
    main()
