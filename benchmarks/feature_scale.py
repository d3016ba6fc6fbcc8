"""Do the paper's figures for news20 and usps belong to features of another scale?

    python benchmarks/feature_scale.py --data DIR --device cuda --out docs/results/feature_scale.json

The paper's recipe penalises every weight with 0.01, so that its results depend on the unit of the features. Trains the
recipe's two models on features as they are, half as large, and (usps, from -1 to 1) moved to the range from 0 to 1, at the
table's three noise levels, and puts the published accuracies beside.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np

from legendretron import LegendreTronClassifier, MultinomialLogisticClassifier
from legendretron.datasets import load_dataset
from legendretron.estimators import fit_splits
from legendretron.experiments.published import published_libsvm
from legendretron.experiments.published_draws import noisy_labels, split_rows
from legendretron.experiments.statistics import mean_of
from legendretron.files import write_atomically
from legendretron.provenance import provenance

MODELS = {"LegendreTron": LegendreTronClassifier, "logistic regression": MultinomialLogisticClassifier}
SCALES = {
    "usps": {"half": lambda X: X / 2, "from 0 to 1": lambda X: (X + 1) / 2},
    "news20": {"half": lambda X: X / 2},
}
NOISE = (0.0, 0.2, 0.5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--epochs", type=int, default=240)
    parser.add_argument("--datasets", nargs="+", default=list(SCALES))
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    paper, rows = published_libsvm(), []
    runs = [(seed, noise) for noise in NOISE for seed in range(options.seeds)]
    for dataset in options.datasets:
        data = load_dataset(dataset, options.data)
        train, test = (
            np.stack(part) for part in zip(*(split_rows(data.n_rows, seed) for seed, _ in runs), strict=True)
        )
        labels = np.stack(
            [
                noisy_labels(data.y[own], noise, data.n_classes, seed)
                for own, (seed, noise) in zip(train, runs, strict=True)
            ]
        )
        for scale, scaled in SCALES[dataset].items():
            for model, kind in MODELS.items():
                estimator = kind.from_paper("libsvm", device=options.device, max_epochs=options.epochs)
                began = time.perf_counter()
                fitted = fit_splits(estimator, scaled(data.X), data.y, train, [seed for seed, _ in runs], labels)
                accuracy = 100 * fitted.evaluate(test)[1].reshape(len(NOISE), -1)
                for noise, values in zip(NOISE, accuracy, strict=True):
                    ours, published = mean_of(values), paper[dataset, noise, model]
                    row = {
                        "dataset": dataset, "features": scale, "model": model, "noise": noise, "seeds": options.seeds,
                        "accuracy": round(ours.value, 3), "standard_error": round(ours.error, 3),
                        "paper": published.value, "paper_standard_error": published.error,
                        "gap_in_standard_errors": round(ours.minus(published), 2),
                        "seconds_for_all_noise_levels": round(time.perf_counter() - began, 1),
                    }  # fmt: skip
                    rows.append(row)
                    print(json.dumps(row), flush=True)
                if options.out:
                    record = {
                        "command": f"python benchmarks/feature_scale.py --data DIR --device {options.device} "
                        f"--seeds {options.seeds} --epochs {options.epochs}",
                        "recipe": "from_paper('libsvm'), 80/20 splits, symmetric noise on training labels",
                        "rows": rows,
                        **provenance(options.device),
                    }
                    write_atomically(options.out, (json.dumps(record, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
