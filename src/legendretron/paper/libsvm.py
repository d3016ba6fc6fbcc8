"""The paper's table of LIBSVM data sets: LegendreTron and logistic regression under label noise, 20 splits each.

They are compared with both models with tuned penalties, and with the default ``LegendreTronClassifier()``.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

from legendretron.datasets import DATASETS
from legendretron.estimators import LegendreTronClassifier, MultinomialLogisticClassifier
from legendretron.estimators.legendretron import PaperLegendreTronClassifier
from legendretron.experiments.experiment import Batch, Experiment, Outcome, Record, Resources, Run
from legendretron.experiments.recipes import (
    fit_recipe,
    make_recipe,
)
from legendretron.experiments.rendering import (
    as_text,
    described,
    draw_dots,
    is_trial,
    markdown_table,
    report_of,
)
from legendretron.experiments.results import Mean, Results, add_holm, verdict
from legendretron.paper.data import find_data, load_prepared
from legendretron.paper.published import published

#: Level of the paper's t-tests.
LEVEL = 0.01
PAPERS = ("LegendreTron", "logistic regression")
TUNED = tuple(f"{model}, tuned" for model in PAPERS)
#: Tests by name: the models that each compares, and its head in the table.
TESTS = {
    "welch": (PAPERS, "better at 99 %"),
    "paired": (PAPERS, "paired"),
    "tuned, paired": (TUNED, "tuned"),
}


def comparison(records: Sequence[Record]) -> list[dict[str, Any]]:
    """One row for each data set and noise level: our means, the paper's, their difference, and the tests.

    Tests compare LegendreTron with logistic regression, each by the paper's recipe. ``welch`` takes the runs as
    independent, as the paper does; ``paired`` knows that both models saw the same splits, and so does ``tuned, paired``,
    which compares the tuned ones. Holm's correction is over all rows of the table, for each test.
    """
    paper = published("libsvm")
    results = Results(records, "dataset", "noise", "model")
    rows = []
    for dataset, noise in dict.fromkeys(cell[:2] for cell in results.cells):
        data = results.facts(dataset)
        row: dict[str, Any] = {"dataset": dataset}
        row |= {name: data[name] for name in ("label", "source", "rows", "features", "classes")} | {"noise": noise}
        for model in (cell[2] for cell in results.cells if cell[:2] == (dataset, noise)):
            ours = results.mean((dataset, noise, model), "accuracy")
            assert ours is not None
            row |= {f"{model}: seeds": ours.n, f"{model}: accuracy": ours}
            theirs = paper.get((dataset, noise, model))
            if theirs is not None and data["source"] == "complete":  # the paper is not about subsets
                gaps = ours.value - theirs.value, ours.error - theirs.error
                row |= {
                    f"{model}: paper": theirs,
                    f"{model}: difference in standard errors": ours.minus(theirs),
                    # within two combined standard errors, or one point
                    f"{model}: reproduced": bool(abs(ours.minus(theirs)) <= 2.0 or abs(gaps[0]) <= 1.0),
                    # rounded to the paper's two digits, a half either way
                    f"{model}: to the digit": all(abs(gap) <= 0.005 + 1e-9 for gap in gaps),
                }
        for name, ((first, second), _) in TESTS.items():
            found = results.compare((dataset, noise, first), (dataset, noise, second), "accuracy")
            row[name] = float("nan") if found is None else found.welch if name == "welch" else found.p
            if found is not None:
                row[f"{name}: advantage"] = found.difference.value
        rows.append(row)
    for name in TESTS:
        add_holm(rows, [name])
    return rows


def _verdict(row: dict[str, Any], test: str) -> str:
    difference = row.get(f"{test}: advantage", float("nan"))
    return verdict(difference, row[test], row[f"{test}, Holm"], level=LEVEL, better="LT", worse="LR")


def _means(row: dict[str, Any], model: str) -> tuple[Mean | None, Mean | None]:
    """Ours from a row of :func:`comparison`, and the paper's; None where there is none."""
    return row.get(f"{model}: accuracy"), row.get(f"{model}: paper")


def _cells(row: dict[str, Any], model: str) -> tuple[str, str, str]:
    """Ours, the paper's, and the difference in standard errors, in bold where it is not reproduced."""
    ours, theirs = _means(row, model)
    if ours is None or theirs is None:
        return as_text(ours), "", "" if ours is None or row["source"] == "complete" else "subset"
    gap = f"{row[f'{model}: difference in standard errors']:+.1f}"
    if ours.n < 2:
        gap = ""  # one run has no error
    elif not row[f"{model}: reproduced"]:
        gap = f"**{gap}**"
    return as_text(ours), as_text(theirs), gap


