"""Several annotators a row, of whom each is often wrong: the shares of their votes against the majority.

    python benchmarks/crowd_labels.py --data DIR --out docs/results/crowd_labels --jobs 2

Three annotators label each training row, each wrong with a probability of 30 %, to a class that is not the right one. The
same estimator, with ``label_noise="auto"`` as by default, is fitted to shares of votes, to the majority (of which one is
drawn where all differ), to the first annotator alone, and to right labels. Tables and splits are those of
``prediction_sets.py``; labels of test rows are right.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import label_noise
import other_tables
import study
from legendretron import LegendreTronClassifier
from legendretron.datasets import symmetric_noise
from legendretron.experiments import Record, Run
from legendretron.experiments.recipes import make_recipe
from legendretron.experiments.rendering import as_text, markdown_table
from legendretron.experiments.results import Results
from prediction_sets import LARGE, TABLES
from study import LEVEL, MEASURES

ANNOTATORS, WRONG, SPLITS = 3, 0.3, 3
SOFT, MAJORITY, FIRST, RIGHT = "shares of votes", "majority", "first annotator", "right labels"
#: What the estimator is fitted to, from the votes ``(n, annotators)``, the number of classes, the truth and a seed.
LABELS: dict[str, Callable[[np.ndarray, int, np.ndarray, int], np.ndarray]] = {
    SOFT: lambda votes, n_classes, truth, seed: shares_of(votes, n_classes),
    MAJORITY: lambda votes, n_classes, truth, seed: majority_of(votes, n_classes, seed),
    FIRST: lambda votes, n_classes, truth, seed: votes[:, 0],
    RIGHT: lambda votes, n_classes, truth, seed: truth,
}
SCORES = ("accuracy", "log_loss", "brier")
#: Tables on which it was chosen how votes are put together, among six ways, by the log-loss of the first splits.
CHOSEN_ON = ("german", "contraceptive", "segment", "phoneme", "splice", "chess", "mushroom", "twonorm")


def draw_votes(y: np.ndarray, n_classes: int, seed: int) -> np.ndarray:
    """Labels of all annotators, ``(n, annotators)``."""
    seeds = np.random.SeedSequence(seed).generate_state(ANNOTATORS)
    return np.stack([symmetric_noise(y, WRONG, n_classes, random_state=int(own)) for own in seeds], axis=1)


def shares_of(votes: np.ndarray, n_classes: int) -> np.ndarray:
    return np.stack([(votes == k).mean(1) for k in range(n_classes)], axis=1)


def majority_of(votes: np.ndarray, n_classes: int, seed: int) -> np.ndarray:
    """The most frequent label, one of them at random where there are several."""
    shares = shares_of(votes, n_classes)
    return (shares + 1e-3 * np.random.default_rng(seed).random(shares.shape)).argmax(1)


def settings(model: str, table: str) -> dict[str, Any]:
    return {**make_recipe(LegendreTronClassifier()), "labels": model, "annotators": ANNOTATORS, "wrong": WRONG}


def measure(run: Run, X: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    train, _, test = label_noise.noisy_split(y, 0.0, run.seed)
    n_classes = int(y.max()) + 1
    given = LABELS[run.model](draw_votes(y[train], n_classes, run.seed), n_classes, y[train], run.seed)
    estimator = LegendreTronClassifier(random_state=run.seed)
    found = study.fit_and_score(estimator, X[train], given, X[test], y[test])
    return found | label_noise.estimated_rate(estimator)


def _counts(results: Results, tables: list[str], name: str) -> str:
    words = [study.verdict(results, (table,), SOFT, MAJORITY, name) for table in tables]
    better = sum(
        study.sign(name) * (a.value - b.value) > 0
        for table in tables
        if (a := results.mean((table, SOFT), name)) and (b := results.mean((table, MAJORITY), name))
    )
    return (
        f"the better mean on {better} of {len(tables)} tables, significantly better on {words.count('better')}, worse on "
        f"{words.count('worse')}"
    )


def sections(records: list[Record], results: Results) -> list[str]:
    """The report."""
    tables, splits = results.values_of("dataset"), max(map(len, results.cells.values()))
    models = [name for name in LABELS if name in results.values_of("model")]
    parts = [
        f"`LegendreTronClassifier()` is fitted to the votes of {ANNOTATORS} annotators, each of them wrong in "
        f"{100 * WRONG:g} % of the rows, on {len(tables)} tables of KEEL, {splits} splits each. Test labels are correct. "
        f"Paired t-tests against the {MAJORITY} at {100 * (1 - LEVEL):g} %: **better**, *worse*.",
        study.EARLIER,
        "How votes are put together was chosen, among six ways, by the log-loss of one to five splits of "
        f"{', '.join(CHOSEN_ON)}.",
    ]
    for name in SCORES:
        lines = []
        for table in tables:
            means = {model: results.mean((table, model), name) for model in models}
            verdicts = {model: study.verdict(results, (table,), model, MAJORITY, name) for model in models}
            texts = [
                study.mark(as_text(means[m], MEASURES[name].digits), verdicts[m]) if means[m] else "-" for m in models
            ]
            lines.append([table, *texts])
        others = [table for table in tables if table not in CHOSEN_ON]
        told = (
            f"{SOFT.capitalize()} against the {MAJORITY}: {_counts(results, tables, name)}. Without the tables of the "
            f"choice: {_counts(results, others, name)}."
        )
        parts += [f"## {MEASURES[name].title.capitalize()}", told, markdown_table(["table", *models], lines)]
    return parts


EXPERIMENT = study.declare(
    "crowd_labels",
    "Votes of several annotators",
    measure,
    sections,
    lambda results: study.numbers(results, SCORES, {MAJORITY: ""}),
    load=other_tables.load,
    datasets=TABLES,
    models=tuple(LABELS),
    settings=settings,
    seeds=SPLITS,
    cost=lambda run: 20.0 if run.dataset in LARGE else 1.0,
    find_data=other_tables.find,
)

if __name__ == "__main__":
    study.main("crowd_labels")
