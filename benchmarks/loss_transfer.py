"""A loss learned on one problem, kept, and used on another: does it beat logistic regression there?

    python benchmarks/loss_transfer.py --data DIR --out docs/results/loss_transfer

In the spirit of Nock and Menon (2020). A task has a source, on which a loss is learned, and a target with as many classes.
On the target, models are fitted to the same rows and tested on others, with right labels: logistic regression, the default,
and linear predictors trained by the canonical loss that was learned on the source. That loss is of a canonical link, or of
the canonical link nearest to a composite one (``distill``). Each chooses its penalty on the target rows by cross-validated
log-loss. A run is one fit and one test, in one process with one thread; a sweep that was stopped goes on when started again.
"""

from __future__ import annotations

import functools
import gc
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from command_line import run_from_command_line
from defaults import LOGISTIC, logistic, scores
from defaults_numbers import BASELINE, OURS
from legendretron import LegendreTronClassifier, Link, distill
from legendretron.datasets import flip_labels, load_images, symmetric_transition
from legendretron.experiments import Batch, Experiment, Outcome, Record, Resources, Run
from legendretron.experiments.experiment import OnDownload
from legendretron.experiments.recipes import chosen_strengths, make_recipe
from legendretron.paper.data import find_data, load_prepared
from loss_transfer_report import CANONICAL, DISTILLED, write_report

#: Rows of a source, and of its target; and most rows to test on.
VEHICLES, IMAGES, LETTERS, TESTED = 300, 1000, 1000, 3000
#: How losses are learned on the source. A link is asked for, so that there is one to transfer; wrong labels are not looked
#: for, so that the loss has to take them in.
LEARNING = {"alpha": 0.1, "link_alpha": 1e-3, "label_noise": None}
DISTILLING = {"n_nests": 4, "max_iter": 100}
NOISE = 0.4
COMPONENTS = 50
REPETITIONS = 10

Rows = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Task:
    """Data sets of a task, and how rows are drawn from them: source, target, and rows to test on."""

    datasets: tuple[str, ...]
    draw: Callable[[Path | None, int], tuple[Rows, Rows, Rows]]
    note: str
    rows: int  #: of the source, and of the target


@functools.lru_cache(maxsize=2)
def table(name: str, data: Path | None) -> Rows:
    found = load_prepared(name, data)
    return np.asarray(found.X, dtype=np.float64), found.y


@functools.lru_cache(maxsize=2)
def images(name: str, data: Path | None) -> tuple[Rows, Rows]:
    found = load_images(name, data)
    return (_pixels(found.train_images), found.train_labels), (_pixels(found.test_images), found.test_labels)


def _pixels(of: np.ndarray) -> np.ndarray:
    return of.reshape(len(of), -1) / 255.0


def _drawn(y: np.ndarray, sizes: tuple[int, ...], seed: int) -> list[np.ndarray]:
    """Different rows, stratified, of each of these sizes; the last one may be smaller."""
    left, parts = np.arange(len(y)), []
    for size in sizes:
        if size >= len(left):
            parts.append(left)
            break
        part, left = train_test_split(left, train_size=size, random_state=seed, stratify=y[left])
        parts.append(part)
    return parts


def halves(name: str, *, noisy_target: bool) -> Callable[[Path | None, int], tuple[Rows, Rows, Rows]]:
    """Both from one data set, with wrong labels in the source, and in the target too or not."""

    def draw(data: Path | None, seed: int) -> tuple[Rows, Rows, Rows]:
        X, y = table(name, data)
        source, target, test = _drawn(y, (VEHICLES, VEHICLES, TESTED), seed)
        rng = np.random.default_rng(seed)
        transition = symmetric_transition(int(y.max()) + 1, NOISE)
        of_source, of_target = (flip_labels(y[part], transition, rng) for part in (source, target))
        return (X[source], of_source), (X[target], of_target if noisy_target else y[target]), (X[test], y[test])

    return draw


def fashion_to_mnist(data: Path | None, seed: int) -> tuple[Rows, Rows, Rows]:
    """Images of clothes, then of digits, each by the principal components of its own training rows."""
    (X, y), _ = images("fashion-mnist", data)
    source = _drawn(y, (IMAGES,), seed)[0]
    (X2, y2), (X3, y3) = images("mnist", data)
    target = _drawn(y2, (IMAGES,), seed)[0]
    test = _drawn(y3, (TESTED,), seed)[0]
    of_source = PCA(COMPONENTS, random_state=seed).fit(X[source])
    of_target = PCA(COMPONENTS, random_state=seed).fit(X2[target])
    return (
        (of_source.transform(X[source]), y[source]),
        (of_target.transform(X2[target]), y2[target]),
        (of_target.transform(X3[test]), y3[test]),
    )


def letter_halves(data: Path | None, seed: int) -> tuple[Rows, Rows, Rows]:
    """The first 13 letters, then the last 13."""
    X, y = table("letter", data)
    first, last = np.flatnonzero(y < 13), np.flatnonzero(y >= 13)
    source = first[_drawn(y[first], (LETTERS,), seed)[0]]
    target, test = (last[part] for part in _drawn(y[last], (LETTERS, TESTED), seed))
    return (X[source], y[source]), (X[target], y[target] - 13), (X[test], y[test] - 13)


