"""LegendreTron against a logistic regression that is tuned like it.

    python benchmarks/compare_logistic.py --data DIR --out docs/results/compare_logistic

For each data set and seed, 80 % of the rows are to train on, a fifth of them to choose the strength of the penalty on, and
20 % to test on. Every model has the same list of strengths and is chosen by log-loss; logistic regression is fitted to the
minimum. Loading and tuning are those of the table of LIBSVM data sets. A sweep that was stopped goes on when started again.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.model_selection import train_test_split

from legendretron import MultinomialLogisticClassifier
from legendretron.estimators.legendretron import PaperLegendreTronClassifier
from legendretron.experiments import Batch, Experiment, Outcome, Record, Resources, render, sweep
from legendretron.experiments.grouping import by_seed, paired_values
from legendretron.experiments.recipes import make_recipe
from legendretron.experiments.rendering import described, markdown_table, write_csv, write_text
from legendretron.experiments.statistics import mean_difference, mean_of, paired_test, verdict
from legendretron.paper.data import find_data, load_prepared
from legendretron.paper.libsvm.experiment import fit_and_test

SHARED = {
    "tuning": {"strengths": [1e-5, 1e-4, 1e-3, 1e-2, 1e-1], "share": 0.2},
    "features": "standardised over all rows",
    "splits": "stratified",
}
BASELINE = "logistic regression"


def _learned(link: str = "composite", **link_params: int) -> dict[str, Any]:
    """A link with one penalty on all parameters, as in the paper, trained longer and with a rate that falls to zero."""
    return make_recipe(
        PaperLegendreTronClassifier(
            link, link_params=link_params, alpha=1e-4, learning_rate=0.02, schedule="cosine", max_epochs=150,
            batch_size="auto", init="identity", penalize_intercept=False, dtype="float32",
        )
    )  # fmt: skip


MODELS = {
    BASELINE: make_recipe(
        MultinomialLogisticClassifier(alpha=1e-4, solver="lbfgs", standardize=False, max_epochs=3000, tol=1e-6)
    ),
    "composite, H=2": _learned(hidden=2),
    "composite, H=8": _learned(hidden=8),
    "canonical": _learned("canonical"),
}
#: What is measured, the digits it is shown with, and 1 where more is better.
MEASURES = {"accuracy": (2, 1), "log_loss": (3, -1)}


def execute(batch: Batch, resources: Resources) -> Outcome:
    data = load_prepared(batch.dataset, resources.data)
    data = replace(data, X=(data.X - data.X.mean(0)) / np.maximum(data.X.std(0), 1e-9))
    rows = np.arange(data.n_rows)
    splits = [train_test_split(rows, test_size=0.2, random_state=run.seed, stratify=data.y) for run in batch.runs]
    train, test = (np.stack(part) for part in zip(*splits, strict=True))
    return fit_and_test(batch, resources, data, train, test, data.y[train])


def comparison(records: list[Record]) -> list[dict[str, Any]]:
    """A row for each data set and model: means, and of each measure the verdict of a paired test against the baseline."""
    cells = by_seed(records, "dataset", "model")
    rows = []
    for (dataset, model), own in cells.items():
        data = next(iter(own.values()))["data"]
        facts = {name: data[name] for name in ("label", "rows", "features", "classes")}
        row: dict[str, Any] = {"dataset": dataset, **facts, "model": model, "seeds": len(own)}
        base = cells.get((dataset, BASELINE), {})
        for name, (_, sign) in MEASURES.items():
            mean = mean_of([record[name] for record in own.values()])
            row |= {name: mean.value, f"{name}: standard error": mean.error, f"{name}: verdict": ""}
            ours, theirs = paired_values(own, base, name)
            if model != BASELINE and ours:
                p = paired_test(ours, theirs)
                row |= {f"{name}: p": p, f"{name}: verdict": verdict(sign * mean_difference(ours, theirs).value, p)}
        rows.append(row)
    return rows


def _cell(row: dict[str, Any]) -> str:
    marks = {"better": "**", "worse": "*"}
    texts = []
    for name, (digits, _) in MEASURES.items():
        mark = marks.get(row[f"{name}: verdict"], "")
        texts.append(f"{mark}{row[name]:.{digits}f}{mark}")
    return " / ".join(texts)


def report(records: list[Record], folder: Path) -> list[Path]:
    """Write ``compare_logistic.md`` and ``.csv``."""
    rows = comparison(records)
    models = list(dict.fromkeys(row["model"] for row in rows))
    lines = []
    for dataset in dict.fromkeys(row["dataset"] for row in rows):
        own = {row["model"]: row for row in rows if row["dataset"] == dataset}
        first = next(iter(own.values()))
        shape = f"{first['rows']:,} x {first['features']}, {first['classes']}"
        lines.append([first["label"], shape, *(_cell(own[model]) if model in own else "" for model in models)])
    text = "\n\n".join(
        [
            "# LegendreTron against a tuned logistic regression",
            "Test accuracy in % / log-loss, mean over the seeds; the penalty of every model is chosen by log-loss on a "
            "fifth of the training rows. Bold: better than logistic regression at 99 % in a paired t-test; italic: worse.",
            markdown_table(["data set", "rows x features, classes", *models], lines),
            described(records),
        ]
    )
    return [
        write_text(folder / "compare_logistic.md", text),
        write_csv(folder / "compare_logistic.csv", rows),
    ]


COMPARE_LOGISTIC = Experiment(
    name="compare_logistic",
    title="LegendreTron against a tuned logistic regression",
    datasets=("letter", "vowel", "vehicle", "glass", "svmguide2", "dna", "usps", "Sensorless"),
    models=tuple(MODELS),
    settings=lambda model, dataset: {**MODELS[model], **SHARED},
    execute=execute,
    report=report,
    seeds=10,
    side_by_side=tuple(MODELS),
    find_data=find_data,
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--out", type=Path, default=Path("results/compare_logistic"))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--datasets", nargs="+", choices=COMPARE_LOGISTIC.datasets)
    options = parser.parse_args()
    experiment = COMPARE_LOGISTIC.narrowed(datasets=options.datasets, seeds=options.seeds)
    state = sweep(
        experiment,
        options.out,
        Resources(options.data, options.device),
        n_jobs=options.jobs,
        command="python benchmarks/compare_logistic.py --data DIR",
        on_progress=lambda state, finished: print(f"{state.before + state.now} of {state.total} runs", flush=True),
    )
    for problem in [
        *state.skipped.values(),
        *(f"{batch.dataset}, {batch.model}: {why}" for batch, why in state.failed),
    ]:
        print(problem)
    print(*render(experiment, state, options.out), sep="\n")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
