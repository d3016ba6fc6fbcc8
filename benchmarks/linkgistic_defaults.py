"""Log-loss of ISGP- and GP-Linkgistic by the strength of the penalty, beside logistic regression and GLMTron.

    OMP_NUM_THREADS=1 python benchmarks/linkgistic_defaults.py --out docs/results/linkgistic_defaults.json

``alpha="auto"`` stands for 10 / n; here are 1 / n, 3 / n and 30 / n as well, on small data sets of two classes, each with
five-fold cross-validation, three times. Logistic regression and GLMTron have their defaults, with standardised features.
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path

import numpy as np
from scipy.special import expit
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine, make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from legendretron._internal.files import write_atomically
from legendretron._internal.provenance import provenance
from legendretron.experiments.rounding import rounded
from legendretron.trons import GLMTronClassifier, GPLinkgisticClassifier, ISGPLinkgisticClassifier

FACTORS = (1.0, 3.0, 10.0, 30.0)
SEEDS = (0, 1, 2)


def two_of(load, first: int, second: int) -> tuple[np.ndarray, np.ndarray]:
    X, y = load(return_X_y=True)
    rows = np.isin(y, (first, second))
    return X[rows], y[rows] == second


def bent() -> tuple[np.ndarray, np.ndarray]:
    """Labels by a link that is flat in the middle, where a sigmoid is steepest."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 5))
    z = 1.5 * X @ np.array([1.0, -0.5, 0.5, 0.0, 0.0])
    return X, rng.random(500) < expit(z**3 / 2)


DATA = {
    "breast cancer": lambda: load_breast_cancer(return_X_y=True),
    "digits 3 and 8": lambda: two_of(load_digits, 3, 8),
    "wine 0 and 1": lambda: two_of(load_wine, 0, 1),
    "wine 1 and 2": lambda: two_of(load_wine, 1, 2),
    "iris 1 and 2": lambda: two_of(load_iris, 1, 2),
    "made up, 200 rows": lambda: make_classification(200, 10, flip_y=0.1, random_state=0),
    "made up, 600 rows": lambda: make_classification(600, 20, flip_y=0.1, random_state=1),
    "bent link": bent,
}


def models(n: int, seed: int) -> dict[str, object]:
    learned = {"ISGP": ISGPLinkgisticClassifier, "GP": GPLinkgisticClassifier}
    return {
        **{f"{name}, {factor:g} / n": kind(alpha=factor / n, random_state=seed) for name, kind in learned.items()
           for factor in FACTORS},
        "GLMTron": GLMTronClassifier(),
        "logistic regression": make_pipeline(StandardScaler(), LogisticRegression()),
    }  # fmt: skip


def losses(X: np.ndarray, y: np.ndarray, seed: int) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for train, test in StratifiedKFold(5, shuffle=True, random_state=seed).split(X, y):
        for name, model in models(len(train), seed).items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                p = model.fit(X[train], y[train]).predict_proba(X[test])
            found.setdefault(name, []).append(float(log_loss(y[test], p)))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rows = []
    for name, load in DATA.items():
        X, y = load()
        by_seed = [losses(X, y, seed) for seed in SEEDS]
        mean = {model: float(np.mean([of[model] for of in by_seed])) for model in by_seed[0]}
        rows.append({"data": name, "rows": len(y), "features": X.shape[1], "log_loss": mean})
        print(name, {model: round(value, 4) for model, value in mean.items()}, flush=True)
    record = {"command": "python benchmarks/linkgistic_defaults.py", "seeds": SEEDS, **provenance(), "rows": rows}
    if options.out:
        write_atomically(options.out, json.dumps(rounded(record), indent=1).encode() + b"\n")


if __name__ == "__main__":
    main()
