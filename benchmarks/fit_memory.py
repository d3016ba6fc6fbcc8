"""Peak memory of a fit with 100,000 classes: each learned link beside logistic regression.

    OMP_NUM_THREADS=1 python benchmarks/fit_memory.py --out docs/results/fit_memory.json

Each fit is a process of its own: a few epochs of minibatches of 64 on 640 rows of 128 features. Its peak memory is that of
the whole process less what Python and the libraries take; logistic regression is the same engine with the softmax link.
"""

from __future__ import annotations

import numpy as np
import torch

from harness import Benchmark, measure_apart, peak_mb, show
from legendretron.links import CanonicalLink, CompositeLink, SoftmaxLink
from legendretron.training import LinearModel, Sample, TrainingSettings, as_features, train

LINKS = {
    "softmax": SoftmaxLink,
    "composite, ficnn": CompositeLink,
    "composite, cpflow": lambda c: CompositeLink(c, network="cpflow"),
    "canonical": CanonicalLink,
}
ROWS, FEATURES, EPOCHS = 640, 128, 2


def fit(link: str, classes: int, dtype: torch.dtype) -> None:
    x = np.random.default_rng(0).normal(size=(ROWS, FEATURES))
    labels = (torch.arange(ROWS) * classes // ROWS).unsqueeze(0)
    features = as_features(x, dtype, torch.device("cpu"))
    sample = Sample(features, torch.arange(ROWS).unsqueeze(0), labels, torch.ones(1, ROWS, dtype=dtype))
    weight = torch.zeros(1, FEATURES, classes - 1, dtype=dtype)
    model = LinearModel(weight, weight[:, 0].clone(), [LINKS[link](classes).to(dtype)])
    del weight
    one, generators = torch.ones(1, dtype=torch.float64), [torch.Generator().manual_seed(0)]
    settings = TrainingSettings(1e-3 * one, 1e-3 * one, 1e-2 * one, generators, max_epochs=EPOCHS, batch_size=64)
    train(model, sample, settings)


def main() -> None:
    benchmark = Benchmark(__doc__)
    benchmark.add_argument("--classes", type=int, default=100_000)
    benchmark.add_argument("--link", choices=LINKS, help="only print the megabytes of this one")
    benchmark.add_argument("--dtype", choices=("float32", "float64"), default="float64")
    options = benchmark.start()
    if options.link:
        dtype = getattr(torch, options.dtype)
        fit(options.link, 5, dtype)  # so that the compiled code is loaded before
        before = peak_mb()
        fit(options.link, options.classes, dtype)
        print(peak_mb() - before)
        return
    rows = []
    for dtype in ("float64", "float32"):
        words = ("--dtype", dtype, "--classes", options.classes)
        found = {link: measure_apart("--link", link, *words) for link in LINKS}
        for link, mb in found.items():
            ratio = round(mb / found["softmax"], 2)
            rows.append(show({"link": link, "dtype": dtype, "mb": round(mb), "of_logistic_regression": ratio}))
    benchmark.write(shape=[ROWS, FEATURES, options.classes], rows=rows)


if __name__ == "__main__":
    main()
