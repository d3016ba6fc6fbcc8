"""Numbers printed in the paper (Lam, Walder, Penev, Nock, ICML 2023)."""

from __future__ import annotations

import csv
from importlib.resources import files

from legendretron.experiments.statistics import Mean

__all__ = ["REPETITIONS", "published_auc", "published_libsvm", "published_vgg"]

#: Runs behind each cell of the table of LIBSVM data sets; its +- is their standard error.
REPETITIONS = 20


def _rows(name: str) -> list[dict[str, str]]:
    text = (files("legendretron.paper") / name / "published.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


def published_libsvm() -> dict[tuple[str, float, str], Mean]:
    """Test accuracies in % by data set, noise level and model."""
    columns = {"LegendreTron": "lt", "logistic regression": "mlr"}
    return {
        (row["dataset"], float(row["eta"]), model): Mean(
            float(row[f"{column}_accuracy"]), float(row[f"{column}_se"]), REPETITIONS
        )
        for row in _rows("libsvm")
        for model, column in columns.items()
    }


def published_better() -> dict[tuple[str, float], str]:
    """Which model the paper prints in bold, better at 99 %, by data set and noise level; empty for none."""
    names = {"LT": "LegendreTron", "MLR": "logistic regression", "": ""}
    return {(row["dataset"], float(row["eta"])): names[row["better_at_99"]] for row in _rows("libsvm")}


def published_auc() -> dict[tuple[str, str], float]:
    """Test AUCs in % by data set (``mnist``, ``fashion-mnist``) and method."""
    columns = {"mnist": "mnist_auc", "fashion-mnist": "fmnist_auc"}
    names = {"Logistic regression": "logistic regression"}
    return {
        (dataset, names.get(row["method"], row["method"])): float(row[column])
        for row in _rows("auc")
        for dataset, column in columns.items()
    }


def published_vgg() -> dict[tuple[str, str], float]:
    """Test accuracies in % by data set (``mnist``, ``fashion-mnist``, ``kmnist``) and network."""
    columns = {"mnist": "mnist_accuracy", "fashion-mnist": "fmnist_accuracy", "kmnist": "kmnist_accuracy"}
    return {(dataset, row["method"]): float(row[column]) for row in _rows("vgg") for dataset, column in columns.items()}
