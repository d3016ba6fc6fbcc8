"""Seconds that a fit of LegendreTronClassifier() takes on a device, with its scores on held-out rows.

    python benchmarks/default_fit.py --data DIR --device cuda --out docs/results/default_fit_gpu.json

A fit to a few rows comes first, so that imports, compilation and the start of the device are not counted.
"""

from __future__ import annotations

import statistics
from pathlib import Path

from sklearn.model_selection import train_test_split

import study
from harness import Benchmark, show
from legendretron import LegendreTronClassifier
from legendretron.experiments.recipes import chosen_strengths


def main() -> None:
    benchmark = Benchmark(__doc__, cuda=True)
    benchmark.add_argument("--data", type=Path)
    benchmark.add_argument("--dataset", default="letter")
    benchmark.add_argument("--seeds", type=int, default=5)
    options = benchmark.start()
    study.warm_up(LegendreTronClassifier(device=options.device, random_state=0))
    X, y, _ = study.load(options.dataset, options.data)
    runs = []
    for seed in range(options.seeds):
        X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.2, random_state=seed, stratify=y)
        clf = LegendreTronClassifier(device=options.device, random_state=seed)
        found = study.fit_and_score(clf, X_train, y_train, X_test, y_test)
        runs.append(show({"seed": seed, "seconds": found.pop("fit_seconds"), **found, **chosen_strengths(clf)}))
    median = statistics.median(run["seconds"] for run in runs)
    benchmark.write(dataset=options.dataset, settings="the defaults", runs=runs, median_seconds=median)


if __name__ == "__main__":
    main()