TASKS = {
    "vehicle, noisy half to clean half": Task(
        ("vehicle",),
        halves("vehicle", noisy_target=False),
        f"{100 * NOISE:g} % of the source's labels are wrong",
        VEHICLES,
    ),
    "vehicle, noisy half to noisy half": Task(
        ("vehicle",),
        halves("vehicle", noisy_target=True),
        f"{100 * NOISE:g} % of the labels are wrong in both",
        VEHICLES,
    ),
    "fashion-mnist to mnist": Task(
        ("fashion-mnist", "mnist"), fashion_to_mnist, f"{COMPONENTS} principal components of each", IMAGES
    ),
    "letter A-M to N-Z": Task(("letter",), letter_halves, "classes in alphabetical order", LETTERS),
}


def learned_on(source: Rows, kind: str, seed: int) -> tuple[Link, dict[str, Any]]:
    """A canonical link learned on the source, and what there is to say about it."""
    learner = LegendreTronClassifier(kind, **LEARNING, random_state=seed).fit(*source)
    if kind == "canonical":
        return learner.link_, {}
    found = distill(learner.link_, learner.linear_predictor(source[0]), **DISTILLING, seed=seed)
    gap = {f"gap_{name}": value for name, value in found.gap.to_dict().items()}
    return found.link, {**gap, "distilling_converged": found.converged}


def settings(model: str, dataset: str) -> dict[str, Any]:
    task = TASKS[dataset]
    shared = {"rows": task.rows, "most_test_rows": TESTED, "note": task.note, "splits": "stratified"}
    if model == BASELINE:
        return {"estimator": "LogisticRegressionCV", **LOGISTIC, **shared}
    if model == OURS:
        return {**make_recipe(LegendreTronClassifier()), **shared}
    learning = {"learning": {**LEARNING, "link": "canonical" if model == CANONICAL else "composite"}}
    distilling = {"distilling": DISTILLING} if model == DISTILLED else {}
    return {"estimator": "LegendreTronClassifier(link=learned)", **learning, **distilling, **shared}


class Interleaved(Experiment):
    """Runs in the order of tasks, repetitions, then models, so that those on the same rows follow each other."""

    def runs(self) -> list[Run]:
        return [
            Run(dataset, model, self.noise[0], self.sizes[0], seed)
            for dataset in self.datasets
            for seed in range(self.seeds)
            for model in self.models
        ]


def measured(model: str, source: Rows, target: Rows, test: Rows, seed: int) -> dict[str, Any]:
    """Learn a loss on the source if the model needs one, fit it to the target, and test it."""
    found: dict[str, Any] = {}
    gc.collect()
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        began = time.perf_counter()
        if model == BASELINE:
            estimator = logistic(False)
        elif model == OURS:
            estimator = LegendreTronClassifier(random_state=seed)
        else:
            link, found = learned_on(source, "canonical" if model == CANONICAL else "composite", seed)
            estimator = LegendreTronClassifier(link, random_state=seed)
        learned = time.perf_counter()
        estimator.fit(*target)
        fitted = time.perf_counter()
        p = np.asarray(estimator.predict_proba(test[0]), dtype=np.float64)
    if model in (CANONICAL, DISTILLED):
        found |= {"gradient_norm": estimator.gradient_norm_, "certified": estimator.converged_}
    return {
        **scores(test[1], p),
        "learn_seconds": learned - began,
        "fit_seconds": fitted - learned,
        "converged": not any(issubclass(warning.category, ConvergenceWarning) for warning in given),
        **found,
        **(chosen_strengths(estimator) if isinstance(estimator, LegendreTronClassifier) else {}),
    }


def execute(batch: Batch, resources: Resources) -> Outcome:
    if batch.settings != settings(batch.model, batch.dataset):
        raise ValueError(f"{batch.model} is run with its own settings only, not with others.")
    torch.set_num_threads(1)
    runs = []
    with threadpool_limits(1):
        for run in batch.runs:
            source, target, test = TASKS[batch.dataset].draw(resources.data, run.seed)
            runs.append(measured(batch.model, source, target, test, run.seed))
    facts = {"rows": len(target[1]), "source_rows": len(source[1]), "test_rows": len(test[1])}
    facts |= {"features": target[0].shape[1], "classes": int(target[1].max()) + 1, "label": batch.dataset}
    return Outcome(facts, runs)


def find(dataset: str, resources: Resources, on_download: OnDownload) -> str:
    found = [find_data(name, resources, on_download) for name in TASKS[dataset].datasets]
    return ", ".join(dict.fromkeys(found))


def report(records: list[Record], folder: Path) -> list[Path]:
    return write_report(records, folder, {name: task.note for name, task in TASKS.items()}, REPETITIONS)


EXPERIMENT = Interleaved(
    name="loss_transfer",
    title="Losses learned on one problem and used on another",
    datasets=tuple(TASKS),
    models=(BASELINE, OURS, CANONICAL, DISTILLED),
    settings=settings,
    execute=execute,
    report=report,
    seeds=REPETITIONS,
    find_data=find,
)


def main() -> None:
    run_from_command_line(
        EXPERIMENT,
        description=(__doc__ or "").splitlines()[0],
        data_help="folder of the data sets; they are downloaded if it is not given",
        groups={},
    )


if __name__ == "__main__":
    # by its name, so that other processes import this file and keep the data from run to run
    from loss_transfer import main as imported_main

    torch.set_num_threads(1)
    imported_main()
