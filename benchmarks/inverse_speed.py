"""Time of a composite link's inverse, from probabilities to predictors, beside its forward map, in one run.

    OMP_NUM_THREADS=1 python benchmarks/inverse_speed.py --out docs/results/inverse_speed.json

Links have random parameters, and predictors are normal. "plain" is Newton's method in the dimension of the classes, by
operations of torch. The error is that of predictors that went forth and back.
"""

from __future__ import annotations

import torch

from harness import Benchmark, show, take_turns
from legendretron.accelerate.inverse import link_from_log
from legendretron.accelerate.log_proba import log_proba
from legendretron.links import CompositeLink


def main() -> None:
    benchmark = Benchmark(__doc__, rounds=9, seconds=0.05)
    benchmark.add_argument("--classes", type=int, nargs="*", default=[10, 1000])
    benchmark.add_argument("--n-rows", type=int, default=1000)
    options = benchmark.start()
    rows = []
    for c in options.classes:
        for hidden in (2, 8):
            generator = torch.Generator().manual_seed(0)
            link = CompositeLink(c, hidden=hidden, init="paper", generator=generator, dtype=torch.float64)
            link.requires_grad_(False)
            z = 2.0 * torch.randn(options.n_rows, c - 1, generator=generator, dtype=torch.float64)
            p = link.inverse(z)
            contestants = {
                "forward": lambda link=link, z=z: log_proba(link, z).exp(),
                "inverse": lambda link=link, p=p: link_from_log(link, p.log()),
                "inverse, plain": lambda link=link, p=p: link.link(p),
            }
            error = float((contestants["inverse"]() - z).abs().max())
            found = take_turns(contestants, options.rounds, options.seconds)
            for name, times in found.items():
                row = {"classes": c, "hidden": hidden, "n": options.n_rows, "map": name, **times.columns()}
                row["ratio"] = round(times.median / found["forward"].median, 2)
                rows.append(show(row | ({"largest_error": float(f"{error:.1g}")} if name == "inverse" else {})))
    benchmark.write(rows=rows)


if __name__ == "__main__":
    main()
