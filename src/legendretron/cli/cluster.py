"""``legendretron fit`` by several processes: workers of Ray, or processes that torchrun has started."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from legendretron.cli.choice import choice_of, write_tuning
from legendretron.cli.label_noise import found_noise, noise_in_words
from legendretron.cli.outputs import naming
from legendretron.cli.report import Report, grid
from legendretron.cli.wording import saying_options

if TYPE_CHECKING:
    from legendretron.estimators.base import LinearLinkClassifier

__all__ = [
    "Address",
    "Backend",
    "BackendOption",
    "CheckpointSteps",
    "ClassParallel",
    "Cluster",
    "MaxFailures",
    "Shards",
    "Storage",
    "Workers",
    "cluster_of",
    "fit_by_cluster",
]

Backend = StrEnum("Backend", ["ray"])


def _option(help: str, *names: str, **limits: Any) -> Any:
    return typer.Option(*names, help=help, rich_help_panel="Many machines", show_default=False, **limits)


BackendOption = Annotated[
    Backend | None,
    _option(
        "ray: train one model by the workers of a Ray cluster. Processes that torchrun has started train together without "
        "this option: torchrun --nproc-per-node 2 -m legendretron fit ...",
        "--backend",
    ),
]
Workers = Annotated[int | None, _option("Workers of Ray. (default: 2)", "--workers", min=1, max=100_000)]
Address = Annotated[
    str | None, _option("Address of a Ray cluster, or auto. Without it, one is started on this machine.", "--address")
]
Storage = Annotated[
    str | None,
    _option("Folder, or address such as s3://..., that all workers of Ray share, for checkpoints.", "--storage"),
]
MaxFailures = Annotated[
    int | None,
    _option("How often Ray goes on after the loss of a worker. (default: 3)", "--max-failures", min=0, max=10**6),
]
Shards = Annotated[
    int | None,
    _option(
        "Parts that the rows are divided into; the model depends on it, but not on the number of processes. (default: one "
        "for each process that reads rows of its own)",
        "--shards",
        min=1,
        max=10**6,
    ),
]
ClassParallel = Annotated[
    int | None,
    _option(
        "For very many classes: over how many processes they are divided. These read the same rows. (default: 1)",
        "--class-parallel",
        min=1,
        max=100_000,
    ),
]
CheckpointSteps = Annotated[
    int | None,
    _option("Steps between two checkpoints of several processes. (default: 10 epochs)", "--checkpoint-steps", min=1),
]


@dataclass(frozen=True)
class Cluster:
    """How several processes train; ``backend`` is None for those of torchrun."""

    backend: Backend | None
    workers: int
    address: str | None
    storage: str | None
    max_failures: int
    shards: int | None
    class_parallel: int
    checkpoint_steps: int | None


def cluster_of(
    *,
    backend: Backend | None,
    workers: int | None,
    address: str | None,
    storage: str | None,
    max_failures: int | None,
    shards: int | None,
    class_parallel: int | None,
    checkpoint_steps: int | None,
    unsuitable: Mapping[str, Any],
) -> Cluster | None:
    """Return how several processes are to train, or None if this one does; options that do not fit are usage errors."""
    by_torchrun = "RANK" in os.environ and "MASTER_ADDR" in os.environ
    of_ray = {"--workers": workers, "--address": address, "--storage": storage, "--max-failures": max_failures}
    of_both = {"--shards": shards, "--class-parallel": class_parallel, "--checkpoint-steps": checkpoint_steps}
    if backend is None:
        for name, given in {**of_ray, **({} if by_torchrun else of_both)}.items():
            if given is not None:
                needed = "--backend ray" if name in of_ray else "--backend ray, or to be started by torchrun"
                raise typer.BadParameter(f"it needs {needed}.", param_hint=f"'{name}'")
        if not by_torchrun:
            return None
    elif by_torchrun:
        raise typer.BadParameter("torchrun has started this process already; leave it out.", param_hint="'--backend'")
    for name, given in unsuitable.items():
        if given is not None:
            raise typer.BadParameter("it is not for several processes; leave it out.", param_hint=f"'{name}'")
    workers, class_parallel = workers or 2, class_parallel or 1
    if backend is not None and workers % class_parallel:
        reason = f"it must divide --workers, which is {workers}, got {class_parallel}."
        raise typer.BadParameter(reason, param_hint="'--class-parallel'")
    failures = 3 if max_failures is None else max_failures
    return Cluster(backend, workers, address, storage, failures, shards, class_parallel, checkpoint_steps)


def fit_by_cluster(
    report: Report,
    cluster: Cluster,
    estimator: LinearLinkClassifier,
    data: Path,
    columns: dict[str, Any],
    out: Path,
    checkpoint: Path | None,
    tuning: Path | None,
    skip_bad_rows: int = 0,
) -> None:
    """Fit, write the model, and report; of the processes of torchrun the first writes and reports."""
    from legendretron.distributed.fitting import JointError

    place = re.sub(r"^([a-z][a-z0-9]+):/(?!/)", r"\1://", str(data))  # an address; a path has lost its second slash
    first = os.environ.get("RANK", "0") == "0"
    if estimator.random_state is None:
        estimator.set_params(random_state=0)
    estimator.set_params(verbose=0 if report.quiet or not first else 1)
    how: dict[str, Any] = {
        "n_shards": cluster.shards,
        "class_parallel": cluster.class_parallel,
        "checkpoint_steps": cluster.checkpoint_steps,
        "skip_bad_rows": skip_bad_rows,
    }
    began = time.perf_counter()
    try:
        with saying_options(), naming(out):
            if cluster.backend is None:
                from legendretron.distributed import fit_torchrun

                fit_torchrun(estimator, place, **columns, **how, checkpoint=checkpoint, out=out)
            else:
                from legendretron.distributed import fit_ray

                fit_ray(
                    estimator, place, **columns, **how, num_workers=cluster.workers, address=cluster.address,
                    storage_path=cluster.storage, max_failures=cluster.max_failures,
                )  # fmt: skip
                estimator.save(out)
    except JointError:
        if first:
            raise
        raise typer.Exit(1) from None  # the first process says it
    if not first:
        return
    seconds = time.perf_counter() - began
    if tuning is not None:
        with saying_options():
            write_tuning(estimator, tuning)
    summary = _summary(estimator, cluster, seconds, out)
    lines = [f"model: {summary['choice']['text']}"]
    if summary["label_noise"] is not None:
        lines.append(f"wrong labels: {noise_in_words(summary['label_noise'])}")
    report.result(summary, _view(summary), *lines, even_if_quiet=False)


def _summary(estimator: LinearLinkClassifier, cluster: Cluster, seconds: float, out: Path) -> dict[str, Any]:
    history = estimator.history_
    processes = int(os.environ.get("WORLD_SIZE", "1")) if cluster.backend is None else cluster.workers
    held_out = None
    with suppress(ValueError):  # without rows held out, all are NaN
        if estimator.early_stopping:
            held_out = float(min(loss for loss in history["validation_loss"] if loss == loss))
    return {
        "out": str(out),
        "processes": processes,
        "class_parallel": cluster.class_parallel,
        "features": estimator.n_features_in_,
        "classes": estimator.classes_,
        "choice": choice_of(estimator),
        "label_noise": found_noise(estimator),
        "epochs": estimator.n_iter_,
        "train_log_loss": float(history["train_loss"][-1]),
        "held_out_log_loss": held_out,
        "skipped_rows": estimator.n_skipped_rows_,
        "seconds": seconds,
        "parameters": {key: value for key, value in estimator.get_params(deep=False).items() if key != "verbose"},
    }


def _view(summary: dict[str, Any]) -> Any:
    table = grid("fitted", f"by {summary['processes']} processes")
    table.add_row("features, classes", f"{summary['features']:,}, {len(summary['classes']):,}")
    table.add_row("epochs", str(summary["epochs"]))
    table.add_row("log-loss in the last of them", f"{summary['train_log_loss']:z.4f}")
    if summary["held_out_log_loss"] is not None:
        table.add_row("log-loss on the rows held out", f"{summary['held_out_log_loss']:z.4f}")
    if summary["skipped_rows"]:
        table.add_row("bad rows left out", f"{summary['skipped_rows']:,}")
    table.add_row("seconds", f"{summary['seconds']:.1f}")
    table.add_row("written to", summary["out"])
    return table
