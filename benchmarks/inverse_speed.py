"""Time of a composite link's inverse, from probabilities to predictors, beside its forward map, in one run.

    OMP_NUM_THREADS=1 python benchmarks/inverse_speed.py --out docs/results/inverse_speed.json

Links have random parameters, and predictors are normal. "plain" is Newton's method in the dimension of the classes, by
operations of torch. Medians of processor time; the error is that of predictors that went forth and back.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

import torch

from interleaved import quartiles
from legendretron._internal.files import write_atomically
from legendretron._internal.provenance import provenance
from legendretron.accelerate.inverse import link_from_log
from legendretron.accelerate.log_proba import log_proba
from legendretron.links import CompositeLink


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="JSON file to write")
    parser.add_argument("--classes", type=int, nargs="*", default=[10, 1000])
    parser.add_argument("--n-rows", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=0.05, help="of each contestant in each round")
    options = parser.parse_args()
    torch.set_num_threads(1)
    load = os.getloadavg()[0]
    rows: list[dict[str, Any]] = []
    for c in options.classes:
        for hidden in (2, 8):
            generator = torch.Generator().manual_seed(0)
            link = CompositeLink(c, hidden=hidden, init="paper", generator=generator, dtype=torch.float64)
            link.requires_grad_(False)
            z = 2.0 * torch.randn(options.n_rows, c - 1, generator=generator, dtype=torch.float64)
            p = link.inverse(z)

            error = float((link_from_log(link, p.log()) - z).abs().max())
            contestants = {
                "forward": lambda link=link, z=z: log_proba(link, z).exp(),
                "inverse": lambda link=link, p=p: link_from_log(link, p.log()),
                "inverse, plain": lambda link=link, p=p: link.link(p),
            }
            found = quartiles(contestants, options.rounds, options.seconds)
            for name, times in found.items():
                ratio = times["ms"] / found["forward"]["ms"]
                row = {
                    "classes": c,
                    "hidden": hidden,
                    "n": options.n_rows,
                    "map": name,
                    **times,
                    "ratio": round(ratio, 2),
                }
                rows.append({**row, **({"largest_error": float(f"{error:.1g}")} if name == "inverse" else {})})
                print(f"{c:5} classes, hidden={hidden}  {name:15} {times['ms']:9.2f} ms {ratio:6.2f} times", flush=True)
    if options.out:
        record = {
            "command": f"OMP_NUM_THREADS=1 python benchmarks/inverse_speed.py --rounds {options.rounds} "
            f"--seconds {options.seconds}",
            "load": {"processors": os.cpu_count(), "before": round(load, 1), "after": round(os.getloadavg()[0], 1)},
            "seed": 0,
            "rows": rows,
            **provenance("cpu"),
        }
        write_atomically(options.out, (json.dumps(record, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
