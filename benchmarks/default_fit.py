"""Seconds that a fit of LegendreTronClassifier() takes on a device, with its scores on held-out rows.

    python benchmarks/default_fit.py --data DIR --device cuda --out docs/results/default_fit_gpu.json

A fit to a few rows comes first, so that imports, compilation and the start of the device are not counted.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from legendretron import LegendreTronClassifier
from legendretron._internal.files import write_atomically
from legendretron._internal.provenance import provenance
from legendretron.experiments.rounding import rounded
from legendretron.paper.data import load_prepared


def measured(dataset: str, folder: Path | None, device: str, seed: int) -> dict[str, object]:
    data = load_prepared(dataset, folder)
    X, X_test, y, y_test = train_test_split(data.X, data.y, test_size=0.2, random_state=seed, stratify=data.y)
    began = time.perf_counter()
    clf = LegendreTronClassifier(device=device, random_state=seed).fit(X, y)
    seconds = time.perf_counter() - began
    p = clf.predict_proba(X_test)
    return {
        "seed": seed,
        "seconds": seconds,
        "log_loss": log_loss(y_test, p),
        "accuracy": 100.0 * float((p.argmax(1) == y_test).mean()),
        "alpha": clf.alpha_,
        "link_alpha": str(clf.link_alpha_),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--dataset", default="letter")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    LegendreTronClassifier(device=options.device, random_state=0).fit(rng.normal(size=(90, 4)), np.arange(90) % 3)
    runs = []
    for seed in range(options.seeds):
        runs.append(measured(options.dataset, options.data, options.device, seed))
        print(runs[-1], flush=True)
    record = {
        "command": f"python benchmarks/default_fit.py --data DIR --dataset {options.dataset} --device {options.device}",
        "dataset": options.dataset,
        "settings": "the defaults",
        "runs": runs,
        "median_seconds": float(np.median([run["seconds"] for run in runs])),
        **provenance(options.device),
    }
    write_atomically(options.out, (json.dumps(rounded(record), indent=1) + "\n").encode())


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
