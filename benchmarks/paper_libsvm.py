"""The paper's recipe on its LIBSVM data sets, 20 seeds, beside the published numbers.

    OMP_NUM_THREADS=1 python benchmarks/paper_libsvm.py --data DIR --paper table_libsvm.csv --out FILE

``DIR`` holds LIBSVM files such as ``vehicle.scale``; the table has the paper's accuracies. Each data set is split 80/20 by
``train_test_split(test_size=0.2, random_state=seed)`` for seeds 0 to 19; all 20 models are trained side by side. Exits with
an error if a cell is further from the paper than two combined standard errors.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
import time
from pathlib import Path

import numpy as np
from sklearn.datasets import load_svmlight_file
from sklearn.model_selection import train_test_split

from legendretron import LegendreTronClassifier, MultinomialLogisticClassifier
from legendretron.estimators import fit_splits
from legendretron.files import write_atomically
from legendretron.provenance import provenance

SEEDS = range(20)


def run(name: str, folder: Path, estimator, device: str) -> dict[str, float]:
    X, y = load_svmlight_file(str(folder / f"{name}.scale"))
    X, y = X.toarray(), np.unique(y, return_inverse=True)[1]
    splits = [train_test_split(np.arange(len(y)), test_size=0.2, random_state=seed) for seed in SEEDS]
    train, test = (np.stack(part) for part in zip(*splits, strict=True))
    began = time.perf_counter()
    results = fit_splits(estimator.set_params(device=device), X, y, train, list(SEEDS))
    seconds = time.perf_counter() - began
    accuracy = 100 * results.evaluate(test)[1]
    return {
        "rows": len(y),
        "accuracy": float(accuracy.mean()),
        "standard_error": float(accuracy.std(ddof=1) / np.sqrt(len(accuracy))),
        "seconds_for_20_models": round(seconds, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--paper", type=Path, required=True)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--datasets", nargs="+", default=["vehicle", "iris", "wine", "glass"])
    options = parser.parse_args()
    with options.paper.open() as file:
        table = {row["dataset"]: row for row in csv.DictReader(file) if float(row["eta"]) == 0.0}
    models = {
        "LegendreTron": ("lt", LegendreTronClassifier.from_paper("libsvm")),
        "logistic regression": ("mlr", MultinomialLogisticClassifier.from_paper("libsvm")),
    }
    rows, far = [], 0
    for name in options.datasets:
        for model, (key, estimator) in models.items():
            ours = run(name, options.data, estimator, options.device)
            paper, paper_error = float(table[name][f"{key}_accuracy"]), float(table[name][f"{key}_se"])
            gap = (ours["accuracy"] - paper) / np.hypot(ours["standard_error"], paper_error)
            far += abs(gap) > 2
            rows.append(
                {"dataset": name, "model": model, **ours, "paper": paper, "paper_standard_error": paper_error,
                 "gap_in_standard_errors": round(float(gap), 2)}
            )  # fmt: skip
            print(
                f"{name:8} {model:20} {ours['accuracy']:6.2f} +- {ours['standard_error']:4.2f}   paper {paper:6.2f} +- "
                f"{paper_error:4.2f}   {gap:+5.2f} standard errors   {ours['seconds_for_20_models']:5.1f} s",
                flush=True,
            )
    if options.out:
        record = {
            "command": "OMP_NUM_THREADS=1 python benchmarks/paper_libsvm.py --data DIR --paper table_libsvm.csv",
            "recipe": "from_paper('libsvm'), 20 seeds, 80/20 splits, no label noise",
            "rows": rows,
            **provenance(options.device),
        }
        write_atomically(options.out, (json.dumps(record, indent=1) + "\n").encode())
    sys.exit(1 if far else 0)


if __name__ == "__main__":
    main()
