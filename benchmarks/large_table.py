"""Time and memory of whole fits and of commands: large, sparse and small tables, a case for each.

    OMP_NUM_THREADS=1 python benchmarks/large_table.py large_table --out docs/results/large_table.json

A fit to a few rows comes first, so that imports, compilation and the start of a device are not counted.
"""

from __future__ import annotations

import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

import study
from harness import Times, call_apart, peak_mb, run_cases, run_process, show
from legendretron import LegendreNetClassifier, LegendreTronClassifier, TableClassifier
from legendretron.datasets import read_libsvm
from legendretron.experiments.recipes import make_recipe
from study import BASELINE, LOGISTIC, OURS

FEATURES, CLASSES = 50, 5
MODELS: dict[str, Callable[..., Any]] = {BASELINE: study.logistic, OURS: LegendreTronClassifier}
SETTINGS = {BASELINE: {**LOGISTIC, "standardize": True}, OURS: make_recipe(LegendreTronClassifier())}
#: Rows made at once, so that making them takes little memory beside what they hold.
CHUNK = 20_000


def made_up(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Features and labels; the same relation between them for every seed."""
    relation = np.random.default_rng(0)
    mixing = np.eye(FEATURES) + 0.3 * relation.normal(size=(FEATURES, FEATURES)) / np.sqrt(FEATURES)
    linear, bent = (relation.normal(size=(FEATURES, CLASSES)) / np.sqrt(FEATURES) for _ in range(2))
    rng = np.random.default_rng([1, seed])
    X, y = np.empty((rows, FEATURES)), np.empty(rows, dtype=np.int64)
    for start in range(0, rows, CHUNK):
        part = slice(start, min(start + CHUNK, rows))
        X[part] = rng.normal(size=(part.stop - start, FEATURES)) @ mixing
        log_odds = 2.0 * X[part] @ linear + 0.5 * (X[part] @ bent) ** 2
        y[part] = (log_odds + rng.gumbel(size=log_odds.shape)).argmax(1)  # a draw from their softmax
    return X, y


def held_gb() -> float | None:
    """Memory the process holds now, where the system says so."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return None
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e9


def measure(model: str, rows: int, test_rows: int) -> dict[str, Any]:
    """Fit one model in this process, and test it."""
    with threadpool_limits(1):
        study.warm_up(MODELS[model](random_state=0))
        X, y = made_up(rows, seed=0)
        held, before = held_gb(), peak_mb() / 1e3
        estimator = MODELS[model](random_state=0)
        found = study.fit_and_score(estimator, X, y, *made_up(test_rows, seed=1))
    found |= {"held_before_fit_gb": held, "peak_before_fit_gb": before, "peak_gb": peak_mb() / 1e3}
    # chosen by cross-validation, where it is; JSON has no infinity but its name
    chosen = {name: getattr(estimator, name, None) for name in ("alpha_", "link_alpha_")}
    return found | {name: str(value) for name, value in chosen.items() if value is not None}


def large_table(rows: int = 1_000_000, test_rows: int = 100_000) -> dict[str, Any]:
    """Time and peak memory of LegendreTronClassifier() on a million rows, beside a tuned logistic regression.

    Rows are made up: 50 features that are correlated, and five classes whose log-odds are a linear function of them and a
    small square of another. Each model is fitted in a process of its own. Peak memory is that of the whole process, Python,
    libraries and data included; what was held before the fit is beside it.
    """
    models = {model: show(call_apart(measure, model, rows, test_rows)) for model in MODELS}
    names = ("fit_seconds", "predict_seconds", "peak_gb", "log_loss")
    ratios = {name: models[OURS][name] / models[BASELINE][name] for name in names}
    shape = [rows, FEATURES, CLASSES]
    return {"shape": shape, "test_rows": test_rows, "settings": SETTINGS, "models": models, "ratios": ratios}


def default_fit(
    data: Path | None = None, dataset: str = "letter", seeds: int = 5, device: str = "cpu"
) -> dict[str, Any]:
    """Seconds that a fit of LegendreTronClassifier() takes on a device, with its scores on held-out rows."""
    study.warm_up(LegendreTronClassifier(device=device, random_state=0))
    X, y, _ = study.load(dataset, data)
    runs = []
    for seed in range(seeds):
        X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.2, random_state=seed, stratify=y)
        clf = LegendreTronClassifier(device=device, random_state=seed)
        found = study.fit_and_score(clf, X_train, y_train, X_test, y_test)
        runs.append(show({"seed": seed, "seconds": found.pop("fit_seconds"), **found, **study.chosen_strengths(clf)}))
    median = statistics.median(run["seconds"] for run in runs)
    return {"dataset": dataset, "settings": "the defaults", "runs": runs, "median_seconds": median}


