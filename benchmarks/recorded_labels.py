"""Wrong labels in training and test rows alike: what a probability of a recorded, or of a true, label is worth.

OMP_NUM_THREADS=1 python benchmarks/recorded_labels.py --data DIR --jobs 16 --out docs/results/recorded_labels.json
"""

from __future__ import annotations

import math
import statistics
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

import label_noise
import other_tables
import study
from harness import run_cases, show
from legendretron import LegendreNetClassifier, LegendreTronClassifier
from study import BASELINE, CHOSEN_ON, OURS

SYMMETRIC = 'LegendreTronClassifier(label_noise="symmetric")'
NETWORK, PLAIN_NETWORK = "LegendreNetClassifier()", "LegendreNetClassifier(label_noise=None)"
MODELS: dict[str, Callable[[int], Any]] = {
    BASELINE: study.logistic,
    OURS: lambda seed: LegendreTronClassifier(random_state=seed),
    SYMMETRIC: lambda seed: LegendreTronClassifier(label_noise="symmetric", random_state=seed),
    PLAIN_NETWORK: lambda seed: LegendreNetClassifier(label_noise=None, random_state=seed),
    NETWORK: lambda seed: LegendreNetClassifier(random_state=seed),
}
#: A model, the one it is compared with, and the loss: of recorded test labels in expectation, or of true ones.
PAIRS = ((OURS, BASELINE, "recorded"), (NETWORK, PLAIN_NETWORK, "recorded"), (SYMMETRIC, BASELINE, "true"))
NOISES = (0.0, 0.2, 0.4)
#: Tables without sparse features, which would take longest.
TABLES = tuple(name for name in (*study.LIBSVM, *study.FROM_SKLEARN) if name != "news20") + other_tables.TABLES
#: Tables on which all models take long have fewer splits.
SLOW, SLOW_SPLITS = ("usps", "letter", "Sensorless", "digits", "dna", "marketing", "magic", "texture"), 2


def load(table: str, data: Path | None, keel: Path | None) -> tuple[Any, np.ndarray]:
    X, y, _ = other_tables.load(table, keel) if table in other_tables.TABLES else study.load(table, data)
    return X, y


def measure(table: str, model: str, noise: float, seed: int, data: Path | None, keel: Path | None, end: float) -> Any:
    """Both losses, accuracy on true labels and time of a fit; None after the ``end``."""
    if time.time() > end:
        return None
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    X, y = load(table, data, keel)
    train, labels, test = label_noise.noisy_split(y, noise, seed)
    matrix, estimator = label_noise.transition(noise, int(y.max()) + 1), MODELS[model](seed)
    with threadpool_limits(1):
        found = study.fit_and_score(estimator, X[train], labels, X[test], y[test])
    p = np.clip(estimator.predict_proba(X[test]), np.finfo(float).eps, 1.0)
    recorded = float(-(matrix[y[test]] * np.log(p)).sum(1).mean())
    row = {"table": table, "model": model, "noise": noise, "seed": seed, "rows": len(y), "recorded": recorded}
    row |= {"true": found["log_loss"], "accuracy": found["accuracy"], "seconds": found["fit_seconds"]}
    if hasattr(estimator, "noise_rate_"):
        row["rate"], row["interval"] = float(estimator.noise_rate_), [*map(float, estimator.noise_rate_interval_)]
    return row


def compare(rows: list[dict[str, Any]], model: str, other: str, loss: str, noise: float) -> list[dict[str, Any]]:
    """A row for each table: the ratio of mean losses, the mean difference and its error, and the ratio of times."""
    found = []
    for table in dict.fromkeys(row["table"] for row in rows):
        own, their = (
            {row["seed"]: row for row in rows if (row["table"], row["model"], row["noise"]) == (table, name, noise)}
            for name in (model, other)
        )
        seeds = sorted(own.keys() & their.keys())
        if not seeds:
            continue
        a, b = ([part[seed][loss] for seed in seeds] for part in (own, their))
        away = np.subtract(a, b)
        found.append({
            "table": table, "rows": own[seeds[0]]["rows"], "splits": len(seeds), "ratio": float(np.mean(a) / np.mean(b)),
            "difference": float(away.mean()),
            "error": float(away.std(ddof=1) / math.sqrt(len(seeds))) if len(seeds) > 1 else None,
            "time_ratio": statistics.median(own[seed]["seconds"] / their[seed]["seconds"] for seed in seeds),
        })  # fmt: skip
    return found


def summarize(tables: list[dict[str, Any]]) -> dict[str, Any]:
    """How often a model is better or worse, by more than 1 %, and by more than two standard errors where it is worse."""

    def geometric(values: list[float]) -> float:
        return math.exp(statistics.fmean(map(math.log, values)))

    surely = [one["table"] for one in tables if one["ratio"] > 1.01 and one["difference"] > 2.0 * (one["error"] or 0.0)]
    large = [one["time_ratio"] for one in tables if one["rows"] * 0.8 >= 1000]
    return {
        "tables": len(tables),
        "mean_ratio": geometric([max(one["ratio"], 1e-3) for one in tables]),
        "better": sum(one["ratio"] < 1.0 for one in tables),
        "better_by_1_percent": sum(one["ratio"] < 0.99 for one in tables),
        "worse_by_1_percent": sum(one["ratio"] > 1.01 for one in tables),
        "and_by_two_errors": surely,
        "time_ratio": geometric([one["time_ratio"] for one in tables]),
        "largest_time_ratio_from_1000_rows": max(large, default=None),
    }


def recorded_labels(
    data: Path | None = None, keel: Path | None = None, jobs: int = 1, splits: int = 5, seconds: float = math.inf
) -> dict[str, Any]:
    """Default models beside LogisticRegressionCV and networks without noise, for recorded and for true test labels.

    Labels of training rows are replaced with a probability, and those of test rows are replaced alike: their log-loss is the
    expected one. All models have the same splits and wrong labels. The half of the tables on which rules were chosen is
    reported apart. After so many ``seconds`` no further fit begins.
    """
    cases = [
        (table, model, noise, seed)
        for seed in range(splits)
        for table in sorted(TABLES, key=lambda name: name not in SLOW)
        for noise in NOISES
        for model in MODELS
        if seed < SLOW_SPLITS or (table not in SLOW and (seed < 3 or model not in (NETWORK, PLAIN_NETWORK)))
    ]
    for model in (OURS, NETWORK):
        study.warm_up(MODELS[model](0))
    end = time.time() + seconds
    fits = Parallel(n_jobs=jobs)(delayed(measure)(*case, data, keel, end) for case in cases)
    rows = [row for row in fits if row is not None]
    comparisons = []
    for model, other, loss in PAIRS:
        for noise in NOISES:
            tables = compare(rows, model, other, loss, noise)
            halves = {"chosen on": [], "other half": []}
            for one in tables:
                halves["chosen on" if one["table"] in CHOSEN_ON else "other half"].append(one)
            about = {"model": model, "against": other, "labels": loss, "noise": noise}
            summary = {name: show(about | {"half": name} | summarize(half)) for name, half in halves.items() if half}
            comparisons.append(about | {"summary": summary, "tables": tables})
    return {"splits": splits, "fits": f"{len(rows)} of {len(cases)}", "comparisons": comparisons, "rows": rows}


if __name__ == "__main__":
    run_cases(recorded_labels)
