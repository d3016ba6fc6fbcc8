"""LegendreTron against a logistic regression that is tuned like it.

    python benchmarks/compare_logistic.py --data DIR --out docs/results/compare_logistic.json

For each data set and seed: 64 % of the rows to train on, 16 % to choose the strength of the penalty on, 20 % to test on.
Every contestant gets the same list of strengths and is chosen by log-loss; logistic regression is fitted to the minimum.
Writes JSON, and a table in Markdown beside it.
"""

from __future__ import annotations

import argparse
import bz2
import io
import json
import time
from pathlib import Path

import numpy as np
import torch
from scipy.stats import ttest_rel
from sklearn.datasets import load_svmlight_file
from sklearn.model_selection import train_test_split

from legendretron import LegendreTronClassifier, MultinomialLogisticClassifier
from legendretron._internal.files import write_atomically
from legendretron._internal.provenance import provenance
from legendretron.estimators import fit_splits
from legendretron.experiments.rounding import rounded

FILES = {
    "letter": "letter.scale.bz2",
    "vowel": "vowel.scale",
    "vehicle": "vehicle.scale",
    "glass": "glass.scale",
    "svmguide2": "svmguide2",
    "dna": "dna.scale",
    "usps": "usps.bz2",
    "Sensorless (500 rows a class)": "Sensorless.subset5500.scale.bz2",
}
STRENGTHS = [1e-5, 1e-4, 1e-3, 1e-2, 1e-1]
SETTINGS = {"standardize": False, "dtype": "float32", "learning_rate": 0.02, "max_epochs": 150}
CONTESTANTS = {
    "logistic regression": MultinomialLogisticClassifier(standardize=False, max_epochs=3000, tol=1e-6),
    "composite, H=2": LegendreTronClassifier("composite", hidden=2, **SETTINGS),
    "composite, H=8": LegendreTronClassifier("composite", hidden=8, **SETTINGS),
    "canonical": LegendreTronClassifier("canonical", **SETTINGS),
}


def load(path: Path) -> tuple[np.ndarray, np.ndarray]:
    content = path.read_bytes()
    X, y = load_svmlight_file(io.BytesIO(bz2.decompress(content) if path.suffix == ".bz2" else content))
    return X.toarray(), np.unique(y, return_inverse=True)[1]


def compare(name: str, folder: Path, seeds: range, device: str) -> list[dict[str, object]]:
    X, y = load(folder / FILES[name])
    X = (X - X.mean(0)) / np.maximum(X.std(0), 1e-9)
    parts = []
    for seed in seeds:
        rest, test = train_test_split(np.arange(len(y)), test_size=0.2, random_state=seed, stratify=y)
        parts.append((*train_test_split(rest, test_size=0.2, random_state=seed, stratify=y[rest]), test))
    train, choose, test = (np.stack(part) for part in zip(*parts, strict=True))
    rows = []
    for contestant, estimator in CONTESTANTS.items():
        began = time.perf_counter()
        tried = []
        for alpha in STRENGTHS:
            fitted = fit_splits(estimator.set_params(alpha=alpha, device=device), X, y, train, list(seeds))
            tried.append((fitted.evaluate(choose)[0], *fitted.evaluate(test)))
        chosen = np.array([losses for losses, _, _ in tried]).argmin(0)
        log_loss, accuracy = (np.array([values[i] for values in tried])[chosen, np.arange(len(seeds))] for i in (1, 2))
        rows.append(
            {
                "dataset": name,
                "rows": len(y),
                "features": X.shape[1],
                "classes": int(y.max()) + 1,
                "contestant": contestant,
                "accuracy": (100 * accuracy).tolist(),
                "log_loss": log_loss.tolist(),
                "alpha": [STRENGTHS[i] for i in chosen],
                "seconds": round(time.perf_counter() - began, 1),
            }
        )
        print(
            f"{name:30} {contestant:20} accuracy {100 * accuracy.mean():6.2f}  log-loss {log_loss.mean():.4f}  "
            f"{rows[-1]['seconds']:6.1f} s",
            flush=True,
        )
    return rows


def markdown(record: dict) -> str:
    """The table: mean +- standard error, in bold where better than logistic regression at 99 % (paired t-test)."""
    names = list(CONTESTANTS)
    lines = [
        "# LegendreTron against a tuned logistic regression",
        "",
        f"`{record['command']}`, {record['n_seeds']} seeds, {record['device']}, commit {record['commit']}.",
        "",
        "Test accuracy in % / log-loss, mean over the seeds; the penalty of every contestant is chosen by log-loss on a",
        "validation part. Bold: better than logistic regression at 99 % in a paired t-test; italic: worse.",
        "",
        "| data set | rows x features, classes | " + " | ".join(names) + " |",
        "| --- | --- |" + " --- |" * len(names),
    ]
    datasets = list(dict.fromkeys(row["dataset"] for row in record["rows"]))
    for dataset in datasets:
        rows = {row["contestant"]: row for row in record["rows"] if row["dataset"] == dataset}
        base = rows[names[0]]
        cells = []
        for name in names:
            row, cell = rows[name], []
            for key, digits, sign in (("accuracy", 2, 1), ("log_loss", 3, -1)):
                text = f"{np.mean(row[key]):.{digits}f}"
                gap = np.subtract(row[key], base[key]) * sign
                if name != names[0] and np.ptp(gap) > 0 and ttest_rel(row[key], base[key]).pvalue < 0.01:
                    text = f"**{text}**" if gap.mean() > 0 else f"*{text}*"
                cell.append(text)
            cells.append(" / ".join(cell))
        shape = f"{base['rows']:,} x {base['features']}, {base['classes']}"
        lines.append(f"| {dataset} | {shape} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--datasets", nargs="+", default=list(FILES), choices=list(FILES))
    options = parser.parse_args()
    rows = [
        row for name in options.datasets for row in compare(name, options.data, range(options.seeds), options.device)
    ]
    record = {
        "command": "python benchmarks/compare_logistic.py --data DIR",
        "settings": {**SETTINGS, "strengths": STRENGTHS},
        "n_seeds": options.seeds,
        "rows": rounded(rows),
        **provenance(options.device),
    }
    if options.out:
        write_atomically(options.out, (json.dumps(record, indent=1) + "\n").encode())
        write_atomically(options.out.with_suffix(".md"), markdown(record).encode())


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
