"""How long the whole table of LIBSVM data sets takes: its shapes, filled with random numbers.

A few epochs are timed first. Where all of them would take less than a minute, all are then trained and timed; elsewhere the
time of all is extrapolated.
"""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from legendretron.datasets import DATASETS
from legendretron.experiments.experiment import Batch, Experiment, Outcome, Record, Resources
from legendretron.experiments.recipes import fit_whole, make_estimator
from legendretron.experiments.rendering import described, is_trial, markdown_table, write_report
from legendretron.paper.libsvm import TABLE_LIBSVM, cost, recipe

#: Approximate number of entries per row of the sparse data sets.
NONZEROS = {"news20": 80, "sector": 163}
#: Trainings of a model on a data set: 20 seeds at 3 noise levels.
TRAININGS = TABLE_LIBSVM.seeds * len(TABLE_LIBSVM.noise)
#: One CPU month, which the paper says its experiments took.
CPU_MONTH = 30 * 24 * 3600.0
_STEPS = 1000  # to time, at least
#: Trainings that take less than this many seconds are timed whole.
_WHOLE_BELOW = 60.0


def random_data(dataset: str) -> tuple[Any, np.ndarray]:
    """Features and labels of a data set's published shape, drawn at random."""
    info = DATASETS[dataset]
    generator = np.random.default_rng(0)
    y = generator.permutation(np.arange(info.rows) % info.classes)
    if dataset not in NONZEROS:
        return generator.uniform(-1.0, 1.0, (info.rows, info.features)), y
    entries = info.rows * NONZEROS[dataset]
    X = scipy.sparse.csr_matrix(
        (
            generator.random(entries),
            generator.integers(0, info.features, entries),
            np.arange(0, entries + 1, NONZEROS[dataset]),
        ),
        shape=(info.rows, info.features),
    )
    X.sum_duplicates()
    return X, y


def settings(model: str, dataset: str) -> dict[str, Any]:
    """The table's recipe, and how many trainings are timed side by side."""
    steps = math.ceil(0.8 * DATASETS[dataset].rows / 64)
    epochs = max(3, math.ceil(_STEPS / steps))
    return {**recipe(model, dataset), "trainings": TRAININGS, "timed_epochs": epochs, "whole_below": _WHOLE_BELOW}


def execute(batch: Batch, resources: Resources) -> Outcome:
    """Time some epochs of all trainings side by side; all epochs where these are few, else extrapolate to their number."""
    data, y = random_data(batch.dataset)
    asked = batch.settings
    epochs, few = asked["max_epochs"], min(asked["timed_epochs"], asked["max_epochs"])
    generator = np.random.default_rng(1)
    orders = np.stack([generator.permutation(len(y)) for _ in range(asked["trainings"])])
    train, test = np.split(orders, [int(0.8 * len(y))], axis=1)

    def timed(epochs_timed: int) -> dict[str, Any]:
        estimator = make_estimator({**asked, "max_epochs": epochs_timed}, device=resources.device)
        began = time.perf_counter()
        fitted = fit_whole(estimator, data, y, train, list(range(len(train))))
        trained = time.perf_counter()
        fitted.evaluate(test)
        evaluation = time.perf_counter() - trained
        clock = fitted.training.history.select_run(0)["seconds"]
        # the first epoch includes the warm-up, so it counts only if there is no second one
        epoch = (clock[-1] - clock[0]) / (epochs_timed - 1) if epochs_timed > 1 else clock[0]
        start = max(0.0, trained - began - epochs_timed * epoch)
        return {
            "timed_epochs": epochs_timed,
            "seconds_an_epoch": round(epoch, 5),
            "seconds_to_start": round(start, 3),
            "seconds_to_evaluate": round(evaluation, 3),
            "seconds_of_all": round(start + epochs * epoch + evaluation, 2),
            "steps_an_epoch": math.ceil(train.shape[1] / make_estimator(asked).batch_size),
        }

    runs = []
    for _ in batch.runs:
        run = timed(few)
        runs.append(timed(epochs) if few < epochs and run["seconds_of_all"] < asked["whole_below"] else run)
    return Outcome({"rows": len(y), "features": data.shape[1], "classes": int(y.max()) + 1}, runs)


def report(records: list[Record], folder: Path) -> list[Path]:
    """Write ``runtime.md`` and ``runtime.csv``."""
    rows, lines = [], []
    first = [record for record in records if record["seed"] == 0]  # repetitions are not further trainings
    for record in first:
        data, asked = record["data"], record["settings"]
        row = {
            "dataset": record["dataset"],
            "model": record["model"],
            **{name: data[name] for name in ("rows", "features", "classes")},
            "trainings": asked["trainings"],
            "epochs": asked["max_epochs"],
            **{name: record[name] for name in ("timed_epochs", "seconds_an_epoch", "seconds_of_all")},
            "milliseconds_a_step": 1e3 * record["seconds_an_epoch"] / record["steps_an_epoch"],
        }
        rows.append(row)
        lines.append(
            [
                record["dataset"],
                f"{data['rows']:,} x {data['features']:,}, {data['classes']:,}",
                record["model"],
                f"{row['milliseconds_a_step']:.2f} ms",
                f"{record['timed_epochs']} of {asked['max_epochs']}",
                f"{record['seconds_of_all']:,.0f} s",
            ]
        )
    trainings = sum(row["trainings"] for row in rows)
    total = sum(row["seconds_of_all"] for row in rows)
    timed_whole = sum(row["timed_epochs"] == row["epochs"] for row in rows)
    whole = len(rows) == len(RUNTIME.datasets) * len(RUNTIME.models) and not is_trial(records)
    sum_of_all = (
        f"**{trainings:,} trainings: {total / 60:.1f} minutes in all**, {timed_whole} of {len(rows)} rows timed from the "
        "first epoch to the last, the others extrapolated."
    )
    if whole:
        sum_of_all += (
            " The paper needed about a CPU month for all its experiments together, "
            f"{CPU_MONTH / total:,.0f} times as long."
        )
    sections = [
        f"# Time to train {'the whole' if whole else 'a part of the'} table of LIBSVM data sets",
        "Random data of the published shapes, since some of the data sets have to be fetched by hand; all trainings of a "
        "row side by side. Where all epochs take less than a minute, all are timed; elsewhere a few are timed and "
        "**extrapolated** to the recipe's number. Reading files is not included.",
        markdown_table(
            ["shape of", "rows x features, classes", "model", "a step of all", "epochs timed", "all epochs"], lines
        ),
        sum_of_all,
        described(first),
    ]
    return write_report(folder, "runtime", sections, rows)


RUNTIME = Experiment(
    name="runtime",
    title="Time of the 1,800 trainings of the table of LIBSVM data sets",
    datasets=TABLE_LIBSVM.datasets,
    models=("LegendreTron", "logistic regression"),
    settings=settings,
    execute=execute,
    report=report,
    cost=lambda run: cost(run) / DATASETS[run.dataset].rows + 1.0,
    find_data=lambda *_: "random",
)
