"""``legendretron fit`` by several processes: workers of Ray, or processes that torchrun has started."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from legendretron.cli.choice import choice_of, write_tuning
from legendretron.cli.label_noise import found_noise, noise_in_words
from legendretron.cli.options import given, option, wrong
from legendretron.cli.outputs import naming
from legendretron.cli.terminal import Terminal, grid

if TYPE_CHECKING:
    from legendretron.estimators.base import LinearLinkClassifier

Backend = StrEnum("Backend", ["ray"])
_PANEL = "Many machines"


@dataclass(kw_only=True)
class ClusterOptions:
    """Options of a fit by several processes."""

    backend: Annotated[
        Backend | None,
        option(
            "ray: train one model by the workers of a Ray cluster. Processes that torchrun has started train together "
            "without this option: torchrun --nproc-per-node 2 -m legendretron fit ...",
            panel=_PANEL,
        ),
    ] = None
    workers: Annotated[int | None, option("Workers of Ray.", panel=_PANEL, default="2", min=1, max=100_000)] = None
    address: Annotated[
        str | None,
        option("Address of a Ray cluster, or auto. Without it, one is started on this machine.", panel=_PANEL),
    ] = None
    storage: Annotated[
        str | None,
        option("Folder, or address such as s3://..., that all workers of Ray share, for checkpoints.", panel=_PANEL),
    ] = None
    max_failures: Annotated[
        int | None,
        option("How often Ray goes on after the loss of a worker.", panel=_PANEL, default="3", min=0, max=10**6),
    ] = None
    shards: Annotated[
        int | None,
        option(
            "Parts that the rows are divided into; the model depends on it, but not on the number of processes.",
            panel=_PANEL,
            default="one for each process that reads rows of its own",
            min=1,
            max=10**6,
        ),
    ] = None
    class_parallel: Annotated[
        int | None,
        option(
            "For very many classes: over how many processes they are divided. These read the same rows.",
            panel=_PANEL,
            default="1",
            min=1,
            max=100_000,
        ),
    ] = None
    checkpoint_steps: Annotated[
        int | None,
        option("Steps between two checkpoints of several processes.", panel=_PANEL, default="10 epochs", min=1),
    ] = None


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


def cluster_of(options: ClusterOptions, unsuitable: Iterable[str]) -> Cluster | None:
    """Return how several processes are to train, or None if this one does; options that do not fit are usage errors."""
    by_torchrun = "RANK" in os.environ and "MASTER_ADDR" in os.environ
    of_ray = given(options, "workers", "address", "storage", "max_failures")
    of_both = given(options, "shards", "class_parallel", "checkpoint_steps")
    if options.backend is None:
        for name in [*of_ray, *([] if by_torchrun else of_both)]:
            needed = "--backend ray" if name in of_ray else "--backend ray, or to be started by torchrun"
            raise wrong(name, f"it needs {needed}.")
        if not by_torchrun:
            return None
    elif by_torchrun:
        raise wrong("--backend", "torchrun has started this process already; leave it out.")
    for name in unsuitable:
        raise wrong(name, "it is not for several processes; leave it out.")
    workers, class_parallel = options.workers or 2, options.class_parallel or 1
    if options.backend is not None and workers % class_parallel:
        raise wrong("--class-parallel", f"it must divide --workers, which is {workers}, got {class_parallel}.")
    return Cluster(
        options.backend, workers, options.address, options.storage,
        3 if options.max_failures is None else options.max_failures,
        options.shards, class_parallel, options.checkpoint_steps,
    )  # fmt: skip


def fit_by_cluster(
    terminal: Terminal,
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
    estimator.set_params(verbose=0 if terminal.quiet or not first else 1)
    how: dict[str, Any] = {
        "n_shards": cluster.shards,
        "class_parallel": cluster.class_parallel,
        "checkpoint_steps": cluster.checkpoint_steps,
        "skip_bad_rows": skip_bad_rows,
    }
    began = time.perf_counter()
    try:
        with naming(out):
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
        write_tuning(estimator, tuning)
    summary = _summary(estimator, cluster, seconds, out)
    lines = [f"model: {summary['choice']['text']}"]
    if summary["label_noise"] is not None:
        lines.append(f"wrong labels: {noise_in_words(summary['label_noise'])}")
    terminal.result(summary, _view(summary), *lines, even_if_quiet=False)


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