NETWORK_CASES = ["letter", "letter, 1,000 rows", "made up, 1,000,000 rows"]


def fit_network(case: str, device: str, data: str | None) -> dict[str, Any]:
    """Fit networks in this process, and test them; boosting is beside them on letter."""
    if case == NETWORK_CASES[2]:
        rows = 1_000_000
        X, y = made_up(rows + 100_000, seed=0)
        train, test, X = slice(rows), slice(rows, None), X.astype(np.float32)
    else:
        X, y, _ = study.load("letter", data and Path(data))
        X = X.toarray() if hasattr(X, "toarray") else X
        order = np.random.default_rng(0).permutation(len(y))
        train = order[: 1000 if case == NETWORK_CASES[1] else int(0.8 * len(y))]
        test = order[int(0.8 * len(y)) :]
    parts, before = (X[train], y[train], X[test], y[test]), peak_mb() / 1e3
    with threadpool_limits(1):
        for k in range(2):  # the first fit to rows of this shape compiles, or captures, its steps
            LegendreNetClassifier(device=device, max_steps=60, random_state=k).fit(parts[0][:2000], parts[1][:2000])
        found = study.fit_and_score(LegendreNetClassifier(device=device, random_state=0), *parts)
        found |= {"rows": len(parts[1]), "peak_before_fit_gb": before, "peak_gb": peak_mb() / 1e3}
        if device == "cuda":
            found["peak_on_device_gb"] = torch.cuda.max_memory_allocated() / 1e9
        if case != NETWORK_CASES[2]:
            boosting = study.fit_and_score(HistGradientBoostingClassifier(random_state=0), *parts)
            found |= {f"boosting_{name}": boosting[name] for name in ("fit_seconds", "predict_seconds", "log_loss")}
    return found


def network_speed(data: Path | None = None, device: str = "cpu") -> dict[str, Any]:
    """Time of LegendreNetClassifier() on letter, on a thousand rows and on a million, with the memory of the last.

    Each case is fitted in a process of its own. A million rows are those of ``large_table``, in single precision. Peak
    memory is that of the whole process, Python, libraries and data included; that on the GPU is beside it.
    """
    folder = None if data is None else str(data)
    return {"cases": {case: show(call_apart(fit_network, case, device, folder)) for case in NETWORK_CASES}}


def sparse_memory(data: Path, epochs: int = 3) -> dict[str, Any]:
    """Time and peak memory of training on news20: 15,935 x 62,061, sparse, 20 classes.

    Dense the features alone would take 7.9 GB in double precision. A few epochs are trained, validated and predicted; peak
    memory is that of the whole process, Python and libraries included.
    """
    peaks = {"libraries": round(peak_mb() / 1e3, 2)}
    X, y = read_libsvm(data / "news20.scale.bz2", dense=False)
    peaks["data loaded"] = round(peak_mb() / 1e3, 2)
    began = time.perf_counter()
    clf = LegendreTronClassifier.from_paper("libsvm", max_epochs=epochs, random_state=0).fit(X, y)
    seconds = time.perf_counter() - began
    accuracy = clf.score(X, y)
    peaks["all"] = round(peak_mb() / 1e3, 2)
    return {
        "shape": [*X.shape, len(clf.classes_)],
        "stored_entries": int(X.nnz),
        "epochs": epochs,
        "seconds_an_epoch": round(seconds / epochs, 2),
        "training_accuracy": round(accuracy, 4),
        "peak_gb": peaks,
    }


# --- commands, each in a process of its own, whose peak memory is that of Python and libraries, too ---


