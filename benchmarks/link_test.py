"""How often the test of softmax rejects: where softmax is right, and where a known link is.

    OMP_NUM_THREADS=1 python benchmarks/link_test.py --data DIR --jobs 2 --out docs/results/link_test.json

*Size on tables*: labels are drawn from the probabilities of a logistic regression fitted to a table, its strength chosen by
cross-validation, and the test is made on predictions that are cross-validated in five folds. The share of rejections at 5 %
should be 0.05 or less.
*Size and power on made-up rows*: features are normal, labels are drawn from a link bent by so much along each class,
``z + bend * sqrt(1 + z^2)``; a logistic regression is fitted to some rows and tested on as many others. Without a bend
softmax is right, and eight times as many draws are made.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.model_selection import cross_val_predict
from sklearn.preprocessing import StandardScaler

from harness import Benchmark, show
from legendretron.diagnostics import link_test
from legendretron.diagnostics.softmax_test import score_test
from study import LOGISTIC, load

#: Tables that take seconds.
TABLES = (
    "vowel",
    "vehicle",
    "glass",
    "wine",
    "svmguide2",
    "iris",
    "segment",
    "satimage",
    "breast cancer",
)
CLASSES, ROWS, FEATURES = (2, 3, 5, 10, 20), (300, 1000, 5000), 10
BENDS = (0.0, 0.2, 0.5, 1.0)


def draw(p: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return (p.cumsum(1) < rng.random((len(p), 1))).sum(1).clip(max=p.shape[1] - 1)


def test_table(X: np.ndarray, p: np.ndarray, C: float, seed: int) -> float:
    """P-value of labels drawn from these probabilities, without classes of fewer rows than folds."""
    y = draw(p, np.random.default_rng(seed))
    classes, counts = np.unique(y, return_counts=True)
    enough = np.isin(y, classes[counts >= 5])
    X, y = X[enough], np.unique(y[enough], return_inverse=True)[1]
    log_p = cross_val_predict(LogisticRegression(C=C, solver="newton-cholesky"), X, y, cv=5, method="predict_log_proba")
    return score_test(log_p, y, features=X).p_value


def test_made_up(n_classes: int, n: int, bend: float, seed: int) -> float:
    """P-value of a model of ``n`` made-up rows, by ``n`` others."""
    weight = np.random.default_rng(n_classes).normal(size=(FEATURES, n_classes)) * 2 / np.sqrt(FEATURES)
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(2 * n, FEATURES))
    z = X @ weight
    y = draw(softmax(z + bend * np.sqrt(1 + z**2) * np.where(np.arange(n_classes) % 2, 1.0, -1.0), axis=1), rng)
    model = LogisticRegression(max_iter=300).fit(X[:n], y[:n])
    known = n + np.flatnonzero(np.isin(y[n:], model.classes_))
    return link_test(model, X[known], y[known]).p_value


def rejections(test: object, draws: int, jobs: int, *arguments: object) -> dict[str, float]:
    values = Parallel(n_jobs=jobs)(delayed(test)(*arguments, seed) for seed in range(draws))
    return {"draws": draws, "rejected": float(np.mean(np.array(values) < 0.05))}


def main() -> None:
    benchmark = Benchmark(__doc__)
    benchmark.add_argument("--data", type=Path, help="folder of the LIBSVM data sets")
    benchmark.add_argument("--draws", type=int, default=50)
    benchmark.add_argument("--jobs", type=int, default=1)
    benchmark.add_argument("--tables", nargs="*", default=[*TABLES])
    options: argparse.Namespace = benchmark.start()
    size, power = [], []
    for name in options.tables:
        X, y, facts = load(name, options.data)
        X = StandardScaler().fit_transform(X.toarray() if hasattr(X, "toarray") else X)
        model = LogisticRegressionCV(**{**LOGISTIC, "l1_ratios": (0,)}, max_iter=1000).fit(X, y)
        p, C = model.predict_proba(X), float(model.C_)
        found = rejections(test_table, options.draws, options.jobs, X, p, C)
        size.append(show({"table": name, **facts, "C": C, **found}))
    for n_classes in CLASSES:
        for n in ROWS:
            for bend in BENDS:
                draws = options.draws * (1 if bend else 8)
                found = rejections(test_made_up, draws, options.jobs, n_classes, n, bend)
                power.append(show({"classes": n_classes, "rows": n, "bend": bend, **found}))
    benchmark.write(size=size, power=power)


if __name__ == "__main__":
    main()
