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
import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.decomposition import PCA
from sklearn.model_selection import train_test_split

import study
from legendretron import LegendreTronClassifier, Link, distill
from legendretron.datasets import flip_labels, load_images, symmetric_transition
from legendretron.experiments import Record, Resources, Run
from legendretron.experiments.recipes import make_recipe
from legendretron.experiments.rendering import markdown_table
from legendretron.experiments.results import Results
from legendretron.paper.data import find_data, load_prepared
from study import BASELINE, LEVEL, LOGISTIC, MEASURES, OURS

CANONICAL = "loss of a canonical link"
DISTILLED = "loss of a distilled composite link"
TRANSFERRED = (CANONICAL, DISTILLED)
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


def _draw_rows(y: np.ndarray, sizes: tuple[int, ...], seed: int) -> list[np.ndarray]:
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
        source, target, test = _draw_rows(y, (VEHICLES, VEHICLES, TESTED), seed)
        rng = np.random.default_rng(seed)
        transition = symmetric_transition(int(y.max()) + 1, NOISE)
        of_source, of_target = (flip_labels(y[part], transition, rng) for part in (source, target))
        return (X[source], of_source), (X[target], of_target if noisy_target else y[target]), (X[test], y[test])

    return draw


def fashion_to_mnist(data: Path | None, seed: int) -> tuple[Rows, Rows, Rows]:
    """Images of clothes, then of digits, each by the principal components of its own training rows."""
    (X, y), _ = images("fashion-mnist", data)
    source = _draw_rows(y, (IMAGES,), seed)[0]
    (X2, y2), (X3, y3) = images("mnist", data)
    target = _draw_rows(y2, (IMAGES,), seed)[0]
    test = _draw_rows(y3, (TESTED,), seed)[0]
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
    source = first[_draw_rows(y[first], (LETTERS,), seed)[0]]
    target, test = (last[part] for part in _draw_rows(y[last], (LETTERS, TESTED), seed))
    return (X[source], y[source]), (X[target], y[target] - 13), (X[test], y[test] - 13)


WRONG = f"{100 * NOISE:g} %"
TASKS = {
    "vehicle, noisy half to clean half": Task(
        ("vehicle",), halves("vehicle", noisy_target=False), f"{WRONG} of the source's labels are wrong", VEHICLES
    ),
    "vehicle, noisy half to noisy half": Task(
        ("vehicle",), halves("vehicle", noisy_target=True), f"{WRONG} of the labels are wrong in both", VEHICLES
    ),
    "fashion-mnist to mnist": Task(
        ("fashion-mnist", "mnist"), fashion_to_mnist, f"{COMPONENTS} principal components of each", IMAGES
    ),
    "letter A-M to N-Z": Task(("letter",), letter_halves, "classes in alphabetical order", LETTERS),
}


def learn_on(source: Rows, kind: str, seed: int) -> tuple[Link, dict[str, Any]]:
    """A canonical link learned on the source, and what there is to say about it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
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


def load(task: str, data: Path | None) -> tuple[Any, Any, dict[str, Any]]:
    """A function that draws source, target and rows to test on, and facts about them."""
    draw = functools.partial(TASKS[task].draw, data)
    source, target, test = draw(0)
    facts = {"rows": len(target[1]), "source_rows": len(source[1]), "test_rows": len(test[1])}
    return draw, None, facts | {"features": target[0].shape[1], "classes": int(target[1].max()) + 1, "label": task}


def measure(run: Run, draw: Callable[[int], tuple[Rows, Rows, Rows]], _: None) -> dict[str, Any]:
    """Learn a loss on the source if the model needs one, fit it to the target, and test it."""
    source, target, test = draw(run.seed)
    found: dict[str, Any] = {}
    began = time.perf_counter()
    if run.model == BASELINE:
        estimator = study.logistic()
    elif run.model == OURS:
        estimator = LegendreTronClassifier(random_state=run.seed)
    else:
        link, found = learn_on(source, "canonical" if run.model == CANONICAL else "composite", run.seed)
        estimator = LegendreTronClassifier(link, random_state=run.seed)
    found["learn_seconds"] = time.perf_counter() - began
    found |= study.fit_and_score(estimator, *target, *test)
    if run.model in TRANSFERRED:
        found |= {"gradient_norm": estimator.gradient_norm_, "certified": estimator.converged_}
    return found | (study.chosen_strengths(estimator) if isinstance(estimator, LegendreTronClassifier) else {})


def find(dataset: str, resources: Resources, on_download: Any) -> str:
    found = [find_data(name, resources, on_download) for name in TASKS[dataset].datasets]
    return ", ".join(dict.fromkeys(found))


# --- the report ---

SCORES = ("accuracy", "log_loss", "brier", "calibration_error")


def sections(records: list[Record], results: Results) -> list[str]:
    """The report."""
    cells, models = study.cells_of(results), results.values_of("model")
    sizes = sorted({results.facts(task)["rows"] for (task,) in cells})
    own = [record for record in records if record["model"] in TRANSFERRED]
    largest = max((record["gradient_norm"] for record in own), default=math.nan)
    counted = [
        [model, other, *(study.counts(results, cells, model, other, name) for name in SCORES)]
        for model in TRANSFERRED
        for other in (BASELINE, OURS)
    ]
    gaps = []
    for task, model in results.cells:
        if model == DISTILLED:
            names = ("mean_kl", "max_difference", "agreement")
            kl, most, agreement = (results.median((task, model), f"gap_{name}") for name in names)
            gaps.append([task, f"{kl:.4f}", f"{most:.2f}", f"{100 * agreement:.1f} %"])
    return [
        f"A loss is learned on {' or '.join(f'{size:,}' for size in sizes)} rows of a source and kept. With it, "
        "`LegendreTronClassifier(link=...)` is trained on as many rows of a target: a convex problem, solved to the minimum. "
        f"Beside it, `{BASELINE}` and `{OURS}` are fitted to the same target rows; all choose their penalty by "
        f"cross-validation. {max(map(len, results.cells.values()))} repetitions with other rows; paired t-tests at "
        f"{100 * (1 - LEVEL):g} %.",
        "\n".join(f"- {task}: {TASKS[task].note}." for (task,) in cells),
        "## Scores on the target",
        f"Accuracy / log-loss, means with standard errors; bold: better than {BASELINE}, italic: worse.",
        study.scores_table(results, cells, models, SCORES[:2], BASELINE, errors=True),
        "Seconds of the fit to the target alone:",
        study.times_table(results, cells, models),
        "## In how many tasks a transferred loss is better / worse",
        markdown_table(["model", "against", *(MEASURES[name].title for name in SCORES)], counted),
        "## Certificates",
        f"{sum(bool(record['certified']) for record in own)} of {len(own)} fits are certified by the gradient; its largest "
        f"entry is at most {largest:.1e}.",
        "## What distilling leaves",
        "Between the composite link that was learned on the source and the canonical link nearest to it; medians:",
        markdown_table(["task", "mean KL divergence", "largest difference", "same class predicted"], gaps),
    ]


def rows(results: Results) -> list[dict[str, Any]]:
    others = {BASELINE: ", logistic", OURS: ", default"}
    return study.numbers(results, SCORES, others, ("learn_seconds", "fit_seconds"))


EXPERIMENT = study.declare(
    "loss_transfer",
    "Loss transfer",
    measure,
    sections,
    rows,
    load=load,
    datasets=tuple(TASKS),
    models=(BASELINE, OURS, *TRANSFERRED),
    settings=settings,
    seeds=REPETITIONS,
    find_data=find,
)

if __name__ == "__main__":
    study.main("loss_transfer")