def markdown(rows: list[dict[str, Any]], records: Sequence[Record]) -> list[str]:
    """The table in Markdown, with an explanation of the columns."""
    models = list(dict.fromkeys(record["model"] for record in records))
    ours = [name for name in models if name not in PAPERS]
    shown = {name: head for name, (pair, head) in TESTS.items() if pair == PAPERS or set(pair) <= set(ours)}
    beside = ["LT ours", "LT paper", "Δ/se", "LR ours", "LR paper", "Δ/se"]
    head = ["data set", "noise", *beside, *ours, *shown.values()]
    lines = []
    for row in rows:
        cells = [cell for model in PAPERS for cell in _cells(row, model)]
        further = [_cells(row, model)[0] for model in ours]
        verdicts = [_verdict(row, test) for test in shown]
        lines.append([row["label"], f"{100 * row['noise']:g}%", *cells, *further, *verdicts])
    compared = [(row, model) for row in rows for model in PAPERS if f"{model}: reproduced" in row]
    counted = [row[f"{model}: reproduced"] for row, model in compared if row["noise"] in (0.0, 0.2)]
    exact = [row[f"{model}: to the digit"] for row, model in compared]
    parts = [
        "# LIBSVM, UCI and Statlog data sets under label noise",
        "Test accuracy in %, mean ± standard error over splits. LT is LegendreTron and LR multinomial logistic regression, "
        "both by the paper's recipe; Δ/se is ours minus the paper's in combined standard errors, bold where it is more than "
        "two and more than one point. Tuned models choose their penalty on a fifth of the (noisy) training rows. Better at "
        "99 %: LT against LR in Welch's t-test, and in a paired one, and the tuned models in a paired one; "
        "in brackets where it does not survive Holm's correction over the whole table; = for no difference.",
        markdown_table(head, lines),
    ]
    parts += _of_tuning(records)
    if counted and not is_trial(records):
        share = np.mean(counted)
        parts.append(
            f"At noise 0 and 20 %, {sum(counted)} of {len(counted)} cells ({share:.0%}) of complete data sets are within two "
            "combined standard errors of the paper or one point. At all noise levels, "
            f"{sum(exact)} of {len(exact)} have the published mean and standard error to the last printed digit."
        )
    return [*parts, described(records)]


def _of_tuning(records: Sequence[Record]) -> list[str]:
    """Notes on the tuned models: fits that did not converge, and strengths at the end of the list."""
    lines = []
    for model in dict.fromkeys(record["model"] for record in records if "tuning" in record["settings"]):
        own = [record for record in records if record["model"] == model]
        weakest, *_, strongest = own[0]["settings"]["tuning"]["strengths"]
        cut = sum(not record["converged"] for record in own)
        ends = [sum(record["alpha"] == end for record in own) for end in (weakest, strongest)]
        lines.append(
            f"- {model}: {cut} of {len(own):,} fits had not converged; {ends[0]} chose the weakest penalty, {weakest:g}, and "
            f"{ends[1]} the strongest, {strongest:g}: a longer list might do better there."
        )
    return ["\n".join(lines)] if lines else []


def picture(rows: list[dict[str, Any]], path: Path) -> Path:
    """Ours and the paper's for every data set, one panel per noise level."""
    end = ": accuracy"
    models = dict.fromkeys(name.removesuffix(end) for row in rows for name in row if name.endswith(end))
    dots: dict[str, dict[str, dict[str, Mean]]] = {}
    for level in sorted({row["noise"] for row in rows}):
        panel = dots.setdefault(f"{100 * level:g}% of training labels flipped", {})
        for row in (row for row in rows if row["noise"] == level):
            for model in models:
                ours, theirs = _means(row, model)
                if ours:
                    panel.setdefault(model, {})[row["label"]] = ours
                if theirs:
                    panel.setdefault(f"{model}, paper", {})[row["label"]] = theirs
    return draw_dots(dots, path, "test accuracy (%)", xlim=(0, 100))