def report_speed(rows: int = 100_000, threads: int = 1) -> dict[str, Any]:
    """Time and size of an evaluation report on 100,000 rows of 50 columns and 26 classes.

    The command is timed as users run it, from the start of Python to the end: reading a CSV file, predicting, fitting what
    the model is compared with, and writing the page. Processor time is that of all threads; on a machine with other work,
    it tells more than the time on the clock, and the load of the machine is kept with it.
    """
    d, c, fitted = 50, 26, 20_000
    # strengths are given, since tuning is not what is timed
    settings: dict[str, Any] = {"alpha": 1e-3, "link_alpha": 1e-3, "max_epochs": 30, "random_state": 0}
    shape = {"n_informative": 30, "n_classes": c, "n_clusters_per_class": 1, "class_sep": 2.0}
    X, y = make_classification(fitted + rows, d, **shape, random_state=0)
    frame = pd.DataFrame(X.round(5), columns=[f"x{place}" for place in range(d)])
    labels = np.array([chr(ord("A") + k) for k in range(c)])[y]
    with tempfile.TemporaryDirectory() as name:
        model, table, page = (Path(name, file) for file in ("model.safetensors", "test.csv", "report.html"))
        LegendreTronClassifier(**settings).fit(frame[:fitted], labels[:fitted]).save(model)
        frame[fitted:].assign(letter=labels[fitted:]).to_csv(table, index=False)
        words = ["evaluate", model, table, "--target", "letter", "--report", page, "--json", "--quiet"]
        for _ in range(2):  # the first compiles what is kept on disk
            found = run_process("-m", "legendretron", *words, threads=threads)
        megabytes = page.stat().st_size / 1e6
    measured = {"seconds": found.seconds, "processor_seconds": found.processor_seconds, "megabytes": megabytes}
    return {"shape": [rows, d, c], "settings": settings, **measured, "summary": json.loads(found.output)["summary"]}


def start_speed(rounds: int = 7) -> dict[str, Any]:
    """Processor time of commands on a small table, from the start of Python to the end, beside ``import torch``.

    Most of it is imports. Commands take turns. Modules are compiled to bytecode before, into a folder of this run: that is
    what happens once for users.
    """
    peer, n, fitted = "import torch", 54, 400
    links: dict[str, dict[str, Any]] = {
        "composite": {"link_alpha": 1e-3},
        "canonical": {"link_alpha": 1e-3},
        "softmax": {},
    }
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=fitted), "b": rng.normal(size=fitted)})
    frame["city"] = rng.choice(["Rome", "Bern", "Oslo"], fitted)
    score = frame["a"] + frame["b"] + (frame["city"] == "Rome")
    labels = np.where(score > 0.3, "yes", np.where(frame["b"] > 0, "no", "maybe"))
    frame.loc[:5, "a"] = np.nan
    found: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for link, given in links.items():
            model = TableClassifier(LegendreTronClassifier(link, alpha=1e-3, random_state=0, **given))
            model.fit(frame, labels).save(Path(folder, link))
        table = f"{folder}/few.csv"
        frame[:n].assign(kind=labels[:n]).to_csv(table, index=False)
        command, with_labels = ["-m", "legendretron"], [f"{folder}/composite", table, "--target", "kind"]
        modules = ("numpy", "pandas", "torch", "sklearn.base", "legendretron")
        cases = {
            **{f"import {name}": ["-c", f"import {name}"] for name in modules},
            **{word: [*command, word] for word in ("--version", "--help")},
            **{f"predict, {link}": [*command, "predict", f"{folder}/{link}", table] for link in links},
            "evaluate": [*command, "evaluate", *with_labels],
            "suspicious --no-refit": [*command, "suspicious", *with_labels, "--no-refit"],
        }
        for number in range(rounds + 1):
            for case, words in cases.items():
                process = run_process(*words, PYTHONPYCACHEPREFIX=f"{folder}/bytecode")
                if number:  # the first round writes the bytecode
                    found.setdefault(case, []).append(process.processor_seconds)
    times = {case: Times.of(seconds) for case, seconds in found.items()}
    rows = []
    for case, (median, *quartiles) in times.items():
        row = {"case": case, "processor_seconds": round(median, 3), "quartiles": [round(q, 3) for q in quartiles]}
        rows.append(show(row | {"ratio": float(f"{median / times[peer].median:.3g}")}))
    return {"table_rows": n, "peer": peer, "rows": rows}


if __name__ == "__main__":
    run_cases(large_table, default_fit, network_speed, sparse_memory, report_speed, start_speed)
