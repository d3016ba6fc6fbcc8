"""The paper's table of test AUCs: nine methods for binary problems of MNIST and Fashion-MNIST, and two of ours."""

from __future__ import annotations

from legendretron.experiments.experiment import Batch, Experiment, Outcome, Resources
from legendretron.paper.auc.methods import (
    METHODS,
    PROBLEMS,
    SECONDS,
    find_data,
    fit_method,
    load_problem,
    recipe,
    scores,
    source_of,
)
from legendretron.paper.auc.report import report


def execute(batch: Batch, resources: Resources) -> Outcome:
    """Train on all training images, on the CPU, and score the test images."""
    if batch.source != "complete":
        raise ValueError(
            f"data must hold all 60,000 training and 10,000 test images of {source_of(batch.dataset)}, since the paper's "
            "AUCs are of all; got a subset. Give a folder with the complete set, or none to download it."
        )
    data = load_problem(batch, resources)
    runs = []
    for run in batch.runs:
        estimator, about = fit_method(batch.settings, data, run.seed)
        runs.append({**scores(estimator, data), **about})
    return Outcome(data.facts, runs)


TABLE_AUC = Experiment(
    name="table_auc",
    title="Test AUC of methods that learn a link, on binary problems of MNIST and Fashion-MNIST",
    datasets=tuple(PROBLEMS),
    models=tuple(METHODS),
    settings=recipe,
    execute=execute,
    report=report,
    find_data=find_data,
    cost=lambda run: SECONDS[run.model],
)