def split_rows(n_rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows to train on, 80 %, and to test on."""
    train, test = train_test_split(np.arange(n_rows), test_size=0.2, random_state=seed)
    return train, test


def noisy_labels(y: np.ndarray, eta: float, n_classes: int, seed: int) -> np.ndarray:
    """Labels that are wrong with probability ``eta``, all other classes equally likely.

    The distribution is that of :func:`legendretron.datasets.symmetric_noise`. The draws are one multinomial per row from
    ``numpy.random.RandomState(seed)``, whose stream is frozen: slower, but the labels the paper's models were trained on.
    """
    if eta == 0:
        return y.copy()
    generator = np.random.RandomState(seed)
    probabilities = np.full((n_classes, n_classes), eta / (n_classes - 1))
    np.fill_diagonal(probabilities, 1.0 - eta)
    # the last bits matter: the row is summed as the authors' code sums it
    rows = [row / sum(row) for row in probabilities]
    return np.array([generator.multinomial(1, rows[label]).argmax() for label in y], dtype=y.dtype)


#: Strengths of the penalty that a tuned model chooses from, and the share of the training rows held out for it.
TUNING = {"strengths": [1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0], "share": 0.2}


def recipe(model: str, dataset: str) -> dict[str, Any]:
    """Settings of a model: the paper's, or ours with a penalty that is tuned."""
    group = "aloi" if dataset == "aloi" else "libsvm"
    if model == "LegendreTron":
        return make_recipe(LegendreTronClassifier.from_paper(group))
    if model == "logistic regression":
        return make_recipe(MultinomialLogisticClassifier.from_paper(group))
    if model == "logistic regression, tuned":
        logistic: dict[str, Any] = {
            "alpha": 1e-4,
            "standardize": False,
            "dtype": "float64",
            "max_epochs": 1000,
            "tol": 1e-5,
        }
        if DATASETS[dataset].sparse:  # a million weights: L-BFGS takes minutes per fit, minibatches train all at once
            logistic |= {
                "solver": "adam",
                "learning_rate": 0.05,
                "max_epochs": 60,
                "batch_size": 64,
                "dtype": "float32",
            }
        else:
            logistic["solver"] = "lbfgs"
        return {**make_recipe(MultinomialLogisticClassifier(**logistic)), "tuning": TUNING}
    # about as many steps on small data as on large
    epochs = int(np.clip(8000 * 64 / (0.8 * DATASETS[dataset].rows), 60, 400))
    learned = PaperLegendreTronClassifier(
        link_params={"hidden": 8}, alpha=1e-4, learning_rate=0.02, schedule="cosine", max_epochs=epochs, init="identity",
        penalize_intercept=False, dtype="float32",
    )  # fmt: skip
    return {**make_recipe(learned), "tuning": TUNING}


def execute_splits(batch: Batch, resources: Resources) -> Outcome:
    """Split, add noise to the training labels, train all runs side by side, and test each on its clean test rows.

    The penalty is tuned if the settings say so.
    """
    data = load_prepared(batch.dataset, resources.data)
    splits = [split_rows(data.n_rows, run.seed) for run in batch.runs]
    train, test = (np.stack(part) for part in zip(*splits, strict=True))
    labels = np.stack(
        [
            noisy_labels(data.y[rows], run.noise, data.n_classes, run.seed)
            for rows, run in zip(train, batch.runs, strict=True)
        ]
    )
    y, seeds = data.y, [run.seed for run in batch.runs]
    # second-order fits of one model after the other gain nothing from a GPU
    device = "cpu" if batch.settings.get("solver") == "lbfgs" else resources.device
    fitted, further = fit_recipe(batch.settings, device, data.X, y, train, seeds, labels)
    log_loss, accuracy = fitted.evaluate(test)
    if bad := [run for run, loss in zip(batch.runs, log_loss, strict=True) if not np.isfinite(loss)]:
        which = ", ".join(f"seed {run.seed} at noise {run.noise:g}" for run in bad)
        raise ArithmeticError(f"training diverged: {which}. --batch 1 runs each training apart from the others.")
    converged = fitted.training.converged.tolist()
    further = [{"converged": bool(own), **rest} for own, rest in zip(converged, further, strict=True)]
    runs = [
        {
            "accuracy": round(100.0 * float(accuracy[r]), 6),
            "log_loss": round(float(log_loss[r]), 6),
            **further[r],
            "train_counts": np.bincount(labels[r], minlength=data.n_classes).tolist(),
            "test_counts": np.bincount(y[test[r]], minlength=data.n_classes).tolist(),
        }
        for r in range(len(seeds))
    ]
    facts = {"rows": data.n_rows, "features": data.n_features, "classes": data.n_classes, "label": data.label}
    return Outcome({**facts, "train_rows": train.shape[1], "test_rows": test.shape[1], "fitted_on": device}, runs)


def bytes_per_run(model: str, dataset: str) -> float:
    """Memory of a run: parameters, gradient, both moments and intermediate results, in double precision."""
    info = DATASETS[dataset]
    copies = 8 if "tuned" not in model else 8 * len(TUNING["strengths"])  # type: ignore[arg-type]
    return 8.0 * copies * (info.features + 40) * info.classes


def cost(run: Run) -> float:
    """Steps of a training, each counted as its launch and its work."""
    info = DATASETS[run.dataset]
    factor = {"LegendreTron": 3.0, "logistic regression": 1.0}.get(run.model, 6.0)
    return factor * info.rows * (1.0 + 2e-6 * info.features * info.classes)


MODELS = ("LegendreTron", "logistic regression", "logistic regression, tuned", "LegendreTron, tuned")

TABLE_LIBSVM = Experiment(
    name="table_libsvm",
    title="Test accuracy on LIBSVM, UCI and Statlog data sets under label noise",
    datasets=(
        "aloi", "sector", "letter", "news20", "Sensorless", "vowel", "usps", "segment", "satimage", "glass", "vehicle",
        "dna", "svmguide2", "wine", "iris",
    ),
    models=MODELS,
    settings=recipe,
    execute=execute_splits,
    report=report_of("table_libsvm", comparison, markdown, picture),
    seeds=20,
    noise=(0.0, 0.2, 0.5),
    side_by_side=MODELS,
    bytes_per_run=bytes_per_run,
    cost=cost,
    find_data=find_data,
)  # fmt: skip
