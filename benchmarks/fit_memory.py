"""Peak memory of a fit with 100,000 classes: each learned link beside logistic regression.

    OMP_NUM_THREADS=1 python benchmarks/fit_memory.py --out docs/results/fit_memory.json

Each fit is a process of its own: a few epochs of minibatches of 64 on 640 rows of 128 features. Its peak memory is that of
the whole process less what Python and the libraries take; logistic regression is the same engine with the softmax link.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import torch

from legendretron._internal.files import write_atomically
from legendretron._internal.provenance import provenance
from legendretron.links import CanonicalLink, CompositeLink, SoftmaxLink
from legendretron.training import LinearModel, Sample, TrainingSettings, as_features, train

LINKS = {
    "softmax": SoftmaxLink,
    "composite, ficnn": CompositeLink,
    "composite, cpflow": lambda c: CompositeLink(c, network="cpflow"),
    "canonical": CanonicalLink,
}
ROWS, FEATURES, EPOCHS = 640, 128, 2


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def fit(link: str, classes: int, dtype: torch.dtype) -> float:
    """Megabytes that a fit takes at its peak beyond what the process took before."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    _fit(link, 5, dtype)  # so that the compiled code is loaded before
    before = peak_mb()
    _fit(link, classes, dtype)
    return peak_mb() - before


def _fit(link: str, classes: int, dtype: torch.dtype) -> None:
    x = np.random.default_rng(0).normal(size=(ROWS, FEATURES))
    labels = (torch.arange(ROWS) * classes // ROWS).unsqueeze(0)
    features = as_features(x, dtype, torch.device("cpu"))
    sample = Sample(features, torch.arange(ROWS).unsqueeze(0), labels, torch.ones(1, ROWS, dtype=dtype))
    weight = torch.zeros(1, FEATURES, classes - 1, dtype=dtype)
    model = LinearModel(weight, weight[:, 0].clone(), [LINKS[link](classes).to(dtype)])
    del weight
    one = torch.ones(1, dtype=torch.float64)
    generators = [torch.Generator().manual_seed(0)]
    train(
        model,
        sample,
        TrainingSettings(1e-3 * one, 1e-3 * one, 1e-2 * one, generators, max_epochs=EPOCHS, batch_size=64),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--classes", type=int, default=100_000)
    parser.add_argument("--link", choices=LINKS, help="only print the megabytes of this one")
    parser.add_argument("--dtype", choices=("float32", "float64"), default="float64")
    options = parser.parse_args()
    if options.link:
        print(fit(options.link, options.classes, getattr(torch, options.dtype)))
        return
    rows: list[dict[str, object]] = []
    for dtype in ("float64", "float32"):
        found = {}
        for link in LINKS:
            command = [sys.executable, __file__, "--link", link, "--dtype", dtype, "--classes", str(options.classes)]
            found[link] = float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            ratio = found[link] / found["softmax"]
            rows.append(
                {"link": link, "dtype": dtype, "mb": round(found[link]), "of_logistic_regression": round(ratio, 2)}
            )
            print(f"{dtype} {link:18} {found[link]:7.0f} MB, {ratio:.2f} x logistic regression", flush=True)
    if options.out:
        record = {
            "command": "OMP_NUM_THREADS=1 python benchmarks/fit_memory.py",
            "seed": 0,
            "shape": [ROWS, FEATURES, options.classes],
            "wanted_of_logistic_regression": {"composite, ficnn": 1.2},
            "rows": rows,
            **provenance(),
        }
        write_atomically(options.out, (json.dumps(record, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
