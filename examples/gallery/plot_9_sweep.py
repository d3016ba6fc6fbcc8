"""
A comparison in two processes, or on a cluster
==============================================

:mod:`legendretron.experiments` runs models on data sets, repeated over seeds. Results are stored as they arrive: a
sweep that was stopped goes on where it was.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_iris, load_wine
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from legendretron.experiments import Experiment, Outcome, Resources, read_records, sweep


def settings(model, dataset):
    """What a run depends on, apart from its seed."""
    penalties = {"alpha": 0.01} if model == "softmax" else {"alpha": 0.01, "link_alpha": 0.01}
    return {"link": model, **penalties}


def execute(batch, resources):
    """Train and test the runs of a batch, which have data set and model in common."""
    from legendretron import LegendreTronClassifier

    X, y = {"iris": load_iris, "wine": load_wine}[batch.dataset](return_X_y=True)
    measured = []
    for run in batch.runs:
        X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.3, random_state=run.seed, stratify=y)
        model = LegendreTronClassifier(**batch.settings, random_state=run.seed).fit(X_train, y_train)
        measured.append({"log_loss": log_loss(y_test, model.predict_proba(X_test))})
    return Outcome({"rows": len(y)}, measured)


def report(records, folder):
    """No table: the picture below is drawn from the records."""
    return []


comparison = Experiment(
    name="links",
    title="Three links with the same penalties",
    datasets=("iris", "wine"),
    models=("softmax", "canonical", "composite"),
    settings=settings,
    execute=execute,
    report=report,
    seeds=8,
)

# %%
# Two batches at a time, in processes of this machine. On a cluster the call is ``sweep(..., backend="ray",
# address="auto", n_jobs=64)``; the functions above are sent to the workers, and the records
# are written here.

folder = Path(tempfile.mkdtemp()) / "links"
state = sweep(comparison, folder, Resources(), n_jobs=2)
print(f"{state.now} runs done, {state.before} before, {len(state.failed)} batches failed")

# %%
# If called again, it has nothing left to do.

state = sweep(comparison, folder, Resources(), n_jobs=2)
print(f"{state.now} runs done, {state.before} before")

# %%
# Both models are trained on the same splits, so differences are paired by seed.
# A single penalty for all links illustrates a sweep, but is not a fair comparison: 0.01 is too much for the softmax here.

found = {(record["dataset"], record["model"], record["seed"]): record["log_loss"] for record in read_records(folder)}
figure, axes = plt.subplots(1, 2, figsize=(8, 3.4), layout="constrained")
for ax, dataset in zip(axes, comparison.datasets, strict=True):
    for k, model in enumerate(comparison.models[1:]):
        away = [found[dataset, model, seed] - found[dataset, "softmax", seed] for seed in range(comparison.seeds)]
        ax.plot(np.full(len(away), k), away, "o", alpha=0.6, color=f"C{k}")
        ax.plot(k, np.mean(away), "_", color="black", markersize=30)
    ax.axhline(0, color="grey", linestyle=":")
    ax.set(title=dataset, xticks=[0, 1], xticklabels=comparison.models[1:], xlim=(-0.5, 1.5))
axes[0].set_ylabel("test log-loss minus that of softmax")
plt.show()
